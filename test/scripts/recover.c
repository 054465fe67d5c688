/*
 * recover - a program that takes its session over to other communicators
 *
 *     recover refuses     to one without a process of the job, with an MPI that does not continue without it
 *     recover takes       to ones with all of them
 *     recover halves      two jobs of one world become one
 *
 * Prints "ok NAME" and "not ok NAME" on rank 0 of the world.  A check succeeds if it does so on all ranks.
 */

#include <mpi.h>
#include <scr.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int rank, ranks; /* in the world */

static void check(const char *name, int yes)
{
    int all;

    if (!yes)
        printf("  rank %d: not so: %s; the last error is: %s\n", rank, name, SCR_Get_error());
    MPI_Allreduce(&yes, &all, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
    if (rank == 0)
        printf("%s %s\n", all ? "ok" : "not ok", name);
    fflush(stdout);
}

/* A file of a checkpoint says which rank of the job has written it. */
static int write_step(int step, int of)
{
    char name[64], path[SCR_MAX_FILENAME];
    FILE *f;
    int ok;

    snprintf(name, sizeof name, "step.%d", step);
    if (SCR_Start_output(name, SCR_FLAG_CHECKPOINT) != SCR_SUCCESS)
        return 0;
    snprintf(name, sizeof name, "step.%d/rank_%d", step, of);
    ok = SCR_Route_file(name, path) == SCR_SUCCESS && (f = fopen(path, "w")) != NULL && fprintf(f, "%d %d\n", step, of) > 0 &&
        fclose(f) == 0;
    return SCR_Complete_output(ok) == SCR_SUCCESS && ok;
}

static int read_step(int step, int of)
{
    char want[64], name[SCR_MAX_FILENAME] = "", path[SCR_MAX_FILENAME];
    int flag = 0, found = -1, who = -1, ok;
    FILE *f;

    snprintf(want, sizeof want, "step.%d", step);
    if (SCR_Have_restart(&flag, name) != SCR_SUCCESS || !flag || strcmp(name, want) != 0 || SCR_Start_restart(NULL) != SCR_SUCCESS) {
        printf("  rank %d: offered is %s\n", rank, flag ? name : "nothing");
        return 0;
    }
    snprintf(name, sizeof name, "step.%d/rank_%d", step, of);
    ok = SCR_Route_file(name, path) == SCR_SUCCESS && (f = fopen(path, "r")) != NULL && fscanf(f, "%d %d", &found, &who) == 2 &&
        fclose(f) == 0 && found == step && who == of;
    return SCR_Complete_restart(ok) == SCR_SUCCESS && ok;
}

static int unfit(int code)
{
    const char *why = SCR_Get_error();

    return code != SCR_SUCCESS && strncmp(why, "SCR_Recover: ", 13) == 0 && strstr(why, "the new communicator lacks ") != NULL &&
        strstr(why, "Open MPI 5") != NULL;
}

/* Run with an MPI that does not continue after processes have died. */
static void refuses(void)
{
    MPI_Comm part;
    int flag;

    check("before SCR_Init it is an error", SCR_Recover(MPI_COMM_WORLD) != SCR_SUCCESS && strstr(SCR_Get_error(), "call SCR_Init first"));
    check("SCR_Init", SCR_Init() == SCR_SUCCESS);
    check("a checkpoint", write_step(1, rank));
    MPI_Comm_split(MPI_COMM_WORLD, rank == ranks - 1, 0, &part);
    check("a communicator without a process is refused, on all ranks", unfit(SCR_Recover(part)));
    /* The others are in MPI. */
    check("... by a rank alone, without the others", rank != 1 || unfit(SCR_Recover(part)));
    check("no communicator is refused", rank != 2 || SCR_Recover(MPI_COMM_NULL) != SCR_SUCCESS);
    check("the session is as it was: the next checkpoint is made", write_step(2, rank));
    check("... and while one is written", SCR_Start_output("step.3", SCR_FLAG_CHECKPOINT) == SCR_SUCCESS);
    check("... it is refused as well", unfit(SCR_Recover(part)));
    check("... and that checkpoint is completed", SCR_Complete_output(1) == SCR_SUCCESS);
    check("... and a question is answered", SCR_Need_checkpoint(&flag) == SCR_SUCCESS);
    MPI_Comm_free(&part);
    check("SCR_Finalize", SCR_Finalize() == SCR_SUCCESS);
}

static void takes(void)
{
    MPI_Comm other;
    int flag, place = ranks - 1 - rank, failed, i;

    check("SCR_Init", SCR_Init() == SCR_SUCCESS);
    check("a checkpoint", write_step(1, rank));
    MPI_Comm_split(MPI_COMM_WORLD, 0, -rank, &other); /* the other way round */
    check("a communicator with all processes", SCR_Recover(other) == SCR_SUCCESS);
    MPI_Comm_free(&other);
    check("... which then may be freed: each rank restarts from the file of its new number", read_step(1, place));
    check("... and the next checkpoint is made", write_step(2, place));

    check("a checkpoint is begun", SCR_Start_output("step.3", SCR_FLAG_CHECKPOINT) == SCR_SUCCESS);
    check("... and given up by a call", SCR_Recover(MPI_COMM_WORLD) == SCR_SUCCESS);
    check("... so it cannot be completed", SCR_Complete_output(1) != SCR_SUCCESS);
    check("... and the one before is offered, to the ranks of now", read_step(2, rank));

    /* Rank 0 recovers, and the others wait for it in a call. */
    failed = rank != 0 && SCR_Need_checkpoint(&flag) != SCR_SUCCESS && strstr(SCR_Get_error(), "the program has called SCR_Recover") != NULL;
    i = SCR_Recover(MPI_COMM_WORLD);
    check("ranks that wait in a call get an error", rank == 0 || failed);
    check("... and recover, too", i == SCR_SUCCESS);
    check("... from the newest checkpoint", read_step(2, rank));
    for (i = 0; i < 20 && SCR_Recover(MPI_COMM_WORLD) == SCR_SUCCESS; i++)
        MPI_Barrier(MPI_COMM_WORLD); /* one that calls again interrupts those that are still in the call before */
    check("it can be done again and again", i == 20);
    check("... and the next checkpoint is made", write_step(3, rank));
    check("SCR_Finalize", SCR_Finalize() == SCR_SUCCESS);
    check("after that it is an error", SCR_Recover(MPI_COMM_WORLD) != SCR_SUCCESS);
    check("SCR_Init again", SCR_Init() == SCR_SUCCESS);
    check("... restarts from the newest", read_step(3, rank));
    check("SCR_Finalize", SCR_Finalize() == SCR_SUCCESS);
}

/* A job of some ranks gets more: the others begin with SCR_Init_comm. */
static void halves(void)
{
    MPI_Comm part;
    int some = rank < ranks / 2, code;

    MPI_Comm_split(MPI_COMM_WORLD, some, rank, &part);
    check("a job of half of the ranks", !some || SCR_Init_comm(part) == SCR_SUCCESS);
    check("... and a checkpoint", !some || write_step(1, rank));
    code = some ? SCR_Recover(MPI_COMM_WORLD) : SCR_Init_comm(MPI_COMM_WORLD);
    check("with more ranks it is an error on all", code != SCR_SUCCESS &&
        strstr(SCR_Get_error(), "the checkpoints are of another number of ranks") != NULL);
    check("... after which the session is over", !some || !write_step(2, rank));
    check("... until it is recovered with as many ranks", !some || SCR_Recover(part) == SCR_SUCCESS);
    check("... and restarts", !some || read_step(1, rank));
    check("SCR_Finalize", !some || SCR_Finalize() == SCR_SUCCESS);
    MPI_Comm_free(&part);
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    if (argc == 2 && strcmp(argv[1], "refuses") == 0)
        refuses();
    else if (argc == 2 && strcmp(argv[1], "takes") == 0)
        takes();
    else if (argc == 2 && strcmp(argv[1], "halves") == 0)
        halves();
    else
        MPI_Abort(MPI_COMM_WORLD, 2);
    if (rank == 0)
        printf("end of %s\n", argv[1]);
    MPI_Finalize();
    return 0;
}
