/*
 * A program that asks to be started again from an earlier checkpoint (44-inside.sh).  It counts
 * steps, writes a checkpoint after steps 2, 4, ..., and prints what happens.
 *
 *     again restart|wrong MARKER    asks after step 5, unless the file MARKER exists, which it
 *                                           makes then
 */

#define _XOPEN_SOURCE 700
#define _DEFAULT_SOURCE

#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "scr_cr.h"

static int rank, step;

int opal_crs_self_user_checkpoint(char **restart_cmd);
int opal_crs_self_user_restart(void);

int opal_crs_self_user_checkpoint(char **restart_cmd)
{
    FILE *f = fopen("state", "w");

    (void)restart_cmd;
    return f == NULL || fprintf(f, "%d\n", step) < 0 || fclose(f) != 0;
}

int opal_crs_self_user_restart(void)
{
    FILE *f = fopen("state", "r");

    if (f == NULL || fscanf(f, "%d", &step) != 1)
        return 1;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (rank == 0)
        printf("restarts %d\n", step);
    return fclose(f);
}

int main(int argc, char **argv)
{
    char *handles[10], other[] = "/nowhere";
    int seqs[10], n = 0, asked = 0, failed;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    for (step++; step <= 6 || asked; step++) {
        if (step % 2 == 0 && n < 10 && !asked) {
            if (OMPI_CR_Checkpoint(&handles[n], &seqs[n], MPI_INFO_NULL) != 0)
                MPI_Abort(MPI_COMM_WORLD, 3);
            n++;
        }
        if (step == 5 && access(argv[2], F_OK) != 0) {
            MPI_Barrier(MPI_COMM_WORLD);
            if (argv[1][0] == 'w' && rank == 0) {
                failed = (OMPI_CR_Restart(other, seqs[0], MPI_INFO_NULL) != 0) + (OMPI_CR_Restart(handles[0], 99, MPI_INFO_NULL) != 0) +
                         (OMPI_CR_Restart(NULL, 1, MPI_INFO_NULL) != 0) + (OMPI_CR_Restart(handles[0], seqs[0], MPI_INFO_NULL) != 0);
                printf("%d calls fail\n", failed);
            }
            if (argv[1][0] == 'w') {
                failed = OMPI_CR_Migrate(MPI_COMM_WORLD, NULL, -1, MPI_INFO_NULL) != 0;
                if (rank == 0)
                    printf("migration fails %d\n", failed);
            }
            if (argv[1][0] == 'r') {
                asked = 1;
                if (rank == 1) { /* any of them */
                    FILE *f = fopen(argv[2], "w");

                    if (f == NULL || fclose(f) != 0 || OMPI_CR_Restart(handles[0], seqs[0], MPI_INFO_NULL) != 0)
                        MPI_Abort(MPI_COMM_WORLD, 4);
                }
            }
        }
        if (asked)
            usleep(10000); /* until it is ended */
        fflush(stdout);
        MPI_Barrier(MPI_COMM_WORLD);
    }
    if (rank == 0)
        printf("ends %d\n", step - 1);
    MPI_Finalize();
    return 0;
}
