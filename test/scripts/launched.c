/*
 * launched.c - a program that is started in the wrong way, or in an unusual one, and calls SCR_Init
 *
 *   launched early      without MPI_Init; with a session of MPI where it has these
 *   launched            after MPI_Init
 *   launched comm       after MPI_Init, SCR_Init_comm with MPI_COMM_SELF
 *   launched spawns     rank 0 starts one more process, which calls SCR_Init
 *
 * The exit status is 0 if SCR_Init succeeds, else 3, once the file "seen" is there.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include <mpi.h>
#include "scr.h"

/* A launcher ends all processes when the first of them has failed, and what it has not passed on is lost: all wait until the script has
 * seen their lines, and makes the file "seen". */
static void wait_until_seen(void)
{
    const struct timespec pause = {0, 10000000};
    int i;

    fflush(stdout);
    for (i = 0; i < 6000 && access("seen", F_OK) != 0; i++)
        nanosleep(&pause, NULL);
}

static int begins(int rc)
{
    if (rc != SCR_SUCCESS) {
        printf("refused: %s\n", SCR_Get_error());
        wait_until_seen();
        return 3;
    }
    printf("begun\n");
    return SCR_Finalize() == SCR_SUCCESS ? 0 : 4;
}

static int early(void)
{
    int status;
#if MPI_VERSION >= 4
    MPI_Session session;

    if (MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_RETURN, &session) != MPI_SUCCESS)
        return 5;
    status = begins(SCR_Init());
    MPI_Session_finalize(&session);
#else
    status = begins(SCR_Init());
#endif
    return status;
}

int main(int argc, char **argv)
{
    const char *how = argc > 1 ? argv[1] : "";
    int rank, status = 0, one = 1;
    char me[] = "child", *arguments[] = {me, NULL};
    MPI_Comm other;

    if (strcmp(how, "early") == 0)
        return early();
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_get_parent(&other);
    if (strcmp(how, "spawns") == 0) {
        MPI_Comm_spawn(argv[0], arguments, 1, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &other, MPI_ERRCODES_IGNORE);
        MPI_Bcast(&status, 1, MPI_INT, 0, other);
    } else {
        status = begins(strcmp(how, "comm") == 0 ? SCR_Init_comm(MPI_COMM_SELF) : SCR_Init());
        if (strcmp(how, me) == 0)
            MPI_Bcast(&status, one, MPI_INT, MPI_ROOT, other);
    }
    fflush(stdout);
    MPI_Finalize();
    return status;
}
