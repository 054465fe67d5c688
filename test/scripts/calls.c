/*
 * A program that has the three functions, and calls SCR in each step as well (44-inside.sh): one rank may wait within SCR
 * for the others while a request has these stopped in a call of MPI.  It ends when the file END exists.
 */

#define _XOPEN_SOURCE 700
#define _DEFAULT_SOURCE

#include "counted.h"

#include "scr.h"

#include <stdlib.h>
#include <unistd.h>

int opal_crs_self_user_checkpoint(char **restart_cmd);
int opal_crs_self_user_continue(void);
int opal_crs_self_user_restart(void);

int opal_crs_self_user_checkpoint(char **restart_cmd)
{
    (void)restart_cmd;
    return save();
}

int opal_crs_self_user_continue(void) { return 0; }
int opal_crs_self_user_restart(void) { return restore(); }

int main(int argc, char **argv)
{
    int mine, end = 0, need;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (rank == 0)
        fprintf(stderr, "the program has begun\n");
    while (!end) {
        usleep(500 * (useconds_t)rank);
        SCR_Need_checkpoint(&need);
        compute_step();
        mine = access(getenv("END"), F_OK) == 0;
        MPI_Allreduce(&mine, &end, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
    }
    printf("%d %s\n", rank, right() ? "ends right" : "ends wrong");
    MPI_Finalize();
    return 0;
}
