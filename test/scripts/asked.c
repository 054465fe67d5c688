/*
 * A program that writes no checkpoint by itself (44-inside.sh): its three functions are called when somebody asks for one.
 *
 *     asked CALLS [hang|fail|inside|last|scr|bcast]   ends when each rank was saved that often; with the variable END
 *                                      when that file exists.  In the first call the
 *                                      function of the last rank fails, or hangs until the file RELEASE
 *                                      exists.  inside, last: until then rank 0, or the last one, is in a collective
 *                                      call that libscr_cr.so does not see, and the others call MPI and not this.
 *                                      scr: it calls SCR in each step, so one rank may wait within SCR for those that a
 *                                      request has stopped in a call of MPI.  Else it calls nothing of SCR.
 *                                      bcast: the others are saved within an MPI_Bcast, which rank 0 calls before it is saved
 *
 * At the end it computes everything again, in one process, and says whether it was right.
 */

#define _XOPEN_SOURCE 700
#define _DEFAULT_SOURCE

#include "counted.h"

#include "scr.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int called, misbehaves;
static char mode;
static pthread_t main_thread;
static volatile int may_send, has_sent, continues;

int opal_crs_self_user_checkpoint(char **restart_cmd);
int opal_crs_self_user_continue(void);
int opal_crs_self_user_restart(void);

static void say(const char *what)
{
    printf("%d %s\n", rank, what);
    fflush(stdout);
}

static const char *saved_file(int of)
{
    static char path[4096];

    snprintf(path, sizeof path, "%s.%d", getenv("RELEASE"), of);
    return path;
}

/* Rank 0 is saved when it has sent, and when the functions of the others have returned: nothing shows the last moment of that. */
static void send_first(void)
{
    int i;

    if (rank > 0) {
        fclose(fopen(saved_file(rank), "w"));
        return;
    }
    for (i = 1; i < size; i++)
        while (access(saved_file(i), F_OK) != 0)
            usleep(1000);
    usleep(500000);
    may_send = 1;
    while (!has_sent)
        usleep(1000);
}

static void broadcast(void)
{
    int value = rank;

    while (rank == 0 && !may_send)
        usleep(1000);
    MPI_Bcast(&value, 1, MPI_INT, 0, MPI_COMM_WORLD);
    has_sent = 1;
    while (!continues)
        usleep(1000);
}

int opal_crs_self_user_checkpoint(char **restart_cmd)
{
    int wrong = mode == 'b' && called == 0 ? 0 : save(), times; /* save calls MPI: the functions care for the steps themselves */

    (void)restart_cmd;
    pthread_mutex_lock(&lock);
    times = ++called;
    pthread_mutex_unlock(&lock);
    if (getenv("SCR_CR_THREAD") != NULL && !pthread_equal(pthread_self(), main_thread))
        say("is not called by the thread of the program");
    if (mode == 'b' && times == 1)
        send_first();
    if (misbehaves && times == 1 && mode == 'f')
        return 7;
    if (misbehaves && times == 1 && mode == 'h')
        while (access(getenv("RELEASE"), F_OK) != 0)
            usleep(1000);
    return wrong;
}

int opal_crs_self_user_continue(void)
{
    continues = 1;
    if (misbehaves && called == 1 && mode == 'h')
        say("continues");
    return mode == 'f' && called == 1 ? 4 : 0; /* after a checkpoint that has failed already */
}

int opal_crs_self_user_restart(void)
{
    int failed = restore();

    if (failed)
        return failed;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    say(now.step > 0 ? "restarts" : "restarts at the beginning");
    return 0;
}

static void wait_inside(int first)
{
    MPI_Comm comm;
    int flag;

    while (rank != first && access(getenv("RELEASE"), F_OK) != 0) {
        MPI_Iprobe(MPI_ANY_SOURCE, 3, MPI_COMM_WORLD, &flag, MPI_STATUS_IGNORE);
        usleep(1000);
    }
    PMPI_Comm_dup(MPI_COMM_WORLD, &comm);
    PMPI_Comm_free(&comm);
}

/* How often all ranks have been saved, if no call is under way between them; with END, whether that
 * file exists, for all ranks. */
static int all_called(void)
{
    const char *end = getenv("END");
    int mine, least;

    pthread_mutex_lock(&lock);
    mine = end == NULL ? called : access(end, F_OK) == 0 ? INT_MAX : 0;
    pthread_mutex_unlock(&lock);
    MPI_Allreduce(&mine, &least, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
    return least;
}

int main(int argc, char **argv)
{
    int calls = atoi(argv[1]), need;
    char before[4096], after[4096];

    mode = argc > 2 ? argv[2][0] : '-';
    main_thread = pthread_self();
    if (getcwd(before, sizeof before) == NULL)
        return EXIT_FAILURE;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (rank == 0)
        fprintf(stderr, "the program has begun\n");
    misbehaves = rank == size - 1 && mode != '-';
    if (mode == 'i' || mode == 'l')
        wait_inside(mode == 'i' ? 0 : size - 1);
    if (mode == 'b')
        broadcast();
    while (all_called() < calls) {
        if (mode == 's')
            SCR_Need_checkpoint(&need);
        if (rank == 0) { /* waits for a message, as programs do */
            int i, one;

            for (i = 1; i < size; i++)
                MPI_Recv(&one, 1, MPI_INT, i, 3, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        } else {
            usleep(500);
            MPI_Send(&rank, 1, MPI_INT, 0, 3, MPI_COMM_WORLD);
        }
        compute_step();
        if (getcwd(after, sizeof after) == NULL || strcmp(before, after) != 0)
            say("works in another directory");
    }
    say(right() ? "ends right" : "ends wrong");
    MPI_Finalize();
    return 0;
}
