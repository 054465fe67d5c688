/* Counts messages, over all communicators, for each rank of MPI_COMM_WORLD. */

#define _GNU_SOURCE

#include "wrap.h"

#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

int goscr_locks, goscr_depth, goscr_counts, goscr_rank, goscr_size;
void *volatile goscr_owner;
__thread char goscr_thread __attribute__((tls_model("initial-exec")));
uint64_t *goscr_sent_to, *goscr_received_from;
const char *volatile goscr_unknown;
struct space goscr_everybody, *goscr_spaces;
unsigned goscr_freed;
__thread struct recent goscr_recent __attribute__((tls_model("initial-exec")));

void goscr_wait_for_lock(void)
{
    static const struct timespec pause = {0, 50000};
    void *nobody;
    int tries = 0;

    if (__atomic_load_n((void **)&goscr_owner, __ATOMIC_RELAXED) == (void *)&goscr_thread) {
        goscr_depth++;
        return;
    }
    do {
        nobody = NULL;
        if (++tries < 1000)
            sched_yield();
        else
            nanosleep(&pause, NULL);
    } while (!__atomic_compare_exchange_n((void **)&goscr_owner, &nobody, (void *)&goscr_thread, 0, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED));
}

/* ---------------------------------------------------------------- communicators */

/* The ranks in MPI_COMM_WORLD of those of a group. */
static int *world_of(MPI_Group group, int *n)
{
    MPI_Group world;
    int i, *in, *out;

    PMPI_Comm_group(MPI_COMM_WORLD, &world);
    PMPI_Group_size(group, n);
    in = malloc(sizeof *in * (size_t)(*n + 1));
    out = malloc(sizeof *out * (size_t)(*n + 1));
    for (i = 0; in != NULL && i < *n; i++)
        in[i] = i;
    if (in != NULL && out != NULL)
        PMPI_Group_translate_ranks(group, *n, in, world, out);
    for (i = 0; out != NULL && i < *n; i++)
        if (out[i] < 0 || out[i] >= goscr_size)
            out[i] = -1; /* MPI_UNDEFINED */
    PMPI_Group_free(&world);
    if (in == NULL) {
        free(out);
        out = NULL;
    }
    free(in);
    return out;
}

/* Enters ranks of one group of a communicator. */
static void members(struct space *s, const int *world, int n)
{
    int i;

    s->members += n;
    for (i = 0; i < n; i++)
        if (world[i] < 0)
            s->foreign = 1;
        else if (world[i] < s->leader)
            s->leader = world[i];
}

static struct space *add_space(MPI_Comm comm, int64_t id)
{
    struct space *s = calloc(1, sizeof *s);
    MPI_Group group;
    int inter = 0;

    if (s == NULL)
        return NULL;
    s->comm = comm;
    s->id = id;
    s->leader = goscr_size;
    s->users = 1; /* the program, by its handle */
    PMPI_Comm_test_inter(comm, &inter);
    if (inter) {
        PMPI_Comm_group(comm, &group);
        s->own = world_of(group, &s->own_size);
        PMPI_Group_free(&group);
        if (s->own != NULL)
            members(s, s->own, s->own_size);
        PMPI_Comm_remote_group(comm, &group);
    } else
        PMPI_Comm_group(comm, &group);
    s->world = world_of(group, &s->size);
    PMPI_Group_free(&group);
    if (s->world == NULL || (inter && s->own == NULL)) {
        goscr_space_use(s, -1);
        return NULL;
    }
    members(s, s->world, s->size);
    s->next = goscr_spaces;
    goscr_spaces = s;
    return s;
}

/* The id of a new communicator: of the same parent, number and mark come the same ids. */
static int64_t mix(int64_t parent, unsigned number, int64_t mark)
{
    uint64_t h = (uint64_t)parent * UINT64_C(0x9e3779b97f4a7c15) + number;

    h = (h ^ (h >> 29)) * UINT64_C(0xbf58476d1ce4e5b9) + (uint64_t)mark;
    h = (h ^ (h >> 32)) * UINT64_C(0x94d049bb133111eb);
    return (int64_t)(h >> 1) | (INT64_C(1) << 40);
}

