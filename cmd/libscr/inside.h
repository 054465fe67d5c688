/*
 * What libscr.so offers to libscr_cr.so, and to no program: a process has one Go runtime, that
 * of libscr.so, and libscr_cr.so is C only.  Both are of the same build.  Functions that return
 * int return 0, or another value after an error, which they print, except as noted.
 */

#ifndef GOSCR_INSIDE_H
#define GOSCR_INSIDE_H

#include <stdint.h>

/* ------------------------------------------------- callbacks around checkpoints */

/* A callback of scr_cr.h, SCR_CR_INC_callback_function, with its event and its state. */
typedef int (*goscr_cr_function)(int event, int state);

/*
 * Makes `function` the callback of an event, and returns the one before it; NULL stands for
 * none.
 */
int goscr_cr_register(int event, goscr_cr_function function, goscr_cr_function *previous);

/* The states of SCR_CR_INC_callback_state_t. */
enum { GOSCR_CR_PREPARE, GOSCR_CR_CONTINUE, GOSCR_CR_RESTART, GOSCR_CR_ERROR };

/*
 * Calls the callbacks of a state on this thread.  Returns whether they were to be called: not if
 * they have been prepared already, or have not been for the checkpoint whose outcome this is.
 */
int goscr_cr_notify(int state);

/* ------------------------------------------- programs that save and restore themselves */

/* The functions of a program that saves and restores itself; NULL: it does not have one. */
struct goscr_cr_self {
    int (*checkpoint)(char **restart_command);
    int (*go_on)(void);
    int (*restart)(void);
    /*
     * What is to be done for the program's messages, by libscr_cr.so; NULL: nothing.  Each returns 0, or
     * another value after an error.  `before` is called between PRE_CRS_PRE_MPI and PRE_CRS_POST_MPI, collective,
     * and its error is one on all ranks; `after` when `checkpoint` has returned on this rank, and `complete` when
     * the checkpoint is complete or has failed, before `go_on`.
     */
    int (*before)(void);
    int (*after)(void);
    void (*complete)(void);
};

/* Stores what the names of these functions begin with, for dlsym. */
enum { GOSCR_CR_PREFIX_SIZE = 256 };
int goscr_cr_prefix(char prefix[GOSCR_CR_PREFIX_SIZE]);

/* Begins the library, unless it is begun.  Collective. */
int goscr_cr_begin(void);

/*
 * Restarts the program from the newest checkpoint that it can use, if there is one: calls its
 * function in the directory that has its files.  Collective.
 */
int goscr_cr_restart(const struct goscr_cr_self *self);

/* Whether the functions can be called for a checkpoint now, and if not, why. */
enum { GOSCR_CR_NONE, GOSCR_CR_READY, GOSCR_CR_STILL_RUNS, GOSCR_CR_ENDS, GOSCR_CR_NO_CALL, GOSCR_CR_MATCHED };

/* What a function of `self` returns that has not ended in time, and what stands for an error of `after`. */
enum { GOSCR_CR_LATE = -2147483647, GOSCR_CR_RESTLESS = -2147483646 };

/*
 * Writes a checkpoint: calls the program's function in a directory of this rank, whose files
 * then are the checkpoint, if it is GOSCR_CR_READY on all ranks.  `handle`, of SCR_MAX_FILENAME
 * bytes, and `seq` are what scr_restart is given to restart from it.  Collective.
 */
int goscr_cr_checkpoint(const struct goscr_cr_self *self, int ready, char *handle, int *seq);

/* Ends the library, unless the program has.  Collective. */
int goscr_cr_end(void);

/* ------------------------------------------------ checkpoints for which nobody calls */

/*
 * Stores whether a thread calls the functions, for how many seconds at most (0: no limit), and
 * whether the job ends if one takes longer in the program's thread.
 */
int goscr_cr_thread(int *thread, double *limit, int *aborts);

/*
 * Whether rank 0 has something to do for which all ranks have to call goscr_cr_need.  0 on other
 * ranks, and after an error.  Not collective.
 */
int goscr_cr_due(void);

/* Whether the program needs a checkpoint, and whether it should end.  Collective. */
int goscr_cr_need(int *need);
int goscr_cr_exit(int *yes);

/* Says that the checkpoint which was needed has failed.  Not collective. */
int goscr_cr_declined(void);

/* Answers all requests of the job with an error, on a rank that keeps the others waiting.  Not collective. */
int goscr_cr_take_back(const char *why);

