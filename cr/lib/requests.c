/* Requests of the program that have to be known when it is brought to rest. */

#include "quiet.h"

#include "inside.h"

#include <stdlib.h>
#include <string.h>

volatile int goscr_entries;

static int cancels; /* the program has cancelled a receive */
static struct entry *table;
static size_t places; /* a power of two */
static size_t freed;  /* entries that are GOSCR_FREED */
static uint64_t begun;

static size_t place_of(MPI_Request r)
{
    uint64_t key = 0;

    memcpy(&key, &r, sizeof r);
    return (size_t)((key * UINT64_C(0x9e3779b97f4a7c15)) >> 32) & (places - 1);
}

struct entry *goscr_entry(MPI_Request r)
{
    size_t i;

    if (r == MPI_REQUEST_NULL || goscr_entries == 0)
        return NULL;
    for (i = place_of(r); table[i].request != MPI_REQUEST_NULL; i = (i + 1) & (places - 1))
        if (table[i].request == r)
            return &table[i];
    return NULL;
}

static int grow(void)
{
    struct entry *before = table;
    size_t n = places, i, j;

    places = n > 0 ? 2 * n : 64;
    table = malloc(places * sizeof *table);
    if (table == NULL) {
        table = before;
        places = n;
        return 1;
    }
    for (i = 0; i < places; i++)
        table[i].request = MPI_REQUEST_NULL;
    for (i = 0; i < n; i++)
        if (before[i].request != MPI_REQUEST_NULL) {
            for (j = place_of(before[i].request); table[j].request != MPI_REQUEST_NULL; j = (j + 1) & (places - 1))
                continue;
            table[j] = before[i];
        }
    free(before);
    return 0;
}

struct entry *goscr_enter_request(MPI_Request r, struct space *space, int is)
{
    size_t i;

    if (!goscr_counts || r == MPI_REQUEST_NULL)
        return NULL;
    if ((size_t)goscr_entries * 2 >= places && freed * 8 > places)
        goscr_count_completed(); /* else those that are complete would stay until the program comes to rest */
    if ((size_t)goscr_entries * 2 >= places && grow() != 0) {
        goscr_unknown = "there was no memory for a request";
        return NULL;
    }
    for (i = place_of(r); table[i].request != MPI_REQUEST_NULL && table[i].request != r; i = (i + 1) & (places - 1))
        continue;
    if (table[i].request == r) { /* one that MPI has completed where nobody sees it */
        if (table[i].is & GOSCR_FREED)
            freed--;
        free(table[i].more);
        goscr_space_use(table[i].space, -1);
    } else
        goscr_entries++;
    table[i].request = r;
    table[i].space = space;
    table[i].more = NULL;
    table[i].is = is;
    table[i].buffer = NULL;
    table[i].count = 0;
    table[i].type = MPI_DATATYPE_NULL;
    table[i].order = ++begun;
    goscr_space_use(space, 1);
    return &table[i];
}

struct more *goscr_more(struct entry *e)
{
    if (e != NULL && e->more == NULL)
        e->more = calloc(1, sizeof *e->more);
    return e != NULL ? e->more : NULL;
}

/* Removes an entry; who calls has a copy, or frees what it has. */
static void take_out(struct entry *e)
{
    size_t hole = (size_t)(e - table), i = hole, home;
    int is_freed = e->is & GOSCR_FREED;

    for (;;) { /* what follows moves up if its place is not between */
        i = (i + 1) & (places - 1);
        if (table[i].request == MPI_REQUEST_NULL)
            break;
        home = place_of(table[i].request);
        if (((i - home) & (places - 1)) >= ((i - hole) & (places - 1))) {
            table[hole] = table[i];
            hole = i;
        }
    }
    table[hole].request = MPI_REQUEST_NULL;
    goscr_entries--;
    if (is_freed)
        freed--;
}

/* What an entry had that is in no table any more. */
static void release(struct entry *e)
{
    free(e->more);
    goscr_space_use(e->space, -1);
}

void goscr_forget(struct entry *e)
{
    struct entry gone = *e;

    take_out(e);
    release(&gone);
}

/* Takes note of a completion.  The entry may be a copy, and the lock is not needed but for MPI_Comm_idup. */
static void note(struct entry *e, MPI_Status *status)
{
    int cancelled = 0;

    if (!(e->is & (GOSCR_SENDS | GOSCR_COLLECTIVE | GOSCR_DONE | GOSCR_COUNTED)) && (e->is & (GOSCR_ACTIVE | GOSCR_PERSISTENT)) != GOSCR_PERSISTENT) {
        if (cancels)
            PMPI_Test_cancelled(status, &cancelled);
        if (!cancelled)
            goscr_count(goscr_received_from, e->space, status->MPI_SOURCE);
    }
    if (e->more != NULL)
        goscr_seen(e, status);
    e->is &= ~(GOSCR_ACTIVE | GOSCR_COUNTED | GOSCR_DONE | GOSCR_GIVEN | GOSCR_AWAITED);
}

