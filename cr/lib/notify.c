/*
 * Checkpoints for which the program does not call: when one is due, by scr_checkpoint or by an
 * interval, a thread has the functions called that save the program.
 *
 * On each rank the thread waits for orders.  Those of rank 0 come from itself, those of others
 * from a rank below them, as messages in a binary tree, in the same order on all ranks.  Rank 0
 * orders a checkpoint when one is due, and lets the program make a collective call of
 * the library when it is about to make one.  So no rank is in a call of the program while another
 * is in a checkpoint of the thread, and each waits for ranks that come to the same.
 *
 * The functions run in a thread of their own, so that a limit can be set to the time they take,
 * and with a working directory of its own.  Or the program's thread calls them (SCR_CR_THREAD=0),
 * when all ranks have come to a call of MPI.
 *
 * together.c brings all ranks to a call of MPI; lend.c is for an MPI that allows one thread only.
 */

#define _GNU_SOURCE

#include "thread.h"

#include "debug.h"
#include "scr.h"

#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum order { NOTHING, ATTEND, TURN, LAST };

__thread int goscr_ours __attribute__((tls_model("initial-exec")));

pthread_mutex_t goscr_lock = PTHREAD_MUTEX_INITIALIZER;
pthread_cond_t goscr_changed;
pthread_t goscr_server;
MPI_Comm goscr_orders = MPI_COMM_NULL;
double goscr_limit;
struct goscr_now goscr_now;
const char goscr_asked[] = "a request for a checkpoint";

static const struct goscr_cr_self *functions;
static int in_thread, aborts;

/* ------------------------------------------------------------------------- time */

struct timespec goscr_after(double seconds)
{
    struct timespec t;
    double whole = (double)(long)seconds;

    clock_gettime(CLOCK_MONOTONIC, &t);
    t.tv_sec += (time_t)whole;
    t.tv_nsec += (long)((seconds - whole) * 1e9);
    if (t.tv_nsec >= 1000000000L) {
        t.tv_sec++;
        t.tv_nsec -= 1000000000L;
    }
    return t;
}

/* Waits for a change, under the lock, until a time or for ever.  Returns whether it may continue. */
int goscr_wait_until(const struct timespec *t)
{
    if (t == NULL)
        return pthread_cond_wait(&goscr_changed, &goscr_lock) == 0;
    return pthread_cond_timedwait(&goscr_changed, &goscr_lock, t) == 0;
}

int goscr_is_over(const struct timespec *t)
{
    struct timespec n = goscr_after(0);

    return n.tv_sec > t->tv_sec || (n.tv_sec == t->tv_sec && n.tv_nsec >= t->tv_nsec);
}

static int begin_thread(pthread_t *t, void *(*function)(void *), void *argument)
{
    sigset_t all, before;
    int failed;

    sigfillset(&all); /* the program's signals are for its threads */
    pthread_sigmask(SIG_SETMASK, &all, &before);
    failed = pthread_create(t, NULL, function, argument);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return failed;
}

/* The end of a checkpoint: the program continues. */
static void completed(void)
{
    goscr_snapshot_done();
    goscr_note_inside(0);
    goscr_open_gate();
}

/* --------------------------------------------- the functions, with a limit of time */

struct limited_call {
    int (*checkpoint)(char **command);
    int (*go_on)(void);
    char *command;
    int result, returned, given_up;
};

static void *run(void *argument)
{
    struct limited_call *c = argument;
    int result;

    unshare(CLONE_FS);
    goscr_ours = 1;
    result = c->checkpoint != NULL ? c->checkpoint(&c->command) : c->go_on();
    pthread_mutex_lock(&goscr_lock);
    if (c->checkpoint != NULL && !c->given_up) {
        goscr_close_gate(); /* what the program does from now on is not saved */
        goscr_note_inside(1);
    }
    c->result = result;
    c->returned = 1;
    if (c->given_up) {
        if (c->checkpoint != NULL && functions->go_on != NULL) { /* limited_go_on does not */
            pthread_mutex_unlock(&goscr_lock);
            functions->go_on();
            pthread_mutex_lock(&goscr_lock);
        }
        goscr_now.hanging--;
        free(c);
    }
    pthread_cond_broadcast(&goscr_changed);
    pthread_mutex_unlock(&goscr_lock);
    return NULL;
}