struct space *goscr_find_space(MPI_Comm comm)
{
    struct space *s;

    if (comm == MPI_COMM_NULL || !goscr_counts)
        return NULL;
    goscr_quiet_lock();
    for (s = goscr_spaces; s != NULL && s->comm != comm; s = s->next)
        continue;
    if (s == NULL)
        s = add_space(comm, mix(2, 0, 0)); /* made by a call that is not wrapped */
    goscr_quiet_unlock();
    goscr_recent.comm = comm;
    goscr_recent.space = s;
    goscr_recent.freed = goscr_freed;
    return s;
}

/* A number that all ranks of a communicator have in common, of either group if there are two. */
static int64_t sum_of(MPI_Comm comm)
{
    MPI_Group group;
    int64_t sum = 0;
    int i, n, half, inter = 0, *world;

    PMPI_Comm_test_inter(comm, &inter);
    for (half = 0; half <= inter; half++) {
        if (half == 0)
            PMPI_Comm_group(comm, &group);
        else
            PMPI_Comm_remote_group(comm, &group);
        world = world_of(group, &n);
        for (i = 0; world != NULL && i < n; i++)
            sum += mix(4, (unsigned)world[i], 0);
        free(world);
        PMPI_Group_free(&group);
    }
    return sum;
}

static int is_used(int64_t id, const struct space *but)
{
    const struct space *s;

    for (s = goscr_spaces; s != NULL; s = s->next)
        if (s != but && s->id == id)
            return 1;
    return 0;
}

/* Under the lock. */
static void add_with(MPI_Comm made, int64_t id, int64_t mark)
{
    struct space *s = add_space(made, id);

    while (s != NULL && is_used(s->id, s))
        s->id = mix(s->id, 1, mark);
}

void goscr_space_made(MPI_Comm parent, MPI_Comm made, int64_t mark)
{
    struct space *p;
    int64_t id;

    if (!goscr_counts)
        return;
    goscr_quiet_lock();
    p = parent != MPI_COMM_NULL ? goscr_space(parent) : NULL;
    if (p != NULL)
        id = mix(p->id, ++p->children, mark);
    else
        id = made != MPI_COMM_NULL ? mix(3, 0, mark + sum_of(made)) : 0;
    if (made != MPI_COMM_NULL)
        add_with(made, id, mark);
    goscr_quiet_unlock();
}

int64_t goscr_next_child(struct space *parent) { return mix(parent->id, ++parent->children, 0); }

void goscr_space_with(MPI_Comm made, int64_t id)
{
    if (goscr_counts && made != MPI_COMM_NULL)
        add_with(made, id, 0);
}

struct begun goscr_old[GOSCR_MOST_OLD];
int goscr_old_n;

/* No rank can be behind by as many as there is room for, and those before can be forgotten. */
static void note_old(const struct space *s)
{
    if (s->foreign || !goscr_notify_polled)
        return;
    if (goscr_old_n == GOSCR_MOST_OLD) {
        goscr_old_n = GOSCR_MOST_OLD / 2;
        memmove(goscr_old, goscr_old + GOSCR_MOST_OLD / 2, sizeof goscr_old / 2);
    }
    goscr_old[goscr_old_n].space = s->id;
    goscr_old[goscr_old_n++].n = s->begun + s->blocking;
}

void goscr_space_freed(MPI_Comm comm)
{
    struct space **at, *s;

    if (!goscr_counts || comm == MPI_COMM_NULL)
        return;
    goscr_quiet_lock();
    for (at = &goscr_spaces; *at != NULL && (*at)->comm != comm; at = &(*at)->next)
        continue;
    if ((s = *at) != NULL) {
        *at = s->next;
        note_old(s);
        __atomic_fetch_add(&goscr_freed, 1, __ATOMIC_RELAXED);
        goscr_space_use(s, -1); /* requests may outlive the handle of their communicator */
    }
    goscr_quiet_unlock();
}