void goscr_seen(struct entry *e, MPI_Status *status)
{
    struct more *more = e->more;

    if (e->is & GOSCR_DONE)
        *status = more->status;
    else if (e->is & GOSCR_GIVEN) {
        status->MPI_SOURCE = more->source;
        status->MPI_TAG = more->given_tag;
    } else if (more != NULL && more->made_id != 0) {
        goscr_quiet_lock();
        goscr_space_with(more->made, more->made_id);
        more->made_id = 0;
        goscr_quiet_unlock();
    }
}

void goscr_freed_request(struct entry *e)
{
    e->is |= GOSCR_FREED;
    freed++;
}

void goscr_completed(struct entry *e, MPI_Request now, MPI_Status *status)
{
    if (now != MPI_REQUEST_NULL && !(e->is & GOSCR_PERSISTENT))
        return; /* an error, after which the request is still there */
    note(e, status);
    if (!(e->is & GOSCR_PERSISTENT))
        goscr_forget(e);
}

int goscr_await(MPI_Request r, struct entry *taken)
{
    struct entry *e;

    if (goscr_entries == 0)
        return 0;
    goscr_quiet_lock();
    e = goscr_entry(r);
    if (e != NULL) {
        *taken = *e;
        if (e->is & GOSCR_PERSISTENT)
            e->is |= GOSCR_AWAITED;
        else
            take_out(e);
    }
    goscr_quiet_unlock();
    return e != NULL;
}

void goscr_put_back(struct entry *taken, MPI_Request now)
{
    struct entry *e;

    goscr_quiet_lock();
    if (taken->is & GOSCR_PERSISTENT) {
        if ((e = goscr_entry(taken->request)) != NULL)
            e->is = taken->is & ~GOSCR_AWAITED;
    } else if ((e = goscr_enter_request(now, taken->space, taken->is)) != NULL) {
        e->more = taken->more;
        e->buffer = taken->buffer;
        e->count = taken->count;
        e->type = taken->type;
        e->order = taken->order;
        goscr_space_use(taken->space, -1); /* it was counted as a user once before */
    }
    goscr_quiet_unlock();
}

void goscr_waited(struct entry *taken, MPI_Request now, MPI_Status *status)
{
    if (now != MPI_REQUEST_NULL && !(taken->is & GOSCR_PERSISTENT)) {
        goscr_put_back(taken, now); /* an error, after which the request is still there */
        return;
    }
    note(taken, status); /* before the lock: who has it may wait for the message */
    if (taken->is & GOSCR_PERSISTENT)
        goscr_put_back(taken, now);
    else
        release(taken);
}

void goscr_started(struct entry *e)
{
    e->is = (e->is | GOSCR_ACTIVE) & ~(GOSCR_COUNTED | GOSCR_DONE);
    e->order = ++begun;
    if (e->is & GOSCR_COLLECTIVE)
        e->space->begun++;
    else if (e->is & GOSCR_SENDS)
        goscr_count(goscr_sent_to, e->space, e->more->peer);
}

void goscr_count_completed(void)
{
    MPI_Status status;
    MPI_Request r;
    size_t i;
    int done, cancelled;

    for (i = 0; i < places; i++) {
        struct entry *e = &table[i];

        if (e->request == MPI_REQUEST_NULL || (e->is & (GOSCR_SENDS | GOSCR_COUNTED | GOSCR_DONE | GOSCR_GIVEN | GOSCR_AWAITED)) ||
            (e->is & (GOSCR_PERSISTENT | GOSCR_ACTIVE)) == GOSCR_PERSISTENT)
            continue;
        done = 0;
        if (PMPI_Request_get_status(e->request, &done, &status) != MPI_SUCCESS || !done)
            continue;
        e->is |= GOSCR_COUNTED;
        if (e->is & GOSCR_COLLECTIVE)
            continue;
        PMPI_Test_cancelled(&status, &cancelled);
        if (!cancelled)
            goscr_count(goscr_received_from, e->space, status.MPI_SOURCE);
        if (e->is & GOSCR_FREED) {
            r = e->request;
            goscr_forget(e);
            PMPI_Request_free(&r);
            i = (size_t)-1; /* others have moved */
        }
    }
}

int goscr_collectives(const char *in, int open)
{
    size_t i;
    int n = 0;

    for (i = 0; i < places; i++)
        if (table[i].request != MPI_REQUEST_NULL && (table[i].is & GOSCR_COLLECTIVE) && !(open && (table[i].is & GOSCR_COUNTED)) &&
            (table[i].is & (GOSCR_PERSISTENT | GOSCR_ACTIVE)) != GOSCR_PERSISTENT && goscr_within(table[i].space, in))
            n++;
    return n;
}

