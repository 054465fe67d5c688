/*
 * Brings the messages of the program to rest.
 *
 * Ranks exchange how many messages they have sent to each other (package quiet, in libscr.so), and
 * then know how much is missing.  A receive that the program has begun takes the message that it
 * matches; the rest is received by matched probes and put into a store (also in package quiet), from
 * which later receives and probes of the program are served first.  What comes out of the store
 * reaches the program's buffer as a message of the process to itself, so that MPI converts, truncates
 * and completes it as any other.
 *
 * A nonblocking collective operation that all ranks have begun is completed.  If only some have
 * begun it, there is no rest: it would stay in transit until the others do.
 */

#define _GNU_SOURCE

#include "quiet.h"

#include "notify.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

volatile int goscr_quiet_region, goscr_drained, goscr_matched;
int goscr_checks;
MPI_Comm goscr_self = MPI_COMM_NULL, goscr_quiet_comm = MPI_COMM_NULL, goscr_quiet_beside = MPI_COMM_NULL;

/* The program's collective calls over MPI_COMM_WORLD may have begun on some ranks only. */
static MPI_Comm world = MPI_COMM_NULL;

/* --------------------------------------------------- messages of more than 2 GiB */

enum { CHUNK = 1 << 20 };

/* Bytes for a call of MPI, whose count is an int: one of a type that is made for them, if they are more. */
struct bytes {
    int count;
    MPI_Datatype type;
};

static int bytes_begin(struct bytes *b, int64_t n)
{
    int lengths[2] = {(int)(n / CHUNK), (int)(n % CHUNK)}, code;
    MPI_Aint at[2] = {0, (MPI_Aint)(n - n % CHUNK)};
    MPI_Datatype types[2] = {MPI_DATATYPE_NULL, MPI_BYTE};

    b->count = (int)n;
    b->type = MPI_BYTE;
    if (n <= INT_MAX)
        return MPI_SUCCESS;
    b->count = 1;
    code = PMPI_Type_contiguous(CHUNK, MPI_BYTE, &types[0]);
    if (code != MPI_SUCCESS)
        return code;
    code = PMPI_Type_create_struct(2, lengths, at, types, &b->type);
    PMPI_Type_free(&types[0]);
    return code != MPI_SUCCESS ? code : PMPI_Type_commit(&b->type);
}

static void bytes_end(struct bytes *b)
{
    if (b->type != MPI_BYTE)
        PMPI_Type_free(&b->type);
}

int goscr_send_self(const void *data, int64_t n, int tag, MPI_Request *r)
{
    struct bytes b;
    int code = bytes_begin(&b, n);

    if (code == MPI_SUCCESS) {
        code = PMPI_Isend(data, b.count, b.type, 0, tag, goscr_self, r);
        bytes_end(&b);
    }
    return code;
}

int goscr_bytes_of(void *buffer, int count, MPI_Datatype type, void **data, int64_t *n)
{
    MPI_Request r;
    MPI_Count size = 0;
    struct bytes b;
    int code = PMPI_Type_size_x(type, &size);

    if (code != MPI_SUCCESS)
        return code;
    *n = size * count;
    *data = malloc((size_t)*n + 1);
    if (*data == NULL)
        return MPI_ERR_NO_MEM;
    code = bytes_begin(&b, *n);
    if (code != MPI_SUCCESS)
        return code;
    code = PMPI_Irecv(*data, b.count, b.type, 0, 2, goscr_self, &r);
    if (code == MPI_SUCCESS) {
        code = PMPI_Send(buffer, count, type, 0, 2, goscr_self);
        PMPI_Wait(&r, MPI_STATUS_IGNORE);
    }
    bytes_end(&b);
    return code;
}

/* -------------------------------------------------------------------- the store */

static struct kept {
    MPI_Request request;
    void *data;
    struct kept *next;
} *kept;

/* Frees what has been sent. */
static void free_sent(void)
{
    struct kept **at = &kept, *k;
    int done;

    while ((k = *at) != NULL) {
        done = 0;
        if (PMPI_Test(&k->request, &done, MPI_STATUS_IGNORE) == MPI_SUCCESS && !done) {
            at = &k->next;
            continue;
        }
        *at = k->next;
        free(k->data);
        free(k);
    }
}