/* The function that saves was given up, so run() calls the one that continues.  Only the server uses this. */
static int continues_late;

/* Calls one of the functions.  Returns its result, or GOSCR_CR_LATE. */
static int call_limited(int (*checkpoint)(char **command), int (*go_on)(void), char **command)
{
    struct limited_call *c = calloc(1, sizeof *c);
    struct timespec end = goscr_after(goscr_limit);
    pthread_t t;
    int result = GOSCR_CR_LATE;

    if (c == NULL)
        return 1;
    c->checkpoint = checkpoint;
    c->go_on = go_on;
    if (begin_thread(&t, run, c) != 0) {
        free(c);
        return 1;
    }
    pthread_detach(t);
    pthread_mutex_lock(&goscr_lock);
    while (!c->returned && goscr_wait_until(goscr_limit > 0 ? &end : NULL))
        continue;
    if (c->returned) {
        result = c->result;
        if (command != NULL)
            *command = c->command;
        free(c);
    } else {
        c->given_up = 1;
        continues_late = continues_late || checkpoint != NULL;
        goscr_now.hanging++;
    }
    pthread_mutex_unlock(&goscr_lock);
    return result;
}

static int limited_checkpoint(char **command)
{
    continues_late = 0;
    return call_limited(functions->checkpoint, NULL, command);
}

static int limited_go_on(void)
{
    int hangs;

    pthread_mutex_lock(&goscr_lock);
    hangs = goscr_now.hanging;
    pthread_mutex_unlock(&goscr_lock);
    /* One after the other: the function that saves may still use what this one would free.  And once only: it may have returned since. */
    return functions->go_on == NULL || hangs || continues_late ? 0 : call_limited(NULL, functions->go_on, NULL);
}

/* --------------------------------------------------- a checkpoint that is ordered */

static int ready(void)
{
    int r = goscr_quiet_ready(functions->checkpoint != NULL);

    pthread_mutex_lock(&goscr_lock);
    if (goscr_now.hanging)
        r = GOSCR_CR_STILL_RUNS;
    else if (goscr_now.finalizing)
        r = GOSCR_CR_ENDS;
    pthread_mutex_unlock(&goscr_lock);
    return r;
}

/* ----------------------------------------------- functions in the program's thread */

static void enters(const char *function)
{
    pthread_mutex_lock(&goscr_lock);
    goscr_now.within = function;
    goscr_now.until = goscr_after(goscr_limit);
    goscr_now.late = 0;
    pthread_mutex_unlock(&goscr_lock);
}

/* Returns whether the function has taken too long. */
static int leaves(void)
{
    int late;

    pthread_mutex_lock(&goscr_lock);
    goscr_now.within = NULL;
    late = goscr_now.late;
    pthread_mutex_unlock(&goscr_lock);
    return late;
}

static int watched_checkpoint(char **command)
{
    int result;

    enters("checkpoint");
    result = functions->checkpoint(command);
    return leaves() ? GOSCR_CR_LATE : result;
}

static int watched_go_on(void)
{
    int result;

    enters("continue");
    result = functions->go_on();
    leaves();
    return result;
}

/*
 * Says once that the program's function takes too long, and takes back all requests for as long as it
 * does: nobody can interrupt it, and the other ranks wait for this one.
 */
static void take_back(const char *function, int first)
{
    static char why[200];
    char since[40] = "";
    time_t began = time(NULL) - (time_t)goscr_limit;
    struct tm parts;

    if (first) {
        if (localtime_r(&began, &parts) != NULL)
            strftime(since, sizeof since, "%H:%M:%S", &parts);
        snprintf(why, sizeof why, "rank %d has been in the program's %s function since %s, longer than SCR_CR_LIMIT_SECONDS", goscr_rank, function, since);
        fprintf(stderr, "SCR: a request for a checkpoint: %s; it runs in the program's thread, and is not interrupted%s\n", why,
                aborts ? ": the job is ended (SCR_CR_LIMIT_ABORT=1)" : "");
    }
    goscr_cr_take_back(why);
    if (first && aborts)
        PMPI_Abort(MPI_COMM_WORLD, 1);
}

