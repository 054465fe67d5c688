/*
 * files - a program that continues in the same launch after processes have died, with files
 *
 *     mpicc -O2 -o files files.c -lscr
 *     mpirun --with-ft ulfm -n 4 ./files -k 2:50     # rank 2 dies after step 50
 *
 * It needs Open MPI 5 or newer. The options are in rod.h. All about SCR is in this file.
 */

#include "rod.h"
#include "repair.h"

#include <scr.h>

static struct rod r;

static int read_or_write(const char *checkpoint, const char *mode)
{
    char name[SCR_MAX_FILENAME + 32], file[SCR_MAX_FILENAME];

    snprintf(name, sizeof name, "%s/rank_%d", checkpoint, r.rank);
    return SCR_Route_file(name, file) == SCR_SUCCESS && transfer(&r, file, mode);
}

/* Sets the rod to the newest checkpoint that all ranks can read, if there is one. */
static int restart(MPI_Comm ranks)
{
    char name[SCR_MAX_FILENAME];
    int have;

    while (SCR_Have_restart(&have, name) == SCR_SUCCESS) {
        if (!have)
            return 1;
        if (SCR_Start_restart(name) != SCR_SUCCESS)
            return 0;
        if (SCR_Complete_restart(read_or_write(name, "rb")) == SCR_SUCCESS) {
            r.step = atoll(name + strlen("step."));
            return 1;
        }
        hot(&r, ranks); /* some ranks may have read what others could not */
    }
    return 0;
}

static int checkpoint(void)
{
    char name[SCR_MAX_FILENAME];

    snprintf(name, sizeof name, "step.%ld", (long)r.step);
    return SCR_Start_output(name, SCR_FLAG_CHECKPOINT) == SCR_SUCCESS &&
           SCR_Complete_output(read_or_write(name, "wb")) == SCR_SUCCESS;
}

/* Computes to the end, see repair.h. */
static int compute(MPI_Comm ranks, int repairs)
{
    static int began; /* there is a session that SCR_Recover can take over */

    hot(&r, ranks);
    say(r.rank, "all ranks are there after repairs:", repairs);
    use_node(r.rank);
    if ((began ? SCR_Recover(ranks) : SCR_Init_comm(ranks)) != SCR_SUCCESS)
        return 0;
    began = 1;
    say(r.rank, "SCR is ready after repairs:", repairs);
    if (!restart(ranks))
        return 0;
    say(r.rank, "computing from step", r.step);
    while (r.step < given.steps) {
        if (!one_step(&r, ranks))
            return 0;
        if (r.step % given.every == 0 && !checkpoint())
            return 0;
        may_die(&r, repairs);
    }
    if (!print_result(&r, ranks) || SCR_Finalize() != SCR_SUCCESS)
        return 0;
    began = 0;
    return 1;
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    read_options(argc, argv);
    compute_to_the_end(argv, compute);
    MPI_Finalize();
    return 0;
}