void goscr_keep_until_sent(MPI_Request r, void *data)
{
    struct kept *k = malloc(sizeof *k);

    free_sent();
    if (k == NULL)
        return; /* the data are lost to free() */
    k->request = r;
    k->data = data;
    k->next = kept;
    kept = k;
}

int goscr_stored(MPI_Comm comm, int source, int tag, int take, MPI_Status *status, void **data, int64_t *n)
{
    const struct space *s;
    int found;

    if (goscr_drained == 0)
        return 0;
    s = goscr_space(comm);
    if (s == NULL)
        return 0;
    source = source == MPI_ANY_SOURCE ? GOSCR_CR_ANY : source;
    tag = tag == MPI_ANY_TAG ? GOSCR_CR_ANY : tag;
    found = goscr_cr_stored(s->id, &source, &tag, take, data, n);
    if (!found)
        return 0;
    if (take)
        goscr_drained--;
    memset(status, 0, sizeof *status);
    status->MPI_SOURCE = source;
    status->MPI_TAG = tag;
    status->MPI_ERROR = MPI_SUCCESS;
    PMPI_Status_set_elements_x(status, MPI_BYTE, *n);
    PMPI_Status_set_cancelled(status, 0);
    return 1;
}

int goscr_give(MPI_Comm comm, void *data, int64_t n, void *buffer, int count, MPI_Datatype type, MPI_Status *status)
{
    MPI_Request r;
    int source = status->MPI_SOURCE, tag = status->MPI_TAG, code;

    code = goscr_send_self(data, n, 0, &r);
    if (code == MPI_SUCCESS) {
        code = PMPI_Recv(buffer, count, type, 0, 0, goscr_self, status);
        PMPI_Wait(&r, MPI_STATUS_IGNORE);
    }
    status->MPI_SOURCE = source;
    status->MPI_TAG = tag;
    if (code != MPI_SUCCESS)
        PMPI_Comm_call_errhandler(comm, code);
    return code;
}

/* Makes this what SCR_Get_error returns. */
static void keep(const char *call, const char *why)
{
    char text[400];

    snprintf(text, sizeof text, "%s: %s", call, why);
    goscr_cr_keep(text);
}

/* Prints why this rank fails.  Returns 1. */
static int fails(const char *call, const char *why)
{
    fprintf(stderr, "SCR: rank %d: %s: %s\n", goscr_rank, call, why);
    keep(call, why);
    return 1;
}

/* -------------------------------------------------------- calls that are under way */

static struct under_way *under_way;
volatile int goscr_to_repeat;

/* The same call after a restart has the same bytes, and its type and its communicator have other handles. */
static int64_t bytes_of(const struct under_way *u)
{
    int size = 0;

    return PMPI_Type_size(u->type, &size) == MPI_SUCCESS ? (int64_t)size * u->count : 0;
}

int goscr_repeats(const struct under_way *u)
{
    const struct space *s = u->to != MPI_PROC_NULL ? goscr_space(u->comm) : NULL;

    if (goscr_to_repeat == 0 || s == NULL || !goscr_cr_repeated(u->kind, s->id, u->to, u->tag, bytes_of(u)))
        return 0;
    goscr_to_repeat--;
    return 1;
}

void goscr_sets_out(struct under_way *u)
{
    u->next = under_way;
    under_way = u;
}

void goscr_arrives(struct under_way *u)
{
    struct under_way **at;

    goscr_quiet_lock();
    for (at = &under_way; *at != u; at = &(*at)->next)
        continue;
    *at = u->next;
    goscr_quiet_unlock();
}

