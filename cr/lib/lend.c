/*
 * MPI may allow one thread only, which is the program's.  Then that thread calls MPI for the server, too: the server
 * gives it jobs, which it does when it calls MPI itself, or waits in a call.  No job waits for other ranks: operations
 * that need them are begun by one, and tested by others, between which the program continues.  Only when the threads
 * of all ranks are stopped there are jobs that wait.
 */

#define _GNU_SOURCE

#include "thread.h"

int goscr_lends;

/* ----------------------------------------------------- jobs for the program's thread */

int goscr_do_job(void)
{
    void (*job)(void *) = goscr_now.job;
    void *argument = goscr_now.argument;
    int ours = goscr_ours;

    if (job == NULL || goscr_now.doing_job)
        return 0;
    goscr_now.doing_job = 1;
    goscr_ours = 1;
    pthread_mutex_unlock(&goscr_lock);
    job(argument);
    pthread_mutex_lock(&goscr_lock);
    goscr_ours = ours;
    goscr_now.doing_job = 0;
    goscr_now.job = NULL;
    goscr_want_program(GOSCR_FOR_JOB, 0);
    pthread_cond_broadcast(&goscr_changed);
    return 1;
}

void goscr_wait_and_lend(void)
{
    if (!goscr_lends || !goscr_do_job())
        goscr_wait_until(NULL);
}

void goscr_by_program(void (*job)(void *), void *argument)
{
    struct timespec tick;
    int ticks = 0;

    pthread_mutex_lock(&goscr_lock);
    goscr_now.argument = argument;
    goscr_now.job = job;
    if (goscr_lends)
        goscr_want_program(GOSCR_FOR_JOB, 1);
    pthread_cond_broadcast(&goscr_changed);
    while (goscr_now.job != NULL) {
        tick = goscr_after(GOSCR_TICK_MS / 1000.0);
        if (!goscr_wait_until(&tick) && ++ticks >= GOSCR_TICKS_A_LOOK) {
            ticks = 0;
            goscr_watch();
        }
    }
    pthread_mutex_unlock(&goscr_lock);
}

void goscr_by_mpi_thread(void (*calls)(void *), void *argument)
{
    if (goscr_lends)
        goscr_by_program(calls, argument);
    else
        calls(argument);
}

/* ----------------------------------------- operations that ranks need each other for */

/* A nonblocking operation, as the program's thread begins and tests it for the server. */
struct operation {
    const void *out;
    void *in;
    int n_out, n_in, peer, tag, code, done;
    MPI_Datatype type;
    MPI_Op op;
    MPI_Comm comm;
    MPI_Request requests[2];
};

static void begin_sum(void *argument)
{
    struct operation *o = argument;

    o->code = PMPI_Iallreduce(o->out, o->in, o->n_out, o->type, o->op, o->comm, &o->requests[0]);
}

static void begin_exchange(void *argument)
{
    struct operation *o = argument;

    o->code = PMPI_Irecv(o->in, o->n_in, o->type, o->peer, o->tag, o->comm, &o->requests[0]);
    if (o->code == MPI_SUCCESS)
        o->code = PMPI_Isend(o->out, o->n_out, o->type, o->peer, o->tag, o->comm, &o->requests[1]);
}

static void test_operation(void *argument)
{
    struct operation *o = argument;
    MPI_Status statuses[2];

    o->code = PMPI_Testall(2, o->requests, &o->done, statuses);
}

/* Begins an operation, and returns when it is complete: a code of MPI. */
static int completed_by_program(void (*begin)(void *), struct operation *o)
{
    struct timespec pause = {0, 1000000L};

    o->requests[0] = o->requests[1] = MPI_REQUEST_NULL;
    for (goscr_by_program(begin, o); o->code == MPI_SUCCESS && !o->done; nanosleep(&pause, NULL)) {
        goscr_by_program(test_operation, o);
        goscr_lose_patience();
    }
    return o->code;
}

static struct operation votes[GOSCR_VOTES];
static int said[GOSCR_VOTES], all_said[GOSCR_VOTES];

static void begin_votes(void *range)
{
    const int *r = range;
    int i;

    for (i = r[0]; i <= r[1]; i++)
        begin_sum(&votes[i]);
}

void goscr_vote(int first, int last, int yes)
{
    int range[2] = {first, last}, i;

    for (i = first; i <= last; i++) {
        struct operation o = {.out = &said[i], .in = &all_said[i], .n_out = 1, .type = MPI_INT, .op = MPI_MIN, .comm = goscr_orders};

        said[i] = yes;
        all_said[i] = 0;
        o.requests[0] = o.requests[1] = MPI_REQUEST_NULL;
        votes[i] = o;
    }
    goscr_by_program(begin_votes, range);
}

int goscr_has_ended(int vote, int *all)
{
    struct operation *o = &votes[vote];

    if (o->code == MPI_SUCCESS)
        goscr_by_program(test_operation, o);
    *all = o->code == MPI_SUCCESS && o->done && all_said[vote];
    return o->code != MPI_SUCCESS || o->done;
}

/* Whether MPI is not for this thread. */
static int borrows(void) { return goscr_lends && pthread_equal(pthread_self(), goscr_server); }

int goscr_allreduce(const void *own, void *all, int n, MPI_Datatype type, MPI_Op op, MPI_Comm comm)
{
    struct operation o = {.out = own, .in = all, .n_out = n, .type = type, .op = op, .comm = comm};

    return borrows() ? completed_by_program(begin_sum, &o) : PMPI_Allreduce(own, all, n, type, op, comm);
}

int goscr_exchange(const void *out, int n_out, void *in, int n_in, MPI_Datatype type, int peer, int tag, MPI_Comm comm)
{
    struct operation o = {.out = out, .in = in, .n_out = n_out, .n_in = n_in, .type = type, .peer = peer, .tag = tag, .comm = comm};

    if (borrows())
        return completed_by_program(begin_exchange, &o);
    return PMPI_Sendrecv(out, n_out, type, peer, tag, in, n_in, type, peer, tag, comm, MPI_STATUS_IGNORE);
}
