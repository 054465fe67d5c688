//go:build mpi

/*
 * Calls the functions of the program that take part in its checkpoints.  Which one is next, Go
 * knows (package inside); they run here, on the thread that has called, between two calls of
 * Go: none of Go's frames, handlers and locks is there meanwhile, and they may call the library.
 */

#include <stdint.h>
#include <stdio.h>

#include "_cgo_export.h"
#include "call.h"
#include "inside.h"
#include "scr.h"

/* As long as no callback was registered, SCR_Start_output and the like do not ask. */
static volatile int registered;

int goscr_cr_register(int event, goscr_cr_function function, goscr_cr_function *previous)
{
    uintptr_t before = 0;
    int failed = goscr_enter(GOSCR_BRIEF);

    if (failed)
        return goscr_refuse("SCR_CR_INC_register_callback", failed);
    failed = go_inc_register(event, (uintptr_t)function, &before);
    goscr_leave();
    if (failed)
        return failed;
    registered = 1;
    *previous = (goscr_cr_function)before;
    return 0;
}

/* The second event before a checkpoint: SCR_CR_INC_PRE_CRS_POST_MPI. */
enum { PRE_CRS_POST_MPI = 1 };

/* Calls `between`, unless it is NULL, once: after the callbacks of the first event of a state.  `*failed` gets its result. */
static int notify(int state, int (*between)(void), int *failed)
{
    int event = -1, result = 0, begun = 0;
    uintptr_t function;

    while (registered && goscr_enter(GOSCR_LONG) == 0) {
        function = go_inc_next(state, &event, result, &begun);
        goscr_leave();
        if (function == 0)
            break;
        if (event >= PRE_CRS_POST_MPI && between != NULL) {
            *failed = between();
            between = NULL;
        }
        result = ((goscr_cr_function)function)(event, state);
    }
    if (between != NULL)
        *failed = between();
    return begun;
}

int goscr_cr_notify(int state) { return notify(state, NULL, NULL); }

int goscr_cr_prefix(char prefix[GOSCR_CR_PREFIX_SIZE]) { OF(GOSCR_BRIEF, "SCR_CR_SELF_PREFIX", go_self_prefix(prefix)); }
int goscr_cr_begin(void) { CALL("SCR_Init", go_self_begin()); }
int goscr_cr_end(void) { CALL("SCR_Finalize", go_self_end()); }

int goscr_cr_thread(int *thread, double *limit, int *aborts) { OF(GOSCR_BRIEF, "SCR_CR_THREAD", go_self_thread(thread, limit, aborts)); }
int goscr_cr_need(int *need) { CALL("a request for a checkpoint", go_self_need(need)); }
int goscr_cr_exit(int *yes) { CALL("a request for a checkpoint", go_should_exit(yes)); }
int goscr_cr_declined(void) { OF(GOSCR_BRIEF, "a request for a checkpoint", go_self_declined()); }
int goscr_cr_take_back(const char *why) { OF(GOSCR_BRIEF, "a request for a checkpoint", go_self_take_back((char *)why)); }

int goscr_cr_due(void)
{
    int due;

    if (goscr_enter(GOSCR_BRIEF) != 0)
        return 0;
    due = go_self_due();
    goscr_leave();
    return due;
}

int goscr_cr_restart_from(const char *handle, int seq) { OF(GOSCR_BRIEF, "SCR_CR_Restart", go_self_restart_from(handle, seq)); }

int goscr_cr_migrate(const int *ranks, const char **hosts, const int *near, int n)
{
    OF(GOSCR_BRIEF, "SCR_CR_Migrate", go_self_migrate((void *)ranks, hosts, (void *)near, n));
}

int goscr_cr_store(int64_t space, int source, int tag, const void *data, int64_t n)
{
    OF(GOSCR_BRIEF, "a message", go_quiet_store(space, source, tag, (void *)data, n));
}

int goscr_cr_stored(int64_t space, int *source, int *tag, int take, void **data, int64_t *n)
{
    int found;

    if (goscr_enter(GOSCR_BRIEF) != 0)
        return 0;
    found = go_quiet_stored(space, source, tag, take, data, n);
    goscr_leave();
    return found;
}

int goscr_cr_copy(int64_t space, int source, int tag, const void *data, int64_t n)
{
    OF(GOSCR_BRIEF, "a message", go_quiet_copy(space, source, tag, (void *)data, n));
}

int goscr_cr_begun(int kind, int64_t space, int to, int tag, int64_t n) { OF(GOSCR_BRIEF, "a message", go_quiet_begun(kind, space, to, tag, n)); }
int goscr_cr_forget(int sends) { OF(GOSCR_BRIEF, "a message", go_quiet_forget(sends)); }

int goscr_cr_repeated(int kind, int64_t space, int to, int tag, int64_t n)
{
    int yes;

    if (goscr_enter(GOSCR_BRIEF) != 0)
        return 0;
    yes = go_quiet_repeated(kind, space, to, tag, n);
    goscr_leave();
    return yes;
}

int goscr_cr_sends(void)
{
    int n;

    if (goscr_enter(GOSCR_BRIEF) != 0)
        return 0;
    n = go_quiet_sends();
    goscr_leave();
    return n;
}

