/*
 * A program for debuggers (44-debug.sh): it counts steps, and writes a checkpoint at a step, after
 * which it works on in `work` until twice that.
 *
 *     debugged STEP [wait | ask | early]
 *         wait: prints its process, and begins when a debugger has set go_on
 *         ask: writes it when scr_checkpoint asks for one, at STEP
 *         early: waits after it, at a gate that another thread opens as soon as it is closed
 *
 * Another thread counts.
 */

#define _DEFAULT_SOURCE

#include <mpi.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "scr.h"

static int at_step;
volatile int go_on; /* set by a debugger */
volatile long counted;

static void work(void) { at_step++; }

static void *count(void *unused)
{
    for (;;) {
        counted++;
        usleep(100);
    }
    return unused;
}

/* Those of libscr_cr.so, if the program is linked with it. */
extern volatile int MPIR_debug_with_checkpoint __attribute__((weak)), MPIR_checkpoint_debug_gate __attribute__((weak));

static void *open_gate(void *unused)
{
    while (MPIR_checkpoint_debug_gate != 0)
        usleep(10); /* threads that only yield can starve all others for minutes */
    MPIR_checkpoint_debug_gate = 1;
    return unused;
}

/* As a debugger does that has read the line of the process at once. */
static int opens_early(void)
{
    sigset_t all, before;
    pthread_t thread;
    int failed;

    MPIR_debug_with_checkpoint = 1;
    MPIR_checkpoint_debug_gate = 1; /* until the library closes it */
    sigfillset(&all);               /* the library stops threads by a signal */
    pthread_sigmask(SIG_SETMASK, &all, &before);
    failed = pthread_create(&thread, NULL, open_gate, NULL);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return failed;
}

static int path(char *file, const char *name)
{
    int rank;

    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    sprintf(file, "%s/%d", name, rank);
    return SCR_Route_file(file, file);
}

int main(int argc, char **argv)
{
    char name[SCR_MAX_FILENAME], file[SCR_MAX_FILENAME];
    int at = atoi(argv[1]), restart = 0, need = 0, end;
    pthread_t thread;
    FILE *f;

    MPI_Init(&argc, &argv);
    if (SCR_Init() != SCR_SUCCESS || pthread_create(&thread, NULL, count, NULL) != 0)
        return EXIT_FAILURE;
    SCR_Have_restart(&restart, name);
    if (restart) {
        SCR_Start_restart(name);
        f = path(file, name) == SCR_SUCCESS ? fopen(file, "r") : NULL;
        SCR_Complete_restart(f != NULL && fscanf(f, "%d", &at_step) == 1);
        if (f != NULL)
            fclose(f);
    }
    if (argc > 2 && strcmp(argv[2], "ask") == 0) {
        printf("process %ld\n", (long)getpid());
        fflush(stdout);
        while (!need) {
            usleep(1000);
            if (SCR_Need_checkpoint(&need) != SCR_SUCCESS)
                return EXIT_FAILURE;
        }
    } else if (argc > 2 && strcmp(argv[2], "early") == 0) {
        if (opens_early() != 0)
            return EXIT_FAILURE;
    } else if (argc > 2) {
        printf("process %ld\n", (long)getpid());
        fflush(stdout);
        while (!go_on)
            usleep(1000);
    }
    while (at_step < at)
        work();
    end = 2 * at_step;
    if (!restart || at_step > 3) {
        sprintf(name, "step%d", at_step);
        SCR_Start_output(name, SCR_FLAG_CHECKPOINT);
        f = path(file, name) == SCR_SUCCESS ? fopen(file, "w") : NULL;
        SCR_Complete_output(f != NULL && fprintf(f, "%d\n", at_step) > 0 && fclose(f) == 0);
    }
    while (at_step < end)
        work();
    printf("result %d\n", at_step);
    SCR_Finalize();
    MPI_Finalize();
    return 0;
}
