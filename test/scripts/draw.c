/*
 * A program that draws its next call of MPI (44-draw.sh): messages by all ways to send and to receive, collective
 * operations, and communicators that come and go.  Its three functions are all that it knows of checkpoints.
 *
 *     draw STEPS SEED   prints a digest of all that was received.  How long ranks compute between two calls, and so
 *                       which are ahead, differs from run to run; what they receive does not
 *
 * A step has parts, each with one call.  The state says which part is next.  With SCR_CR_THREAD=0 the program is saved
 * before a call or within one.  Else it holds a lock while it calls and notes the result, and waits without it; then all
 * steps are messages, since the ranks of a collective operation would wait for each other with the lock, and two threads
 * do them, each with a lock, a communicator and a state of its own.  The number of ranks is a prime, so that one that
 * receives first is enough in each ring.
 */

#define _XOPEN_SOURCE 700
#define _DEFAULT_SOURCE

#include <mpi.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MOST = 600000, MANY = 30000, RANKS = 8, COMMS = 3, STRANDS = 2 };

static int rank, size, locks;
static uint64_t seed;
static struct strand { /* what a thread does */
    struct {
        uint64_t step, part, value, made; /* made: how many communicators, of which the last COMMS are there */
    } now;
    uint64_t id, *out, *in;
    MPI_Comm world; /* all ranks, for this thread alone */
    MPI_Request sending, receiving;
    pthread_mutex_t lock;
} strands[STRANDS];
static int n_strands = 1;
static __thread struct strand *my;
static MPI_Comm comms[COMMS];

int opal_crs_self_user_checkpoint(char **restart_cmd);
int opal_crs_self_user_continue(void);
int opal_crs_self_user_restart(void);

static uint64_t steps;

static uint64_t mixed(uint64_t a, uint64_t b, uint64_t c)
{
    uint64_t h = seed ^ (a * UINT64_C(0x9e3779b97f4a7c15));

    h = (h ^ (h >> 31) ^ b) * UINT64_C(0xbf58476d1ce4e5b9);
    h = (h ^ (h >> 29) ^ c) * UINT64_C(0x94d049bb133111eb);
    return h ^ (h >> 32);
}

static int write_all(FILE *f)
{
    int i, wrong = 0;

    for (i = 0; i < STRANDS; i++)
        wrong = fwrite(&strands[i].now, sizeof strands[i].now, 1, f) != 1 || wrong;
    return wrong;
}

int opal_crs_self_user_checkpoint(char **restart_cmd)
{
    FILE *f = fopen("state", "w");
    int i, wrong;

    (void)restart_cmd;
    for (i = 0; locks && i < n_strands; i++)
        pthread_mutex_lock(&strands[i].lock);
    wrong = f == NULL || write_all(f);
    return (f != NULL && fclose(f) != 0) || wrong;
}

int opal_crs_self_user_continue(void)
{
    int i;

    for (i = 0; locks && i < n_strands; i++)
        pthread_mutex_unlock(&strands[i].lock);
    return 0;
}

int opal_crs_self_user_restart(void)
{
    FILE *f = fopen("state", "r");
    int i, wrong = f == NULL;

    for (i = 0; i < STRANDS && !wrong; i++)
        wrong = fread(&strands[i].now, sizeof strands[i].now, 1, f) != 1;
    return (f != NULL && fclose(f) != 0) || wrong;
}

static void enter(void)
{
    if (locks)
        pthread_mutex_lock(&my->lock);
}

static void leave(void)
{
    if (locks)
        pthread_mutex_unlock(&my->lock);
}

static void compute(void)
{
    int n = rand() % 100;

    if (n < 40)
        usleep((unsigned)(n * n));
    else if (n == 99)
        usleep(20000);
}

static void take(const uint64_t *data, int n)
{
    int i;

    for (i = 0; i < n; i++)
        my->now.value = (my->now.value ^ data[i]) * UINT64_C(6364136223846793005) + 1;
}

static void fill(int n)
{
    int i;

    for (i = 0; i < n; i++)
        my->out[i] = mixed(my->now.step, (uint64_t)rank + 1000 * my->id, (uint64_t)i) ^ my->now.value;
}

static void make_one(uint64_t number)
{
    MPI_Comm *comm = &comms[number % COMMS];

    if (*comm != MPI_COMM_NULL)
        MPI_Comm_free(comm);
    if (number % 2 == 0)
        MPI_Comm_dup(MPI_COMM_WORLD, comm);
    else
        MPI_Comm_split(MPI_COMM_WORLD, 0, number % 4 == 1 ? -rank : rank, comm);
}

