/*
 * rod.h - what the programs of this directory compute: a hot rod cools down
 *
 * Each rank has a part of the rod, and exchanges its ends with its neighbours in every step. The
 * result is the same, to the last bit, whatever has died meanwhile.
 */

#include <mpi.h>

#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { MOST_DEATHS = 16 };

static struct options {
    size_t points;                              /* of each rank */
    int64_t steps, every;                       /* steps in all, and from one checkpoint to the next */
    const char *nodes;                          /* the directory of simulated nodes, or NULL */
    int deaths, who[MOST_DEATHS];               /* which rank dies in a launch, after a repair, ... */
    int64_t when[MOST_DEATHS];                  /* ... and after which step */
} given = {100000, 200, 20, NULL, 0, {0}, {0}};

struct rod {
    int rank, ranks;
    int64_t step;       /* steps that are computed */
    size_t points;
    double *now, *next; /* points + 2: the first and the last are those of the neighbours */
};

/* Reads the options, which are the same for new processes. */
static void read_options(int argc, char **argv)
{
    int c;

    while ((c = getopt(argc, argv, "n:s:c:d:k:")) != -1) {
        struct options *o = &given;

        if (c == 'n')
            o->points = strtoul(optarg, NULL, 10);
        else if (c == 's')
            o->steps = atoll(optarg);
        else if (c == 'c')
            o->every = atoll(optarg);
        else if (c == 'd')
            o->nodes = optarg;
        else if (c != 'k' || o->deaths == MOST_DEATHS || sscanf(optarg, "%d:%ld", &o->who[o->deaths], &o->when[o->deaths]) != 2)
            c = '?';
        else
            o->deaths++;
        if (c == '?' || o->points < 1 || o->steps < 1 || o->every < 1) {
            fprintf(stderr, "options: [-n POINTS] [-s STEPS] [-c STEPS] [-k RANK:STEP]... [-d DIRECTORY]\n"
                            "  -n  points of each rank (default 100000)\n"
                            "  -s  steps (default 200)\n"
                            "  -c  steps from one checkpoint to the next (default 20)\n"
                            "  -k  let this rank die after this step; a second -k counts after the first repair\n"
                            "  -d  simulate a node for each rank, with its storage in this directory\n");
            exit(2);
        }
    }
}

/* Prints a line with the time, on rank 0. */
static void say(int rank, const char *what, int64_t step)
{
    struct timespec t;
    struct tm local;
    char clock[16];

    if (rank != 0)
        return;
    clock_gettime(CLOCK_REALTIME, &t);
    strftime(clock, sizeof clock, "%H:%M:%S", localtime_r(&t.tv_sec, &local));
    printf("%s.%03ld %s %ld\n", clock, t.tv_nsec / 1000000, what, (long)step);
    fflush(stdout);
}

/* Sets the rod to its state before the first step. The number of ranks is the same after each repair. */
static void hot(struct rod *r, MPI_Comm ranks)
{
    size_t i;

    MPI_Comm_rank(ranks, &r->rank);
    MPI_Comm_size(ranks, &r->ranks);
    if (r->now == NULL) {
        r->points = given.points;
        r->now = calloc(r->points + 2, sizeof *r->now);
        r->next = calloc(r->points + 2, sizeof *r->next);
        if (r->now == NULL || r->next == NULL) {
            fprintf(stderr, "rank %d: no memory for the rod\n", r->rank);
            MPI_Abort(MPI_COMM_WORLD, 1);
        }
    }
    r->step = 0;
    r->now[0] = r->now[r->points + 1] = 0;
    for (i = 1; i <= r->points; i++)
        r->now[i] = (double)((i * 7919 + (size_t)r->rank * 104729) % 1000);
}

/* Returns 0 if a rank has died. */
static int one_step(struct rod *r, MPI_Comm ranks)
{
    int left = r->rank > 0 ? r->rank - 1 : MPI_PROC_NULL, right = r->rank < r->ranks - 1 ? r->rank + 1 : MPI_PROC_NULL;
    double *swap = r->now;
    size_t i, n = r->points;

    if (MPI_Sendrecv(&r->now[1], 1, MPI_DOUBLE, left, 0, &r->now[n + 1], 1, MPI_DOUBLE, right, 0, ranks, MPI_STATUS_IGNORE) != MPI_SUCCESS ||
        MPI_Sendrecv(&r->now[n], 1, MPI_DOUBLE, right, 1, &r->now[0], 1, MPI_DOUBLE, left, 1, ranks, MPI_STATUS_IGNORE) != MPI_SUCCESS)
        return 0;
    for (i = 1; i <= n; i++)
        r->next[i] = r->now[i] + 0.3 * (r->now[i - 1] - 2 * r->now[i] + r->now[i + 1]);
    r->now = r->next;
    r->next = swap;
    r->step++;
    return 1;
}

/* Prints a number that depends on each bit of the result. Returns 0 if a rank has died. */
static int print_result(struct rod *r, MPI_Comm ranks)
{
    uint64_t mine = 0, all = 0, bits;
    size_t i;

    for (i = 1; i <= r->points; i++) {
        memcpy(&bits, &r->now[i], sizeof bits);
        mine = (mine << 1 | mine >> 63) ^ bits;
    }
    mine *= 2 * (uint64_t)r->rank + 1;
    if (MPI_Reduce(&mine, &all, 1, MPI_UINT64_T, MPI_SUM, 0, ranks) != MPI_SUCCESS)
        return 0;
    if (r->rank == 0)
        printf("result %016lx\n", (unsigned long)all);
    fflush(stdout);
    return 1;
}

/* Reads the rod from a file, or writes it: mode is that of fopen. Returns 0 after an error. */
static inline int transfer(struct rod *r, const char *file, const char *mode)
{
    size_t n = r->points + 2;
    FILE *f = fopen(file, mode);
    int ok;

    if (f == NULL)
        return 0;
    ok = (*mode == 'r' ? fread(r->now, sizeof *r->now, n, f) : fwrite(r->now, sizeof *r->now, n, f)) == n;
    return fclose(f) == 0 && ok;
}

/* The simulated node of a rank. On a cluster, nothing of this is needed. */
static void use_node(int rank)
{
    char text[1000];

    if (given.nodes == NULL)
        return;
    snprintf(text, sizeof text, "node%d", rank);
    setenv("SCR_NODE_NAME", text, 1);
    snprintf(text, sizeof text, "%s/node%d", given.nodes, rank);
    setenv("SCR_CACHE_BASE", text, 1);
    setenv("SCR_CNTL_BASE", text, 1);
}

/* Lets the process die, with its node, if -k says so. */
static void may_die(const struct rod *r, int repairs)
{
    char command[1100];

    if (repairs >= given.deaths || given.who[repairs] != r->rank || given.when[repairs] != r->step)
        return;
    say(0, "rank dies:", r->rank);
    if (given.nodes != NULL) {
        snprintf(command, sizeof command, "rm -rf '%s/node%d'", given.nodes, r->rank);
        if (system(command) != 0)
            exit(1);
    }
    raise(SIGKILL);
}