void goscr_watch(void)
{
    const char *function = goscr_now.within;
    int first;

    if (function == NULL || goscr_limit <= 0 || !goscr_is_over(&goscr_now.until))
        return;
    first = !goscr_now.late;
    goscr_now.late = 1;
    pthread_mutex_unlock(&goscr_lock);
    take_back(function, first);
    pthread_mutex_lock(&goscr_lock);
}

static char handle[SCR_MAX_FILENAME];

/* In the program's thread, which is where it is to be saved. */

static int rest_before(void)
{
    goscr_close_gate();
    return goscr_quiet(MPI_COMM_WORLD, goscr_asked);
}

static int note_unseen(void) { return goscr_snapshot(goscr_asked, 1); }

static void serve_here(void *failed)
{
    struct goscr_cr_self watched = {watched_checkpoint, NULL, NULL, rest_before, note_unseen, completed};
    int sequence;

    if (functions->go_on != NULL)
        watched.go_on = watched_go_on;
    *(int *)failed = goscr_cr_checkpoint(&watched, ready(), handle, &sequence);
    completed();
}

/* In our thread, when this rank is saved: others may still be, and need what they send received. */
static int rest_after(void)
{
    struct timespec pause = {0, 1000000L};
    MPI_Request all;
    int done = 0;

    goscr_close_gate(); /* also if the function has not returned */
    if (PMPI_Ibarrier(goscr_orders, &all) != MPI_SUCCESS)
        return 1;
    while (!done) {
        goscr_drain(goscr_asked);
        if (PMPI_Test(&all, &done, MPI_STATUS_IGNORE) != MPI_SUCCESS)
            return 1;
        if (!done)
            nanosleep(&pause, NULL);
    }
    return goscr_quiet(MPI_COMM_WORLD, goscr_asked) || goscr_snapshot(goscr_asked, 1);
}

/* Where the functions run in the program's thread: the ranks come together for it, if they have not yet. */
static int checkpoint_in_call(void)
{
    int mine, all = 1, sequence, failed = 1, why = ready();

    if (!goscr_lends) {
        mine = why == GOSCR_CR_READY;
        if (PMPI_Allreduce(&mine, &all, 1, MPI_INT, MPI_MIN, goscr_orders) != MPI_SUCCESS)
            return 1;
        if (!all || !goscr_come_together()) {
            goscr_let_go();
            if (all)
                why = ready() == GOSCR_CR_READY ? GOSCR_CR_NO_CALL : ready();
            return goscr_cr_checkpoint(functions, why, handle, &sequence); /* says why it fails */
        }
    }
    goscr_by_program(serve_here, &failed);
    return failed;
}

static int checkpoint(void)
{
    struct goscr_cr_self limited = {limited_checkpoint, limited_go_on, NULL, NULL, rest_after, completed};
    int sequence;

    goscr_function_calls = 0;
    return in_thread ? goscr_cr_checkpoint(&limited, ready(), handle, &sequence) : checkpoint_in_call();
}

static int is_set(const int *flag)
{
    int set;

    pthread_mutex_lock(&goscr_lock);
    set = *flag;
    pthread_mutex_unlock(&goscr_lock);
    return set;
}

static int has_halted(void) { return is_set(&goscr_now.halted); }
static int is_finalized(void) { return is_set(&goscr_now.finalized); }

/* This thread asks for the server whether there is something to do. */
static __thread int asks __attribute__((tls_model("initial-exec")));

/* Where the server asks, the program is not ended: its other threads may be in calls of MPI. */
static int halts(void)
{
    if (!pthread_equal(pthread_self(), goscr_server) && !asks)
        return 0;
    pthread_mutex_lock(&goscr_lock);
    goscr_now.halted = 1;
    pthread_mutex_unlock(&goscr_lock);
    return 1;
}

