/*
 * The calls of MPI by which messages are sent and received, under their own names: each counts
 * them (quiet.h), and looks into the store of received messages before MPI.  While that is
 * empty, and no request is to be served, a call costs little more than MPI's own.
 *
 * With SCR_CR_THREAD=0 calls that wait begin the operation, and test it and whether the program
 * has to save itself in turn.
 */

#define _GNU_SOURCE

#include "wrap.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum {
    SPINS = 64, /* tests of an operation at which a call waits for nothing between them */
    AT_ONCE = 16 /* tests of a receive that is not entered in the table before: under the lock, so they are few */
};

void goscr_pause_after(int tests)
{
    struct timespec t = {0, 100000};

    if (__builtin_expect(goscr_notify_called, 0))
        goscr_notify_serve(1);
    /* Most messages are there within microseconds, in which a system call would take longer than a test. */
    if (tests < SPINS)
        return;
    /* A rest after a long wait only: it must not be a part of the wait that is noticed. */
    if (tests < (goscr_notify_polled == GOSCR_BESIDE ? 20000 : 1000))
        sched_yield();
    else
        nanosleep(&t, NULL);
}

/* Whether a wait for these requests needs more than MPI's. */
static int plain(void) { return goscr_entries == 0 && !goscr_notify_polled; }

static int test(MPI_Request *r, int *flag, MPI_Status *status);
static int complete(MPI_Request *r, MPI_Status *status);
static int complete_in_turn(MPI_Request *r, MPI_Status *status);

/* ------------------------------------------------------------------------ sends */

typedef int (*begins)(const void *buf, int count, MPI_Datatype type, int dest, int tag, MPI_Comm comm, MPI_Request *r);

/*
 * Begins to send for a call that waits then, unless it repeats one whose message was sent before a restart.  A small
 * message mostly leaves at once: with `done` the call is not entered then, and *done is not 0.
 */
static int set_out(struct under_way *u, begins f, const void *buf, MPI_Request *r, int *done)
{
    int code = MPI_SUCCESS;

    *r = MPI_REQUEST_NULL;
    if (goscr_ours)
        goscr_function_calls = 1;
    lock_open(); /* the message and the note of it are in the same snapshot */
    if (!goscr_repeats(u)) {
        goscr_sent(u->comm, u->to);
        code = f(buf, u->count, u->type, u->to, u->tag, u->comm, r);
        if (code != MPI_SUCCESS)
            goscr_not_sent(u->comm, u->to);
        else if (done != NULL)
            code = PMPI_Test(r, done, MPI_STATUS_IGNORE);
    } else if (done != NULL)
        *done = 1;
    if (done == NULL || (!*done && code == MPI_SUCCESS))
        goscr_sets_out(u);
    goscr_quiet_unlock();
    return code;
}

static int send_in_turn(int kind, begins f, const void *buf, int count, MPI_Datatype type, int dest, int tag, MPI_Comm comm)
{
    struct under_way u = {kind, count, dest, tag, type, comm, NULL};
    MPI_Request r;
    int done = 0, code = set_out(&u, f, buf, &r, &done);

    if (done || code != MPI_SUCCESS)
        return code;
    code = complete_in_turn(&r, MPI_STATUS_IGNORE);
    goscr_arrives(&u);
    return code;
}

