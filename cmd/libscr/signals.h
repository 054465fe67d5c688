/* The steps with which every function of the interface begins and ends; see signals.c. */

#ifndef GOSCR_SIGNALS_H
#define GOSCR_SIGNALS_H

#include <signal.h>
#include <stdint.h>

/*
 * Prepares the thread and the process for Go code, which is brief or may take long.
 * Returns 0, or the reason why that is not possible.
 */
enum { GOSCR_BRIEF, GOSCR_LONG };
enum {
    GOSCR_WITHIN = 1, /* the thread is in a function of the library already */
    GOSCR_CHILD,      /* the process is a child that was made by fork() */
    /* What Go needs at its start, and without which it would end the process: */
    GOSCR_NO_ROOM,        /* address space */
    GOSCR_NO_MEMORY,      /* private memory, or mappings */
    GOSCR_NO_THREADS,     /* threads */
    GOSCR_NO_DESCRIPTORS  /* file descriptors */
};
int goscr_enter(int length);

/* What a function in Go returns if the job is to end: see SCR_ABORT_ON_ERROR. */
enum { GOSCR_ABORT = 2 };

/* The path of the file that has this library: of libscr.so, or of a static program. */
const char *goscr_path(void);

/* Undoes goscr_enter: the program's handlers and signal mask are as they were. */
void goscr_leave(void);

/* Starts Go, unless it is running.  Returns 0, or the reason why that is not possible. */
int goscr_start(void);

/*
 * Of the memory that is mapped before Go starts, this many pieces stay mapped, for the time when the kernel
 * refuses Go memory or a mapping.  goscr_refill maps again what of them was used, and returns how many there are.
 */
enum { GOSCR_RESERVE = 12, GOSCR_PIECE = 3 << 20 };
int goscr_refill(void);

/* The signals that Go's handlers turn into panics, and these handlers. */
enum { GOSCR_FAULTS = 2 };
extern const int goscr_faults[GOSCR_FAULTS];
extern struct sigaction goscr_handlers[GOSCR_FAULTS];

/* The system call rt_sigaction, and the kernel's struct for it. */
struct goscr_action {
    void *handler;
    unsigned long flags;
    void *restorer;
    unsigned long long mask;
};
int goscr_action(int sig, const struct goscr_action *set, struct goscr_action *get);

/* Returns whether the instruction at an address belongs to this library. */
int goscr_is_code(uintptr_t address);

/* Notes that the process holds a lock by a descriptor, or that it does not any more: a child of fork() closes it. */
void goscr_lock_held(int fd, int held);

/* Restores the limit of open files, which Go has raised. */
void goscr_limits(void);

#endif
