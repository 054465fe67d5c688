/*
 * with Fenix - the program of files.c, in a job that Fenix repairs: spares take the places of the dead
 *
 *     mpicc -O2 -o fenix fenix.c -lfenix -lscr
 *     mpirun --with-ft ulfm -n 6 ./fenix -k 2:50     # 4 ranks and 2 spares; rank 2 dies after step 50
 *
 * It needs Open MPI 5 or newer and Fenix 1.0 or newer. The options are in rod.h. All about SCR and Fenix is in this file.
 */

#include "rod.h"

#include <fenix.h>
#include <scr.h>

enum { SPARES = 2 };

/* These keep their values when Fenix jumps back to Fenix_Init. */
static struct rod r;
static int began; /* there is a session that SCR_Recover can take over */
static int repairs;

static int read_or_write(const char *checkpoint, const char *mode)
{
    char name[SCR_MAX_FILENAME + 32], file[SCR_MAX_FILENAME];

    snprintf(name, sizeof name, "%s/rank_%d", checkpoint, r.rank);
    return SCR_Route_file(name, file) == SCR_SUCCESS && transfer(&r, file, mode);
}

static void must(int code, MPI_Comm ranks)
{
    if (code == SCR_SUCCESS)
        return;
    /*
     * If a rank has died, Fenix learns of it in this call of MPI, repairs the communicator, and jumps back to Fenix_Init.
     * The program must not revoke the communicator: spares would not learn of that.
     */
    MPI_Barrier(ranks);
    MPI_Abort(MPI_COMM_WORLD, 1); /* all live, and the library has failed */
}

/* Sets the rod to the newest checkpoint that all ranks can read, if there is one. */
static void restart(MPI_Comm ranks)
{
    char name[SCR_MAX_FILENAME];
    int have;

    for (;;) {
        must(SCR_Have_restart(&have, name), ranks);
        if (!have)
            return;
        must(SCR_Start_restart(name), ranks);
        if (SCR_Complete_restart(read_or_write(name, "rb")) == SCR_SUCCESS) {
            r.step = atoll(name + strlen("step."));
            return;
        }
        hot(&r, ranks); /* some ranks may have read what others could not */
    }
}

static void checkpoint(MPI_Comm ranks)
{
    char name[SCR_MAX_FILENAME];

    snprintf(name, sizeof name, "step.%ld", (long)r.step);
    must(SCR_Start_output(name, SCR_FLAG_CHECKPOINT), ranks);
    must(SCR_Complete_output(read_or_write(name, "wb")), ranks);
}

int main(int argc, char **argv)
{
    MPI_Comm ranks;
    int role, error;

    MPI_Init(&argc, &argv);
    read_options(argc, argv);
    Fenix_Init(&role, MPI_COMM_WORLD, &ranks, &argc, &argv, SPARES, 0, MPI_INFO_NULL, &error);

    /* After a death, all come here: those that live from the call of MPI that has failed, and a spare in place of the dead. */
    repairs += role == FENIX_ROLE_SURVIVOR_RANK;
    MPI_Allreduce(MPI_IN_PLACE, &repairs, 1, MPI_INT, MPI_MAX, ranks);
    hot(&r, ranks);
    say(r.rank, "all ranks are there after repairs:", repairs);
    use_node(r.rank);
    must(began ? SCR_Recover(ranks) : SCR_Init_comm(ranks), ranks);
    began = 1;
    say(r.rank, "SCR is ready after repairs:", repairs);
    restart(ranks);
    say(r.rank, "computing from step", r.step);
    while (r.step < given.steps) {
        one_step(&r, ranks);
        if (r.step % given.every == 0)
            checkpoint(ranks);
        may_die(&r, repairs);
    }
    print_result(&r, ranks);
    must(SCR_Finalize(), ranks);
    began = 0;
    Fenix_Finalize();
    MPI_Finalize();
    return 0;
}
