/*
 * variables - the program of files.c without code for files: it names what it wants to keep
 *
 *     mpicc -O2 -o variables variables.c $(pkg-config --cflags --libs goscr-veloc)
 *     mpirun --with-ft ulfm -n 4 ./variables -k 2:50     # rank 2 dies after step 50
 *
 * It needs Open MPI 5 or newer, and the configuration file veloc.cfg: see docs/variables.md. The options are in rod.h.
 */

#include "rod.h"
#include "repair.h"

#include <veloc.h>

static struct rod r;

/* Computes to the end, see repair.h. */
static int compute(MPI_Comm ranks, int repairs)
{
    int version;

    hot(&r, ranks);
    say(r.rank, "all ranks are there after repairs:", repairs);
    use_node(r.rank);
    if (VELOC_Init(ranks, "veloc.cfg") != VELOC_SUCCESS) /* after a repair it takes the versions over */
        return 0;
    say(r.rank, "VELOC is ready after repairs:", repairs);
    VELOC_Mem_protect(0, &r.step, 1, sizeof r.step);
    VELOC_Mem_protect(1, r.now, r.points + 2, sizeof *r.now);
    version = VELOC_Restart_test("rod", 0);
    if (version >= 0 && VELOC_Restart("rod", version) != VELOC_SUCCESS)
        return 0;
    say(r.rank, "computing from step", r.step);
    while (r.step < given.steps) {
        if (!one_step(&r, ranks))
            return 0;
        if (r.step % given.every == 0) {
            VELOC_Mem_protect(1, r.now, r.points + 2, sizeof *r.now); /* one_step has swapped the fields */
            if (VELOC_Checkpoint("rod", (int)r.step) != VELOC_SUCCESS)
                return 0;
        }
        may_die(&r, repairs);
    }
    return print_result(&r, ranks) && VELOC_Finalize(1) == VELOC_SUCCESS;
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    read_options(argc, argv);
    compute_to_the_end(argv, compute);
    MPI_Finalize();
    return 0;
}
