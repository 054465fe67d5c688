/*
 * A program with three functions, which is saved at an awkward moment: a rank is within a call that sends or
 * receives, or has begun a collective operation that others have not (44-transit.sh).
 *
 *     transit KIND   a checkpoint must be asked for; started again, the program continues from it
 *
 * Rank 1 sends message 0 and message 1 to rank 0, which says whether it has received them in this order, once.
 * Of collective operations all ranks say whether both had the right values.
 */

#define _XOPEN_SOURCE 700
#define _DEFAULT_SOURCE

#include <mpi.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "scr_cr.h"

enum { LARGE = 1 << 20, TAG = 5, AHEAD = 5 };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int rank, next; /* what the rank sends, receives or begins next: this is its state */
static volatile int saved; /* in this run or before */
static int locks, times, wanted = 1; /* how often the program is saved before it continues */
static int data[LARGE];
static const char *kind;
static SCR_CR_INC_callback_function before;

int opal_crs_self_user_checkpoint(char **restart_cmd);
int opal_crs_self_user_continue(void);
int opal_crs_self_user_restart(void);

static int is(const char *what) { return strcmp(kind, what) == 0; }

static void pause_shortly(void) { usleep(1000); }

static void fill(int number)
{
    int i;

    for (i = 0; i < LARGE; i++)
        data[i] = number * 1000 + i;
}

static void expect(int found, int wanted)
{
    if (found == wanted)
        return;
    printf("%d has %d in place of %d\n", rank, found, wanted);
    fflush(stdout);
    MPI_Abort(MPI_COMM_WORLD, 1);
}

/* Whether all of a message is there. */
static void check(int number)
{
    expect(data[0] / 1000, number);
    expect(data[LARGE - 1], number * 1000 + LARGE - 1);
}

static void mark(const char *file)
{
    FILE *f = fopen(file, "w");

    if (f != NULL)
        fclose(f);
}

/* kind inside: the function of rank 1 sends when rank 0 is saved, and waits in MPI_Recv. */
static void send_late(void)
{
    while (access(getenv("MARK"), F_OK) != 0)
        pause_shortly();
    usleep(1000000); /* it has left its function by then, or else this does not show the defect */
    fill(next);
    MPI_Send(data, LARGE, MPI_INT, 0, TAG, MPI_COMM_WORLD);
    next++;
}

int opal_crs_self_user_checkpoint(char **restart_cmd)
{
    FILE *f = fopen("state", "w");
    int wrong;

    (void)restart_cmd;
    if (locks)
        pthread_mutex_lock(&lock);
    if (is("inside") && rank == 1 && next == 0)
        send_late();
    wrong = f == NULL || fprintf(f, "%d\n", next) < 0 || fclose(f) != 0;
    if (is("inside") && rank == 0)
        mark(getenv("MARK"));
    saved = ++times >= wanted;
    return wrong;
}

int opal_crs_self_user_continue(void)
{
    if (locks)
        pthread_mutex_unlock(&lock);
    return 0;
}

int opal_crs_self_user_restart(void)
{
    FILE *f = fopen("state", "r");
    int wrong = f == NULL || fscanf(f, "%d", &next) != 1;

    saved = 1;
    return (f != NULL && fclose(f) != 0) || wrong;
}

/* Sends the first message when the checkpoint begins, as a callback may before MPI is prepared. */
static int prepare(SCR_CR_INC_callback_event_t event, SCR_CR_INC_callback_state_t state)
{
    if (rank == 1 && next == 0 && state == SCR_CR_INC_STATE_PREPARE && (is("recv") || is("irecv") || is("inc"))) {
        fill(next);
        MPI_Send(data, is("inc") ? 1 : LARGE, MPI_INT, 0, TAG, MPI_COMM_WORLD);
        next++;
    }
    return before(event, state);
}

static void enter(void)
{
    if (locks)
        pthread_mutex_lock(&lock);
}

static void leave(void)
{
    if (locks)
        pthread_mutex_unlock(&lock);
}

/* Calls MPI until the program has been saved. */
static void hold(void)
{
    int flag;

    while (!saved) {
        MPI_Iprobe(MPI_ANY_SOURCE, 99, MPI_COMM_WORLD, &flag, MPI_STATUS_IGNORE);
        pause_shortly();
    }
}

/* Calls MPI for some time.  What is late then, would be too late in a checkpoint without it. */
static void be_late(void)
{
    int i, flag;

    for (i = 0; i < 2000; i++) {
        MPI_Iprobe(MPI_ANY_SOURCE, 99, MPI_COMM_WORLD, &flag, MPI_STATUS_IGNORE);
        pause_shortly();
    }
}

/* Calls MPI until the file MARK is there. */
static void wait_for_mark(void)
{
    int flag;

    while (access(getenv("MARK"), F_OK) != 0) {
        MPI_Iprobe(MPI_ANY_SOURCE, 99, MPI_COMM_WORLD, &flag, MPI_STATUS_IGNORE);
        pause_shortly();
    }
}

