/*
 * bench-variables - measures checkpoints of variables; scripts/bench runs it
 *
 *     bench-variables CONFIG BYTES write COUNT   write 2 * (COUNT + 2) checkpoints
 *     bench-variables CONFIG BYTES restart 0     restart from the newest checkpoint, and verify it
 *
 * Each rank protects a number and a field of BYTES bytes. CONFIG is the configuration file. For
 * comparison the program itself writes the field to the directory SCR_CACHE_BASE, which scripts/testbed
 * sets. For each pair of checkpoints but the first two, which fill the cache, write prints
 *
 *     checkpoint OWN FIRST NEXT WAIT
 *
 * OWN is the time of the program's own write; FIRST that of a VELOC_Checkpoint after which nothing is
 * left to do for the library; NEXT that of another one, called as soon as FIRST has returned; and WAIT that
 * of a VELOC_Checkpoint_wait, called as soon as NEXT has returned. After a restart it prints
 *
 *     restart INIT TEST RESTART OWN
 *
 * INIT is the time of VELOC_Init, TEST that of VELOC_Restart_test, RESTART that of VELOC_Restart, and OWN
 * the median of three own writes after that. Times are seconds of the slowest rank, counted from when all
 * ranks had begun.
 *
 * The program runs with any library that has VELOC's interface for C. VELOC takes ranks for ranks of one
 * node if they can share memory. Those of simulated nodes can, so the program tells it by host name.
 */

#define _GNU_SOURCE

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <mpi.h>
#include <veloc.h>

#include "bench.h"

#define NAME "bench"
#define HOST 256

static int rank, version;
static uint64_t *field;
static size_t bytes;

static void fail(const char *what)
{
    fprintf(stderr, "bench-variables: rank %d: %s: %s\n", rank, what, errno ? strerror(errno) : "failed");
    MPI_Abort(MPI_COMM_WORLD, 1);
    exit(1);
}

/* Stands before MPI's function: ranks of one node are those with the host name of the caller. */
int MPI_Comm_split_type(MPI_Comm comm, int type, int key, MPI_Info info, MPI_Comm *made)
{
    char mine[HOST] = "", *all;
    int me, size, first = 0;

    if (type != MPI_COMM_TYPE_SHARED)
        return PMPI_Comm_split_type(comm, type, key, info, made);
    PMPI_Comm_rank(comm, &me);
    PMPI_Comm_size(comm, &size);
    gethostname(mine, sizeof mine - 1);
    all = malloc((size_t)size * HOST);
    if (all == NULL)
        fail("memory");
    PMPI_Allgather(mine, HOST, MPI_CHAR, all, HOST, MPI_CHAR, comm);
    while (strcmp(all + (size_t)first * HOST, mine) != 0)
        first++;
    free(all);
    return PMPI_Comm_split(comm, first, key, made);
}

/* A number for each place of the field that no other rank has, and no other version. */
static uint64_t value(size_t i)
{
    uint64_t x = (uint64_t)i * 0x9e3779b97f4a7c15u + (uint64_t)rank * 0xbf58476d1ce4e5b9u + (uint64_t)version;

    x ^= x >> 31;
    return x * 0x94d049bb133111ebu;
}

static void fill(void)
{
    for (size_t i = 0; i < bytes / sizeof *field; i++)
        field[i] = value(i);
}

static void verify(void)
{
    for (size_t i = 0; i < bytes / sizeof *field; i++)
        if (field[i] != value(i)) {
            errno = 0;
            fail("the field is not that of the checkpoint");
        }
}

/* The time to write the field into a new file, which is then removed. */
static double own_write(void)
{
    char path[4096];
    const char *dir = getenv("SCR_CACHE_BASE");
    const char *from = (const char *)field;
    size_t left = bytes;
    double t;
    int fd;

    snprintf(path, sizeof path, "%.4000s/own.%d", dir == NULL ? "." : dir, rank);
    t = begin();
    fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    if (fd < 0)
        fail(path);
    while (left > 0) {
        ssize_t n = write(fd, from, left);

        if (n <= 0)
            fail(path);
        from += n;
        left -= (size_t)n;
    }
    if (close(fd) != 0)
        fail(path);
    t = slowest(MPI_Wtime() - t);
    if (unlink(path) != 0)
        fail(path);
    return t;
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

static void write_pair(int print)
{
    double own, first, next, wait, t;

    version++;
    fill();
    own = own_write();
    errno = 0;
    t = begin();
    if (VELOC_Checkpoint(NAME, version) != VELOC_SUCCESS)
        fail("VELOC_Checkpoint");
    first = MPI_Wtime() - t;
    version++; /* no barrier, as a program would call it; the content is that of the version before */
    t = MPI_Wtime();
    if (VELOC_Checkpoint(NAME, version) != VELOC_SUCCESS)
        fail("VELOC_Checkpoint");
    next = MPI_Wtime() - t;
    t = MPI_Wtime();
    if (VELOC_Checkpoint_wait() != VELOC_SUCCESS)
        fail("VELOC_Checkpoint_wait");
    wait = MPI_Wtime() - t;
    first = slowest(first);
    next = slowest(next);
    wait = slowest(wait);
    if (rank == 0 && print)
        printf("checkpoint %.6f %.6f %.6f %.6f\n", own, first, next, wait);
}

int main(int argc, char **argv)
{
    int provided, restart, count;
    double init, test, read, own[3], t;

    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    errno = 0;
    if (argc != 5 || (bytes = strtoull(argv[2], NULL, 10)) < sizeof *field)
        fail("usage: bench-variables CONFIG BYTES write|restart COUNT");
    if (provided != MPI_THREAD_MULTIPLE)
        fail("MPI_THREAD_MULTIPLE, which VELOC needs");
    restart = strcmp(argv[3], "restart") == 0;
    count = atoi(argv[4]);
    bytes -= bytes % sizeof *field;
    field = malloc(bytes);
    if (field == NULL)
        fail("memory");
    fill(); /* else the first write to its pages would be that of the restart, which would wait for them */

    t = begin();
    if (VELOC_Init(MPI_COMM_WORLD, argv[1]) != VELOC_SUCCESS)
        fail("VELOC_Init");
    init = slowest(MPI_Wtime() - t);
    VELOC_Mem_protect(0, &version, 1, sizeof version);
    VELOC_Mem_protect(1, field, bytes / sizeof *field, sizeof *field);
    if (restart) {
        int newest;

        t = begin();
        newest = VELOC_Restart_test(NAME, 0);
        test = slowest(MPI_Wtime() - t);
        if (newest < 0)
            fail("VELOC_Restart_test");
        t = begin();
        if (VELOC_Restart(NAME, newest) != VELOC_SUCCESS)
            fail("VELOC_Restart");
        read = slowest(MPI_Wtime() - t);
        if (version != newest)
            fail("the number is not that of the checkpoint");
        version--; /* see write_pair */
        verify();
        for (int i = 0; i < 3; i++)
            own[i] = own_write();
        qsort(own, 3, sizeof *own, by_value);
        if (rank == 0)
            printf("restart %.6f %.6f %.6f %.6f\n", init, test, read, own[1]);
    } else {
        for (int i = 0; i < count + 2; i++)
            write_pair(i >= 2);
    }
    errno = 0;
    if (VELOC_Finalize(1) != VELOC_SUCCESS)
        fail("VELOC_Finalize");
    MPI_Finalize();
    return 0;
}