#define SEND(name, iname, kind)                                                                                                  \
    int MPI_##name(const void *buf, int count, MPI_Datatype type, int dest, int tag, MPI_Comm comm)                            \
    {                                                                                                                            \
        int code;                                                                                                                \
                                                                                                                                 \
        look();                                                                                                                  \
        REFUSE(comm, "MPI_" #name);                                                                                              \
        if (goscr_notify_polled || goscr_to_repeat)                                                                              \
            return send_in_turn(kind, PMPI_##iname, buf, count, type, dest, tag, comm);                                          \
        goscr_sent(comm, dest);                                                                                                  \
        code = PMPI_##name(buf, count, type, dest, tag, comm);                                                                   \
        if (__builtin_expect(code != MPI_SUCCESS, 0))                                                                            \
            goscr_not_sent(comm, dest);                                                                                          \
        return code;                                                                                                             \
    }                                                                                                                            \
    int MPI_##iname(const void *buf, int count, MPI_Datatype type, int dest, int tag, MPI_Comm comm, MPI_Request *r)           \
    {                                                                                                                            \
        int code;                                                                                                                \
                                                                                                                                 \
        look();                                                                                                                  \
        REFUSE(comm, "MPI_" #iname);                                                                                             \
        goscr_sent(comm, dest);                                                                                                  \
        code = PMPI_##iname(buf, count, type, dest, tag, comm, r);                                                               \
        if (__builtin_expect(code != MPI_SUCCESS, 0))                                                                            \
            goscr_not_sent(comm, dest);                                                                                          \
        return code;                                                                                                             \
    }                                                                                                                            \
    int MPI_##name##_init(const void *buf, int count, MPI_Datatype type, int dest, int tag, MPI_Comm comm, MPI_Request *r)     \
    {                                                                                                                            \
        int code = PMPI_##name##_init(buf, count, type, dest, tag, comm, r);                                                     \
                                                                                                                                 \
        if (code == MPI_SUCCESS)                                                                                                 \
            persistent(*r, comm, GOSCR_SENDS, dest, tag, NULL, 0, MPI_DATATYPE_NULL);                                                      \
        return code;                                                                                                             \
    }

static void persistent(MPI_Request r, MPI_Comm comm, int sends, int peer, int tag, void *buf, int count, MPI_Datatype type)
{
    struct entry *e;

    goscr_quiet_lock();
    e = goscr_enter_request(r, goscr_space(comm), GOSCR_PERSISTENT | sends);
    if (goscr_more(e) != NULL) {
        e->more->peer = peer;
        e->more->tag = tag;
        goscr_receives(e, buf, count, type);
    } else if (e != NULL) {
        goscr_forget(e);
        goscr_unknown = "there was no memory for a request";
    }
    goscr_quiet_unlock();
}

SEND(Send, Isend, GOSCR_SEND)
SEND(Ssend, Issend, GOSCR_SSEND)
SEND(Bsend, Ibsend, GOSCR_BSEND)
SEND(Rsend, Irsend, GOSCR_RSEND)

/* --------------------------------------------------------------------- receives */

/* Whether the store has the message that a receive gets; then it has been received. */
static int from_store(void *buf, int count, MPI_Datatype type, int source, int tag, MPI_Comm comm, MPI_Status *status, int *code)
{
    void *data = NULL;
    int64_t n = 0;
    int found = 0;

    if (goscr_drained == 0 || source == MPI_PROC_NULL)
        return 0;
    lock_open();
    found = goscr_stored(comm, source, tag, 1, status, &data, &n);
    if (found)
        *code = goscr_give(comm, data, n, buf, count, type, status);
    goscr_quiet_unlock();
    free(data);
    return found;
}

/*
 * The communicator of a call that waits.  While it does, another thread may free the handle, and bring
 * the program to rest under the lock.
 */
static struct space *held(MPI_Comm comm)
{
    struct space *s = goscr_counts ? goscr_space(comm) : NULL;

    if (goscr_locks)
        goscr_space_use(s, 1);
    return s;
}

static void let_go(struct space *s)
{
    if (goscr_locks)
        goscr_space_use(s, -1);
}

/* A receive that is not served by the store, unless there has come something meanwhile.  `status` is not MPI_STATUS_IGNORE. */
static int receive_in_turn(void *buf, int count, MPI_Datatype type, int source, int tag, MPI_Comm comm, MPI_Status *status)
{
    MPI_Request r = MPI_REQUEST_NULL;
    int code, done = 0, tests;

    lock_open();
    if (source == MPI_PROC_NULL || goscr_drained > 0)
        code = MPI_Irecv(buf, count, type, source, tag, comm, &r);
    else {
        status->MPI_SOURCE = MPI_PROC_NULL;
        code = PMPI_Irecv(buf, count, type, source, tag, comm, &r);
        for (tests = 0; tests < AT_ONCE && code == MPI_SUCCESS && !done; tests++)
            code = PMPI_Test(&r, &done, status); /* a message that comes at once needs no entry */
        if (done || code != MPI_SUCCESS)
            goscr_received(goscr_space(comm), status);
        else
            goscr_receives(goscr_enter_request(r, goscr_space(comm), 0), buf, count, type);
    }
    goscr_quiet_unlock();
    return done || code != MPI_SUCCESS ? code : complete_in_turn(&r, status);
}

int MPI_Recv(void *buf, int count, MPI_Datatype type, int source, int tag, MPI_Comm comm, MPI_Status *status)
{
    MPI_Status own;
    struct space *s;
    int code;

    look();
    if (status == MPI_STATUS_IGNORE)
        status = &own;
    if (from_store(buf, count, type, source, tag, comm, status, &code))
        return code;
    if (goscr_notify_polled)
        return receive_in_turn(buf, count, type, source, tag, comm, status);
    s = held(comm);
    status->MPI_SOURCE = MPI_PROC_NULL;
    code = PMPI_Recv(buf, count, type, source, tag, comm, status);
    goscr_received(s, status); /* also if it was truncated */
    let_go(s);
    return code;
}

/* A receive from the store, under the lock. */
static int begin_given(void *buf, int count, MPI_Datatype type, void *data, int64_t n, const MPI_Status *status, MPI_Comm comm, MPI_Request *r)
{
    MPI_Request own;
    struct entry *e;
    int code = goscr_send_self(data, n, 0, &own);

    if (code != MPI_SUCCESS)
        return code;
    code = PMPI_Irecv(buf, count, type, 0, 0, goscr_self, r);
    PMPI_Wait(&own, MPI_STATUS_IGNORE);
    e = code == MPI_SUCCESS ? goscr_enter_request(*r, goscr_space(comm), GOSCR_GIVEN | GOSCR_COUNTED) : NULL;
    goscr_receives(e, buf, count, type);
    if (goscr_more(e) != NULL) {
        e->more->source = status->MPI_SOURCE;
        e->more->given_tag = status->MPI_TAG;
    } else if (e != NULL)
        goscr_forget(e); /* there is no memory: its status will name this rank */
    return code;
}

int MPI_Irecv(void *buf, int count, MPI_Datatype type, int source, int tag, MPI_Comm comm, MPI_Request *r)
{
    MPI_Status status;
    void *data = NULL;
    int64_t n = 0;
    int code;

    look();
    if (source == MPI_PROC_NULL)
        return PMPI_Irecv(buf, count, type, source, tag, comm, r);
    lock_open();
    if (goscr_drained > 0 && goscr_stored(comm, source, tag, 1, &status, &data, &n))
        code = begin_given(buf, count, type, data, n, &status, comm, r);
    else {
        code = PMPI_Irecv(buf, count, type, source, tag, comm, r);
        if (code == MPI_SUCCESS)
            goscr_receives(goscr_enter_request(*r, goscr_space(comm), 0), buf, count, type);
    }
    goscr_quiet_unlock();
    free(data);
    return code;
}

int MPI_Recv_init(void *buf, int count, MPI_Datatype type, int source, int tag, MPI_Comm comm, MPI_Request *r)
{
    int code = PMPI_Recv_init(buf, count, type, source, tag, comm, r);

    if (code == MPI_SUCCESS && source != MPI_PROC_NULL)
        persistent(*r, comm, 0, source, tag, buf, count, type);
    return code;
}

/* A persistent receive that the store serves: MPI does not hear of it.  Under the lock. */
static int start_given(MPI_Request r, void *data, int64_t n, MPI_Status *status)
{
    struct entry *e = goscr_entry(r);
    struct entry of = *e;
    int code = goscr_give(of.space->comm, data, n, of.buffer, of.count, of.type, status);

    e = goscr_entry(r); /* a handler of errors may have changed the table */
    if (e != NULL) {
        e->more->status = *status;
        e->is |= GOSCR_DONE | GOSCR_COUNTED;
    }
    return code;
}

int MPI_Start(MPI_Request *r)
{
    struct entry *e;
    MPI_Status status;
    void *data = NULL;
    int64_t n = 0;
    int code;

    look();
    lock_open();
    e = goscr_entry(*r);
    if (e != NULL && (e->is & (GOSCR_SENDS | GOSCR_COLLECTIVE)) && goscr_quiet_region &&
        (goscr_quiet_comm == MPI_COMM_WORLD || goscr_quiet_comm == e->space->comm)) {
        MPI_Comm comm = e->space->comm;

        goscr_quiet_unlock();
        return goscr_quiet_refuse(comm, "MPI_Start");
    }
    if (e != NULL)
        goscr_started(e);
    if (e != NULL && !(e->is & (GOSCR_SENDS | GOSCR_COLLECTIVE)) && goscr_drained > 0 &&
        goscr_stored(e->space->comm, e->more->peer, e->more->tag, 1, &status, &data, &n))
        code = start_given(*r, data, n, &status);
    else
        code = PMPI_Start(r);
    goscr_quiet_unlock();
    free(data);
    return code;
}

int MPI_Startall(int n, MPI_Request requests[])
{
    int i, code = MPI_SUCCESS;

    for (i = 0; i < n && code == MPI_SUCCESS; i++)
        code = MPI_Start(&requests[i]);
    return code;
}

/* Completes the receive of a call that has sent: at once the program knows of both, or of none. */
static int complete_both(MPI_Request *r, MPI_Status *status, struct under_way *u)
{
    int code, done = 0, tests = 0;

    while (!done) {
        lock_open();
        code = test(r, &done, status);
        done = done || code != MPI_SUCCESS;
        if (done)
            goscr_arrives(u);
        goscr_quiet_unlock();
        if (!done)
            goscr_pause_after(tests++);
    }
    return code;
}

int MPI_Sendrecv(const void *out, int nout, MPI_Datatype tout, int dest, int outtag, void *in, int nin, MPI_Datatype tin, int source, int intag,
                 MPI_Comm comm, MPI_Status *status)
{
    struct under_way u = {GOSCR_SENDRECV, nout, dest, outtag, tout, comm, NULL};
    MPI_Status own;
    MPI_Request r[2];
    struct space *s;
    int code;

    look();
    REFUSE(comm, "MPI_Sendrecv");
    if (status == MPI_STATUS_IGNORE)
        status = &own;
    if (plain() && goscr_drained == 0 && !goscr_to_repeat) {
        goscr_sent(comm, dest);
        s = held(comm);
        status->MPI_SOURCE = MPI_PROC_NULL;
        code = PMPI_Sendrecv(out, nout, tout, dest, outtag, in, nin, tin, source, intag, comm, status);
        goscr_received(s, status);
        let_go(s);
        return code;
    }
    code = MPI_Irecv(in, nin, tin, source, intag, comm, &r[0]);
    if (code != MPI_SUCCESS)
        return code;
    code = set_out(&u, PMPI_Isend, out, &r[1], NULL);
    if (code == MPI_SUCCESS)
        code = complete_in_turn(&r[1], MPI_STATUS_IGNORE);
    if (code == MPI_SUCCESS)
        return complete_both(&r[0], status, &u);
    goscr_arrives(&u);
    return code;
}

int MPI_Sendrecv_replace(void *buf, int count, MPI_Datatype type, int dest, int outtag, int source, int intag, MPI_Comm comm, MPI_Status *status)
{
    MPI_Status own;
    struct space *s;
    void *packed;
    int code, n = 0, at = 0;

    look();
    REFUSE(comm, "MPI_Sendrecv_replace");
    if (status == MPI_STATUS_IGNORE)
        status = &own;
    if (plain() && goscr_drained == 0 && !goscr_to_repeat) {
        goscr_sent(comm, dest);
        s = held(comm);
        status->MPI_SOURCE = MPI_PROC_NULL;
        code = PMPI_Sendrecv_replace(buf, count, type, dest, outtag, source, intag, comm, status);
        goscr_received(s, status);
        let_go(s);
        return code;
    }
    code = PMPI_Pack_size(count, type, comm, &n);
    if (code != MPI_SUCCESS)
        return code;
    packed = malloc((size_t)n + 1);
    if (packed == NULL)
        return MPI_ERR_NO_MEM;
    code = PMPI_Pack(buf, count, type, packed, n, &at, comm);
    if (code == MPI_SUCCESS)
        code = MPI_Sendrecv(packed, at, MPI_PACKED, dest, outtag, buf, count, type, source, intag, comm, status);
    free(packed);
    return code;
}

/* ----------------------------------------------------------------------- probes */

static int probe_store(int source, int tag, MPI_Comm comm, MPI_Status *status)
{
    MPI_Status own;
    int64_t n;
    int found;

    if (goscr_drained == 0 || source == MPI_PROC_NULL)
        return 0;
    goscr_quiet_lock();
    found = goscr_stored(comm, source, tag, 0, &own, NULL, &n);
    goscr_quiet_unlock();
    if (found && status != MPI_STATUS_IGNORE)
        *status = own;
    return found;
}

static int probe(int source, int tag, MPI_Comm comm, int *flag, MPI_Status *status)
{
    if (probe_store(source, tag, comm, status)) {
        *flag = 1;
        return MPI_SUCCESS;
    }
    return PMPI_Iprobe(source, tag, comm, flag, status);
}

int MPI_Iprobe(int source, int tag, MPI_Comm comm, int *flag, MPI_Status *status)
{
    look();
    return probe(source, tag, comm, flag, status);
}

int MPI_Probe(int source, int tag, MPI_Comm comm, MPI_Status *status)
{
    int code, flag = 0, tests = 0;

    look();
    if (!goscr_notify_polled)
        return probe_store(source, tag, comm, status) ? MPI_SUCCESS : PMPI_Probe(source, tag, comm, status);
    while ((code = probe(source, tag, comm, &flag, status)) == MPI_SUCCESS && !flag)
        goscr_pause_after(tests++);
    return code;
}

/* A matched message that the program has; what a status of the store's has, which MPI has from this process. */
static struct given {
    MPI_Message message;
    struct space *space;
    int source, tag, from_store;
    struct given *next;
} *given;

/* Under the lock. */
static void matched(struct given *g, MPI_Message message, MPI_Comm comm, const MPI_Status *status, int from_store)
{
    g->message = message;
    g->space = goscr_space(comm);
    goscr_space_use(g->space, 1);
    g->source = status->MPI_SOURCE;
    g->tag = status->MPI_TAG;
    g->from_store = from_store;
    g->next = given;
    given = g;
    __atomic_fetch_add(&goscr_matched, 1, __ATOMIC_RELAXED);
}

/* A message of the store as a matched message. */
static int match_store(int source, int tag, MPI_Comm comm, MPI_Message *message, MPI_Status *status, int *code)
{
    MPI_Status own;
    MPI_Request r;
    void *data = NULL;
    struct given *g;
    int64_t n;
    int found;

    if (goscr_drained == 0 || source == MPI_PROC_NULL)
        return 0;
    lock_open();
    found = goscr_stored(comm, source, tag, 1, &own, &data, &n);
    if (found) {
        g = malloc(sizeof *g);
        *code = g == NULL ? MPI_ERR_NO_MEM : goscr_send_self(data, n, 1, &r);
        if (*code == MPI_SUCCESS)
            *code = PMPI_Mprobe(0, 1, goscr_self, message, MPI_STATUS_IGNORE);
        if (*code == MPI_SUCCESS) {
            matched(g, *message, comm, &own, 1);
            goscr_keep_until_sent(r, data);
            data = NULL;
        } else
            free(g);
        if (status != MPI_STATUS_IGNORE)
            *status = own;
    }
    goscr_quiet_unlock();
    free(data);
    return found;
}

static int match(int source, int tag, MPI_Comm comm, int *flag, MPI_Message *message, MPI_Status *status)
{
    struct given *g;
    MPI_Status own;
    int code;

    if (status == MPI_STATUS_IGNORE)
        status = &own;
    if (match_store(source, tag, comm, message, status, &code)) {
        *flag = 1;
        return code;
    }
    g = malloc(sizeof *g);
    if (g == NULL)
        return MPI_ERR_NO_MEM;
    lock_open();
    code = PMPI_Improbe(source, tag, comm, flag, message, status);
    if (code == MPI_SUCCESS && *flag && source != MPI_PROC_NULL) {
        matched(g, *message, comm, status, 0);
        goscr_received(g->space, status);
        g = NULL;
    }
    goscr_quiet_unlock();
    free(g);
    return code;
}

int MPI_Improbe(int source, int tag, MPI_Comm comm, int *flag, MPI_Message *message, MPI_Status *status)
{
    look();
    return match(source, tag, comm, flag, message, status);
}

int MPI_Mprobe(int source, int tag, MPI_Comm comm, MPI_Message *message, MPI_Status *status)
{
    int code, flag = 0, tests = 0;

    look();
    while ((code = match(source, tag, comm, &flag, message, status)) == MPI_SUCCESS && !flag)
        goscr_pause_after(tests++);
    return code;
}

/* Takes a matched message away; returns whether it is known, and then what it was. */
static int unmatch(MPI_Message message, struct given *was)
{
    struct given **at, *g;

    for (at = &given; *at != NULL && (*at)->message != message; at = &(*at)->next)
        continue;
    if ((g = *at) == NULL)
        return 0;
    __atomic_fetch_sub(&goscr_matched, 1, __ATOMIC_RELAXED);
    *was = *g;
    *at = g->next;
    free(g);
    return 1;
}

/* Begins to receive a matched message: its request is known until the program has seen that it is complete. */
static int begin_matched(void *buf, int count, MPI_Datatype type, MPI_Message *message, MPI_Request *r)
{
    struct given was;
    struct entry *e = NULL;
    int code, found;

    lock_open();
    found = *message != MPI_MESSAGE_NO_PROC && unmatch(*message, &was);
    code = PMPI_Imrecv(buf, count, type, message, r);
    if (found && code == MPI_SUCCESS)
        e = goscr_enter_request(*r, was.space, GOSCR_COUNTED | (was.from_store ? GOSCR_GIVEN : 0));
    goscr_receives(e, buf, count, type);
    if (e != NULL && was.from_store && goscr_more(e) != NULL) {
        e->more->source = was.source;
        e->more->given_tag = was.tag;
    } else if (e != NULL && was.from_store)
        goscr_forget(e);
    if (found)
        goscr_space_use(was.space, -1);
    goscr_quiet_unlock();
    return code;
}

int MPI_Mrecv(void *buf, int count, MPI_Datatype type, MPI_Message *message, MPI_Status *status)
{
    MPI_Request r;
    int code;

    look();
    code = begin_matched(buf, count, type, message, &r);
    return code != MPI_SUCCESS ? code : complete(&r, status);
}

int MPI_Imrecv(void *buf, int count, MPI_Datatype type, MPI_Message *message, MPI_Request *r)
{
    look();
    return begin_matched(buf, count, type, message, r);
}

/* ------------------------------------------------------------------- completion */

static int test(MPI_Request *r, int *flag, MPI_Status *status)
{
    MPI_Request before = *r;
    MPI_Status own;
    struct entry *e;
    int code;

    if (plain())
        return PMPI_Test(r, flag, status);
    lock_open();
    e = goscr_entry(before);
    if (e == NULL) {
        goscr_quiet_unlock();
        return PMPI_Test(r, flag, status);
    }
    if (status == MPI_STATUS_IGNORE)
        status = &own;
    code = PMPI_Test(r, flag, status);
    if (code != MPI_SUCCESS)
        e = goscr_entry(before); /* a handler of errors may have changed the table */
    if (e != NULL && (*flag || code != MPI_SUCCESS))
        goscr_completed(e, *r, status);
    goscr_quiet_unlock();
    return code;
}

int MPI_Test(MPI_Request *r, int *flag, MPI_Status *status)
{
    look();
    return test(r, flag, status);
}

static int complete_in_turn(MPI_Request *r, MPI_Status *status)
{
    int code, flag = 0, tests = 0;

    while ((code = test(r, &flag, status)) == MPI_SUCCESS && !flag)
        goscr_pause_after(tests++);
    return code;
}

static int complete(MPI_Request *r, MPI_Status *status)
{
    MPI_Status own;
    struct entry taken;
    int code;

    if (plain())
        return PMPI_Wait(r, status);
    if (goscr_notify_polled)
        return complete_in_turn(r, status);
    if (!goscr_await(*r, &taken))
        return PMPI_Wait(r, status);
    if (status == MPI_STATUS_IGNORE)
        status = &own;
    code = PMPI_Wait(r, status);
    goscr_waited(&taken, *r, status);
    return code;
}

int MPI_Wait(MPI_Request *r, MPI_Status *status)
{
    look();
    return complete(r, status);
}

enum { FEW = 16 };

/* What a call for several requests keeps of them. */
struct several {
    MPI_Request *before;
    MPI_Status *statuses;
    struct entry *taken;
    void *memory; /* NULL: they are few */
    MPI_Request few_requests[FEW];
    MPI_Status few_statuses[FEW];
    struct entry few_taken[FEW];
};

/* Returns 0, or MPI_ERR_NO_MEM.  `statuses` are the program's. */
static int keep(struct several *s, int n, const MPI_Request *requests, MPI_Status *statuses)
{
    size_t many = n > 0 ? (size_t)n : 0;

    s->memory = NULL;
    s->statuses = s->few_statuses;
    s->before = s->few_requests;
    s->taken = s->few_taken;
    if (n > FEW) {
        s->memory = malloc(many * (sizeof *s->before + sizeof *s->statuses + sizeof *s->taken));
        if (s->memory == NULL)
            return MPI_ERR_NO_MEM;
        s->taken = s->memory;
        s->before = (MPI_Request *)(s->taken + many);
        s->statuses = (MPI_Status *)(s->before + many);
    }
    if (statuses != MPI_STATUSES_IGNORE)
        s->statuses = statuses;
    if (many > 0)
        memcpy(s->before, requests, many * sizeof *requests);
    return MPI_SUCCESS;
}

/* Whether a request has completed in a call that has returned this code, and may say so in its status. */
static int is_complete(int code, const MPI_Status *status)
{
    int class = MPI_SUCCESS;

    if (code != MPI_SUCCESS)
        PMPI_Error_class(code, &class);
    return class == MPI_SUCCESS || (class == MPI_ERR_IN_STATUS && status->MPI_ERROR != MPI_ERR_PENDING);
}

/* After a call that tests, under the lock. */
static void tested(MPI_Request before, MPI_Request now, MPI_Status *status)
{
    struct entry *e = goscr_entry(before);

    if (e != NULL)
        goscr_completed(e, now, status);
}

static int test_all(int n, MPI_Request requests[], int *flag, MPI_Status statuses[])
{
    struct several s;
    int code, i;

    if (plain())
        return PMPI_Testall(n, requests, flag, statuses);
    if (keep(&s, n, requests, statuses) != MPI_SUCCESS)
        return MPI_ERR_NO_MEM;
    lock_open();
    code = PMPI_Testall(n, requests, flag, s.statuses);
    for (i = 0; i < n && (*flag || code != MPI_SUCCESS); i++)
        if (is_complete(code, &s.statuses[i]))
            tested(s.before[i], requests[i], &s.statuses[i]);
    goscr_quiet_unlock();
    free(s.memory);
    return code;
}

int MPI_Testall(int n, MPI_Request requests[], int *flag, MPI_Status statuses[])
{
    look();
    return test_all(n, requests, flag, statuses);
}

int MPI_Waitall(int n, MPI_Request requests[], MPI_Status statuses[])
{
    struct several s;
    int code, i, flag = 0, tests = 0;

    look();
    if (plain())
        return PMPI_Waitall(n, requests, statuses);
    if (goscr_notify_polled) {
        while ((code = test_all(n, requests, &flag, statuses)) == MPI_SUCCESS && !flag)
            goscr_pause_after(tests++);
        return code;
    }
    if (keep(&s, n, requests, statuses) != MPI_SUCCESS)
        return MPI_ERR_NO_MEM;
    for (i = 0; i < n; i++)
        if (!goscr_await(requests[i], &s.taken[i]))
            s.taken[i].request = MPI_REQUEST_NULL;
    code = PMPI_Waitall(n, requests, s.statuses);
    for (i = 0; i < n; i++)
        if (s.taken[i].request == MPI_REQUEST_NULL)
            continue;
        else if (is_complete(code, &s.statuses[i]))
            goscr_waited(&s.taken[i], requests[i], &s.statuses[i]);
        else
            goscr_put_back(&s.taken[i], requests[i]);
    free(s.memory);
    return code;
}

/* The first of these requests that is done although MPI holds it for inactive.  Under the lock. */
static int done_already(int n, const MPI_Request requests[])
{
    const struct entry *e;
    int i;

    for (i = 0; i < n; i++)
        if ((e = goscr_entry(requests[i])) != NULL && (e->is & GOSCR_DONE))
            return i;
    return MPI_UNDEFINED;
}

static int test_any(int n, MPI_Request requests[], int *index, int *flag, MPI_Status *status)
{
    struct several s;
    MPI_Status own;
    int code = MPI_SUCCESS;

    if (plain())
        return PMPI_Testany(n, requests, index, flag, status);
    if (keep(&s, n, requests, MPI_STATUSES_IGNORE) != MPI_SUCCESS)
        return MPI_ERR_NO_MEM;
    if (status == MPI_STATUS_IGNORE)
        status = &own;
    lock_open();
    *index = done_already(n, requests);
    if (*index != MPI_UNDEFINED)
        *flag = 1;
    else
        code = PMPI_Testany(n, requests, index, flag, status);
    if ((*flag || code != MPI_SUCCESS) && *index != MPI_UNDEFINED)
        tested(s.before[*index], requests[*index], status);
    goscr_quiet_unlock();
    free(s.memory);
    return code;
}

int MPI_Testany(int n, MPI_Request requests[], int *index, int *flag, MPI_Status *status)
{
    look();
    return test_any(n, requests, index, flag, status);
}

/*
 * Whether a call that waits for one of several has to test them in turn: since the program may have to
 * save itself, or another thread to count what completes.  Else MPI waits, unless one is done already.
 */
static int tests_in_turn(int n, const MPI_Request requests[])
{
    return goscr_notify_polled || goscr_locks || done_already(n, requests) != MPI_UNDEFINED;
}

int MPI_Waitany(int n, MPI_Request requests[], int *index, MPI_Status *status)
{
    struct several s;
    MPI_Status own;
    int code, flag = 0, tests = 0;

    look();
    if (plain())
        return PMPI_Waitany(n, requests, index, status);
    if (tests_in_turn(n, requests)) {
        while ((code = test_any(n, requests, index, &flag, status)) == MPI_SUCCESS && !flag)
            goscr_pause_after(tests++);
        return code;
    }
    if (keep(&s, n, requests, MPI_STATUSES_IGNORE) != MPI_SUCCESS)
        return MPI_ERR_NO_MEM;
    if (status == MPI_STATUS_IGNORE)
        status = &own;
    *index = MPI_UNDEFINED;
    code = PMPI_Waitany(n, requests, index, status);
    if (*index != MPI_UNDEFINED)
        tested(s.before[*index], requests[*index], status);
    free(s.memory);
    return code;
}

/* After MPI_Testsome or MPI_Waitsome. */
static void some_tested(const struct several *s, const MPI_Request requests[], int out, const int indices[])
{
    int i;

    for (i = 0; out != MPI_UNDEFINED && i < out; i++)
        tested(s->before[indices[i]], requests[indices[i]], &s->statuses[i]);
}

static int test_some(int n, MPI_Request requests[], int *out, int indices[], MPI_Status statuses[])
{
    struct several s;
    int code = MPI_SUCCESS, index;

    if (plain())
        return PMPI_Testsome(n, requests, out, indices, statuses);
    if (keep(&s, n, requests, statuses) != MPI_SUCCESS)
        return MPI_ERR_NO_MEM;
    lock_open();
    index = done_already(n, requests);
    if (index != MPI_UNDEFINED) {
        *out = 1;
        indices[0] = index;
    } else {
        *out = 0; /* an error may leave it as it is */
        code = PMPI_Testsome(n, requests, out, indices, s.statuses);
    }
    some_tested(&s, requests, *out, indices);
    goscr_quiet_unlock();
    free(s.memory);
    return code;
}

int MPI_Testsome(int n, MPI_Request requests[], int *out, int indices[], MPI_Status statuses[])
{
    look();
    return test_some(n, requests, out, indices, statuses);
}

int MPI_Waitsome(int n, MPI_Request requests[], int *out, int indices[], MPI_Status statuses[])
{
    struct several s;
    int code, tests = 0;

    look();
    if (plain())
        return PMPI_Waitsome(n, requests, out, indices, statuses);
    if (tests_in_turn(n, requests)) {
        while ((code = test_some(n, requests, out, indices, statuses)) == MPI_SUCCESS && *out == 0)
            goscr_pause_after(tests++);
        return code;
    }
    if (keep(&s, n, requests, statuses) != MPI_SUCCESS)
        return MPI_ERR_NO_MEM;
    *out = 0;
    code = PMPI_Waitsome(n, requests, out, indices, s.statuses);
    some_tested(&s, requests, *out, indices);
    free(s.memory);
    return code;
}

int MPI_Request_get_status(MPI_Request r, int *flag, MPI_Status *status)
{
    MPI_Status own;
    struct entry *e;
    int code = PMPI_Request_get_status(r, flag, &own);

    goscr_quiet_lock();
    e = goscr_entry(r);
    if (e != NULL && *flag)
        goscr_seen(e, &own);
    goscr_quiet_unlock();
    if (*flag && status != MPI_STATUS_IGNORE)
        *status = own;
    return code;
}

int MPI_Cancel(MPI_Request *r)
{
    look();
    goscr_quiet_lock();
    goscr_cancels(*r);
    goscr_quiet_unlock();
    return PMPI_Cancel(r);
}

int MPI_Request_free(MPI_Request *r)
{
    struct entry *e;
    int kept;

    look();
    goscr_quiet_lock();
    e = goscr_entry(*r);
    kept = e != NULL && !(e->is & (GOSCR_SENDS | GOSCR_COUNTED | GOSCR_COLLECTIVE)) && (e->is & (GOSCR_PERSISTENT | GOSCR_ACTIVE)) != GOSCR_PERSISTENT;
    if (kept)
        goscr_freed_request(e); /* whether it has received its message has to be known */
    else if (e != NULL)
        goscr_forget(e);
    goscr_quiet_unlock();
    if (!kept)
        return PMPI_Request_free(r);
    *r = MPI_REQUEST_NULL;
    return MPI_SUCCESS;
}

/* ----------------------------------------------------------------- not counted */

#if MPI_VERSION >= 4

/* From then on it is not known what is in transit.  docs/thesis.md lists these calls. */
#define UNCOUNTED(name, refuse, parameters, arguments)                                      \
    int MPI_##name parameters                                                               \
    {                                                                                       \
        look();                                                                             \
        refuse;                                                                             \
        goscr_unknown = "the program has called MPI_" #name ", whose messages are not counted (use calls of MPI 3 instead)"; \
        return PMPI_##name arguments;                                                       \
    }
#define LARGE_SEND(name)                                                                                                    \
    UNCOUNTED(name, REFUSE(comm, "MPI_" #name), (const void *b, MPI_Count n, MPI_Datatype t, int to, int tag, MPI_Comm comm), \
              (b, n, t, to, tag, comm))
#define LARGE_BEGIN(name)                                                                                                                      \
    UNCOUNTED(name, REFUSE(comm, "MPI_" #name), (const void *b, MPI_Count n, MPI_Datatype t, int to, int tag, MPI_Comm comm, MPI_Request *r), \
              (b, n, t, to, tag, comm, r))

LARGE_SEND(Send_c)
LARGE_SEND(Ssend_c)
LARGE_SEND(Bsend_c)
LARGE_SEND(Rsend_c)
LARGE_BEGIN(Isend_c)
LARGE_BEGIN(Issend_c)
LARGE_BEGIN(Ibsend_c)
LARGE_BEGIN(Irsend_c)
LARGE_BEGIN(Send_init_c)
LARGE_BEGIN(Ssend_init_c)
LARGE_BEGIN(Bsend_init_c)
LARGE_BEGIN(Rsend_init_c)
UNCOUNTED(Recv_c, , (void *b, MPI_Count n, MPI_Datatype t, int from, int tag, MPI_Comm comm, MPI_Status *s), (b, n, t, from, tag, comm, s))
UNCOUNTED(Irecv_c, , (void *b, MPI_Count n, MPI_Datatype t, int from, int tag, MPI_Comm comm, MPI_Request *r), (b, n, t, from, tag, comm, r))
UNCOUNTED(Recv_init_c, , (void *b, MPI_Count n, MPI_Datatype t, int from, int tag, MPI_Comm comm, MPI_Request *r), (b, n, t, from, tag, comm, r))
UNCOUNTED(Mrecv_c, , (void *b, MPI_Count n, MPI_Datatype t, MPI_Message *m, MPI_Status *s), (b, n, t, m, s))
UNCOUNTED(Imrecv_c, , (void *b, MPI_Count n, MPI_Datatype t, MPI_Message *m, MPI_Request *r), (b, n, t, m, r))
UNCOUNTED(Sendrecv_c, REFUSE(comm, "MPI_Sendrecv_c"),
          (const void *b, MPI_Count n, MPI_Datatype t, int to, int tag, void *c, MPI_Count m, MPI_Datatype u, int from, int of, MPI_Comm comm, MPI_Status *s),
          (b, n, t, to, tag, c, m, u, from, of, comm, s))
UNCOUNTED(Isendrecv, REFUSE(comm, "MPI_Isendrecv"),
          (const void *b, int n, MPI_Datatype t, int to, int tag, void *c, int m, MPI_Datatype u, int from, int of, MPI_Comm comm, MPI_Request *r),
          (b, n, t, to, tag, c, m, u, from, of, comm, r))
UNCOUNTED(Isendrecv_c, REFUSE(comm, "MPI_Isendrecv_c"),
          (const void *b, MPI_Count n, MPI_Datatype t, int to, int tag, void *c, MPI_Count m, MPI_Datatype u, int from, int of, MPI_Comm comm, MPI_Request *r),
          (b, n, t, to, tag, c, m, u, from, of, comm, r))
UNCOUNTED(Sendrecv_replace_c, REFUSE(comm, "MPI_Sendrecv_replace_c"),
          (void *b, MPI_Count n, MPI_Datatype t, int to, int tag, int from, int of, MPI_Comm comm, MPI_Status *s), (b, n, t, to, tag, from, of, comm, s))
UNCOUNTED(Isendrecv_replace, REFUSE(comm, "MPI_Isendrecv_replace"),
          (void *b, int n, MPI_Datatype t, int to, int tag, int from, int of, MPI_Comm comm, MPI_Request *r), (b, n, t, to, tag, from, of, comm, r))
UNCOUNTED(Isendrecv_replace_c, REFUSE(comm, "MPI_Isendrecv_replace_c"),
          (void *b, MPI_Count n, MPI_Datatype t, int to, int tag, int from, int of, MPI_Comm comm, MPI_Request *r), (b, n, t, to, tag, from, of, comm, r))
UNCOUNTED(Psend_init, REFUSE(comm, "MPI_Psend_init"),
          (const void *b, int parts, MPI_Count n, MPI_Datatype t, int to, int tag, MPI_Comm comm, MPI_Info i, MPI_Request *r), (b, parts, n, t, to, tag, comm, i, r))
UNCOUNTED(Precv_init, , (void *b, int parts, MPI_Count n, MPI_Datatype t, int from, int tag, MPI_Comm comm, MPI_Info i, MPI_Request *r),
          (b, parts, n, t, from, tag, comm, i, r))

#endif

/* ------------------------------------------------------------- one-sided operations */

/* While there is a window, what others put into it is in no snapshot.  docs/thesis.md says so. */
static volatile int windows;
static const char *volatile window_call;

int goscr_has_window(char why[GOSCR_WHY_SIZE])
{
    if (windows > 0)
        snprintf(why, GOSCR_WHY_SIZE, "the program has made a window by %s, and no checkpoint has what others put into it (free it before a checkpoint)",
                 window_call);
    return windows > 0;
}

#define WINDOW(name, parameters, arguments)                        \
    int MPI_Win_##name parameters                                  \
    {                                                              \
        int code;                                                  \
                                                                   \
        look();                                                    \
        goscr_goes_in(comm);                                       \
        code = PMPI_Win_##name arguments;                          \
        goscr_comes_out();                                         \
        if (code == MPI_SUCCESS) {                                 \
            window_call = "MPI_Win_" #name;                        \
            __atomic_fetch_add(&windows, 1, __ATOMIC_RELAXED);     \
        }                                                          \
        return code;                                               \
    }

WINDOW(create, (void *base, MPI_Aint n, int unit, MPI_Info info, MPI_Comm comm, MPI_Win *win), (base, n, unit, info, comm, win))
WINDOW(allocate, (MPI_Aint n, int unit, MPI_Info info, MPI_Comm comm, void *base, MPI_Win *win), (n, unit, info, comm, base, win))
WINDOW(allocate_shared, (MPI_Aint n, int unit, MPI_Info info, MPI_Comm comm, void *base, MPI_Win *win), (n, unit, info, comm, base, win))
WINDOW(create_dynamic, (MPI_Info info, MPI_Comm comm, MPI_Win *win), (info, comm, win))

#if MPI_VERSION >= 4

WINDOW(create_c, (void *base, MPI_Aint n, MPI_Aint unit, MPI_Info info, MPI_Comm comm, MPI_Win *win), (base, n, unit, info, comm, win))
WINDOW(allocate_c, (MPI_Aint n, MPI_Aint unit, MPI_Info info, MPI_Comm comm, void *base, MPI_Win *win), (n, unit, info, comm, base, win))
WINDOW(allocate_shared_c, (MPI_Aint n, MPI_Aint unit, MPI_Info info, MPI_Comm comm, void *base, MPI_Win *win), (n, unit, info, comm, base, win))

#endif

int MPI_Win_free(MPI_Win *win)
{
    int code;

    look();
    goscr_goes_in(MPI_COMM_NULL);
    code = PMPI_Win_free(win);
    goscr_comes_out();
    if (code == MPI_SUCCESS)
        __atomic_fetch_sub(&windows, 1, __ATOMIC_RELAXED);
    return code;
}