int goscr_snapshot(const char *call, int asked)
{
    const struct under_way *u;
    const struct space *s;
    const char *wrong;
    int failed = 0;

    goscr_quiet_lock();
    wrong = goscr_copy_unseen();
    if (wrong == NULL && asked && goscr_collectives(NULL, 0) > 0)
        wrong = "the program has begun a nonblocking collective operation, and not completed it; its function can complete it by MPI_Test";
    for (u = under_way; u != NULL && !failed; u = u->next)
        if (u->to != MPI_PROC_NULL && (s = goscr_space(u->comm)) != NULL)
            failed = goscr_cr_begun(u->kind, s->id, u->to, u->tag, bytes_of(u)) != 0;
    goscr_quiet_unlock();
    if (wrong == NULL && !failed && goscr_checks)
        goscr_cr_in_flight(call);
    return wrong != NULL ? fails(call, wrong) : failed;
}

void goscr_snapshot_done(void) { goscr_cr_forget(goscr_to_repeat); }

/* ----------------------------------------------------------------- begin and end */

void goscr_quiet_begin(int several)
{
    if (PMPI_Comm_dup(MPI_COMM_SELF, &goscr_self) != MPI_SUCCESS || PMPI_Comm_dup(MPI_COMM_WORLD, &world) != MPI_SUCCESS)
        return;
    PMPI_Comm_set_errhandler(goscr_self, MPI_ERRORS_RETURN);
    goscr_counts_begin(several);
    goscr_redirect();
}

void goscr_quiet_end(void)
{
    if (world == MPI_COMM_NULL)
        return;
    goscr_counts = 0;
    free_sent();
    PMPI_Comm_free(&goscr_self);
    PMPI_Comm_free(&world);
}

void goscr_quiet_restarted(void)
{
    goscr_drained = goscr_cr_held();
    goscr_to_repeat = goscr_cr_sends();
}

int goscr_quiet_ready(int has) { return !has ? GOSCR_CR_NONE : goscr_matched > 0 ? GOSCR_CR_MATCHED : GOSCR_CR_READY; }

/* ------------------------------------------------------------------------- rest */

int goscr_quiet_refuse(MPI_Comm comm, const char *call)
{
    fprintf(stderr, "SCR: rank %d: %s: between SCR_CR_Quiesce_start and SCR_CR_Quiesce_end the program must not send, or begin collective operations\n",
            goscr_rank, call);
    PMPI_Comm_call_errhandler(comm, MPI_ERR_OTHER);
    return MPI_ERR_OTHER;
}

/* Receives a matched message, and puts it into the store.  Returns whether that is done. */
static int store(const struct space *s, MPI_Message *message, const MPI_Status *status, void *data, MPI_Count n)
{
    struct bytes b;
    int code = bytes_begin(&b, n);

    if (code != MPI_SUCCESS)
        return 0;
    code = PMPI_Mrecv(data, b.count, b.type, message, MPI_STATUS_IGNORE);
    bytes_end(&b);
    if (code != MPI_SUCCESS || goscr_cr_store(s->id, status->MPI_SOURCE, status->MPI_TAG, data, n) != 0)
        return 0;
    goscr_drained++;
    return 1;
}

/*
 * Receives the next message of a communicator into the store.  Returns 1, 0: there is none, or -1: it
 * cannot be received.  Then MPI still has it, unless another thread receives at the same time.
 */
static int drain(struct space *s, const char *call)
{
    MPI_Message message;
    MPI_Status status;
    MPI_Count n = 0, more = 0;
    void *data, *larger;
    int found = 0;

    if (s->foreign || PMPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, s->comm, &found, &status) != MPI_SUCCESS || !found)
        return 0;
    PMPI_Get_elements_x(&status, MPI_BYTE, &n);
    data = malloc((size_t)n + 1); /* before the message is matched: nobody else could receive it then */
    if (data == NULL) {
        fails(call, "there was no memory for a message in transit");
        return -1;
    }
    if (PMPI_Improbe(status.MPI_SOURCE, status.MPI_TAG, s->comm, &found, &message, &status) != MPI_SUCCESS || !found) {
        free(data);
        return 0;
    }
    PMPI_Get_elements_x(&status, MPI_BYTE, &more);
    larger = more > n ? realloc(data, (size_t)more + 1) : data;
    data = larger != NULL ? larger : data;
    goscr_received(s, &status);
    found = larger != NULL && store(s, &message, &status, data, more);
    free(data);
    if (!found)
        fails(call, goscr_unknown = "a message in transit could not be received, and is lost");
    return found ? 1 : -1;
}

