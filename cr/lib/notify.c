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
 */

#define _GNU_SOURCE

#include "notify.h"

#include "debug.h"
#include "quiet.h"
#include "scr.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

enum {
    TICK_MS = 50,   /* how often the thread looks for orders */
    TICKS_A_LOOK = 2, /* ... and rank 0 for requests */
    LOOK_MS = 5,      /* how often it looks where the program's thread is */
    LOOKS = 300,      /* how often a thread that was sent on tests what it waits for, before it says that it waits */
    ATTEMPTS = 50     /* to find all ranks without a nonblocking collective operation */
};

enum order { NOTHING, ATTEND, TURN, LAST };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed;
static pthread_t thread;
__thread int goscr_ours __attribute__((tls_model("initial-exec")));

/* Under the lock. */
static struct {
    int runs;    /* the thread */
    int refused; /* ... by the system */
    int go;      /* whether it may begin: 1, or -1 if other ranks have none */
    int waiting; /* threads of the program that wait for a turn */
    int turn;    /* one of them may call; then it has it */
    int last;    /* the program is in MPI_Finalize */
    int end;     /* ... and has called the library for the last time */
    int finalized; /* ... in a checkpoint in which it serves: it does not return from it */
    int halted;  /* the job has ended in a call that it has not made itself: SCR_HALT_EXIT=1 */
    int hangs;   /* functions that have not returned in time, and run */
    const char *within;    /* the function that the program's thread is in */
    struct timespec until; /* ... and how long it may be */
    int late;              /* it has been longer */
    enum { AWAY, WANTED, CAME, SERVES, SERVED, GIVEN_UP } program; /* the thread of the program */
    int goes;      /* it has been sent on, to come again */
    int waits;     /* ... and how often it has looked since, in calls that wait */
    unsigned calls; /* how many calls it has begun while it was wanted */
} now;

static const struct goscr_cr_self *functions;
static int rank, size, in_thread, aborts;
static double limit; /* seconds; 0: none */
static MPI_Comm orders = MPI_COMM_NULL;

volatile int goscr_notify_called, goscr_gate;
int goscr_notify_polled;
static volatile int wanted; /* the program's thread */

/* ------------------------------------------------------------------------- time */

static struct timespec after(double seconds)
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
static int wait_until(const struct timespec *t)
{
    if (t == NULL)
        return pthread_cond_wait(&changed, &lock) == 0;
    return pthread_cond_timedwait(&changed, &lock, t) == 0;
}

static int is_over(const struct timespec *t)
{
    struct timespec n = after(0);

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

/* -------------------------------------------------------------------- the gate */

static const char asked[] = "a request for a checkpoint";

static void close_gate(void)
{
    goscr_quiet_lock();
    goscr_gate = goscr_notify_called = 1;
    goscr_quiet_unlock();
}

static void open_gate(void)
{
    goscr_quiet_lock();
    goscr_gate = 0;
    goscr_notify_called = wanted;
    goscr_quiet_unlock();
    pthread_mutex_lock(&lock);
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&lock);
}

static void want(int yes)
{
    goscr_quiet_lock();
    wanted = yes;
    goscr_notify_called = yes || goscr_gate;
    goscr_quiet_unlock();
}

/* The end of a checkpoint: the program continues. */
static void completed(void)
{
    goscr_snapshot_done();
    open_gate();
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
    pthread_mutex_lock(&lock);
    if (c->checkpoint != NULL && !c->given_up)
        close_gate(); /* what the program does from now on is not saved */
    c->result = result;
    c->returned = 1;
    if (c->given_up) {
        now.hangs--;
        free(c);
    }
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&lock);
    return NULL;
}

/* Calls one of the functions.  Returns its result, or GOSCR_CR_LATE. */
static int call_limited(int (*checkpoint)(char **command), int (*go_on)(void), char **command)
{
    struct limited_call *c = calloc(1, sizeof *c);
    struct timespec end = after(limit);
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
    pthread_mutex_lock(&lock);
    while (!c->returned && wait_until(limit > 0 ? &end : NULL))
        continue;
    if (c->returned) {
        result = c->result;
        if (command != NULL)
            *command = c->command;
        free(c);
    } else {
        c->given_up = 1;
        now.hangs++;
    }
    pthread_mutex_unlock(&lock);
    return result;
}

static int limited_checkpoint(char **command) { return call_limited(functions->checkpoint, NULL, command); }

