/*
 * A program whose function is called for a checkpoint while main asks for another one (44-quiet.sh): main
 * waits for its turn, and the function, in a thread of its own, sends a message and receives it.
 */

#define _POSIX_C_SOURCE 200809L

#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "scr_cr.h"

static int rank, times;
static volatile int saves, asks;

int opal_crs_self_user_checkpoint(char **restart_cmd);
int opal_crs_self_user_restart(void);

static void pause_shortly(void)
{
    static const struct timespec t = {0, 20000};

    nanosleep(&t, NULL);
}

/* Whether main waits for something. */
static int main_sleeps(void)
{
    char path[80], state = '?';
    FILE *f;

    sprintf(path, "/proc/self/task/%ld/stat", (long)getpid());
    f = fopen(path, "r");
    if (f == NULL || fscanf(f, "%*d (%*[^)]) %c", &state) != 1)
        state = '?';
    if (f != NULL)
        fclose(f);
    return state == 'S';
}

int opal_crs_self_user_checkpoint(char **restart_cmd)
{
    int out = 4711, in = 0;
    MPI_Request r;
    FILE *f;

    (void)restart_cmd;
    if (++times == 1) {
        saves = 1;
        while (!asks || !main_sleeps())
            pause_shortly();
        MPI_Irecv(&in, 1, MPI_INT, rank, 3, MPI_COMM_WORLD, &r);
        MPI_Send(&out, 1, MPI_INT, rank, 3, MPI_COMM_WORLD);
        MPI_Wait(&r, MPI_STATUS_IGNORE);
        if (in != out)
            return 1;
    }
    f = fopen("state", "w");
    return f == NULL || fprintf(f, "%d\n", times) < 0 || fclose(f) != 0;
}

int opal_crs_self_user_restart(void) { return 1; }

int main(int argc, char **argv)
{
    int failed;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    while (!saves) /* after SCR_CHECKPOINT_SECONDS */
        pause_shortly();
    asks = 1;
    failed = SCR_CR_Checkpoint(NULL, NULL, MPI_INFO_NULL);
    if (failed || times < 2)
        printf("rank %d: SCR_CR_Checkpoint returned %d; the function was called %d times\n", rank, failed, times);
    printf("%d ends\n", rank);
    MPI_Finalize();
    return 0;
}