/* Receives what there is over all communicators.  Returns 1, 0: nothing, or -1. */
static int drain_all(const char *call)
{
    struct space *s;
    int got = drain(&goscr_everybody, call);

    for (s = goscr_spaces; got >= 0 && s != NULL; s = s->next)
        got |= drain(s, call);
    return got;
}

int goscr_drain(const char *call)
{
    int got;

    goscr_quiet_lock();
    got = drain_all(call);
    goscr_quiet_unlock();
    return got;
}

/* How many messages are missing, of those that others say they have sent. */
static uint64_t missing(const uint64_t *promised)
{
    uint64_t n = 0, got;
    int i;

    for (i = 0; i < goscr_size; i++) {
        got = __atomic_load_n(&goscr_received_from[i], __ATOMIC_RELAXED);
        if (promised[i] > got)
            n += promised[i] - got;
    }
    return n;
}

/* How many collective operations this rank has begun over a communicator. */
static uint64_t begun_of(const struct space *s, enum goscr_which which)
{
    return s->begun + (which != GOSCR_NONBLOCKING ? s->blocking : 0) - (which == GOSCR_SAVED ? (uint64_t)s->saved_inside : 0);
}

/*
 * What a rank adds to a sum that is 0 if all ranks of each communicator have begun as many
 * collective operations: the leader as many times a number, as there are others that subtract it.
 */
static uint64_t begun(const struct space *s, const char *in)
{
    uint64_t n = begun_of(s, GOSCR_ALL);
    uint64_t h = ((uint64_t)s->id ^ (n * UINT64_C(0x9e3779b97f4a7c15))) * UINT64_C(0xbf58476d1ce4e5b9);

    if (n == 0 || !goscr_within(s, in))
        return 0;
    h ^= h >> 31;
    return s->leader == goscr_rank ? h * (uint64_t)(s->members - 1) : -h;
}

/*
 * Whether a collective operation has been begun by some ranks only.  Then the first rank that has
 * one, if any has, says how many.  Collective.
 */
static int part_begun(const char *call, MPI_Comm over, const struct space *all, const char *in)
{
    uint64_t mine[2], sum[2];
    size_t at;
    const struct space *s;
    int own, first, n = goscr_collectives(in, 0), failed;
    char why[200] = "not all ranks have begun the same collective operations";

    mine[0] = begun(&goscr_everybody, in);
    for (s = goscr_spaces; s != NULL; s = s->next)
        mine[0] += begun(s, in);
    mine[1] = n > 0;
    failed = PMPI_Allreduce(mine, sum, 2, MPI_UINT64_T, MPI_SUM, over) != MPI_SUCCESS;
    if (failed || sum[0] == 0)
        return failed;
    own = n > 0 ? goscr_rank : goscr_size;
    PMPI_Allreduce(&own, &first, 1, MPI_INT, MPI_MIN, over);
    at = strlen(why);
    if (first == goscr_rank)
        snprintf(why + at, sizeof why - at, ": rank %d has begun and not completed %d; ranks with such operations: %d", goscr_rank, n, (int)sum[1]);
    else if (first == goscr_size)
        snprintf(why + at, sizeof why - at, "; those that were begun are completed");
    else
        snprintf(why + at, sizeof why - at, ": rank %d has begun and not completed some; ranks with such operations: %d", first, (int)sum[1]);
    keep(call, why);
    if (first == goscr_rank || (first == goscr_size && all->leader == goscr_rank))
        fprintf(stderr, "SCR: %s: %s\n", call, why);
    return 1;
}

/* Those of this rank, MPI_COMM_WORLD first; the caller frees them.  Under the lock. */
static struct begun *begun_here(enum goscr_which which, int *n)
{
    const struct space *s;
    struct begun *list;