/* A question of the library that all ranks ask, and the answer. */
struct question {
    int (*ask)(int *yes);
    int yes, failed;
};

static void ask_now(void *question)
{
    struct question *q = question;

    asks = 1;
    q->failed = q->ask(&q->yes);
    asks = 0;
}

/* Returns 1, 0, or -1 after an error. */
static int answer(int (*ask)(int *yes))
{
    struct question q = {ask, 0, 0};

    goscr_by_mpi_thread(ask_now, &q);
    return q.failed ? -1 : q.yes;
}

static void wait_for_all(void *unused)
{
    (void)unused;
    PMPI_Barrier(goscr_orders);
}

/* Ends the program, wherever its threads are, when all ranks have come to this. */
static int end_program(void)
{
    goscr_by_mpi_thread(wait_for_all, NULL);
    kill(getpid(), SIGTERM);
    return 0;
}

static void end_library(void *unused)
{
    (void)unused;
    goscr_cr_end();
}

/* Does what is to be done.  Returns whether all is as it was: not if the library cannot be called any more. */
static int do_what_is_due(void)
{
    int need = answer(goscr_cr_need), ends;

    if (need < 0)
        return 0;
    if (has_halted())
        return end_program();
    if (need && checkpoint() != 0)
        goscr_cr_declined();
    if (is_finalized()) /* by the program's thread, as all ranks have in the same checkpoint */
        return 0;
    if (has_halted())
        return end_program();
    ends = answer(goscr_cr_exit);
    if (ends < 0)
        return 0;
    if (has_halted())
        return end_program();
    if (!ends)
        return 1;
    goscr_by_mpi_thread(end_library, NULL);
    return end_program();
}

/* Returns whether all is as it was. */
static int attend(void)
{
    int is_same = 1;

    while (goscr_debug_waits) /* the program's thread, for a debugger */
        usleep(GOSCR_TICK_MS * 1000);
    if (!goscr_lends || goscr_come_together())
        is_same = do_what_is_due();
    else
        goscr_refuse();
    if (!in_thread)
        goscr_let_go();
    return is_same;
}

/* ----------------------------------------------------------------------- orders */

/* What rank 0 orders next. */
static enum order own_order(int attends)
{
    static struct timespec next_look;
    struct timespec tick;
    enum order o = NOTHING;

    pthread_mutex_lock(&goscr_lock);
    while (o == NOTHING) {
        /* First, since a program may wait for a turn nearly always. */
        if (attends && !goscr_now.finalizing && goscr_is_over(&next_look)) {
            next_look = goscr_after(GOSCR_TICKS_A_LOOK * GOSCR_TICK_MS / 1000.0);
            pthread_mutex_unlock(&goscr_lock);
            if (goscr_cr_due())
                o = goscr_can_order() ? ATTEND : NOTHING;
            pthread_mutex_lock(&goscr_lock);
        }
        if (o == NOTHING && goscr_now.waiting_threads)
            o = TURN;
        else if (o == NOTHING && goscr_now.may_end)
            o = LAST;
        tick = goscr_after(GOSCR_TICK_MS / 1000.0);
        if (o == NOTHING)
            goscr_wait_until(&tick);
    }
    pthread_mutex_unlock(&goscr_lock);
    return o;
}

/* An order, and its way to this rank or from it. */
struct message {
    int order, code, done;
    MPI_Request request;
};

static void begin_to_receive(void *message)
{
    struct message *m = message;

    m->code = PMPI_Irecv(&m->order, 1, MPI_INT, (goscr_rank - 1) / 2, 0, goscr_orders, &m->request);
}

static void test_message(void *message)
{
    struct message *m = message;

    m->code = PMPI_Test(&m->request, &m->done, MPI_STATUS_IGNORE);
}

static void pass_on(void *message)
{
    const struct message *m = message;
    int child;

    for (child = 2 * goscr_rank + 1; child <= 2 * goscr_rank + 2 && child < goscr_size; child++)
        PMPI_Send(&m->order, 1, MPI_INT, child, 0, goscr_orders);
}

