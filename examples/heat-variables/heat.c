/*
 * heat with variables: the program of examples/heat without code for files. It names its variables,
 * and the library writes and reads them. Its result is the same, to the last bit.
 *
 *     mpicc -O2 -o heat heat.c $(pkg-config --cflags --libs goscr-veloc) -lm
 *     mpirun -n 4 ./heat veloc.cfg 1024 1000 final.heat     # a grid of 1024 x 1024, 1000 steps
 *
 * veloc.cfg has at least the lines
 *
 *     scratch = /dev/shm
 *     persistent = /the/parallel/file/system
 */

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <mpi.h>
#include <veloc.h>

static int rank, ranks;
static size_t n, first, rows; /* the grid has n x n points; this rank has rows of them, from first on */
static double *now, *next;    /* rows + 2 rows: the first and last are those of the neighbours */

static void die(const char *what)
{
    fprintf(stderr, "heat: rank %d: %s\n", rank, what);
    MPI_Abort(MPI_COMM_WORLD, 1);
}

static double *row(double *field, size_t i) { return field + i * n; }

/* A warm plate with two hot discs and a cold bar, its edges held at 0. */
static double initial(size_t i, size_t j)
{
    double x = (double)j / (double)(n - 1), y = (double)i / (double)(n - 1);

    if (i == 0 || j == 0 || i == n - 1 || j == n - 1)
        return 0.0;
    if ((x - 0.3) * (x - 0.3) + (y - 0.35) * (y - 0.35) < 0.02)
        return 100.0;
    if ((x - 0.7) * (x - 0.7) + (y - 0.6) * (y - 0.6) < 0.01)
        return 80.0;
    return fabs(x - 0.5) < 0.02 && y > 0.2 && y < 0.9 ? -50.0 : 20.0;
}

static void one_step(void)
{
    int up = rank > 0 ? rank - 1 : MPI_PROC_NULL, down = rank < ranks - 1 ? rank + 1 : MPI_PROC_NULL;
    double *swap = now;

    MPI_Sendrecv(row(now, 1), (int)n, MPI_DOUBLE, up, 0, row(now, rows + 1), (int)n, MPI_DOUBLE, down, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    MPI_Sendrecv(row(now, rows), (int)n, MPI_DOUBLE, down, 1, row(now, 0), (int)n, MPI_DOUBLE, up, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    for (size_t i = 1; i <= rows; i++) {
        const double *above = row(now, i - 1), *here = row(now, i), *below = row(now, i + 1);

        if (first + i - 1 == 0 || first + i - 1 == n - 1)
            continue; /* the edge of the plate is constant */
        for (size_t j = 1; j < n - 1; j++)
            row(next, i)[j] = here[j] + 0.2 * (above[j] + below[j] + here[j - 1] + here[j + 1] - 4.0 * here[j]);
    }
    now = next;
    next = swap;
}

/* Writes the rows of all ranks to one file, one rank after the other. */
static void write_result(const char *file)
{
    for (int r = 0; r < ranks; r++) {
        if (r == rank) {
            FILE *f = fopen(file, r == 0 ? "wb" : "ab");

            if (f == NULL || fwrite(row(now, 1), sizeof *now, rows * n, f) != rows * n || fclose(f) != 0)
                die(file);
        }
        MPI_Barrier(MPI_COMM_WORLD);
    }
}

int main(int argc, char **argv)
{
    int step = 0, steps, version;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    if (argc != 5 || (n = strtoul(argv[2], NULL, 10)) < (size_t)ranks || n < 3)
        die("usage: heat CONFIG SIZE STEPS RESULT");
    steps = atoi(argv[3]);
    rows = n / (size_t)ranks + ((size_t)rank < n % (size_t)ranks);
    first = n / (size_t)ranks * (size_t)rank + ((size_t)rank < n % (size_t)ranks ? (size_t)rank : n % (size_t)ranks);
    now = malloc((rows + 2) * n * sizeof *now);
    next = malloc((rows + 2) * n * sizeof *next);
    if (now == NULL || next == NULL)
        die("not enough memory");
    for (size_t i = 0; i < rows + 2; i++)
        for (size_t j = 0; j < n; j++)
            row(now, i)[j] = initial(first + i - 1, j);
    memcpy(next, now, (rows + 2) * n * sizeof *next);

    if (VELOC_Init(MPI_COMM_WORLD, argv[1]) != VELOC_SUCCESS)
        die("VELOC_Init has failed");
    VELOC_Mem_protect(0, &step, 1, sizeof step);
    VELOC_Mem_protect(1, now, (rows + 2) * n, sizeof *now);
    version = VELOC_Restart_test("heat", 0);
    if (version >= 0) {
        if (VELOC_Restart("heat", version) != VELOC_SUCCESS)
            die("VELOC_Restart has failed");
        if (rank == 0)
            printf("restarted at step %d\n", step);
    }
    while (step < steps) {
        one_step();
        step++;
        if (step % 100 != 0 || step == steps)
            continue;
        VELOC_Mem_protect(1, now, (rows + 2) * n, sizeof *now); /* it is the other field now */
        /* The program continues if a checkpoint fails, because the one before is still there. */
        if (VELOC_Checkpoint("heat", step) == VELOC_SUCCESS && rank == 0)
            printf("checkpoint at step %d\n", step);
        fflush(stdout);
    }
    write_result(argv[4]);
    VELOC_Finalize(1);
    MPI_Finalize();
    return 0;
}