static int limited_go_on(void)
{
    int hangs;

    pthread_mutex_lock(&lock);
    hangs = now.hangs;
    pthread_mutex_unlock(&lock);
    /* One after the other: the function that saves may still use what this one would free. */
    return functions->go_on == NULL || hangs ? 0 : call_limited(NULL, functions->go_on, NULL);
}

/* --------------------------------------------------- a checkpoint that is ordered */

static int ready(void)
{
    int r = goscr_quiet_ready(functions->checkpoint != NULL);

    pthread_mutex_lock(&lock);
    if (now.hangs)
        r = GOSCR_CR_STILL_RUNS;
    else if (now.last)
        r = GOSCR_CR_ENDS;
    pthread_mutex_unlock(&lock);
    return r;
}

enum { LATE, INSIDE, STOPPED };

/* Waits until the program's thread has come: it is in a collective call, or is stopped in another one and stays there. */
static int come(const struct timespec *end)
{
    struct timespec tick;
    int state;

    pthread_mutex_lock(&lock);
    if (now.program == AWAY)
        now.program = WANTED;
    want(1);
    while (now.program == WANTED && !now.last && (limit <= 0 || !is_over(end)) && !goscr_inside) {
        tick = after(LOOK_MS / 1000.0);
        wait_until(&tick);
    }
    if (now.last || (now.program == WANTED && !goscr_inside))
        state = LATE;
    else /* another thread of the program may be inside */
        state = now.program == CAME && !goscr_inside ? STOPPED : INSIDE;
    if (limit > 0 && is_over(end))
        state = LATE;
    pthread_mutex_unlock(&lock);
    return state;
}

/* Sends the program's thread on, if it is stopped: it stops again where goscr_notify_serve says. */
static void send_on(void)
{
    pthread_mutex_lock(&lock);
    if (now.program == CAME) {
        now.program = WANTED;
        now.goes = 1;
        now.waits = 0;
        pthread_cond_broadcast(&changed);
    }
    pthread_mutex_unlock(&lock);
}

/* What ranks tell each other while they come together; the least, and the sum of each. */
struct meeting {
    int state, behind, open, calls;
};

static int sums(const struct meeting *own, struct meeting *all)
{
    int mine[3] = {own->behind, own->open, own->calls}, sum[3] = {0, 0, 0};

    if (PMPI_Allreduce(&own->state, &all->state, 1, MPI_INT, MPI_MIN, orders) != MPI_SUCCESS ||
        PMPI_Allreduce(mine, sum, 3, MPI_INT, MPI_SUM, orders) != MPI_SUCCESS)
        return 1;
    all->behind = sum[0];
    all->open = sum[1];
    all->calls = sum[2];
    return 0;
}

/*
 * Brings the threads of the program to a point at which all ranks have begun the same collective operations and
 * completed them.  A rank that has begun fewer than another continues until it has not; the others stay where they are, unless
 * that does not help: it may wait for a message of theirs, and they continue by one call.  Returns whether all are there.
 */
static int come_together(int attempts_for_open)
{
    struct timespec end = after(limit), pause = {0, 1000000L * LOOK_MS};
    struct meeting own, all;
    int before = 0, round, stuck;

    for (round = 0;; round++) {
        own.state = come(&end);
        goscr_drain(asked); /* a send that another rank has to complete may wait for this */
        if (goscr_targets(orders, 1, &own.behind) != 0)
            own.state = LATE;
        own.open = goscr_has_open();
        pthread_mutex_lock(&lock);
        own.calls = (int)(now.calls & 0xffffff);
        pthread_mutex_unlock(&lock);
        if (sums(&own, &all) != 0 || all.state == LATE)
            return 0;
        if (all.state == STOPPED && all.behind == 0 && (all.open == 0 || round >= attempts_for_open))
            return 1;
        stuck = round > 0 && all.calls == before;
        before = all.calls;
        if (own.behind || own.open || stuck)
            send_on();
        else
            nanosleep(&pause, NULL);
    }
}

/* ------------------------------- functions in the program's thread, and how long they take */

static void enters(const char *function)
{
    pthread_mutex_lock(&lock);
    now.within = function;
    now.until = after(limit);
    now.late = 0;
    pthread_mutex_unlock(&lock);
}

