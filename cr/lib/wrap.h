/* What all wrapped calls of MPI do. */

#ifndef GOSCR_WRAP_H
#define GOSCR_WRAP_H

#include "notify.h"
#include "quiet.h"

/* At the beginning of each call: the program may have to save itself here. */
static inline void look(void)
{
    if (__builtin_expect(goscr_notify_called, 0))
        goscr_notify_serve(0);
}

/*
 * Takes the lock when the program's calls may change what is in transit: not between the return of its function and
 * the end of the checkpoint.
 */
static inline void lock_open(void)
{
    goscr_quiet_lock();
    while (__builtin_expect(goscr_gate, 0) && !goscr_ours) {
        goscr_quiet_unlock();
        goscr_notify_serve(0);
        goscr_quiet_lock();
    }
}

#pragma GCC visibility push(hidden)
/* The same between two tests of an operation; the longer it takes, the seldomer. */
void goscr_pause_after(int tests);
#pragma GCC visibility pop

#define REFUSE(comm, name) \
    if (__builtin_expect(goscr_quiet_region, 0) && (goscr_quiet_comm == MPI_COMM_WORLD || goscr_quiet_comm == (comm))) \
    return goscr_quiet_refuse(comm, name)

#endif
