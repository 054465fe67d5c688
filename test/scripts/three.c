/*
 * A program that saves itself by three functions, and knows nothing else of checkpoints: it includes
 * no header of SCR and calls nothing of it (78-self.sh, 93-moves.sh).
 *
 *     three FILE [STEPS]    computes so many steps, or until the file FILE.end exists; then it writes
 *                           the number of steps and the values of all ranks to FILE.  The status is
 *                           not 0 if a value is wrong
 *
 * Every 100 steps it says so on standard error, and when it restarts, and once which command has started it:
 * the environment's STARTED_BY.  With RESTART_COMMAND in the environment this is what its checkpoints name as
 * the command that restarts it.
 */

#define _XOPEN_SOURCE 700
#define _DEFAULT_SOURCE

#include "counted.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int opal_crs_self_user_checkpoint(char **restart_cmd);
int opal_crs_self_user_continue(void);
int opal_crs_self_user_restart(void);

int opal_crs_self_user_checkpoint(char **restart_cmd)
{
    const char *command = getenv("RESTART_COMMAND");

    if (command != NULL && (*restart_cmd = strdup(command)) == NULL)
        return 1;
    return save();
}

int opal_crs_self_user_continue(void) { return 0; }

int opal_crs_self_user_restart(void)
{
    int failed = restore();

    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (rank == 0 && !failed)
        fprintf(stderr, "restarts at step %d\n", (int)now.step);
    return failed;
}

static int write_result(const char *name)
{
    uint64_t all[MOST_RANKS];
    FILE *f;
    int i;

    MPI_Gather(&now.value, 1, MPI_UINT64_T, all, 1, MPI_UINT64_T, 0, MPI_COMM_WORLD);
    if (rank != 0)
        return 0;
    if ((f = fopen(name, "w")) == NULL)
        return 1;
    fprintf(f, "%d\n", (int)now.step);
    for (i = 0; i < size; i++)
        fprintf(f, "%016llx\n", (unsigned long long)all[i]);
    return fclose(f);
}

int main(int argc, char **argv)
{
    uint64_t steps = argc > 2 ? strtoull(argv[2], NULL, 10) : UINT64_MAX;
    const char *by = getenv("STARTED_BY");
    char end[4096];
    int ends = 0;

    if (argc < 2 || snprintf(end, sizeof end, "%s.end", argv[1]) >= (int)sizeof end)
        return EXIT_FAILURE;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (rank == 0)
        fprintf(stderr, "started by %s\n", by != NULL ? by : "the user");
    while (now.step < steps && !ends) {
        compute_step();
        if (rank == 0 && now.step % 100 == 0)
            fprintf(stderr, "step %d\n", (int)now.step);
        if (steps == UINT64_MAX) {
            usleep(1000);
            ends = rank == 0 && access(end, F_OK) == 0;
            MPI_Bcast(&ends, 1, MPI_INT, 0, MPI_COMM_WORLD);
        }
    }
    ends = write_result(argv[1]) || !right();
    MPI_Finalize();
    return ends;
}
