/* galaxy - particles that attract each other, spread over the ranks: leapfrog, all pairs.
 *
 *     mpirun -n 4 ./galaxy PARTICLES STEPS RESULT */
#include <math.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

typedef struct { double x, y, z; } vec;

static int rank, ranks, n, first, count; /* particles of all ranks; of this rank */
static vec *at, *speed;                  /* n positions; count velocities */
static long step;

static int first_of(int r) { return (int)((long)n * r / ranks); }

static void begin(void)
{
    for (int i = first; i < first + count; i++) {
        double angle = 2.4 * i, radius = 1 + sqrt(i);

        at[i] = (vec){radius * cos(angle), radius * sin(angle), (i % 7 - 3) * 0.1};
        speed[i - first] = (vec){-sin(angle), cos(angle), 0};
    }
    step = 0;
}

static void share_positions(void)
{
    int counts[ranks], starts[ranks];

    for (int r = 0; r < ranks; r++) {
        starts[r] = first_of(r) * 3;
        counts[r] = first_of(r + 1) * 3 - starts[r];
    }
    MPI_Allgatherv(MPI_IN_PLACE, 0, MPI_DOUBLE, at, counts, starts, MPI_DOUBLE, MPI_COMM_WORLD);
}

static void advance(void)
{
    const double dt = 1e-3;

    share_positions();
    for (int i = 0; i < count; i++) {
        vec a = {0, 0, 0}, me = at[first + i];

        for (int j = 0; j < n; j++) {
            vec d = {at[j].x - me.x, at[j].y - me.y, at[j].z - me.z};
            double r2 = d.x * d.x + d.y * d.y + d.z * d.z + 0.01, w = 1 / (r2 * sqrt(r2));

            a.x += w * d.x, a.y += w * d.y, a.z += w * d.z;
        }
        speed[i].x += dt * a.x, speed[i].y += dt * a.y, speed[i].z += dt * a.z;
    }
    for (int i = 0; i < count; i++) {
        vec *p = &at[first + i];

        p->x += dt * speed[i].x, p->y += dt * speed[i].y, p->z += dt * speed[i].z;
    }
    step++;
}

int main(int argc, char **argv)
{
    setvbuf(stdout, NULL, _IOLBF, 0);
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    n = atoi(argv[1]);
    first = first_of(rank);
    count = first_of(rank + 1) - first;
    at = calloc(n, sizeof *at);
    speed = calloc(count + 1, sizeof *speed);
    begin();

    while (step < atol(argv[2])) {
        advance();
        if (step % 100 == 0 && rank == 0)
            printf("step %ld\n", step);
    }

    share_positions();
    if (rank == 0) {
        FILE *f = fopen(argv[3], "wb");

        if (f == NULL || fwrite(at, sizeof *at, n, f) != (size_t)n || fclose(f) != 0)
            MPI_Abort(MPI_COMM_WORLD, 1);
    }
    MPI_Finalize();
    return 0;
}
