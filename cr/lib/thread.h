/*
 * What notify.c, together.c and lend.c have in common: the thread that serves requests, and the thread of the program
 * that it waits for.
 */

#ifndef GOSCR_THREAD_H
#define GOSCR_THREAD_H

#include "notify.h"
#include "quiet.h"

#include <pthread.h>
#include <time.h>

#pragma GCC visibility push(hidden)

enum {
    GOSCR_TICK_MS = 50,    /* how often the thread looks for orders */
    GOSCR_TICKS_A_LOOK = 2 /* ... and rank 0 for requests */
};

extern pthread_mutex_t goscr_lock;
extern pthread_cond_t goscr_changed;
extern pthread_t goscr_server; /* the thread */
extern MPI_Comm goscr_orders;  /* its communicator, of all ranks */
extern double goscr_limit;     /* SCR_CR_LIMIT_SECONDS; 0: none */

/* What the threads of this process tell each other, under the lock. */
struct goscr_now {
    int running;         /* the server */
    int refused;         /* ... by the system */
    int may_begin;       /* whether the server may begin: 1, or -1 if other ranks have none */
    int waiting_threads; /* threads of the program that wait for a turn */
    int has_turn;        /* one of them may call */
    int finalizing;      /* the program is in MPI_Finalize */
    int may_end;         /* ... and has called the library for the last time: the server may end */
    int finalized;       /* ... in a checkpoint in which it serves: it does not return from it */
    int halted;          /* the job has ended in a call that it has not made itself: SCR_HALT_EXIT=1 */
    int hanging;         /* functions that have not returned in time, and run */
    void (*job)(void *); /* for the program's thread to do; NULL: none */
    void *argument;      /* ... and what it is called with */
    int doing_job;       /* a thread of the program does the job */
    int server_ended;
    const char *within;    /* the function that the program's thread is in */
    struct timespec until; /* ... and how long it may be */
    int late;              /* the function has taken longer than that */
    enum { AWAY, WANTED, CAME } program; /* the thread of the program */
    int sent_on;           /* it has been sent on, to come again */
    int looks;             /* ... and how often it has looked since, in calls that wait */
    unsigned calls_begun;  /* while it was wanted */
};
extern struct goscr_now goscr_now;

/* What the requests are called in messages. */
extern const char goscr_asked[];

struct timespec goscr_after(double seconds);
int goscr_is_over(const struct timespec *t);
/* Waits for a change, under the lock, until a time; NULL: for ever.  Returns whether it may continue. */
int goscr_wait_until(const struct timespec *t);

/* ------------------------------------------------------- lend.c: jobs for the program's thread */

/*
 * Has the program's thread do a job, and returns when the job is done.  If any thread may call MPI, the program's thread
 * has to be stopped; else it does jobs in each call of MPI.
 */
void goscr_by_program(void (*job)(void *), void *argument);

/* Makes calls of MPI: by the program's thread if only that thread may call MPI, else at once. */
void goscr_by_mpi_thread(void (*calls)(void *), void *argument);

/*
 * Does the job that there is, in the program's thread, unless another thread does it.  Returns whether it has.  Under
 * the lock, which the job does not have.
 */
int goscr_do_job(void);

/* Waits for a change in the program's thread, and does the server's jobs meanwhile.  Under the lock. */
void goscr_wait_and_lend(void);

/* Looks whether the function that the program's thread is in takes too long.  Under the lock. */
void goscr_watch(void);

/*
 * Votes of all ranks, by their numbers, in which the program's thread takes part for the server.  goscr_vote begins
 * one, or more by one job.  goscr_has_ended tests one: then *all is whether all ranks have said yes.
 */
enum { GOSCR_FIRST_VOTE, GOSCR_LAST_VOTE, GOSCR_VOTES };
void goscr_vote(int first, int last, int yes);
int goscr_has_ended(int vote, int *all);

/* ------------------------------------- together.c: the program's threads at a call of MPI */

/* Calls of MPI look at goscr_notify_called: it is set while the program's thread is wanted for one of these reasons. */
enum goscr_why { GOSCR_FOR_STOP, GOSCR_FOR_JOB };
void goscr_want_program(enum goscr_why why, int yes);

/* Stops the program's thread, which waits for its turn, if it is to stop.  Returns whether it was stopped.  Under the lock. */
int goscr_stop_in_turn(void);

void goscr_close_gate(void);
void goscr_open_gate(void);

/*
 * Brings the threads of the program to a point at which all ranks have begun the same collective operations and
 * completed them.  Returns whether all are there, where they stay until goscr_let_go.  Collective.
 */
int goscr_come_together(void);

/* Lets the program's thread continue, if it is stopped, and stops it no more. */
void goscr_let_go(void);

/* Whether rank 0 can order a checkpoint: not as long as the program does not come to a call, if MPI needs it for that. */
int goscr_can_order(void);

/* Answers what rank 0 was asked, since not all ranks come. */
void goscr_refuse(void);

/* As long as a server waits for other ranks: lets the program's thread go after SCR_CR_LIMIT_SECONDS. */
void goscr_lose_patience(void);

#pragma GCC visibility pop

#endif
