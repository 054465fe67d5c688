/*
 * Takes part in its own checkpoints: 44-inside.sh runs its parts.  It prints each call of a
 * callback, and what the library's calls return.
 *
 *     inside callbacks   a checkpoint, one that a callback of the last rank refuses, a misplaced
 *                        call, an output, a checkpoint that is not completed
 *     inside restart     reads the checkpoint
 */

#include <mpi.h>
#include <scr.h>
#include <scr_cr.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int rank, size;

static const char *event_name(int event)
{
    static const char *const names[] = {"pre/pre", "pre/post", "post/pre", "post/post"};

    return names[event];
}

static const char *state_name(int state)
{
    static const char *const names[] = {"prepare", "continue", "restart", "error"};

    return names[state];
}

static void say(const char *who, const char *what, int value)
{
    printf("%d %s %s %d\n", rank, who, what, value);
    fflush(stdout);
}

/* Two layers; the upper one was registered last, and calls the lower one. */
static SCR_CR_INC_callback_function below_lower[4], below_upper[4];
static int refuses;

static int lower(SCR_CR_INC_callback_event_t event, SCR_CR_INC_callback_state_t state)
{
    char path[SCR_MAX_FILENAME];

    printf("%d lower %s %s\n", rank, event_name(event), state_name(state));
    if (SCR_Route_file("nothing", path) != SCR_SUCCESS)
        say("lower", "cannot call the library", 1);
    if (event == SCR_CR_INC_PRE_CRS_POST_MPI && state == SCR_CR_INC_STATE_PREPARE && refuses && rank == size - 1)
        return 5;
    return below_lower[event](event, state);
}

static int upper(OMPI_CR_INC_callback_event_t event, OMPI_CR_INC_callback_state_t state)
{
    int code, sum = 0, one = 1;

    printf("%d upper %s %s\n", rank, event_name(event), state_name(state));
    if (event == OMPI_CR_INC_PRE_CRS_PRE_MPI || event == OMPI_CR_INC_POST_CRS_POST_MPI) {
        MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
        if (sum != size)
            say("upper", "sum", sum);
    }
    code = below_upper[event](event, state);
    return code;
}

static void register_all(void)
{
    int e;

    for (e = 0; e < 4; e++) {
        if (SCR_CR_INC_register_callback((SCR_CR_INC_callback_event_t)e, lower, &below_lower[e]) != SCR_CR_SUCCESS)
            say("lower", "is not registered", e);
        if (OMPI_CR_INC_register_callback((OMPI_CR_INC_callback_event_t)e, upper, &below_upper[e]) != SCR_CR_SUCCESS)
            say("upper", "is not registered", e);
        if (below_upper[e] != lower)
            say("upper", "does not get the one before it", e);
    }
}

static int write_file(const char *name)
{
    char path[SCR_MAX_FILENAME];
    FILE *f;

    if (SCR_Route_file(name, path) != SCR_SUCCESS || (f = fopen(path, "w")) == NULL)
        return 0;
    fprintf(f, "rank %d\n", rank);
    return fclose(f) == 0;
}

static void callbacks(void)
{
    char name[80];

    sprintf(name, "state.%d", rank);
    register_all();
    say("program", "SCR_Init", SCR_Init());
    say("program", "wrong event", SCR_CR_INC_register_callback((SCR_CR_INC_callback_event_t)3 + 1, upper, NULL) != SCR_CR_SUCCESS);

    say("program", "good", 1);
    say("program", "start", SCR_Start_output("good", SCR_FLAG_CHECKPOINT));
    say("program", "misplaced start", SCR_Start_checkpoint() != SCR_SUCCESS);
    say("program", "misplaced complete", SCR_Complete_checkpoint(1) != SCR_SUCCESS);
    write_file(name);
    say("program", "complete", SCR_Complete_output(1));

    say("program", "refused", 1);
    refuses = 1;
    say("program", "start fails", SCR_Start_output("refused", SCR_FLAG_CHECKPOINT) != SCR_SUCCESS);
    say("program", "which rank it was is said", strstr(SCR_Get_error(), "the INC callback of PRE_CRS_POST_MPI returned 5") != NULL);
    refuses = 0;

    say("program", "invalid", 1);
    say("program", "start", SCR_Start_checkpoint());
    write_file(name);
    say("program", "complete fails", SCR_Complete_checkpoint(rank != 0) != SCR_SUCCESS);

    say("program", "output", 1);
    say("program", "start", SCR_Start_output("output", SCR_FLAG_OUTPUT));
    write_file(name);
    say("program", "complete", SCR_Complete_output(1));

    say("program", "unfinished", 1);
    say("program", "start", SCR_Start_checkpoint());
    say("program", "SCR_Finalize fails", SCR_Finalize() != SCR_SUCCESS);
}

static void restart(void)
{
    char name[SCR_MAX_FILENAME];
    int flag = 0;

    register_all();
    say("program", "SCR_Init", SCR_Init());
    say("program", "have", SCR_Have_restart(&flag, name) == SCR_SUCCESS && flag && strcmp(name, "good") == 0);
    SCR_Start_restart(name);
    say("program", "complete", SCR_Complete_restart(1));
    say("program", "SCR_Finalize", SCR_Finalize());
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (argc == 2 && strcmp(argv[1], "callbacks") == 0)
        callbacks();
    else if (argc == 2 && strcmp(argv[1], "restart") == 0)
        restart();
    else
        return EXIT_FAILURE;
    say("program", "ends", 0);
    MPI_Finalize();
    return 0;
}
