/*
 * pingpong - what libscr_cr.so costs, which this is preloaded with: messages by MPI_Send and so on, which
 * it counts, and by PMPI_Send and so on, in turn, in one process
 *
 *     pingpong ROUNDS [threads]    threads: with MPI_THREAD_MULTIPLE
 *
 * Prints for each kind of message the medians of the rounds: without, with, and of the differences.
 * "byte": nanoseconds for a message of a byte between two ranks; "begun": the same, if the receive has
 * been begun before; "self": ... of a process to itself, in which nothing else takes time; "mib": of a MiB.
 *
 * With SCR_CR_SELF_PREFIX=measured it has functions that save it: then its calls are tested, so that it can
 * be saved within them.
 */

#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

enum { MIB = 1 << 20, BYTE = 0, BEGUN, SELF, LARGE, KINDS };

int measured_checkpoint(char **command);
int measured_continue(void);
int measured_checkpoint(char **command) { return command == NULL; }
int measured_continue(void) { return 0; }

static const char *const names[KINDS] = {"byte", "begun", "self", "mib"};
static const int messages[KINDS] = {4000, 4000, 20000, 30};
static char *out, *in;
static int rank;

/* Sends and receives n messages each. */
#define ROUND(name, P)                                                                \
    static void name(int kind, int n)                                                 \
    {                                                                                 \
        MPI_Comm comm = kind == SELF ? MPI_COMM_SELF : MPI_COMM_WORLD;                \
        int i, to = kind == SELF ? 0 : 1 - rank, size = kind == LARGE ? MIB : 1;      \
        MPI_Request r;                                                                \
                                                                                      \
        for (i = 0; i < n; i++)                                                       \
            if (kind == BEGUN || kind == SELF) {                                      \
                P##MPI_Irecv(in, size, MPI_CHAR, to, 1, comm, &r);                    \
                if (rank == 0 || kind == SELF)                                        \
                    P##MPI_Send(out, size, MPI_CHAR, to, 1, comm);                    \
                P##MPI_Wait(&r, MPI_STATUS_IGNORE);                                   \
                if (rank != 0 && kind != SELF)                                        \
                    P##MPI_Send(out, size, MPI_CHAR, to, 1, comm);                    \
            } else if (rank == 0) {                                                   \
                P##MPI_Send(out, size, MPI_CHAR, to, 1, comm);                        \
                P##MPI_Recv(in, size, MPI_CHAR, to, 1, comm, MPI_STATUS_IGNORE);      \
            } else {                                                                  \
                P##MPI_Recv(in, size, MPI_CHAR, to, 1, comm, MPI_STATUS_IGNORE);      \
                P##MPI_Send(out, size, MPI_CHAR, to, 1, comm);                        \
            }                                                                         \
    }
ROUND(counted, )
ROUND(plain, P)

/* Nanoseconds for a message. */
static double took(void (*round)(int kind, int n), int kind)
{
    int n = messages[kind];
    double began;

    if (kind != SELF)
        PMPI_Barrier(MPI_COMM_WORLD);
    began = MPI_Wtime();
    round(kind, n);
    return (MPI_Wtime() - began) * 1e9 / (kind == SELF ? n : 2 * n);
}

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

static double median(double *values, int n)
{
    qsort(values, (size_t)n, sizeof *values, compare);
    return (values[(n - 1) / 2] + values[n / 2]) / 2;
}

int main(int argc, char **argv)
{
    int rounds = argc > 1 ? atoi(argv[1]) : 50, provided, kind, i;
    double *without = calloc((size_t)rounds, sizeof *without), *with = calloc((size_t)rounds, sizeof *with), *more = calloc((size_t)rounds, sizeof *more);

    MPI_Init_thread(&argc, &argv, argc > 2 ? MPI_THREAD_MULTIPLE : MPI_THREAD_SINGLE, &provided);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    out = calloc(MIB, 1);
    in = calloc(MIB, 1);
    for (kind = 0; kind < KINDS; kind++) {
        took(counted, kind); /* memory is there then */
        for (i = 0; i < rounds; i++) {
            if (i % 2)
                with[i] = took(counted, kind);
            without[i] = took(plain, kind);
            if (i % 2 == 0)
                with[i] = took(counted, kind);
            more[i] = with[i] - without[i];
        }
        if (rank == 0)
            printf("%s %.1f %.1f %.1f\n", names[kind], median(without, rounds), median(with, rounds), median(more, rounds));
    }
    free(in);
    free(out);
    free(more);
    free(with);
    free(without);
    MPI_Finalize();
    return 0;
}