    *n = 1 + goscr_old_n;
    for (s = goscr_spaces; s != NULL; s = s->next)
        *n += !s->foreign;
    list = malloc(sizeof *list * (size_t)*n);
    if (list == NULL)
        return NULL;
    list[0].space = goscr_everybody.id;
    list[0].n = begun_of(&goscr_everybody, which);
    memcpy(list + 1, goscr_old, sizeof *list * (size_t)goscr_old_n);
    *n = 1 + goscr_old_n;
    for (s = goscr_spaces; s != NULL; s = s->next)
        if (!s->foreign) {
            list[*n].space = s->id;
            list[(*n)++].n = begun_of(s, which);
        }
    return list;
}

/* `list` is sorted by ids. */
static void set_target(struct space *s, const struct begun *list, int n)
{
    int low = 0, high = n, middle;

    while (low < high) {
        middle = low + (high - low) / 2;
        if (list[middle].space < s->id)
            low = middle + 1;
        else
            high = middle;
    }
    /* A communicator that is not in the list was made meanwhile. */
    s->target = low < n && list[low].space == s->id ? list[low].n : 0;
}

static int any_is_less(enum goscr_which which)
{
    const struct space *s;
    int less = begun_of(&goscr_everybody, which) < goscr_everybody.target;

    for (s = goscr_spaces; s != NULL && !less; s = s->next)
        less = begun_of(s, which) < s->target;
    return less;
}

int goscr_is_behind(void)
{
    int behind;

    goscr_quiet_lock();
    behind = any_is_less(GOSCR_ALL);
    goscr_quiet_unlock();
    return behind;
}

int goscr_has_open(void)
{
    int n;

    goscr_quiet_lock();
    n = goscr_collectives(NULL, 0) + goscr_matched;
    goscr_quiet_unlock();
    return n > 0;
}

int goscr_targets(MPI_Comm over, enum goscr_which which, int *behind)
{
    struct begun *list;
    struct space *s;
    int n = 0, failed;

    goscr_quiet_lock();
    list = begun_here(which, &n);
    goscr_quiet_unlock();
    failed = goscr_most(over, list, &n); /* without the lock: the program may be on its way */
    if (failed) {
        if (goscr_rank == 0)
            fprintf(stderr, "SCR: there was no memory to compare the collective operations of the ranks\n");
        free(list);
        return 1;
    }
    goscr_quiet_lock();
    set_target(&goscr_everybody, list, n);
    for (s = goscr_spaces; s != NULL; s = s->next)
        set_target(s, list, n);
    *behind = any_is_less(which);
    goscr_quiet_unlock();
    free(list);
    return 0;
}

void goscr_are_together(void)
{
    goscr_quiet_lock();
    goscr_old_n = 0;
    goscr_quiet_unlock();
}

/* The first rank that has begun fewer than another; goscr_size: none has.  Collective.  Returns 0, or 1 after an error. */
static int first_behind(MPI_Comm over, enum goscr_which which, int *first)
{
    int behind = 0, own;

    if (goscr_targets(over, which, &behind) != 0) /* on all ranks */
        return 1;
    own = behind ? goscr_rank : goscr_size;
    return PMPI_Allreduce(&own, first, 1, MPI_INT, MPI_MIN, over) != MPI_SUCCESS;
}

/*
 * Whether the ranks are saved at different collective operations, and nobody has cared for that: functions that
 * communicate bring their ranks to the same step themselves.  Then the first rank that has begun fewer says so.  A rank
 * that was saved within a blocking one repeats it after a restart, so no other may have completed it.  Collective.
 */
static int are_apart(MPI_Comm over, const char *call)
{
    char why[300];
    int failed, first, calls = goscr_function_calls, any = 0, within = 0;

    if (PMPI_Allreduce(&calls, &any, 1, MPI_INT, MPI_MAX, over) != MPI_SUCCESS)
        return 1;
    failed = first_behind(over, any ? GOSCR_NONBLOCKING : GOSCR_ALL, &first);
    if (!failed && first == goscr_size && !any && goscr_notify_polled == GOSCR_BESIDE) {
        failed = first_behind(over, GOSCR_SAVED, &first);
        within = 1;
    }
    if (failed) {
        keep(call, "the ranks cannot compare their collective operations");
        return 1;
    }
    if (first == goscr_size) {
        goscr_are_together();
        return 0;
    }
    if (within)
        snprintf(why, sizeof why, "rank %d was saved within a blocking collective operation that other ranks have completed: call such "
                 "operations with the lock that the function takes, or set SCR_CR_THREAD=0", first);
    else
        snprintf(why, sizeof why, "rank %d has begun fewer collective operations than others: the ranks were saved at different steps; %s", first,
                 goscr_notify_polled == GOSCR_IN_CALLS ? "if several threads of the program call MPI, the functions have to bring the ranks together by messages"
                                                       : "ask again, set SCR_CR_THREAD=0, or let the functions bring the ranks together by messages");
    keep(call, why);
    if (first == goscr_rank)
        fprintf(stderr, "SCR: %s: %s\n", call, why);
    return 1;
}

