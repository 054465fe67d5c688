/*
 * The computation of the programs that save themselves by three functions: asked.c, moves.c and
 * three.c.  In each step all ranks add up their values and compute the next ones, so a value that
 * is wrong once makes all later ones wrong.
 *
 * The program is saved beside main. Each rank keeps main from going on by a lock until all ranks have come
 * so far; so they are saved one step apart at most. Each saves its last two steps, and a restart continues
 * from the last step that all have.
 */

#include <mpi.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>

enum { MOST_RANKS = 16 };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct state {
    uint64_t step, value, step_before, value_before;
} now;
static int rank, size;

static uint64_t next(uint64_t value, uint64_t step, int of, uint64_t sum)
{
    return (value ^ sum) * UINT64_C(6364136223846793005) + step * 7 + (uint64_t)of;
}

static void compute_step(void)
{
    uint64_t sum;

    MPI_Allreduce(&now.value, &sum, 1, MPI_UINT64_T, MPI_SUM, MPI_COMM_WORLD);
    pthread_mutex_lock(&lock);
    now.step_before = now.step;
    now.value_before = now.value;
    now.value = next(now.value, now.step, rank, sum);
    now.step++;
    pthread_mutex_unlock(&lock);
}

/* Waits until all ranks are here; beside main, which must not use the tag. */
static void meet(void)
{
    enum { TAG = 31 };
    int own, of, i;

    MPI_Comm_rank(MPI_COMM_WORLD, &own);
    MPI_Comm_size(MPI_COMM_WORLD, &of);
    if (own != 0) {
        MPI_Send(NULL, 0, MPI_INT, 0, TAG, MPI_COMM_WORLD);
        MPI_Recv(NULL, 0, MPI_INT, 0, TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        return;
    }
    for (i = 1; i < of; i++)
        MPI_Recv(NULL, 0, MPI_INT, i, TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    for (i = 1; i < of; i++)
        MPI_Send(NULL, 0, MPI_INT, i, TAG, MPI_COMM_WORLD);
}

/* Collective; returns 0, or another value after an error. */
static int save(void)
{
    FILE *f = fopen("state", "w");
    int wrong;

    pthread_mutex_lock(&lock);
    meet();
    wrong = f == NULL || fwrite(&now, sizeof now, 1, f) != 1;
    pthread_mutex_unlock(&lock);
    return (f != NULL && fclose(f) != 0) || wrong;
}

/* Collective; returns 0, or another value after an error. */
static int restore(void)
{
    FILE *f = fopen("state", "r");
    uint64_t common;

    if (f == NULL || fread(&now, sizeof now, 1, f) != 1 || fclose(f) != 0)
        return 1;
    MPI_Allreduce(&now.step, &common, 1, MPI_UINT64_T, MPI_MIN, MPI_COMM_WORLD);
    if (common != now.step) {
        if (common != now.step_before)
            return 2;
        now.step = common;
        now.value = now.value_before;
    }
    return 0;
}

/* Whether the value of a rank is what a job computes that nothing has happened to: computes everything again. */
static int right(void)
{
    uint64_t all[MOST_RANKS] = {0}, sum, step;
    int i;

    for (step = 0; step < now.step; step++) {
        for (sum = 0, i = 0; i < size; i++)
            sum += all[i];
        for (i = 0; i < size; i++)
            all[i] = next(all[i], step, i, sum);
    }
    return all[rank] == now.value;
}