static void sends(void)
{
    int answer = -1;

    while (next < 2) {
        enter();
        fill(next);
        if (is("ssend"))
            MPI_Ssend(data, LARGE, MPI_INT, 0, TAG, MPI_COMM_WORLD);
        else if (is("sendrecv")) {
            MPI_Sendrecv(data, LARGE, MPI_INT, 0, TAG, &answer, 1, MPI_INT, 0, TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            expect(answer, 70 + next);
        } else
            MPI_Send(data, is("inc") ? 1 : LARGE, MPI_INT, 0, TAG, MPI_COMM_WORLD);
        next++;
        leave();
    }
}

static void receives(void)
{
    MPI_Request r;
    MPI_Datatype type;
    int answer;

    while (next < 2) {
        enter();
        data[0] = -1000;
        if (is("irecv")) { /* of a type that is gone before the message is there */
            MPI_Type_contiguous(LARGE, MPI_INT, &type);
            MPI_Type_commit(&type);
            MPI_Irecv(data, 1, type, MPI_ANY_SOURCE, TAG, MPI_COMM_WORLD, &r);
            MPI_Type_free(&type);
            MPI_Wait(&r, MPI_STATUS_IGNORE);
        } else if (is("sendrecv")) {
            answer = 70 + next;
            MPI_Sendrecv(&answer, 1, MPI_INT, 1, TAG, data, LARGE, MPI_INT, 1, TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        } else
            MPI_Recv(data, LARGE, MPI_INT, 1, TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        if (is("inc"))
            expect(data[0] / 1000, next);
        else
            check(next);
        next++;
        leave();
    }
}

/* Rank 0 sends some messages more than rank 1 receives before they are saved. */
static void run_ahead(void)
{
    int number;

    if (rank == 0)
        while (next <= AHEAD) {
            while (next == AHEAD && !saved)
                pause_shortly();
            enter();
            MPI_Send(&next, 1, MPI_INT, 1, TAG, MPI_COMM_WORLD);
            next++;
            leave();
        }
    else if (rank == 1)
        while (next <= AHEAD) {
            while (!saved)
                pause_shortly();
            enter();
            MPI_Recv(&number, 1, MPI_INT, 0, TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            expect(number, next);
            next++;
            leave();
        }
    else
        while (!saved)
            pause_shortly();
}

/* The root does not wait for the others. */
static void broadcasts(MPI_Comm comm)
{
    int value;

    for (; next < 2; next++) {
        if (rank != 0 && next == 0 && is("apart"))
            wait_for_mark();
        else if (rank != 0 && next == 0 && !saved)
            be_late();
        if (next == 1)
            hold();
        value = rank == 0 ? 50 + next : -1;
        MPI_Bcast(&value, 1, MPI_INT, 0, comm);
        expect(value, 50 + next);
    }
}

/* A communicator that not all ranks are about to make. */
static void makes(void)
{
    MPI_Comm comm;
    int number = 80;

    if (rank != 0 && !saved)
        be_late();
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    hold();
    if (rank == 1)
        MPI_Send(&number, 1, MPI_INT, 0, TAG, comm);
    if (rank == 0) {
        MPI_Recv(&number, 1, MPI_INT, 1, TAG, comm, MPI_STATUS_IGNORE);
        expect(number, 80);
    }
    MPI_Comm_free(&comm);
}

/* Others may put something into a window at any time. */
static void has_window(void)
{
    MPI_Win win;

    MPI_Win_create(data, sizeof data, sizeof *data, MPI_INFO_NULL, MPI_COMM_WORLD, &win);
    if (rank == 0)
        fprintf(stderr, "the program has begun\n"); /* a request before would succeed */
    wait_for_mark();
    MPI_Win_free(&win);
    hold();
}

/* A call whose messages nobody counts. */
static void sends_large(void)
{
#if MPI_VERSION >= 4
    int in = 0, out = 0;

    MPI_Sendrecv_c(&out, 1, MPI_INT, rank, TAG, &in, 1, MPI_INT, rank, TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
#endif
    if (rank == 0)
        fprintf(stderr, "the program has begun\n");
    wait_for_mark();
}

static void point_to_point(void)
{
    int rank_waits = is("recv") || is("irecv") || is("inside");

    if (rank == 2 || is("inc") || (rank == 0) != rank_waits)
        hold();
    if (rank == 1)
        sends();
    else if (rank == 0)
        receives();
}

int main(int argc, char **argv)
{
    int level = -1;

    if (argc < 2)
        return EXIT_FAILURE;
    kind = argv[1];
    if (strcmp(getenv("SCR_CR_THREAD"), "0") != 0 && (is("window") || is("apart")))
        wanted = 2; /* the first time is in vain */
    /* Beside a program that is within a call only the program can say whether it has made it. */
    locks = is("ring") || (strcmp(getenv("SCR_CR_THREAD"), "0") != 0 && (is("send") || is("ssend")));
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Query_thread(&level);
    expect(level, MPI_THREAD_SINGLE); /* although the library needs more */
    SCR_CR_INC_register_callback(SCR_CR_INC_PRE_CRS_PRE_MPI, prepare, &before);
    if (rank == 0 && !is("large") && !is("window"))
        fprintf(stderr, "the program has begun\n");
    if (is("large"))
        sends_large();
    else if (is("window"))
        has_window();
    else if (is("bcast") || is("apart"))
        broadcasts(MPI_COMM_WORLD);
    else if (is("make"))
        makes();
    else if (is("ring"))
        run_ahead();
    else
        point_to_point();
    printf("%d ends right\n", rank);
    fflush(stdout);
    MPI_Finalize();
    return 0;
}