int goscr_cr_held(void)
{
    int n;

    if (goscr_enter(GOSCR_BRIEF) != 0)
        return 0;
    n = go_quiet_held();
    goscr_leave();
    return n;
}

int goscr_cr_bookmarks(const char *call, void *comm, const int *world, int n, const uint64_t *sent, const uint64_t *received,
                       uint64_t *promised, int size, const char *unknown)
{
    /* One over all ranks is in order with the other calls. */
    if (world == NULL)
        CALL(call, go_quiet_bookmarks(call, comm, NULL, n, (void *)sent, (void *)received, promised, size, (char *)unknown));
    OF(GOSCR_BRIEF, call, go_quiet_bookmarks(call, comm, (void *)world, n, (void *)sent, (void *)received, promised, size, (char *)unknown));
}

int goscr_cr_in_flight(const char *call) { OF(GOSCR_BRIEF, call, go_quiet_in_flight(call)); }

int goscr_cr_checks(void)
{
    int yes;

    if (goscr_enter(GOSCR_BRIEF) != 0)
        return 0;
    yes = go_quiet_checks();
    goscr_leave();
    return yes;
}

static void (*volatile around)(int state, const char *call);

void goscr_cr_around(void (*function)(int state, const char *call)) { around = function; }

void goscr_around(int state, const char *call)
{
    void (*function)(int state, const char *call) = around;

    if (function != NULL)
        function(state, call);
    else if (state == GOSCR_CR_RESTART && goscr_enter(GOSCR_BRIEF) == 0) {
        go_debug_absent();
        goscr_leave();
    }
}

int goscr_cr_reference(char *prefix, int *debug) { OF(GOSCR_BRIEF, "SCR_CR_DEBUG", go_self_reference(prefix, debug)); }

int goscr_has_gate(void) { return around != NULL; }

int goscr_cr_waits(char *record)
{
    int waits;

    if (goscr_enter(GOSCR_BRIEF) != 0)
        return 0;
    waits = go_gate_waits(record);
    goscr_leave();
    return waits;
}

int goscr_cr_left(void) { OF(GOSCR_BRIEF, "scr_checkpoint --attach", go_gate_left()); }

static void (*volatile turn_of)(int begins);

void goscr_cr_turns(void (*turn)(int begins)) { turn_of = turn; }

void goscr_turn(int begins)
{
    void (*turn)(int begins) = turn_of;

    if (turn != NULL)
        turn(begins);
}

static int start(int ready) { CALL("SCR_CR_Checkpoint", go_self_start(ready)); }
static int complete(int result, char *command, char *handle, int *seq)
{
    CALL("SCR_CR_Checkpoint", go_self_complete(result, command, handle, seq));
}

static int went_on(int result) { OF(GOSCR_BRIEF, "SCR_CR_Checkpoint", go_self_went_on(result)); }

static void reason_of(char why[GOSCR_REASON_SIZE]) { snprintf(why, GOSCR_REASON_SIZE, "%s", SCR_Get_error()); }

int goscr_cr_checkpoint(const struct goscr_cr_self *self, int ready, char *handle, int *seq)
{
    int prepared, failed = 0, result;
    char *command = NULL, why[GOSCR_REASON_SIZE];

    goscr_around(GOSCR_CR_PREPARE, NULL);
    prepared = notify(GOSCR_CR_PREPARE, self->before, &failed);
    failed = failed || start(ready);
    if (failed) {
        reason_of(why);
        if (self->complete != NULL)
            self->complete();
        if (prepared)
            goscr_cr_notify(GOSCR_CR_ERROR);
        goscr_around(GOSCR_CR_ERROR, NULL);
        goscr_cr_keep(why);
        return failed;
    }
    result = self->checkpoint(&command);
    if (self->after != NULL && self->after() != 0 && result == 0)
        result = GOSCR_CR_RESTLESS;
    failed = complete(result, command, handle, seq);
    if (goscr_halted)
        return failed; /* there is no session any more */
    reason_of(why);
    if (self->complete != NULL)
        self->complete();
    if (self->go_on != NULL)
        went_on(self->go_on());
    goscr_cr_notify(failed ? GOSCR_CR_ERROR : GOSCR_CR_CONTINUE);
    goscr_around(failed ? GOSCR_CR_ERROR : GOSCR_CR_CONTINUE, NULL);
    if (failed)
        goscr_cr_keep(why); /* what failed after it is not the reason */
    return failed;
}

static int start_restart(int has, int *found) { CALL("restart", go_self_start_restart(has, found)); }
static int complete_restart(int result) { CALL("restart", go_self_complete_restart(result)); }

int goscr_cr_restart(const struct goscr_cr_self *self)
{
    int found = 0, failed;

    do { /* until it can use one: the next that is offered is older */
        failed = start_restart(self->restart != NULL, &found);
        if (failed || !found)
            return failed;
    } while (complete_restart(self->restart()) != 0);
    goscr_cr_notify(GOSCR_CR_RESTART);
    goscr_around(GOSCR_CR_RESTART, NULL);
    return 0;
}