/* What a step does, the same on all ranks. */
static struct step {
    uint64_t kind, how, way, sends, receives;
    int n, to, from, tag, me; /* ranks in comm */
    MPI_Comm comm;
} drawn(void)
{
    struct step s;
    uint64_t h = mixed(my->now.step, 77 + my->id, 0);
    int distance = 1 + (int)(h >> 40) % (size - 1);

    s.kind = h % 10;
    s.how = (h >> 8) % 16;
    s.sends = (h >> 16) % 4;
    s.receives = (h >> 20) % 6;
    s.n = 1 + (int)((h >> 24) % 50);
    if ((h >> 50) % 24 == 0 && s.sends != 1)
        s.n = MOST - s.n;
    else if ((h >> 32) % 4 == 0)
        s.n = MANY - s.n;
    s.comm = locks ? my->world : my->now.made == 0 || (h >> 36) % 2 ? MPI_COMM_WORLD : comms[(h >> 37) % (my->now.made < COMMS ? my->now.made : COMMS)];
    s.tag = (int)((h >> 44) % 3);
    MPI_Comm_rank(s.comm, &s.me);
    s.to = (s.me + distance) % size;
    s.from = (s.me + size - distance) % size;
    return s;
}

static int send_blocking(const struct step *s)
{
    switch (s->sends) {
    case 0:
        return MPI_Ssend(my->out, s->n, MPI_UINT64_T, s->to, s->tag, s->comm);
    case 1:
        return MPI_Bsend(my->out, s->n, MPI_UINT64_T, s->to, s->tag, s->comm);
    default:
        return MPI_Send(my->out, s->n, MPI_UINT64_T, s->to, s->tag, s->comm);
    }
}

static int begin_send(const struct step *s)
{
    return s->sends % 2 ? MPI_Issend(my->out, s->n, MPI_UINT64_T, s->to, s->tag, s->comm, &my->sending)
                        : MPI_Isend(my->out, s->n, MPI_UINT64_T, s->to, s->tag, s->comm, &my->sending);
}

static int receive(const struct step *s)
{
    MPI_Message message;
    MPI_Status status;
    MPI_Request r = MPI_REQUEST_NULL;
    int index, count;

    switch (s->receives) {
    case 0:
        MPI_Probe(s->from, s->tag, s->comm, &status);
        break;
    case 1:
        MPI_Irecv(my->in, MOST, MPI_UINT64_T, s->from, MPI_ANY_TAG, s->comm, &r);
        return MPI_Waitany(1, &r, &index, &status);
    case 2:
        MPI_Irecv(my->in, MOST, MPI_UINT64_T, s->from, s->tag, s->comm, &r);
        return MPI_Waitsome(1, &r, &count, &index, &status);
    case 3:
        MPI_Recv_init(my->in, MOST, MPI_UINT64_T, s->from, s->tag, s->comm, &r);
        MPI_Start(&r);
        MPI_Wait(&r, &status);
        /* Freed later: the call may be the one within which the program is saved, and the message is received then. */
        take(my->in, s->n);
        my->now.part++;
        return MPI_Request_free(&r);
    case 4:
        if (s->how % 2 == 0)
            break;
        MPI_Mprobe(s->from, s->tag, s->comm, &message, &status);
        return MPI_Mrecv(my->in, MOST, MPI_UINT64_T, &message, &status);
    }
    return MPI_Recv(my->in, MOST, MPI_UINT64_T, s->from, s->tag, s->comm, &status);
}

static void received(const struct step *s)
{
    uint64_t part = my->now.part;

    receive(s);
    if (my->now.part != part)
        return;
    take(my->in, s->n);
    my->now.part++;
}

/* Messages around a ring: those at even places receive first if the send may wait. */
static void exchange(const struct step *s)
{
    int first = s->n < 100 && s->sends > 1 ? 1 : s->me == 0 ? 0 : 1; /* one rank that receives first is enough */

    while (my->now.part < 2)
        if ((my->now.part == 0) == first) {
            fill(s->n);
            send_blocking(s);
            my->now.part++;
        } else
            received(s);
}

