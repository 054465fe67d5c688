/* bench.h - how the programs of make bench take times */

#include <mpi.h>

/* Waits for all ranks, and returns the time. */
static double begin(void)
{
    MPI_Barrier(MPI_COMM_WORLD);
    return MPI_Wtime();
}

/* Returns the longest time of all ranks. */
static double slowest(double mine)
{
    double most;

    MPI_Allreduce(&mine, &most, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    return most;
}