/* The ranks of a communicator as those of MPI_COMM_WORLD; NULL: all. */
static char *ranks_of(const struct space *s)
{
    char *in;
    int i;

    if (s->world == NULL || (in = calloc((size_t)goscr_size, 1)) == NULL)
        return NULL;
    for (i = 0; i < s->size; i++)
        if (s->world[i] >= 0)
            in[s->world[i]] = 1;
    return in;
}

/* Receives what is in transit.  Returns whether that fails on any rank.  Collective. */
static int receive_rest(const char *call, MPI_Comm over, const uint64_t *promised, const char *in)
{
    struct timespec pause = {0, 50000};
    int got = 0, idle = 0, any = 1, failed;

    goscr_quiet_lock();
    while (got >= 0 && (missing(promised) > 0 || goscr_collectives(in, 1) > 0)) {
        got = drain_all(call);
        goscr_count_completed();
        if (got > 0)
            idle = 0;
        else if (++idle > 1000)
            nanosleep(&pause, NULL);
    }
    goscr_quiet_unlock();
    failed = got < 0;
    /* No rank continues before all have what was sent to them: their sends may need it. */
    if (PMPI_Allreduce(&failed, &any, 1, MPI_INT, MPI_MAX, over) != MPI_SUCCESS)
        return 1;
    if (any && !failed)
        keep(call, "another rank could not receive a message in transit");
    return any;
}

int goscr_quiet(MPI_Comm comm, const char *call)
{
    MPI_Comm over = comm != MPI_COMM_WORLD ? comm : goscr_ours && goscr_quiet_beside != MPI_COMM_NULL ? goscr_quiet_beside : world;
    const char *unknown;
    uint64_t *promised;
    struct space *all;
    int failed;
    char *in = NULL, why[GOSCR_WHY_SIZE];

    if (world == MPI_COMM_NULL)
        return fails(call, "libscr_cr.so was not called by MPI_Init");
    if (goscr_redirect())
        goscr_unknown = "Fortran's part of MPI was loaded after MPI_Init";
    unknown = goscr_unknown;
    if (unknown == NULL && goscr_ours && goscr_has_window(why)) /* a program that calls itself knows what it does */
        unknown = why;
    all = goscr_space(comm);
    promised = calloc((size_t)goscr_size, sizeof *promised);
    if (all != NULL)
        in = ranks_of(all);
    /* The other ranks hear of it, instead of waiting for this one. */
    if (unknown == NULL && (!goscr_counts || all == NULL || promised == NULL || (all->world != NULL && in == NULL)))
        unknown = "there was no memory to count messages";
    goscr_quiet_lock();
    goscr_count_completed();
    goscr_quiet_unlock();
    /* Without the lock: it may wait for its turn until a checkpoint is complete, whose functions may call MPI. */
    failed = goscr_cr_bookmarks(call, &over, all != NULL ? all->world : NULL, all != NULL ? all->size : 0, goscr_sent_to, goscr_received_from,
                                promised, goscr_size, unknown);
    if (!failed) {
        if (goscr_ours) /* the program has not called, and may be anywhere */
            failed = are_apart(over, call);
        else {
            goscr_quiet_lock();
            failed = part_begun(call, over, all, in);
            goscr_quiet_unlock();
        }
    }
    failed = failed || receive_rest(call, over, promised, in);
    free(promised);
    free(in);
    return failed;
}
