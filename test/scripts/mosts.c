/*
 * mosts - compares lists by goscr_most, and each answer with that of MPI_Allreduce
 *
 *     mosts SEED [memory]   memory: one rank has no memory for its list
 *
 * The source of the function is included, since libscr_cr.so does not export it.
 */

#include "most.c"

#include <stdio.h>

enum { IDS = 300, TRIALS = 20 };

int goscr_rank, goscr_size;

int goscr_allreduce(const void *own, void *all, int n, MPI_Datatype type, MPI_Op op, MPI_Comm comm)
{
    return MPI_Allreduce(own, all, n, type, op, comm);
}

int goscr_exchange(const void *out, int n_out, void *in, int n_in, MPI_Datatype type, int peer, int tag, MPI_Comm comm)
{
    return MPI_Sendrecv(out, n_out, type, peer, tag, in, n_in, type, peer, tag, comm, MPI_STATUS_IGNORE);
}

static unsigned state;

static unsigned draw(unsigned below)
{
    state = state * 1103515245u + 12345u;
    return (state >> 8) % below;
}

/* Returns whether the answers are right.  Ranks have few or many of the ids, and some twice. */
static int trial(int rank)
{
    struct begun *own = calloc(2 * IDS, sizeof *own);
    unsigned long long mine[IDS] = {0}, most[IDS];
    int i, n = 0, right = 1, known = 0;
    unsigned part = draw(4);

    for (i = 0; i < 2 * IDS; i++) {
        if (draw(3) >= part)
            continue;
        own[n].space = (int64_t)(i % IDS) * 7919 + 1;
        own[n].n = draw(1000) + 1;
        if (own[n].n > mine[i % IDS])
            mine[i % IDS] = own[n].n;
        n++;
    }
    for (i = 0; i < IDS; i++)
        known += mine[i] > 0;
    MPI_Allreduce(mine, most, IDS, MPI_UNSIGNED_LONG_LONG, MPI_MAX, MPI_COMM_WORLD);
    if (goscr_most(MPI_COMM_WORLD, own, &n) != 0 || n != known)
        right = 0;
    for (i = 0; i < n && right; i++) {
        int id = (int)((own[i].space - 1) / 7919);

        right = id >= 0 && id < IDS && mine[id] > 0 && own[i].n == most[id] && (i == 0 || own[i - 1].space < own[i].space);
    }
    if (!right)
        printf("rank %d: wrong: %d of %d\n", rank, n, known);
    free(own);
    return right;
}

int main(int argc, char **argv)
{
    int i, n = 0, right = 1, all;
    struct begun one = {5, 7};

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &goscr_rank);
    MPI_Comm_size(MPI_COMM_WORLD, &goscr_size);
    state = (unsigned)atoi(argv[1]) * 1000u + (unsigned)goscr_rank;
    for (i = 0; i < TRIALS; i++)
        right = trial(goscr_rank) && right;
    if (argc > 2) { /* each rank in turn, also one that is represented by another */
        for (i = 0; i < goscr_size; i++) {
            n = 1;
            right = goscr_most(MPI_COMM_WORLD, goscr_rank == i ? NULL : &one, &n) == 1 && right;
        }
        right = trial(goscr_rank) && right;
    }
    MPI_Allreduce(&right, &all, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
    if (goscr_rank == 0 && all)
        printf("%d ranks: right\n", goscr_size);
    MPI_Finalize();
    return !all;
}
