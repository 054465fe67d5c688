/* The thread that has the functions of a program called when a checkpoint is due. */

#ifndef GOSCR_NOTIFY_H
#define GOSCR_NOTIFY_H

#include "inside.h"

#pragma GCC visibility push(hidden)

/*
 * Begins the thread, unless the system does not allow what it needs: then there is none, and rank 0 says why.
 * Collective.
 */
void goscr_notify_begin(const struct goscr_cr_self *self);

int goscr_notify_runs(void);

/* Says that the program ends: its functions are not called by the thread any more. */
void goscr_notify_last(void);

/* Ends the thread.  Collective. */
void goscr_notify_end(void);

/*
 * Whether the program's thread has to call goscr_notify_serve in its next call of MPI.  A read of
 * it costs no more than of any other variable.  `again`: it is in a call that waits, and not at its beginning.
 */
extern volatile int goscr_notify_called;
void goscr_notify_serve(int again);

/* Whether calls of MPI that wait have to look at goscr_notify_called meanwhile; and where the functions are called. */
enum { GOSCR_IN_CALLS = 1, GOSCR_BESIDE };
extern int goscr_notify_polled;

/*
 * The program is saved, and the checkpoint is not complete: threads that are not this library's wait where they
 * come into MPI.  It is changed under the lock of quiet.h.
 */
extern volatile int goscr_gate;
extern __thread int goscr_ours __attribute__((tls_model("initial-exec"))); /* a thread of this library: its calls are in order */

/*
 * MPI allows one thread only, which is the program's: it calls MPI for the thread of requests, too, where it calls MPI for
 * itself.  So it does not wait within MPI for other ranks, as long as there is another way.
 */
extern int goscr_lends;

#pragma GCC visibility pop

#endif