void goscr_space_use(struct space *s, int n)
{
    int users;

    if (s == NULL || s == &goscr_everybody)
        return; /* MPI_COMM_WORLD is never freed */
    users = goscr_locks ? __atomic_add_fetch(&s->users, n, __ATOMIC_ACQ_REL) : (s->users += n);
    if (users > 0)
        return;
    free(s->world);
    free(s->own);
    free(s);
}

volatile int goscr_inside, goscr_function_calls;

/* Waits until all ranks are in the same call, so that this one does not wait within MPI, where it can do nothing else. */
static void wait_for_all(MPI_Comm comm)
{
    MPI_Request all;
    int tests = 0, done = 0;

    if (PMPI_Ibarrier(comm, &all) != MPI_SUCCESS)
        return;
    while (PMPI_Test(&all, &done, MPI_STATUS_IGNORE) == MPI_SUCCESS && !done)
        goscr_pause_after(++tests);
}

static __thread struct space *in_space __attribute__((tls_model("initial-exec"))); /* the call is over this; NULL: not in one */

void goscr_goes_in(MPI_Comm comm)
{
    struct space *s = comm != MPI_COMM_NULL ? goscr_space(comm) : NULL;

    if (goscr_ours)
        goscr_function_calls = 1;
    if (in_space == NULL && s != NULL && !goscr_ours) { /* MPI may make such a call within another one */
        in_space = s;
        __atomic_fetch_add(&s->inside, 1, __ATOMIC_RELAXED);
    }
    if (s != NULL)
        __atomic_fetch_add(&s->blocking, 1, __ATOMIC_RELAXED);
    __atomic_fetch_add(&goscr_inside, 1, __ATOMIC_RELAXED);
    if (goscr_lends && !goscr_ours && s != NULL && !s->foreign)
        wait_for_all(comm);
}

void goscr_comes_out(void)
{
    if (in_space != NULL)
        __atomic_fetch_sub(&in_space->inside, 1, __ATOMIC_RELAXED);
    in_space = NULL;
    __atomic_fetch_sub(&goscr_inside, 1, __ATOMIC_RELAXED);
}

void goscr_note_inside(int saved)
{
    struct space *s;

    goscr_quiet_lock();
    goscr_everybody.saved_inside = saved ? __atomic_load_n(&goscr_everybody.inside, __ATOMIC_RELAXED) : 0;
    for (s = goscr_spaces; s != NULL; s = s->next)
        s->saved_inside = saved ? __atomic_load_n(&s->inside, __ATOMIC_RELAXED) : 0;
    goscr_quiet_unlock();
}

int goscr_within(const struct space *s, const char *in)
{
    int i;

    if (s->foreign || in == NULL)
        return !s->foreign;
    for (i = 0; i < s->size; i++)
        if (!in[s->world != NULL ? s->world[i] : i])
            return 0;
    for (i = 0; i < s->own_size; i++)
        if (!in[s->own[i]])
            return 0;
    return 1;
}

void goscr_counts_begin(int several)
{
    PMPI_Comm_rank(MPI_COMM_WORLD, &goscr_rank);
    PMPI_Comm_size(MPI_COMM_WORLD, &goscr_size);
    goscr_sent_to = calloc((size_t)goscr_size, sizeof *goscr_sent_to);
    goscr_received_from = calloc((size_t)goscr_size, sizeof *goscr_received_from);
    if (goscr_sent_to == NULL || goscr_received_from == NULL)
        return;
    goscr_everybody.comm = MPI_COMM_WORLD;
    goscr_everybody.size = goscr_everybody.members = goscr_size;
    goscr_everybody.id = 1;
    goscr_locks = several;
    goscr_counts = 1;
    add_space(MPI_COMM_SELF, 2);
}