/* The next order from the rank below in the tree. */
static enum order received_order(void)
{
    struct timespec tick;
    struct message m = {LAST, MPI_SUCCESS, 0, MPI_REQUEST_NULL};

    goscr_by_mpi_thread(begin_to_receive, &m);
    while (m.code == MPI_SUCCESS) {
        goscr_by_mpi_thread(test_message, &m);
        if (m.done)
            return (enum order)m.order;
        pthread_mutex_lock(&goscr_lock);
        /* While the program waits, the order is about to come. */
        tick = goscr_after((goscr_now.waiting_threads || goscr_now.may_end ? 0.2 : GOSCR_TICK_MS) / 1000.0);
        pthread_cond_timedwait(&goscr_changed, &goscr_lock, &tick);
        pthread_mutex_unlock(&goscr_lock);
    }
    return LAST;
}

/* Lets a thread of the program make the collective call that it is to make. */
static void give_turn(void)
{
    pthread_mutex_lock(&goscr_lock);
    while (!goscr_now.waiting_threads)
        goscr_wait_until(NULL);
    goscr_now.has_turn = 1;
    pthread_cond_broadcast(&goscr_changed);
    while (goscr_now.has_turn)
        goscr_wait_until(NULL);
    pthread_mutex_unlock(&goscr_lock);
}

static void turn(int begins)
{
    static int taken; /* under the lock */

    if (goscr_ours)
        return;
    pthread_mutex_lock(&goscr_lock);
    if (begins) {
        goscr_now.waiting_threads++;
        pthread_cond_broadcast(&goscr_changed);
        while (!goscr_now.has_turn || taken)
            if (!goscr_stop_in_turn())
                goscr_wait_and_lend();
        goscr_now.waiting_threads--;
        taken = 1;
    } else if (taken) {
        goscr_now.has_turn = taken = 0;
        pthread_cond_broadcast(&goscr_changed);
    }
    pthread_mutex_unlock(&goscr_lock);
}

static void *serve(void *unused)
{
    struct message m = {NOTHING, MPI_SUCCESS, 0, MPI_REQUEST_NULL};
    int failed = unshare(CLONE_FS) != 0, attends = 1;

    (void)unused;
    goscr_ours = 1;
    pthread_mutex_lock(&goscr_lock);
    goscr_now.running = !failed;
    goscr_now.refused = failed;
    pthread_cond_broadcast(&goscr_changed);
    while (!failed && goscr_now.may_begin == 0)
        goscr_wait_until(NULL);
    failed = failed || goscr_now.may_begin < 0;
    pthread_mutex_unlock(&goscr_lock);
    while (!failed && m.order != LAST) {
        m.order = goscr_rank == 0 ? own_order(attends) : received_order();
        goscr_by_mpi_thread(pass_on, &m);
        if (m.order == ATTEND)
            attends = attend();
        else if (m.order == TURN)
            give_turn();
    }
    pthread_mutex_lock(&goscr_lock);
    goscr_now.server_ended = 1;
    pthread_cond_broadcast(&goscr_changed);
    pthread_mutex_unlock(&goscr_lock);
    return NULL;
}

/* ------------------------------------------------------------------- begin and end */

static void warn(const char *why)
{
    if (goscr_rank == 0)
        fprintf(stderr, "SCR: requests for checkpoints are not served, neither of scr_checkpoint nor of an interval: %s\n", why);
}

/* Makes the thread, which waits until it may begin.  Returns whether it can. */
static int make_thread(void)
{
    pthread_condattr_t monotonic;
    int can;

    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&goscr_changed, &monotonic);
    pthread_condattr_destroy(&monotonic);
    goscr_now.running = goscr_now.refused = goscr_now.may_begin = goscr_now.server_ended = 0;
    if (begin_thread(&goscr_server, serve, NULL) != 0)
        return 0;
    pthread_mutex_lock(&goscr_lock);
    while (!goscr_now.running && !goscr_now.refused)
        goscr_wait_until(NULL);
    can = goscr_now.running;
    pthread_mutex_unlock(&goscr_lock);
    if (!can)
        pthread_join(goscr_server, NULL);
    return can;
}

