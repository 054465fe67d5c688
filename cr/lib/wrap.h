/* What all wrapped calls of MPI do. */

#ifndef GOSCR_WRAP_H
#define GOSCR_WRAP_H

#include "notify.h"
#include "quiet.h"

/* At the beginning of each call: the program may have to save itself here. */
static inline void look(void)
{
    if (__builtin_expect(goscr_notify_called, 0))
        goscr_notify_serve();
}

#pragma GCC visibility push(hidden)
/* The same between two tests of an operation; the longer it takes, the seldomer. */
void goscr_pause_after(int tests);
#pragma GCC visibility pop

#define REFUSE(comm, name) \
    if (__builtin_expect(goscr_quiet_region, 0) && (goscr_quiet_comm == MPI_COMM_WORLD || goscr_quiet_comm == (comm))) \
    return goscr_quiet_refuse(comm, name)

#endif
