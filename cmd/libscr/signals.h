/* What every function of the interface does around its work; see signals.c. */

#ifndef GOSCR_SIGNALS_H
#define GOSCR_SIGNALS_H

#include <signal.h>
#include <stdint.h>

/*
 * Begins the work, which is brief or may take long.  0, or why it cannot.
 */
enum { GOSCR_BRIEF, GOSCR_LONG };
enum {
    GOSCR_WITHIN = 1, /* the thread is within a function of the library already */
    GOSCR_CHILD,      /* the process is a child that was made by fork() */
    GOSCR_NO_ROOM     /* there are too few addresses for Go */
};
int goscr_enter(int length);

/* Ends it: the program finds its signals as they were. */
void goscr_leave(void);

/* Starts Go, unless it has been.  0, or why it cannot be. */
int goscr_start(void);

/* A signal of these comes to Go as a panic, by the handlers it has installed. */
enum { GOSCR_FAULTS = 2 };
extern const int goscr_faults[GOSCR_FAULTS];
extern struct sigaction goscr_handlers[GOSCR_FAULTS];

/* sigaction(2), and what it takes. */
struct goscr_action {
    void *handler;
    unsigned long flags;
    void *restorer;
    unsigned long long mask;
};
int goscr_action(int sig, const struct goscr_action *set, struct goscr_action *get);

/* Whether an instruction is one of this library. */
int goscr_is_code(uintptr_t address);

/* Puts back what the Go runtime has changed of the process's limits. */
void goscr_limits(void);

#endif
