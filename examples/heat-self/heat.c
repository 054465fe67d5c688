/*
 * heat - a rod that is heated at its left end, whose program has no call of SCR: goscr saves it by
 * two functions (docs/inside.md).
 *
 *     mpicc -O2 heat.c $(pkg-config --cflags --libs scr_cr) -Wl,--export-dynamic -o heat
 *     export SCR_CR_THREAD=0 SCR_CHECKPOINT_SECONDS=600
 *     scr_run mpirun -n 4 ./heat 100000 result
 *
 * With SCR_CR_THREAD=0 goscr calls save() within a call of MPI, so that no lock is needed. After a restart
 * the program makes that call again: `next` says which one it is.
 */

#include <mpi.h>
#include <scr_cr.h>
#include <stdio.h>
#include <stdlib.h>

enum { CELLS = 50000 };          /* of a rank; two more for those of its neighbours */
static double u[CELLS + 2], v[CELLS + 2];
static long step;
static int next;                 /* call of the step: 0 to the left, 1 to the right, 2 none */

int opal_crs_self_user_checkpoint(char **restart_command)
{
    FILE *f = fopen("state", "wb"); /* in a directory of this rank and checkpoint */
    int wrong;

    (void)restart_command;
    if (f == NULL) return 1;
    wrong = fwrite(&step, sizeof step, 1, f) != 1 || fwrite(&next, sizeof next, 1, f) != 1 || fwrite(u, sizeof u, 1, f) != 1;
    return fclose(f) != 0 || wrong;
}

int opal_crs_self_user_restart(void)
{
    FILE *f = fopen("state", "rb");
    int wrong;

    if (f == NULL) return 1;
    wrong = fread(&step, sizeof step, 1, f) != 1 || fread(&next, sizeof next, 1, f) != 1 || fread(u, sizeof u, 1, f) != 1;
    fclose(f);
    return wrong;
}

static void compute(void)
{
    for (int i = 1; i <= CELLS; i++) v[i] = u[i] + 0.25 * (u[i - 1] - 2 * u[i] + u[i + 1]);
    for (int i = 1; i <= CELLS; i++) u[i] = v[i];
}

int main(int argc, char **argv)
{
    long steps = argc > 1 ? atol(argv[1]) : 10000;
    int rank, ranks, left, right;
    double sum = 0, total;
    FILE *f;

    MPI_Init(&argc, &argv); /* calls the function for the restart, if there is a checkpoint */
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    left = rank > 0 ? rank - 1 : MPI_PROC_NULL;
    right = rank + 1 < ranks ? rank + 1 : MPI_PROC_NULL;
    if (rank == 0) u[0] = 100;
    if (rank == 0 && step > 0) printf("continues after step %ld\n", step);
    while (step < steps) {
        if (next == 0) {
            MPI_Sendrecv(&u[1], 1, MPI_DOUBLE, left, 0, &u[CELLS + 1], 1, MPI_DOUBLE, right, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            next = 1;
        }
        if (next == 1) {
            MPI_Sendrecv(&u[CELLS], 1, MPI_DOUBLE, right, 1, &u[0], 1, MPI_DOUBLE, left, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            next = 2;
        }
        compute();
        next = 0;
        step++;
    }
    for (int i = 1; i <= CELLS; i++) sum += u[i];
    MPI_Reduce(&sum, &total, 1, MPI_DOUBLE, MPI_SUM, 0, MPI_COMM_WORLD);
    if (rank == 0 && argc > 2) {
        f = fopen(argv[2], "w");
        if (f == NULL || fprintf(f, "%.17g\n", total) < 0 || fclose(f) != 0) MPI_Abort(MPI_COMM_WORLD, 1);
    }
    MPI_Finalize();
    return 0;
}
