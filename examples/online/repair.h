/*
 * repair.h - replace processes that have died by new ones, with an MPI that continues (ULFM)
 *
 * The new processes take the ranks of the dead. If MPI cannot do that, for instance because a process dies
 * during the repair, or if none has died, the job ends: under scr_run it starts again.
 */

#include <mpi-ext.h>
#include <mpi.h>

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

static void must(int code, const char *operation)
{
    char text[MPI_MAX_ERROR_STRING];
    int n;

    if (code == MPI_SUCCESS)
        return;
    MPI_Error_string(code, text, &n);
    fprintf(stderr, "%s: %s\n", operation, text);
    MPI_Abort(MPI_COMM_WORLD, 1);
}

/*
 * Returns a communicator in which each process has the rank that it had before, and a new process, whose rank is -1,
 * that of a dead one. It replaces merged. repairs is the number of repairs; new processes learn it.
 */
static MPI_Comm in_order(MPI_Comm merged, int rank, int *repairs)
{
    MPI_Comm ranks;
    int i, n, is, new, *had;
    char *lives;

    must(MPI_Comm_size(merged, &n), "MPI_Comm_size");
    must(MPI_Comm_rank(merged, &is), "MPI_Comm_rank");
    must(MPI_Bcast(repairs, 1, MPI_INT, 0, merged), "MPI_Bcast");
    had = calloc((size_t)n, sizeof *had);
    lives = calloc((size_t)n, 1);
    if (had == NULL || lives == NULL)
        MPI_Abort(MPI_COMM_WORLD, 1);
    must(MPI_Allgather(&rank, 1, MPI_INT, had, 1, MPI_INT, merged), "MPI_Allgather");
    for (i = new = 0; i < n; i++) {
        if (had[i] >= 0)
            lives[had[i]] = 1;
        else if (i < is)
            new++; /* those that take a place before this one does */
    }
    for (i = 0; i < n && rank < 0; i++)
        if (!lives[i] && new-- == 0)
            rank = i;
    free(had);
    free(lives);
    must(MPI_Comm_split(merged, 0, rank, &ranks), "MPI_Comm_split");
    must(MPI_Comm_free(&merged), "MPI_Comm_free");
    must(MPI_Comm_set_errhandler(ranks, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler");
    return ranks;
}

/* All processes of broken that live call this. argv starts a new process. */
static MPI_Comm repair(MPI_Comm broken, char **argv, int *repairs)
{
    MPI_Comm left, new, merged;
    int rank, before, now;

    MPIX_Comm_revoke(broken); /* so that no process waits for one that is here */
    must(MPIX_Comm_shrink(broken, &left), "MPIX_Comm_shrink");
    must(MPI_Comm_set_errhandler(left, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler");
    MPI_Comm_rank(broken, &rank);
    MPI_Comm_size(broken, &before);
    MPI_Comm_size(left, &now);
    if (now == before) {
        fprintf(stderr, "rank %d: a call has failed, and no process has died\n", rank);
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    ++*repairs;
    must(MPI_Comm_spawn(argv[0], argv + 1, before - now, MPI_INFO_NULL, 0, left, &new, MPI_ERRCODES_IGNORE), "MPI_Comm_spawn");
    must(MPI_Intercomm_merge(new, 0, &merged), "MPI_Intercomm_merge");
    /* Open MPI's MPI_Finalize waits for all processes of these, also for dead ones. */
    must(MPI_Comm_free(&new), "MPI_Comm_free");
    must(MPI_Comm_free(&left), "MPI_Comm_free");
    if (broken != MPI_COMM_WORLD)
        must(MPI_Comm_free(&broken), "MPI_Comm_free");
    return in_order(merged, rank, repairs);
}

/* The communicator of the job when a process starts: that of its launch, or, in a new process, the repaired one. */
static MPI_Comm job(int *repairs)
{
    MPI_Comm parent, merged;

    signal(SIGPIPE, SIG_IGN); /* Open MPI writes to processes that have ended */
    MPI_Comm_get_parent(&parent);
    if (parent == MPI_COMM_NULL) {
        MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
        return MPI_COMM_WORLD;
    }
    must(MPI_Intercomm_merge(parent, 1, &merged), "MPI_Intercomm_merge");
    must(MPI_Comm_free(&parent), "MPI_Comm_free");
    return in_order(merged, -1, repairs);
}

/* Returns whether good is true on all ranks, and no rank has died. All ranks call it at the same place. */
static int all_good(MPI_Comm ranks, int good)
{
    int died;

    if (!good)
        MPIX_Comm_revoke(ranks); /* so that ranks that compute come here, too */
    died = MPIX_Comm_agree(ranks, &good) != MPI_SUCCESS;
    return good && !died;
}

/*
 * Calls compute until it has come to its end on all ranks, with a repair after each death. It returns 0 as soon as something
 * fails, for instance because a rank has died.
 */
static void compute_to_the_end(char **argv, int (*compute)(MPI_Comm ranks, int repairs))
{
    int repairs = 0;
    MPI_Comm ranks = job(&repairs);

    while (!all_good(ranks, compute(ranks, repairs)))
        ranks = repair(ranks, argv, &repairs);
}
