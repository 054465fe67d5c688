/*
 * A program with variables, by VELOC's C interface: two names with versions of their own, "field" in each step and "rare" in each
 * third. What it has is a function of the step, so that every restart can be checked.
 *
 *   variables CONFIG STEPS [die RANK STEP]
 *
 * prints "start FIELD RARE" with the versions from which it starts (-1: none), "step N" for each step, and "end"; or, with die, kills
 * a rank after a step.  "WRONG ..." is a wrong value.
 */

#include <mpi.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "veloc.h"

enum { LENGTH = 40000 };

static int rank, failed;

static void check(int right, const char *what)
{
    if (!right) {
        printf("WRONG %s on rank %d\n", what, rank);
        fflush(stdout);
        failed = 1;
    }
}

static double value(int step, size_t i) { return step * 1e6 + rank * 1e3 + (double)(i % 977); }

static void fill(double *field, size_t n, int step)
{
    for (size_t i = 0; i < n; i++)
        field[i] = value(step, i);
}

static int is_of(const double *field, size_t n, int step)
{
    for (size_t i = 0; i < n; i++)
        if (field[i] != value(step, i))
            return 0;
    return 1;
}

int main(int argc, char **argv)
{
    static double field[LENGTH], rare[LENGTH / 4];
    double *grows;
    int step = 0, rare_step = 0, steps, ids[] = {0}, least = 0, all;
    size_t n;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (argc < 3 || VELOC_Init(MPI_COMM_WORLD, argv[1]) != VELOC_SUCCESS) {
        if (rank == 0)
            printf("no init\n");
        MPI_Finalize();
        return 1;
    }
    steps = atoi(argv[2]);
    check(VELOC_Mem_protect(0, &step, 1, sizeof step) == VELOC_SUCCESS, "protect");
    check(VELOC_Mem_protect(1, field, LENGTH - (size_t)rank, sizeof *field) == VELOC_SUCCESS, "protect");
    check(VELOC_Region_protect(0, &rare_step, 1, sizeof step, "rare") == VELOC_SUCCESS, "protect");
    check(VELOC_Region_protect(7, rare, LENGTH / 4, sizeof *rare, "rare") == VELOC_SUCCESS, "protect");

    int found = VELOC_Restart_test("field", 0), found_rare = VELOC_Restart_test("rare", 0);
    if (rank == 0) {
        printf("start %d %d\n", found, found_rare);
        fflush(stdout);
    }
    if (found >= 0) {
        /* First only one variable, and the size of the other. */
        check(VELOC_Restart_begin("field", found) == VELOC_SUCCESS, "restart_begin");
        check(VELOC_Recover_selective(VELOC_RECOVER_SOME, ids, 1) == VELOC_SUCCESS, "selective");
        check(step == found, "step");
        check(VELOC_Recover_size(1) == (int)((LENGTH - (size_t)rank) * sizeof *field), "size");
        check(VELOC_Recover_size(5) == VELOC_FAILURE, "size of what is not there");
        check(VELOC_Restart_end(1) == VELOC_SUCCESS, "restart_end");
        check(VELOC_Restart("field", found) == VELOC_SUCCESS, "restart");
        check(is_of(field, LENGTH - (size_t)rank, found), "field");
        /* It is a version that is not there. */
        check(VELOC_Restart("field", found + 1) == VELOC_FAILURE, "restart from nothing");
        check(is_of(field, LENGTH - (size_t)rank, found), "field after a failure");
        /* Memory that is too small on one rank: no rank reads. */
        fill(field, LENGTH, 0);
        if (rank == 1)
            VELOC_Mem_protect(1, field, 1, sizeof *field);
        check(VELOC_Restart("field", found) == VELOC_FAILURE, "restart into too little memory");
        check(is_of(field, LENGTH, 0), "field was changed though a rank could not restart");
        VELOC_Mem_protect(1, field, LENGTH - (size_t)rank, sizeof *field);
        check(VELOC_Restart("field", found) == VELOC_SUCCESS, "restart after the correction");
        check(is_of(field, LENGTH - (size_t)rank, found), "field after the correction");
    } else
        step = 0;
    if (found_rare >= 0) {
        check(VELOC_Restart("rare", found_rare) == VELOC_SUCCESS, "restart of the rare");
        check(rare_step == found_rare && is_of(rare, LENGTH / 4, found_rare), "rare");
    }
    while (step < steps) {
        step++;
        fill(field, LENGTH, step);
        check(VELOC_Checkpoint_wait() == VELOC_SUCCESS, "wait");
        check(VELOC_Checkpoint("field", step) == VELOC_SUCCESS, "checkpoint");
        if (step % 3 == 0) {
            rare_step = step;
            fill(rare, LENGTH / 4, step);
            check(VELOC_Checkpoint_begin("rare", step) == VELOC_SUCCESS, "begin");
            check(VELOC_Checkpoint_mem() == VELOC_SUCCESS, "mem");
            check(VELOC_Checkpoint_begin("rare", step) == VELOC_FAILURE, "begin in a checkpoint");
            check(VELOC_Checkpoint_end(1) == VELOC_SUCCESS, "end");
        }
        if (rank == 0) {
            printf("step %d\n", step);
            fflush(stdout);
        }
        MPI_Barrier(MPI_COMM_WORLD);
        if (argc > 5 && strcmp(argv[3], "die") == 0 && rank == atoi(argv[4]) && step == atoi(argv[5]))
            kill(getpid(), SIGKILL);
    }
    /* Variables that grow: a new address for an id. */
    for (n = 1000; n <= 4000; n *= 4) {
        grows = malloc(n * sizeof *grows);
        fill(grows, n, (int)n);
        check(VELOC_Region_protect(3, grows, n, sizeof *grows, "grows") == VELOC_SUCCESS, "protect again");
        check(VELOC_Checkpoint("grows", (int)n) == VELOC_SUCCESS, "checkpoint of what grows");
        fill(grows, n, 0);
        check(VELOC_Restart("grows", (int)n) == VELOC_SUCCESS && is_of(grows, n, (int)n), "restart in the run");
        check(VELOC_Region_unprotect(3, "grows") == VELOC_SUCCESS, "unprotect");
        free(grows);
    }
    check(VELOC_Checkpoint_wait() == VELOC_SUCCESS && VELOC_Checkpoint_finished() == 1, "finished");
    check(VELOC_Cleanup("grows") == VELOC_SUCCESS, "cleanup");
    check(VELOC_Checkpoint("no/name", 1) == VELOC_FAILURE, "a wrong name");
    check(VELOC_Finalize(1) == VELOC_SUCCESS, "finalize");
    check(VELOC_Checkpoint("field", 1) == VELOC_FAILURE, "a call after the end");
    least = failed;
    MPI_Allreduce(&least, &all, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
    if (rank == 0)
        printf("end %d %s\n", step, all ? "with errors" : "right");
    MPI_Finalize();
    return all;
}
