/*
 * A program that calls nothing of SCR: it saves and restores itself by three functions
 * (44-inside.sh).  It counts steps, writes a checkpoint after every second one, and prints what
 * happens.
 *
 *     self STEPS [WHERE]     ends after that many steps.  WHERE, a step: the last rank's function
 *                            for checkpoints fails then.  "bad N": restarting from the
 *                            checkpoint of step N fails on the last rank
 *
 * With -DREGISTER the functions are registered after MPI_Init, under other names.
 */

#include <limits.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#ifdef OPEN_MPI
#include <mpi-ext.h>
#endif

#ifdef REGISTER
#define NAME(what) my_##what
#else
#define NAME(what) opal_crs_self_user_##what
int opal_crs_self_user_checkpoint(char **restart_cmd);
int opal_crs_self_user_continue(void);
int opal_crs_self_user_restart(void);
#endif

static int rank = -1, size, step, fails_at = -1, bad = -1;

static void place(void)
{
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
}

static void say(const char *what, int value)
{
    printf("%d %s %d\n", rank, what, value);
    fflush(stdout);
}

int NAME(checkpoint)(char **restart_cmd)
{
    FILE *f;
    char name[40];
    int i;

    *restart_cmd = getenv("RESTART_COMMAND");
    if (step == fails_at && rank == size - 1)
        return 9;
    if (mkdir("parts", 0700) != 0)
        return 1;
    for (i = 0; i < rank; i++) {
        sprintf(name, "parts/%d", i);
        if ((f = fopen(name, "w")) == NULL)
            return 1;
        fprintf(f, "%d %d\n", step, rank * i);
        if (fclose(f) != 0)
            return 1;
    }
    if ((f = fopen("state.dat", "w")) == NULL)
        return 1;
    fprintf(f, "%d\n", step);
    return fclose(f) == 0 ? 0 : 1;
}

int NAME(continue)(void)
{
    say("continues", step);
    return 0;
}

int NAME(restart)(void)
{
    FILE *f = fopen("state.dat", "r");
    char name[40];
    int i, at, product;

    place();
    if (f == NULL || fscanf(f, "%d", &step) != 1)
        return 1;
    fclose(f);
    for (i = 0; i < rank; i++) {
        sprintf(name, "parts/%d", i);
        if ((f = fopen(name, "r")) == NULL || fscanf(f, "%d %d", &at, &product) != 2 || at != step || product != rank * i)
            return 2;
        fclose(f);
    }
    say("restarts", step);
    if (step == bad) {
        step = 0;
        return rank == size - 1 ? 3 : 0;
    }
    return 0;
}

int main(int argc, char **argv)
{
    char before[PATH_MAX], after[PATH_MAX];
    int steps = atoi(argv[1]), *sum, i;

    if (argc == 3)
        fails_at = atoi(argv[2]);
    if (argc == 4)
        bad = atoi(argv[3]);
    if (getcwd(before, sizeof before) == NULL)
        return EXIT_FAILURE;
    MPI_Init(&argc, &argv);
    place();
#ifdef REGISTER
    OMPI_CR_self_register_checkpoint_callback(my_checkpoint);
    OMPI_CR_self_register_continue_callback(my_continue);
    OMPI_CR_self_register_restart_callback(my_restart);
#endif
    sum = calloc((size_t)size, sizeof *sum);
    for (step++; step <= steps; step++) {
        for (i = 0; i < size; i++)
            sum[i] = rank == i ? step : 0;
        MPI_Allreduce(MPI_IN_PLACE, sum, size, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
        for (i = 0; i < size; i++)
            if (sum[i] != step)
                say("is at another step than a rank", i);
#ifdef OMPI_HAVE_MPI_EXT_CR
        if (step % 2 == 0) {
            char *handle = NULL;
            int seq = -1, code = OMPI_CR_Checkpoint(&handle, &seq, MPI_INFO_NULL);

            say("checkpoint", code != 0 ? -1 : seq);
            if (code == 0) {
                say(strcmp(handle, getenv("SCR_PREFIX")) == 0 ? "handle" : handle, 0);
                free(handle);
            }
        }
#endif
        if (getcwd(after, sizeof after) == NULL || strcmp(before, after) != 0)
            say("works in another directory", step);
    }
    free(sum);
    say("ends", steps);
    MPI_Finalize();
    return 0;
}
