/*
 * A program that asks scr_run to move its ranks, and calls nothing else of SCR (93-moves.sh).  It
 * computes, and checks at the end what a job would have computed that nothing has happened to.
 *
 *     moves off         the ranks of the last rank's node go off that node
 *     moves all NAME    all ranks go to that node
 *     moves host NAME   the last rank goes to that node
 *     moves near RANK   the last rank goes to the node of that rank
 *     moves neighbour   each rank goes to the node of the rank two further on
 *     moves mixed       one rank names a node, and another is to go off its own, which is an error
 */

#define _XOPEN_SOURCE 700
#define _DEFAULT_SOURCE

#include "counted.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "scr_cr.h"

enum { ASKS = 40, MORE = 40 };

static int restarted;

int opal_crs_self_user_checkpoint(char **restart_cmd);
int opal_crs_self_user_restart(void);

int opal_crs_self_user_checkpoint(char **restart_cmd)
{
    (void)restart_cmd;
    return save();
}

int opal_crs_self_user_restart(void)
{
    restarted = restore() == 0;
    if (!restarted) /* it would begin again, ask again, and wait for ever */
        MPI_Abort(MPI_COMM_WORLD, 5);
    return 0;
}

/* Returns whether the call has failed. */
static int off_node(MPI_Comm comm)
{
    MPI_Info info;
    int failed;

    MPI_Info_create(&info);
    MPI_Info_set(info, "CR_OFF_NODE", "true");
    failed = OMPI_CR_Migrate(comm, NULL, -1, info);
    MPI_Info_free(&info);
    return failed;
}

static void ask(char **argv)
{
    char name[256] = "", last[256] = "", *how = argv[1];
    MPI_Comm comm = MPI_COMM_WORLD;
    int is_last = rank == size - 1, failed = 0;

    gethostname(name, sizeof name - 1);
    memcpy(last, name, sizeof last);
    MPI_Bcast(last, sizeof last, MPI_CHAR, size - 1, MPI_COMM_WORLD);
    if (strcmp(how, "off") == 0) {
        MPI_Comm_split(MPI_COMM_WORLD, strcmp(name, last) == 0, rank, &comm);
        if (strcmp(name, last) == 0)
            failed = off_node(comm);
        MPI_Comm_free(&comm);
    } else if (strcmp(how, "all") == 0)
        failed = OMPI_CR_Migrate(comm, argv[2], -1, MPI_INFO_NULL);
    else if (strcmp(how, "host") == 0) /* the others stay */
        failed = OMPI_CR_Migrate(comm, is_last ? argv[2] : NULL, -1, MPI_INFO_NULL);
    else if (strcmp(how, "near") == 0) {
        if (is_last)
            failed = OMPI_CR_Migrate(MPI_COMM_SELF, NULL, atoi(argv[2]), MPI_INFO_NULL);
    } else if (strcmp(how, "neighbour") == 0)
        failed = OMPI_CR_Migrate(comm, NULL, (rank + 2) % size, MPI_INFO_NULL);
    else /* mixed */
        failed = !(is_last ? off_node(comm) : OMPI_CR_Migrate(comm, NULL, 0, MPI_INFO_NULL));
    if (failed)
        MPI_Abort(MPI_COMM_WORLD, 3);
}

int main(int argc, char **argv)
{
    uint64_t end = 0;
    char name[256] = "";

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (restarted)
        end = now.step + MORE;
    while (end == 0 || now.step < end) {
        if (!restarted && now.step == ASKS) {
            ask(argv);
            if (strcmp(argv[1], "mixed") == 0)
                end = now.step + MORE;
        }
        compute_step();
        usleep(10000); /* as a program computes, until it is ended */
    }
    gethostname(name, sizeof name - 1);
    printf("rank %d ends %s on %s\n", rank, right() ? "right" : "wrong", name);
    fflush(stdout);
    MPI_Finalize();
    return 0;
}