static void exchange_at_once(const struct step *s)
{
    if (s->how % 2 == 0) {
        fill(s->n);
        MPI_Sendrecv(my->out, s->n, MPI_UINT64_T, s->to, s->tag, my->in, MOST, MPI_UINT64_T, s->from, s->tag, s->comm, MPI_STATUS_IGNORE);
        take(my->in, s->n);
    } else {
        fill(s->n);
        MPI_Sendrecv_replace(my->out, s->n, MPI_UINT64_T, s->to, s->tag, s->from, s->tag, s->comm, MPI_STATUS_IGNORE);
        take(my->out, s->n);
    }
    my->now.part = 1;
}

/* A receive that is begun, then a send, and both are waited for; after a restart the receive is begun again. */
static void exchange_later(const struct step *s)
{
    MPI_Request both[2];
    MPI_Status statuses[2];

    MPI_Irecv(my->in, MOST, MPI_UINT64_T, s->from, s->tag, s->comm, &my->receiving);
    if (my->now.part == 0) {
        fill(s->n);
        begin_send(s);
        my->now.part = 1;
    }
    compute();
    both[0] = my->receiving;
    both[1] = my->sending;
    MPI_Waitall(2, both, statuses);
    my->receiving = my->sending = MPI_REQUEST_NULL;
    take(my->in, s->n);
}

#define U MPI_UINT64_T
static void collective(const struct step *s)
{
    int n = s->n % 50 + 1, root = (int)(s->sends % (uint64_t)size), counts[RANKS], places[RANKS], i;
    MPI_Comm c = s->comm;
    MPI_Request r = MPI_REQUEST_NULL;
    int got = n;

    for (i = 0; i < size; i++) {
        counts[i] = n;
        places[i] = i * n;
    }
    fill(n * size);
    memset(my->in, 0, sizeof *my->in * (size_t)(n * size));
#define DO(name, iname, ...)                        \
    if (s->kind % 2 == 0)                           \
        MPI_##name(__VA_ARGS__, c);                 \
    else {                                          \
        MPI_I##iname(__VA_ARGS__, c, &r);           \
        compute();                                  \
        MPI_Wait(&r, MPI_STATUS_IGNORE);            \
    }                                               \
    break
    switch (s->how) {
    case 0:
        memcpy(my->in, my->out, sizeof *my->in * (size_t)n);
        DO(Bcast, bcast, my->in, n, U, root);
    case 1:
        got = s->me == root ? n : 0;
        DO(Reduce, reduce, my->out, my->in, n, U, MPI_BXOR, root);
    case 2:
        DO(Allreduce, allreduce, my->out, my->in, n, U, MPI_SUM);
    case 3:
        DO(Scan, scan, my->out, my->in, n, U, MPI_SUM);
    case 4:
        got = s->me == 0 ? 0 : n;
        DO(Exscan, exscan, my->out, my->in, n, U, MPI_SUM);
    case 5:
        DO(Reduce_scatter, reduce_scatter, my->out, my->in, counts, U, MPI_SUM);
    case 6:
        DO(Reduce_scatter_block, reduce_scatter_block, my->out, my->in, n, U, MPI_SUM);
    case 7:
        got = s->me == root ? n * size : 0;
        DO(Gather, gather, my->out, n, U, my->in, n, U, root);
    case 8:
        got = s->me == root ? n * size : 0;
        DO(Gatherv, gatherv, my->out, n, U, my->in, counts, places, U, root);
    case 9:
        DO(Scatter, scatter, my->out, n, U, my->in, n, U, root);
    case 10:
        DO(Scatterv, scatterv, my->out, counts, places, U, my->in, n, U, root);
    case 11:
        got = n * size;
        DO(Allgather, allgather, my->out, n, U, my->in, n, U);
    case 12:
        got = n * size;
        DO(Allgatherv, allgatherv, my->out, n, U, my->in, counts, places, U);
    case 13:
        got = n * size;
        DO(Alltoall, alltoall, my->out, n, U, my->in, n, U);
    case 14:
        got = n * size;
        DO(Alltoallv, alltoallv, my->out, counts, places, U, my->in, counts, places, U);
    default:
        got = 0;
        if (s->kind % 2 == 0)
            MPI_Barrier(c);
        else {
            MPI_Ibarrier(c, &r);
            MPI_Wait(&r, MPI_STATUS_IGNORE);
        }
    }
    take(my->in, got);
}

