/*
 * Brings the program's threads of all ranks to calls of MPI in which its functions can save it.
 */

#define _GNU_SOURCE

#include "thread.h"

enum {
    LOOK_MS = 5,        /* how often the server looks where the program's thread is */
    LOOKS = 300,        /* how often a thread that was sent on tests what it waits for, before it says that it waits */
    ATTEMPTS = 50       /* to find all ranks without a nonblocking collective operation */
};

volatile int goscr_notify_called, goscr_gate;
int goscr_notify_polled;

/* -------------------------------------------------------------------- the gate */

static volatile int wanted[GOSCR_FOR_JOB + 1];

/* Under the lock of quiet.h. */
static void set_called(void) { goscr_notify_called = goscr_gate || wanted[GOSCR_FOR_STOP] || wanted[GOSCR_FOR_JOB]; }

void goscr_want_program(enum goscr_why why, int yes)
{
    goscr_quiet_lock();
    wanted[why] = yes;
    set_called();
    goscr_quiet_unlock();
}

void goscr_close_gate(void)
{
    goscr_quiet_lock();
    goscr_gate = 1;
    set_called();
    goscr_quiet_unlock();
}

void goscr_open_gate(void)
{
    goscr_quiet_lock();
    goscr_gate = 0;
    set_called();
    goscr_quiet_unlock();
    pthread_mutex_lock(&goscr_lock);
    pthread_cond_broadcast(&goscr_changed);
    pthread_mutex_unlock(&goscr_lock);
}

/* -------------------------------------------------------- one rank comes, and all */

enum { LATE, INSIDE, STOPPED };

/*
 * While ranks come together, this one waits for the others until a time, and then gives up.  Only where the program's thread
 * calls MPI for the server: while it is in a call that is not wrapped, the server cannot even say that it does not come.
 */
static struct timespec patience;
static int gave_up;

/* Waits until the program's thread has come: it is in a collective call, or is stopped in another one and stays there. */
static int come(const struct timespec *end)
{
    struct timespec tick;
    int state;

    pthread_mutex_lock(&goscr_lock);
    if (goscr_now.program == AWAY && !gave_up) {
        goscr_now.program = WANTED;
        pthread_cond_broadcast(&goscr_changed); /* it may wait for its turn */
    }
    goscr_want_program(GOSCR_FOR_STOP, !gave_up);
    while (goscr_now.program == WANTED && !goscr_now.finalizing && !gave_up && (goscr_limit <= 0 || !goscr_is_over(end)) && !goscr_inside) {
        tick = goscr_after(LOOK_MS / 1000.0);
        goscr_wait_until(&tick);
    }
    if (goscr_now.finalizing || (goscr_now.program == WANTED && !goscr_inside))
        state = LATE;
    else /* another thread of the program may be inside */
        state = goscr_now.program == CAME && !goscr_inside ? STOPPED : INSIDE;
    if (gave_up || (goscr_limit > 0 && goscr_is_over(end)))
        state = LATE;
    pthread_mutex_unlock(&goscr_lock);
    return state;
}

static void refuse(const char *why)
{
    if (goscr_rank != 0)
        return;
    goscr_cr_take_back(why);
    goscr_cr_keep(why);
    goscr_cr_declined();
}

void goscr_refuse(void)
{
    refuse("a rank of the program has made no call of MPI in SCR_CR_LIMIT_SECONDS in which its function could run "
           "(MPI allows one thread only)");
}

void goscr_let_go(void)
{
    pthread_mutex_lock(&goscr_lock);
    goscr_want_program(GOSCR_FOR_STOP, 0);
    goscr_now.sent_on = 0;
    goscr_now.program = AWAY;
    pthread_cond_broadcast(&goscr_changed);
    pthread_mutex_unlock(&goscr_lock);
}

/* Sends the program's thread on, if it is stopped: it stops again where goscr_notify_serve says. */
static void send_on(void)
{
    pthread_mutex_lock(&goscr_lock);
    if (goscr_now.program == CAME) {
        goscr_now.program = WANTED;
        goscr_now.sent_on = 1;
        goscr_now.looks = 0;
        pthread_cond_broadcast(&goscr_changed);
    }
    pthread_mutex_unlock(&goscr_lock);
}

static int is_impatient(void) { return goscr_limit > 0 && goscr_is_over(&patience); }

void goscr_lose_patience(void)
{
    if (!is_impatient())
        return;
    if (!gave_up)
        goscr_let_go();
    gave_up = 1;
    patience = goscr_after(GOSCR_TICKS_A_LOOK * GOSCR_TICK_MS / 1000.0);
    goscr_refuse(); /* again, for as long as the others keep this rank waiting */
}

int goscr_can_order(void)
{
    struct timespec end = goscr_after(goscr_limit);
    char why[GOSCR_WHY_SIZE];

    gave_up = 0;
    if (goscr_notify_polled == GOSCR_IN_CALLS && goscr_has_window(why)) { /* ranks in calls for windows would not come */
        refuse(why);
        return 0;
    }
    if (!goscr_lends || come(&end) != LATE)
        return 1;
    goscr_let_go();
    goscr_refuse();
    return 0;
}

/* What ranks tell each other while they come together; the least, and the sum of each. */
struct meeting {
    int state, behind, open, calls;
};

