/*
 * log - a program that has children, and one in which all ranks make a mistake
 *
 *     log children    With a log in a database: goscr does not affect the program's
 *                     children, its signals, and its calls of system and wait.
 *     log misroute    Every rank writes a file outside the prefix directory, in each of
 *                     three outputs.
 *
 * Prints "ok NAME" or "not ok NAME" on rank 0, and "end" at the end.
 */

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <mpi.h>
#include <scr.h>

static int rank;
static volatile sig_atomic_t ended;

static void on_child(int signal)
{
    (void)signal;
    ended++;
}

static void check(const char *name, int ok)
{
    int all = 0;

    MPI_Allreduce(&ok, &all, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
    if (rank == 0)
        printf("%s %s\n", all ? "ok" : "not ok", name);
}

static int checkpoint(const char *dir)
{
    char name[256], path[SCR_MAX_FILENAME];
    FILE *f;
    int ok;

    snprintf(name, sizeof name, "%s/rank_%d", dir, rank);
    if (SCR_Start_output(NULL, SCR_FLAG_CHECKPOINT) != SCR_SUCCESS)
        return 0;
    ok = SCR_Route_file(name, path) == SCR_SUCCESS && (f = fopen(path, "w")) != NULL && fputs(name, f) >= 0 && fclose(f) == 0;
    return SCR_Complete_output(ok) == SCR_SUCCESS;
}

static void children(void)
{
    struct sigaction action;
    int status = 0, before;
    pid_t mine;

    memset(&action, 0, sizeof action);
    action.sa_handler = on_child;
    action.sa_flags = SA_RESTART;
    sigaction(SIGCHLD, &action, NULL);
    check("SCR_Init", SCR_Init() == SCR_SUCCESS);
    check("the program has no child that it has not made", waitpid(-1, NULL, WNOHANG) == -1 && errno == ECHILD);
    before = ended;
    check("a checkpoint", checkpoint("a"));
    mine = fork();
    if (mine == 0)
        _exit(7);
    check("a child of its own is waited for", wait(&status) == mine && WIFEXITED(status) && WEXITSTATUS(status) == 7);
    check("... with one signal", ended == before + 1);
    check("system", system("exit 3") == 3 << 8);
    check("another checkpoint", checkpoint("b"));
    before = ended;
    check("SCR_Finalize", SCR_Finalize() == SCR_SUCCESS);
    check("no signal of a child that is not the program's", ended == before);
    check("no child is left", wait(NULL) == -1 && errno == ECHILD);
}

static void misroute(void)
{
    int i, failed = 0;

    check("SCR_Init", SCR_Init() == SCR_SUCCESS);
    for (i = 0; i < 3; i++)
        failed += !checkpoint("/elsewhere");
    check("all outputs have failed", failed == 3);
    check("SCR_Finalize", SCR_Finalize() == SCR_SUCCESS);
}

int main(int argc, char **argv)
{
    setvbuf(stdout, NULL, _IOLBF, 0);
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (argc == 2 && strcmp(argv[1], "children") == 0)
        children();
    else if (argc == 2 && strcmp(argv[1], "misroute") == 0)
        misroute();
    if (rank == 0)
        puts("end");
    MPI_Finalize();
    return 0;
}