/* With the lock: the rank before sends up to three messages ahead. */
static void exchange_with_lock(const struct step *s)
{
    MPI_Status status;
    MPI_Message message;
    int there = 0;

    enter();
    if (my->now.part == 0) {
        fill(s->n);
        if (s->n > 100)
            begin_send(s); /* a large one would wait for its receiver */
        else
            send_blocking(s);
        my->now.part = 1;
    }
    leave();
    while (my->now.part == 1) {
        compute();
        enter();
        if (s->receives % 3 == 0) {
            MPI_Improbe(s->from, s->tag, s->comm, &there, &message, &status);
            if (there)
                MPI_Mrecv(my->in, MOST, MPI_UINT64_T, &message, &status);
        } else if (s->receives % 3 == 1) {
            MPI_Iprobe(s->from, s->tag, s->comm, &there, &status);
            if (there)
                MPI_Recv(my->in, MOST, MPI_UINT64_T, s->from, s->tag, s->comm, &status);
        } else {
            if (my->receiving == MPI_REQUEST_NULL)
                MPI_Irecv(my->in, MOST, MPI_UINT64_T, s->from, s->tag, s->comm, &my->receiving);
            MPI_Test(&my->receiving, &there, &status);
        }
        if (there) {
            take(my->in, s->n);
            my->now.part = 2;
        }
        leave();
    }
    while (my->sending != MPI_REQUEST_NULL) {
        enter();
        MPI_Test(&my->sending, &there, &status);
        leave();
    }
}

static void one_step(void)
{
    struct step s = drawn();

    compute();
    if (locks) {
        s.sends += 2; /* no rank receives while it sends, but what this sends is received when the program is saved */
        if (s.n < MOST - 100)
            s.n = s.n % 50 + 1;
        exchange_with_lock(&s);
    } else if (s.kind < 3)
        exchange(&s);
    else if (s.kind < 4)
        exchange_at_once(&s);
    else if (s.kind < 6)
        exchange_later(&s);
    else if (s.kind < 9)
        collective(&s);
    else {
        make_one(my->now.made);
        my->now.made++;
    }
    enter();
    my->now.part = 0;
    my->now.step++;
    leave();
}

/* Does all steps of a thread. */
static void *live(void *strand)
{
    my = strand;
    while (my->now.step < steps)
        one_step();
    return NULL;
}

static void begin(struct strand *s, uint64_t id)
{
    s->id = id;
    s->world = MPI_COMM_WORLD;
    s->sending = s->receiving = MPI_REQUEST_NULL;
    pthread_mutex_init(&s->lock, NULL);
    s->out = malloc(MOST * sizeof *s->out);
    s->in = malloc(MOST * sizeof *s->in);
    if (s->out == NULL || s->in == NULL)
        MPI_Abort(MPI_COMM_WORLD, 3);
    if (id > 0)
        MPI_Comm_dup(MPI_COMM_WORLD, &s->world);
}

int main(int argc, char **argv)
{
    uint64_t digest = 0, all = 0, number;
    int i, level, room = 64 * MANY * (int)sizeof digest;
    const char *thread = getenv("SCR_CR_THREAD");
    pthread_t other;

    (void)argc;
    steps = strtoull(argv[1], NULL, 10);
    seed = strtoull(argv[2], NULL, 10);
    locks = getenv("DRAW_LOCKS") == NULL && (thread == NULL || strcmp(thread, "0") != 0);
    if (locks)
        n_strands = STRANDS;
    for (i = 0; i < COMMS; i++)
        comms[i] = MPI_COMM_NULL;
    MPI_Init_thread(NULL, NULL, locks ? MPI_THREAD_MULTIPLE : MPI_THREAD_SINGLE, &level);
    if (locks && level != MPI_THREAD_MULTIPLE)
        return EXIT_FAILURE;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Buffer_attach(malloc((size_t)room), room);
    srand((unsigned)(getpid() + rank));
    for (i = 0; i < n_strands; i++)
        begin(&strands[i], (uint64_t)i);
    /* Communicators have the same numbers as before if all are made again. */
    for (number = 0; number < strands[0].now.made; number++)
        make_one(number);
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 0)
        fprintf(stderr, "the program has begun\n");
    if (n_strands > 1 && pthread_create(&other, NULL, live, &strands[1]) != 0)
        return EXIT_FAILURE;
    live(&strands[0]);
    if (n_strands > 1)
        pthread_join(other, NULL);
    for (i = 0; i < n_strands; i++)
        digest += strands[i].now.value * (2 * (uint64_t)rank + 1 + 100 * strands[i].id);
    MPI_Reduce(&digest, &all, 1, U, MPI_SUM, 0, MPI_COMM_WORLD);
    if (rank == 0) {
        printf("result %llx\n", (unsigned long long)all);
        fflush(stdout);
    }
    MPI_Finalize();
    return 0;
}