static int sums(const struct meeting *own, struct meeting *all)
{
    int mine[3] = {own->behind, own->open, own->calls}, sum[3] = {0, 0, 0};

    if (goscr_allreduce(&own->state, &all->state, 1, MPI_INT, MPI_MIN, goscr_orders) != MPI_SUCCESS ||
        goscr_allreduce(mine, sum, 3, MPI_INT, MPI_SUM, goscr_orders) != MPI_SUCCESS)
        return 1;
    all->behind = sum[0];
    all->open = sum[1];
    all->calls = sum[2];
    return 0;
}

static void drain(void *unused)
{
    (void)unused;
    goscr_drain(goscr_asked);
}

static void find_open(void *open) { *(int *)open = goscr_has_open(); }

/*
 * Whether no rank has given up while the last sums were on their way, by two votes.  During the first a rank may still
 * give up: then it says no in the second before it lets its program's thread go, which may not call MPI for a long time.
 * A rank that says yes in the second does not give up: all others have voted, or their threads are stopped.
 */
static int are_all_there(void)
{
    struct timespec pause = {0, 1000000L};
    int all = 0, has_voted = gave_up;

    goscr_vote(GOSCR_FIRST_VOTE, has_voted ? GOSCR_LAST_VOTE : GOSCR_FIRST_VOTE, !gave_up);
    while (!goscr_has_ended(GOSCR_FIRST_VOTE, &all)) {
        if (!has_voted && is_impatient()) {
            goscr_vote(GOSCR_LAST_VOTE, GOSCR_LAST_VOTE, 0);
            has_voted = 1;
        }
        if (has_voted)
            goscr_lose_patience();
        nanosleep(&pause, NULL);
    }
    if (!has_voted)
        goscr_vote(GOSCR_LAST_VOTE, GOSCR_LAST_VOTE, all);
    if (!all && !gave_up) {
        gave_up = 1;
        goscr_let_go();
    }
    while (!goscr_has_ended(GOSCR_LAST_VOTE, &all)) {
        if (gave_up)
            goscr_lose_patience();
        nanosleep(&pause, NULL);
    }
    return all;
}

/*
 * A rank that has begun fewer collective operations than another continues until it has begun as many.  The others stay
 * where they are, unless no rank gets any further: one may wait for a message of another, and then all continue by one call.
 */
int goscr_come_together(void)
{
    struct timespec pause = {0, 1000000L * LOOK_MS};
    struct meeting own, all;
    int before = 0, round, stuck;

    patience = goscr_after(goscr_limit);
    gave_up = 0;
    for (round = 0;; round++) {
        own.state = come(&patience);
        goscr_by_mpi_thread(drain, NULL); /* a send that another rank has to complete may wait for this */
        if (goscr_targets(goscr_orders, GOSCR_ALL, &own.behind) != 0)
            own.state = LATE;
        goscr_by_mpi_thread(find_open, &own.open);
        pthread_mutex_lock(&goscr_lock);
        own.calls = (int)(goscr_now.calls_begun & 0xffffff);
        pthread_mutex_unlock(&goscr_lock);
        if (sums(&own, &all) != 0 || all.state == LATE)
            return 0;
        if (all.state == STOPPED && all.behind == 0 && (all.open == 0 || round >= ATTEMPTS))
            return !goscr_lends || are_all_there();
        stuck = round > 0 && all.calls == before;
        before = all.calls;
        if (own.behind || own.open || stuck)
            send_on();
        else
            nanosleep(&pause, NULL);
    }
}

/* --------------------------------------------------- in the program's thread */

/*
 * Whether the program's thread, which has been sent on, stops: in a call that waits when it has tested for some time,
 * else at the next call when this rank is not behind others.
 */
static int stops(int again)
{
    if (again)
        return ++goscr_now.looks > LOOKS;
    return !goscr_is_behind();
}

/* Under the lock. */
static void stop(void)
{
    goscr_now.program = CAME;
    pthread_cond_broadcast(&goscr_changed);
    while (goscr_now.program == CAME)
        if (!goscr_do_job())
            goscr_wait_until(NULL);
}

/* The thread can do nothing else before it has its turn, so it stops even if it has been sent on. */
int goscr_stop_in_turn(void)
{
    if (goscr_now.program != WANTED || (goscr_lends && goscr_inside))
        return 0;
    goscr_now.waiting_threads--; /* SCR_HALT_EXIT=1: it may not return */
    stop();
    goscr_now.waiting_threads++;
    pthread_cond_broadcast(&goscr_changed);
    return 1;
}

void goscr_notify_serve(int again)
{
    if (goscr_ours || goscr_owner == (void *)&goscr_thread) /* MPI has called a function of the program under the lock */
        return;
    pthread_mutex_lock(&goscr_lock);
    while (goscr_gate)
        goscr_wait_until(NULL);
    if (goscr_lends)
        goscr_do_job();
    /* All ranks are about to complete a collective operation that has come to this. */
    if (goscr_now.program == WANTED && !(goscr_lends && goscr_inside)) {
        if (!again)
            goscr_now.calls_begun++;
        if (!goscr_now.sent_on || stops(again))
            stop();
    }
    pthread_mutex_unlock(&goscr_lock);
}