/* Returns whether the function has taken too long. */
static int leaves(void)
{
    int late;

    pthread_mutex_lock(&lock);
    now.within = NULL;
    late = now.late;
    pthread_mutex_unlock(&lock);
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
    time_t began = time(NULL) - (time_t)limit;
    struct tm parts;

    if (first) {
        if (localtime_r(&began, &parts) != NULL)
            strftime(since, sizeof since, "%H:%M:%S", &parts);
        snprintf(why, sizeof why, "rank %d has been in the program's %s function since %s, longer than SCR_CR_LIMIT_SECONDS", rank, function, since);
        fprintf(stderr, "SCR: a request for a checkpoint: %s; it runs in the program's thread, and is not interrupted%s\n", why,
                aborts ? ": the job is ended (SCR_CR_LIMIT_ABORT=1)" : "");
    }
    goscr_cr_take_back(why);
    if (first && aborts)
        PMPI_Abort(MPI_COMM_WORLD, 1);
}

/* Lets the program's thread serve, or continue without. */
static void let_go(int serves)
{
    struct timespec tick;
    const char *function;
    int first, ticks = 0;

    pthread_mutex_lock(&lock);
    want(0);
    now.goes = 0;
    if (now.program == CAME) {
        now.program = serves ? SERVES : GIVEN_UP;
        pthread_cond_broadcast(&changed);
    } else
        now.program = AWAY;
    while (now.program == SERVES || now.program == GIVEN_UP) {
        tick = after(TICK_MS / 1000.0);
        wait_until(&tick);
        function = now.within;
        if (function == NULL || limit <= 0 || !is_over(&now.until) || ++ticks < TICKS_A_LOOK)
            continue;
        ticks = 0;
        first = !now.late;
        now.late = 1;
        pthread_mutex_unlock(&lock);
        take_back(function, first);
        pthread_mutex_lock(&lock);
    }
    pthread_mutex_unlock(&lock);
}

static char handle[SCR_MAX_FILENAME];
static int served; /* what the program's thread has got */

/* In the program's thread, which is where it is to be saved. */

static int rest_before(void)
{
    close_gate();
    return goscr_quiet(MPI_COMM_WORLD, asked);
}

static int note_unseen(void) { return goscr_snapshot(asked, 1); }

static int serve_here(void)
{
    struct goscr_cr_self watched = {watched_checkpoint, NULL, NULL, rest_before, note_unseen, completed};
    int sequence, failed;

    if (functions->go_on != NULL)
        watched.go_on = watched_go_on;
    goscr_ours = 1;
    failed = goscr_cr_checkpoint(&watched, ready(), handle, &sequence);
    completed();
    goscr_ours = 0;
    return failed;
}

/*
 * Whether the program's thread, which has been sent on, stops: in a call that waits when it has tested for some time,
 * else at the next call when this rank is not behind others.
 */
static int stops(int again)
{
    if (again)
        return ++now.waits > LOOKS;
    return !goscr_is_behind();
}

/* Under the lock. */
static void stop(void)
{
    int failed;

    now.program = CAME;
    pthread_cond_broadcast(&changed);
    while (now.program == CAME)
        wait_until(NULL);
    if (now.program == WANTED)
        return; /* it is sent on */
    if (now.program == SERVES) {
        pthread_mutex_unlock(&lock);
        failed = serve_here();
        pthread_mutex_lock(&lock);
        served = failed;
    }
    now.program = AWAY;
    pthread_cond_broadcast(&changed);
}

void goscr_notify_serve(int again)
{
    if (goscr_ours || goscr_owner == (void *)&goscr_thread) /* MPI has called a function of the program under the lock */
        return;
    pthread_mutex_lock(&lock);
    while (goscr_gate)
        wait_until(NULL);
    if (now.program == WANTED) {
        if (!again)
            now.calls++;
        if (!now.goes || stops(again))
            stop();
    }
    pthread_mutex_unlock(&lock);
}

/* In our thread, when this rank is saved: others may still be, and need what they send received. */
static int rest_after(void)
{
    struct timespec pause = {0, 1000000L};
    MPI_Request all;
    int done = 0;

    close_gate(); /* also if the function has not returned */
    if (PMPI_Ibarrier(orders, &all) != MPI_SUCCESS)
        return 1;
    while (!done) {
        goscr_drain(asked);
        if (PMPI_Test(&all, &done, MPI_STATUS_IGNORE) != MPI_SUCCESS)
            return 1;
        if (!done)
            nanosleep(&pause, NULL);
    }
    return goscr_quiet(MPI_COMM_WORLD, asked) || goscr_snapshot(asked, 1);
}