void goscr_cancels(MPI_Request r)
{
    const struct entry *e = goscr_entry(r);
    int done = 0;

    if (e != NULL && !(e->is & GOSCR_SENDS))
        cancels = 1;
    else if (r != MPI_REQUEST_NULL && (PMPI_Request_get_status(r, &done, MPI_STATUS_IGNORE) != MPI_SUCCESS || !done))
        goscr_unknown = "a send was cancelled";
}

void goscr_receives(struct entry *e, void *buffer, int count, MPI_Datatype type)
{
    if (e == NULL)
        return;
    e->buffer = buffer;
    e->count = count;
    e->type = type;
}

/* ------------------------------------------------ what receives have, and the program has not seen */

/* Whether an entry is a receive that has got its message; its status. */
static int has_message(struct entry *e, MPI_Status *status)
{
    int done = 0, cancelled = 0;

    if (e->request == MPI_REQUEST_NULL || (e->is & (GOSCR_SENDS | GOSCR_COLLECTIVE | GOSCR_FREED)) ||
        (e->is & (GOSCR_PERSISTENT | GOSCR_ACTIVE)) == GOSCR_PERSISTENT)
        return 0;
    if (e->is & GOSCR_DONE) {
        *status = e->more->status;
        return 1;
    }
    if (PMPI_Request_get_status(e->request, &done, status) != MPI_SUCCESS || !done)
        return 0;
    if (e->is & GOSCR_GIVEN) {
        status->MPI_SOURCE = e->more->source;
        status->MPI_TAG = e->more->given_tag;
    }
    PMPI_Test_cancelled(status, &cancelled);
    return !cancelled && status->MPI_SOURCE >= 0;
}

/* Puts the message of an entry into the next snapshot.  Returns why not, NULL: it is there. */
static const char *copy(const struct entry *e, MPI_Status *status)
{
    MPI_Count n = 0;
    void *data = NULL;
    int64_t room = 0;
    int count = 0, failed;

    if (e->type == MPI_DATATYPE_NULL)
        return "it is not known where a receive has put its message";
    PMPI_Get_elements_x(status, MPI_BYTE, &n);
    if (PMPI_Get_count(status, e->type, &count) != MPI_SUCCESS || count == MPI_UNDEFINED || count > e->count)
        count = e->count;
    if (goscr_bytes_of(e->buffer, count, e->type, &data, &room) != MPI_SUCCESS)
        return "there was no memory for a message that the program has not seen";
    failed = n > room || goscr_cr_copy(e->space->id, status->MPI_SOURCE, status->MPI_TAG, data, n) != 0;
    free(data);
    return failed ? "a message that the program has not seen is longer than its receive" : NULL;
}

static int earlier(const void *a, const void *b)
{
    const struct entry *const *x = a, *const *y = b;

    return (*x)->order < (*y)->order ? -1 : (*x)->order > (*y)->order;
}

const char *goscr_copy_unseen(void)
{
    struct entry **list = malloc(sizeof *list * ((size_t)goscr_entries + 1));
    MPI_Status status;
    const char *wrong = NULL;
    size_t i, n = 0;

    if (list == NULL)
        return "there was no memory for the receives that were begun";
    for (i = 0; i < places && goscr_entries > 0; i++)
        if (has_message(&table[i], &status))
            list[n++] = &table[i];
    qsort(list, n, sizeof(struct entry *), earlier);
    for (i = 0; i < n && wrong == NULL; i++)
        if (has_message(list[i], &status))
            wrong = copy(list[i], &status);
    free(list);
    return wrong;
}

/* ------------------------------------------------------------------- types in use */

/* Types that the program has freed while a receive needs them. */
static struct old_type {
    MPI_Datatype type;
    struct old_type *next;
} *old_types;

static int is_needed(MPI_Datatype type)
{
    size_t i;

    for (i = 0; i < places && goscr_entries > 0; i++)
        if (table[i].request != MPI_REQUEST_NULL && table[i].type == type)
            return 1;
    return 0;
}

static void free_old_types(void)
{
    struct old_type **at = &old_types, *t;

    while ((t = *at) != NULL)
        if (is_needed(t->type))
            at = &t->next;
        else {
            *at = t->next;
            PMPI_Type_free(&t->type);
            free(t);
        }
}

int MPI_Type_free(MPI_Datatype *type)
{
    struct old_type *t = NULL;

    goscr_quiet_lock();
    if (old_types != NULL)
        free_old_types();
    if (goscr_entries > 0 && is_needed(*type) && (t = malloc(sizeof *t)) != NULL) {
        t->type = *type;
        t->next = old_types;
        old_types = t;
    }
    goscr_quiet_unlock();
    if (t == NULL)
        return PMPI_Type_free(type);
    *type = MPI_DATATYPE_NULL;
    return MPI_SUCCESS;
}
