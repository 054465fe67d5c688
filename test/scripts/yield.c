/*
 * yield - a rank of MPICH that waits lets other processes have its processor
 *
 * MPICH waits for messages by asking UCX again and again. Where a machine has fewer cores than ranks, a rank
 * that waits so keeps the rank for which it waits from running, until the kernel takes the core away (4 ms).
 * Open MPI has a setting for that (mpi_yield_when_idle), and MPICH has none. test/run preloads this.
 */
#define _GNU_SOURCE

#include <dlfcn.h>
#include <sched.h>
#include <stddef.h>
#include <stdint.h>

unsigned ucp_worker_progress(void *worker)
{
    static unsigned (*real)(void *);
    unsigned events;

    if (real == NULL)
        real = (unsigned (*)(void *))(uintptr_t)dlsym(RTLD_NEXT, "ucp_worker_progress");
    events = real(worker);
    if (events == 0)
        sched_yield();
    return events;
}