static int checkpoint(void)
{
    struct goscr_cr_self limited = {limited_checkpoint, limited_go_on, NULL, NULL, rest_after, completed};
    int sequence, together = 0, mine, all, why = ready();

    goscr_function_calls = 0;
    if (in_thread)
        return goscr_cr_checkpoint(&limited, why, handle, &sequence);
    mine = why == GOSCR_CR_READY;
    if (PMPI_Allreduce(&mine, &all, 1, MPI_INT, MPI_MIN, orders) == MPI_SUCCESS && all)
        together = come_together(ATTEMPTS);
    served = 1;
    let_go(together);
    if (together)
        return served;
    if (all)
        why = ready() == GOSCR_CR_READY ? GOSCR_CR_NO_CALL : ready();
    return goscr_cr_checkpoint(functions, why, handle, &sequence); /* says why it fails */
}

static int is_set(const int *flag)
{
    int set;

    pthread_mutex_lock(&lock);
    set = *flag;
    pthread_mutex_unlock(&lock);
    return set;
}

static int has_halted(void) { return is_set(&now.halted); }
static int is_finalized(void) { return is_set(&now.finalized); }

/* In our thread the program is not ended: others are in calls of MPI. */
static int halts(void)
{
    if (!pthread_equal(pthread_self(), thread))
        return 0;
    pthread_mutex_lock(&lock);
    now.halted = 1;
    pthread_mutex_unlock(&lock);
    return 1;
}

/* Ends the program, wherever its threads are, when all ranks have come to this. */
static int end_program(void)
{
    PMPI_Barrier(orders);
    kill(getpid(), SIGTERM);
    return 0;
}

/* Returns whether all is as it was: not if the library cannot be called any more. */
static int attend(void)
{
    int need = 0, ends = 0;

    while (goscr_debug_waits) /* the program's thread, for a debugger */
        usleep(TICK_MS * 1000);
    if (goscr_cr_need(&need) != 0)
        return 0;
    if (has_halted())
        return end_program();
    if (need && checkpoint() != 0)
        goscr_cr_declined();
    if (is_finalized()) /* by the program's thread, as all ranks have in the same checkpoint */
        return 0;
    if (has_halted())
        return end_program();
    if (goscr_cr_exit(&ends) != 0)
        return 0;
    if (has_halted())
        return end_program();
    if (!ends)
        return 1;
    goscr_cr_end();
    return end_program();
}

/* ----------------------------------------------------------------------- orders */

/* What rank 0 orders next. */
static enum order own_order(int attends)
{
    struct timespec tick;
    enum order o = NOTHING;
    int ticks = 0;

    pthread_mutex_lock(&lock);
    while (o == NOTHING) {
        if (now.waiting)
            o = TURN;
        else if (now.end)
            o = LAST;
        else if (attends && !now.last && ++ticks >= TICKS_A_LOOK) {
            ticks = 0;
            pthread_mutex_unlock(&lock);
            if (goscr_cr_due())
                o = ATTEND;
            pthread_mutex_lock(&lock);
        }
        tick = after(TICK_MS / 1000.0);
        if (o == NOTHING && !now.waiting && !now.end)
            wait_until(&tick);
    }
    pthread_mutex_unlock(&lock);
    return o;
}

/* The next order from the rank below in the tree. */
static enum order received_order(void)
{
    struct timespec tick;
    MPI_Request request;
    int o = LAST, done = 0;

    if (PMPI_Irecv(&o, 1, MPI_INT, (rank - 1) / 2, 0, orders, &request) != MPI_SUCCESS)
        return LAST;
    for (;;) {
        if (PMPI_Test(&request, &done, MPI_STATUS_IGNORE) != MPI_SUCCESS)
            return LAST;
        if (done)
            return (enum order)o;
        pthread_mutex_lock(&lock);
        /* While the program waits, the order is about to come. */
        tick = after((now.waiting || now.end ? 0.2 : TICK_MS) / 1000.0);
        pthread_cond_timedwait(&changed, &lock, &tick);
        pthread_mutex_unlock(&lock);
    }
}

/* Lets a thread of the program make the collective call that it is to make. */
static void give_turn(void)
{
    pthread_mutex_lock(&lock);
    while (!now.waiting)
        wait_until(NULL);
    now.turn = 1;
    pthread_cond_broadcast(&changed);
    while (now.turn)
        wait_until(NULL);
    pthread_mutex_unlock(&lock);
}

static void turn(int begins)
{
    static int taken; /* under the lock */

    if (goscr_ours)
        return;
    pthread_mutex_lock(&lock);
    if (begins) {
        now.waiting++;
        pthread_cond_broadcast(&changed);
        while (!now.turn || taken)
            wait_until(NULL);
        now.waiting--;
        taken = 1;
    } else if (taken) {
        now.turn = taken = 0;
        pthread_cond_broadcast(&changed);
    }
    pthread_mutex_unlock(&lock);
}