/* ------------------------------------------------------------ what scr_run is asked */

/* Asks to end the run and begin the next from a checkpoint, as goscr_cr_checkpoint has named it. */
int goscr_cr_restart_from(const char *handle, int seq);

/*
 * Asks to move n ranks of the job, each to the node that is its host; if that is "", to the node of rank
 * near[i]; if that is less than 0, to a spare node if this is so of all, and else it stays.
 */
int goscr_cr_migrate(const int *ranks, const char **hosts, const int *near, int n);

/* Makes a text what SCR_Get_error returns. */
void goscr_cr_keep(const char *why);

/* ----------------------------------------------------------- messages in transit */

/* A source or a tag that stands for all. */
enum { GOSCR_CR_ANY = -1 };

/*
 * Puts a message that was received for the program into a store.  `space` is the communicator,
 * by a number that its ranks share.  Returns 0, or another value after an error.
 */
int goscr_cr_store(int64_t space, int source, int tag, const void *data, int64_t n);

/*
 * Whether the store has a message for a receive; `source` and `tag` become the message's.  With
 * `take` it leaves the store, and its data are in `*data`, for the caller to free().
 */
int goscr_cr_stored(int64_t space, int *source, int *tag, int take, void **data, int64_t *n);

/* How many messages are in the store. */
int goscr_cr_held(void);

/* Puts a message into the next snapshot only: a receive of the program has it, and the program has not seen that. */
int goscr_cr_copy(int64_t space, int source, int tag, const void *data, int64_t n);

/*
 * Puts a call that sends into the next snapshot: it has not returned to the program yet, and the message is sent.
 * After a restart the program repeats it: goscr_cr_repeated returns whether a call is such a one, once for each;
 * goscr_cr_sends how many there are.  goscr_cr_forget removes what is for a snapshot only, but for the first
 * `sends` calls.
 */
int goscr_cr_begun(int kind, int64_t space, int to, int tag, int64_t n);
int goscr_cr_repeated(int kind, int64_t space, int to, int tag, int64_t n);
int goscr_cr_sends(void);
int goscr_cr_forget(int sends);

/*
 * Tells the ranks of a communicator how many messages they have been sent by each other in all:
 * `promised` gets it, for `size` ranks of the job.  `sent` and `received` are what this rank has
 * counted.  `world` has the ranks in the job of the communicator's `n` ranks, NULL: the same.
 * `unknown`: why this rank could not count, which is an error on all; NULL: it could.  `call` is for
 * messages.
 * Collective over the communicator, to whose MPI_Comm `comm` points.
 */
int goscr_cr_bookmarks(const char *call, void *comm, const int *world, int n, const uint64_t *sent, const uint64_t *received,
                       uint64_t *promised, int size, const char *unknown);

/* Prints what the store has, as messages that the program had not received when it called. */
int goscr_cr_in_flight(const char *call);

/* Whether SCR_CHECK_IN_FLIGHT is 1. */
int goscr_cr_checks(void);

/*
 * Sets what is called on all ranks before each dataset, and after it and after each restart, with a
 * state of callbacks.  `call` is the function that begins it, NULL: one of scr_cr.h.  NULL: nothing.
 */
void goscr_cr_around(void (*function)(int state, const char *call));

/* Stores the prefix directory, of SCR_MAX_FILENAME bytes; whether SCR_CR_DEBUG is 1. */
int goscr_cr_reference(char *prefix, int *debug);

/*
 * Whether this process is to wait for a debugger after the checkpoint that has just been completed,
 * because of scr_checkpoint --attach.  It need not wait any longer when the file `record`, of
 * SCR_MAX_FILENAME bytes, is gone.  Then the caller calls goscr_cr_left, in any case.
 */
int goscr_cr_waits(char *record);
int goscr_cr_left(void);

/*
 * Sets what is called, on the thread of the call, where SCR_HALT_EXIT=1 ends the program in a call of the
 * library.  If it returns 1, the call returns instead, and the function has the program ended.  NULL:
 * nothing is called.
 */
void goscr_cr_halts(int (*function)(void));

/*
 * Makes collective calls of the library wait for their turn: it calls `turn` with 1 before and
 * with 0 after each, on the thread of the call.  NULL: they need not.  So all ranks of a program
 * with several threads that call make these calls in the same order.
 */
void goscr_cr_turns(void (*turn)(int begins));

#endif
