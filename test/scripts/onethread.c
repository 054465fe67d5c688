/*
 * An MPI for one thread, made of one for several: to be preloaded (44-inside.sh, 44-draw.sh).  It gives no more than
 * MPI_THREAD_FUNNELED, and ends a program in which another thread than that of MPI_Init calls it.  With HOLD in the
 * environment rank 1 is held before the first vote whether all ranks have come, until that file exists.
 */

#define _GNU_SOURCE

#include <mpi.h>

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static pthread_t own;
static int begun;

/* The next definition of a function; ISO C knows no such cast. */
static void find(const char *name, void *function, size_t size)
{
    void *found = dlsym(RTLD_NEXT, name);

    if (found == NULL)
        abort();
    memcpy(function, &found, size);
}

static void check(const char *name)
{
    if (!begun || pthread_equal(own, pthread_self()))
        return;
    fprintf(stderr, "%s is called by another thread than MPI_Init\n", name);
    abort();
}

int PMPI_Init_thread(int *argc, char ***argv, int required, int *provided)
{
    int (*f)(int *, char ***, int, int *);

    find("PMPI_Init_thread", &f, sizeof f);
    own = pthread_self();
    begun = 1;
    return f(argc, argv, required > MPI_THREAD_FUNNELED ? MPI_THREAD_FUNNELED : required, provided);
}

#define CHECKED(name, parameters, arguments)             \
    int P##name parameters                               \
    {                                                    \
        static int(*f) parameters;                       \
                                                         \
        check(#name);                                    \
        if (f == NULL)                                   \
            find("P" #name, &f, sizeof f);               \
        return f arguments;                              \
    }

CHECKED(MPI_Allreduce, (const void *s, void *r, int n, MPI_Datatype t, MPI_Op op, MPI_Comm c), (s, r, n, t, op, c))
CHECKED(MPI_Barrier, (MPI_Comm c), (c))
CHECKED(MPI_Ibarrier, (MPI_Comm c, MPI_Request *r), (c, r))
CHECKED(MPI_Ibcast, (void *b, int n, MPI_Datatype t, int root, MPI_Comm c, MPI_Request *r), (b, n, t, root, c, r))
CHECKED(MPI_Send, (const void *b, int n, MPI_Datatype t, int to, int tag, MPI_Comm c), (b, n, t, to, tag, c))
CHECKED(MPI_Isend, (const void *b, int n, MPI_Datatype t, int to, int tag, MPI_Comm c, MPI_Request *r), (b, n, t, to, tag, c, r))
CHECKED(MPI_Recv, (void *b, int n, MPI_Datatype t, int from, int tag, MPI_Comm c, MPI_Status *s), (b, n, t, from, tag, c, s))
CHECKED(MPI_Irecv, (void *b, int n, MPI_Datatype t, int from, int tag, MPI_Comm c, MPI_Request *r), (b, n, t, from, tag, c, r))
CHECKED(MPI_Test, (MPI_Request *r, int *flag, MPI_Status *s), (r, flag, s))
CHECKED(MPI_Testall, (int n, MPI_Request r[], int *flag, MPI_Status s[]), (n, r, flag, s))
CHECKED(MPI_Request_get_status, (MPI_Request r, int *flag, MPI_Status *s), (r, flag, s))
CHECKED(MPI_Iprobe, (int from, int tag, MPI_Comm c, int *flag, MPI_Status *s), (from, tag, c, flag, s))
CHECKED(MPI_Improbe, (int from, int tag, MPI_Comm c, int *flag, MPI_Message *m, MPI_Status *s), (from, tag, c, flag, m, s))
CHECKED(MPI_Mrecv, (void *b, int n, MPI_Datatype t, MPI_Message *m, MPI_Status *s), (b, n, t, m, s))
CHECKED(MPI_Sendrecv, (const void *s, int n, MPI_Datatype t, int to, int tag, void *r, int m, MPI_Datatype u, int from, int other, MPI_Comm c, MPI_Status *st),
        (s, n, t, to, tag, r, m, u, from, other, c, st))

/* The ranks vote by the minimum of one int, right after the sum of three (cr/lib/together.c); libscr sends no int. */
int PMPI_Iallreduce(const void *s, void *v, int n, MPI_Datatype t, MPI_Op op, MPI_Comm c, MPI_Request *r)
{
    static int (*f)(const void *, void *, int, MPI_Datatype, MPI_Op, MPI_Comm, MPI_Request *);
    static int after_sum, held;
    const char *until = getenv("HOLD");
    int rank;

    check("MPI_Iallreduce");
    if (f == NULL)
        find("PMPI_Iallreduce", &f, sizeof f);
    PMPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (until != NULL && rank == 1 && !held && after_sum && n == 1 && t == MPI_INT && op == MPI_MIN) {
        held = 1;
        fprintf(stderr, "rank 1 is held before it votes\n");
        while (access(until, F_OK) != 0)
            usleep(1000);
    }
    after_sum = n == 3 && t == MPI_INT && op == MPI_SUM;
    return f(s, v, n, t, op, c, r);
}