static void *serve(void *unused)
{
    int failed = unshare(CLONE_FS) != 0, attends = 1, o = NOTHING, child;

    (void)unused;
    goscr_ours = 1;
    pthread_mutex_lock(&lock);
    now.runs = !failed;
    now.refused = failed;
    pthread_cond_broadcast(&changed);
    while (!failed && now.go == 0)
        wait_until(NULL);
    failed = failed || now.go < 0;
    pthread_mutex_unlock(&lock);
    while (!failed && o != LAST) {
        o = rank == 0 ? own_order(attends) : received_order();
        for (child = 2 * rank + 1; child <= 2 * rank + 2 && child < size; child++)
            PMPI_Send(&o, 1, MPI_INT, child, 0, orders);
        if (o == ATTEND)
            attends = attend();
        else if (o == TURN)
            give_turn();
    }
    return NULL;
}

/* ------------------------------------------------------------------- begin and end */

static void warn(const char *why)
{
    if (rank == 0)
        fprintf(stderr, "SCR: requests for checkpoints are not served, neither of scr_checkpoint nor of an interval: %s\n", why);
}

/* Makes the thread, which waits until it may begin.  Returns whether it can. */
static int make_thread(void)
{
    pthread_condattr_t monotonic;
    int can;

    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&changed, &monotonic);
    pthread_condattr_destroy(&monotonic);
    now.runs = now.refused = now.go = 0;
    if (begin_thread(&thread, serve, NULL) != 0)
        return 0;
    pthread_mutex_lock(&lock);
    while (!now.runs && !now.refused)
        wait_until(NULL);
    can = now.runs;
    pthread_mutex_unlock(&lock);
    if (!can)
        pthread_join(thread, NULL);
    return can;
}

static void let_begin(int all)
{
    pthread_mutex_lock(&lock);
    now.go = all ? 1 : -1;
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&lock);
    if (!all) {
        pthread_join(thread, NULL);
        now.runs = 0;
    }
}

void goscr_notify_begin(const struct goscr_cr_self *self)
{
    int provided = MPI_THREAD_SINGLE, mine[3], all[3], can;

    if (now.runs)
        return;
    PMPI_Comm_rank(MPI_COMM_WORLD, &rank);
    PMPI_Comm_size(MPI_COMM_WORLD, &size);
    functions = self;
    PMPI_Query_thread(&provided);
    mine[0] = provided == MPI_THREAD_MULTIPLE;
    mine[1] = goscr_cr_thread(&in_thread, &limit, &aborts) == 0;
    mine[2] = mine[1] && in_thread;
    if (PMPI_Allreduce(mine, all, 3, MPI_INT, MPI_MIN, MPI_COMM_WORLD) != MPI_SUCCESS || !all[1])
        return;
    in_thread = all[2];
    if (!all[0]) {
        warn("MPI does not allow several threads (MPI_THREAD_MULTIPLE); have the functions exported or registered before MPI_Init, which "
             "asks for it then");
        return;
    }
    if (PMPI_Comm_dup(MPI_COMM_WORLD, &orders) != MPI_SUCCESS)
        return;
    can = make_thread();
    PMPI_Allreduce(&can, all, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
    if (can)
        let_begin(all[0]);
    if (!all[0]) {
        warn("the system does not allow another thread, or none with a working directory of its own (unshare)");
        PMPI_Comm_free(&orders);
        return;
    }
    if (in_thread)
        goscr_quiet_beside = orders;
    goscr_notify_polled = in_thread ? GOSCR_BESIDE : GOSCR_IN_CALLS;
    goscr_cr_turns(turn);
    goscr_cr_halts(halts);
}

int goscr_notify_runs(void) { return now.runs; }

void goscr_notify_last(void)
{
    pthread_mutex_lock(&lock);
    if (now.runs) {
        now.last = 1;
        pthread_cond_broadcast(&changed);
    }
    pthread_mutex_unlock(&lock);
}

void goscr_notify_end(void)
{
    if (!now.runs || pthread_equal(pthread_self(), thread))
        return;
    pthread_mutex_lock(&lock);
    now.end = 1;
    if (goscr_ours) { /* SCR_HALT_EXIT=1: it does not return to goscr_notify_serve */
        now.finalized = 1;
        now.program = AWAY;
    }
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&lock);
    pthread_join(thread, NULL);
    goscr_cr_turns(NULL);
    goscr_cr_halts(NULL);
    now.runs = goscr_notify_polled = 0;
    goscr_quiet_beside = MPI_COMM_NULL;
    PMPI_Comm_free(&orders);
}