static void let_begin(int all)
{
    pthread_mutex_lock(&goscr_lock);
    goscr_now.may_begin = all ? 1 : -1;
    pthread_cond_broadcast(&goscr_changed);
    pthread_mutex_unlock(&goscr_lock);
    if (!all) {
        pthread_join(goscr_server, NULL);
        goscr_now.running = 0;
    }
}

void goscr_notify_begin(const struct goscr_cr_self *self)
{
    int provided = MPI_THREAD_SINGLE, mine[3], all[3], can, lends;

    if (goscr_now.running)
        return;
    PMPI_Comm_rank(MPI_COMM_WORLD, &goscr_rank);
    PMPI_Comm_size(MPI_COMM_WORLD, &goscr_size);
    functions = self;
    PMPI_Query_thread(&provided);
    mine[0] = provided == MPI_THREAD_MULTIPLE;
    mine[1] = goscr_cr_thread(&in_thread, &goscr_limit, &aborts) == 0;
    mine[2] = mine[1] && in_thread;
    if (PMPI_Allreduce(mine, all, 3, MPI_INT, MPI_MIN, MPI_COMM_WORLD) != MPI_SUCCESS || !all[1])
        return;
    lends = !all[0];
    in_thread = all[2] && !lends;
    if (all[2] && lends && goscr_rank == 0)
        fprintf(stderr, "SCR: MPI allows one thread at a time, so requests for checkpoints are served in the program's calls of MPI, as with "
                        "SCR_CR_THREAD=0; a thread could serve them if the functions were exported or registered before MPI_Init, and MPI gave "
                        "MPI_THREAD_MULTIPLE\n");
    if (PMPI_Comm_dup(MPI_COMM_WORLD, &goscr_orders) != MPI_SUCCESS)
        return;
    can = make_thread();
    PMPI_Allreduce(&can, all, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
    if (all[0] && lends)
        goscr_lends = goscr_locks = 1; /* from the first call of the thread on; MPI may call functions of the program under the lock */
    if (can)
        let_begin(all[0]);
    if (!all[0]) {
        warn("the system does not allow another thread, or none with a working directory of its own (unshare)");
        PMPI_Comm_free(&goscr_orders);
        return;
    }
    if (in_thread)
        goscr_quiet_beside = goscr_orders;
    goscr_notify_polled = in_thread ? GOSCR_BESIDE : GOSCR_IN_CALLS;
    goscr_cr_turns(turn);
    goscr_cr_halts(halts);
}

int goscr_notify_runs(void) { return goscr_now.running; }

void goscr_notify_last(void)
{
    pthread_mutex_lock(&goscr_lock);
    if (goscr_now.running) {
        goscr_now.finalizing = 1;
        pthread_cond_broadcast(&goscr_changed);
    }
    pthread_mutex_unlock(&goscr_lock);
}

void goscr_notify_end(void)
{
    if (!goscr_now.running || pthread_equal(pthread_self(), goscr_server))
        return;
    pthread_mutex_lock(&goscr_lock);
    goscr_now.may_end = 1;
    if (goscr_ours) { /* SCR_HALT_EXIT=1: it does not return to goscr_notify_serve */
        goscr_now.finalized = 1;
        goscr_now.program = AWAY;
        goscr_now.job = NULL; /* neither does it to goscr_do_job */
        goscr_now.doing_job = 0;
    }
    pthread_cond_broadcast(&goscr_changed);
    while (!goscr_now.server_ended)
        goscr_wait_and_lend();
    pthread_mutex_unlock(&goscr_lock);
    pthread_join(goscr_server, NULL);
    goscr_cr_turns(NULL);
    goscr_cr_halts(NULL);
    goscr_now.running = goscr_notify_polled = 0;
    goscr_quiet_beside = MPI_COMM_NULL;
    PMPI_Comm_free(&goscr_orders);
}
