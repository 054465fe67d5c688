/*
 * panics - a program that makes every call, and continues after errors
 *
 * It restarts from the last checkpoint, if there is one, and writes two.  Each rank prints
 *
 *     rank R: CALL is the first that fails, and N more
 *     rank R: CALL is no error after that          (never)
 *     rank R: no call fails
 *
 * With the argument "leave" a rank finalizes MPI when its first call has failed. With "recover" all ranks
 * call SCR_Recover then, restart, and write the checkpoints 3 and 4; each prints "rank R: has recovered".
 */

#include <mpi.h>
#include <scr.h>
#include <stdio.h>
#include <string.h>

static int rank, more;
static const char *first;

static int check(const char *call, int code)
{
    if (code != SCR_SUCCESS && first == NULL)
        first = call;
    else if (code != SCR_SUCCESS)
        more++;
    else if (first != NULL)
        printf("rank %d: %s is no error after that\n", rank, call);
    return code == SCR_SUCCESS;
}

static int over; /* leave after the first error */

#define CALL(call, args) (over && first != NULL ? 0 : check(#call, call args))

static void restart(void)
{
    char name[SCR_MAX_FILENAME], file[2 * SCR_MAX_FILENAME], path[SCR_MAX_FILENAME];
    int flag = 0, ok;
    FILE *f;

    CALL(SCR_Have_restart, (&flag, name));
    if (!flag && first == NULL)
        return;
    CALL(SCR_Start_restart, (name));
    snprintf(file, sizeof file, "%s/rank_%d", first == NULL ? name : "none", rank);
    ok = CALL(SCR_Route_file, (file, path)) && (f = fopen(path, "r")) != NULL && fclose(f) == 0;
    CALL(SCR_Complete_restart, (ok || first != NULL));
}

static void checkpoint(int step)
{
    char name[100], file[200], path[SCR_MAX_FILENAME] = "";
    int flag;
    FILE *f;

    snprintf(name, sizeof name, "step.%d", step);
    snprintf(file, sizeof file, "%s/rank_%d", name, rank);
    CALL(SCR_Need_checkpoint, (&flag));
    CALL(SCR_Start_output, (name, SCR_FLAG_CHECKPOINT));
    if (CALL(SCR_Route_file, (file, path)) && (f = fopen(path, "w")) != NULL) {
        fprintf(f, "%s", file);
        fclose(f);
    }
    CALL(SCR_Complete_output, (1));
}

int main(int argc, char **argv)
{
    int flag, ranks, sum, one = 1;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    over = argc > 1 && strcmp(argv[1], "leave") == 0;
    CALL(SCR_Init, ());
    restart();
    checkpoint(1);
    checkpoint(2);
    CALL(SCR_Should_exit, (&flag));
    if (argc > 1 && strcmp(argv[1], "recover") == 0 && first != NULL) {
        first = NULL;
        CALL(SCR_Recover, (MPI_COMM_WORLD));
        restart();
        checkpoint(3);
        checkpoint(4);
        if (first == NULL)
            printf("rank %d: has recovered\n", rank);
    }
    CALL(SCR_Finalize, ());
    if (first != NULL)
        printf("rank %d: %s is the first that fails, and %d more\n", rank, first, more);
    else
        printf("rank %d: no call fails\n", rank);
    if (!over) { /* the program's own communicators work */
        MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
        printf("%s", sum == ranks ? "" : "a reduction is wrong\n");
    }
    MPI_Finalize();
    printf("rank %d: end\n", rank);
    return 0;
}
