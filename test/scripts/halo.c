/*
 * A program whose messages are in transit at every instant (44-inside.sh): in each step each rank
 * sends to its neighbours, by all ways that MPI has, and receives up to three steps later, also by
 * all ways.  Which ones, a seed decides.
 *
 *     halo STEPS SEED [CHECKPOINTS]   prints a digest of all that was received.  With CHECKPOINTS
 *                                     it writes that many at random steps, and ends after each;
 *                                     started again, it continues from the last.  With -CHECKPOINTS
 *                                     it does not end
 */

#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "scr_cr.h"

enum { LATE = 3, SLOTS = 8, WAYS = 4, MOST = 20000 };

static int rank, size, restarted;
static uint64_t seed;
static MPI_Comm comms[2];

static struct sending {
    MPI_Request request;
    int begun, persistent;
    uint64_t data[MOST];
} sending[SLOTS][WAYS];

/* A receive that was begun before it is waited for. */
struct posted {
    int begun, done, persistent, count, source;
};
static struct receiving {
    MPI_Request request;
    struct posted is;
    uint64_t data[MOST];
} receiving[SLOTS][WAYS];

static struct {
    uint64_t step, value, sum;
} now;

static uint64_t mixed(uint64_t a, uint64_t b, uint64_t c, uint64_t d)
{
    uint64_t h = seed ^ (a * UINT64_C(0x9e3779b97f4a7c15));

    h = (h ^ (h >> 31) ^ b) * UINT64_C(0xbf58476d1ce4e5b9);
    h = (h ^ (h >> 29) ^ c) * UINT64_C(0x94d049bb133111eb);
    h = (h ^ (h >> 32) ^ d) * UINT64_C(0xd6e8feb86659fd93);
    return h ^ (h >> 32);
}

static void die(const char *why)
{
    printf("rank %d, step %d: %s\n", rank, (int)now.step, why);
    fflush(stdout);
    MPI_Abort(MPI_COMM_WORLD, 1);
}

/* What is sent in a step by a rank to the one `way` ranks behind it; the last two of any source. */
struct message {
    int to, from, tag, size, late, sends, receives;
    MPI_Comm comm;
};
static struct message message(uint64_t step, int from, int way)
{
    struct message m;
    uint64_t h = mixed(1, step, (uint64_t)from, (uint64_t)way);
    int any = way >= 2;

    m.from = from;
    m.to = (from + 1 + way % 2) % size;
    m.comm = comms[any ? 0 : h & 1];
    m.tag = any ? 9 : (int)((h >> 1) % 3);
    m.sends = (int)((h >> 8) % 6);
    m.receives = (int)((h >> 16) % 7);
    m.late = (int)((h >> 24) % (LATE + 1));
    m.size = 1 + (int)((h >> 32) % 60);
    if (!any && m.sends != 4 && m.sends != 1 && m.sends != 5 && (h >> 40) % 5 == 0)
        m.size = MOST - (int)((h >> 44) % 50); /* not at once in any MPI */
    return m;
}

static void send_one(uint64_t step, int way)
{
    struct sending *s = &sending[step % SLOTS][way];
    struct message m = message(step, rank, way);
    int i;

    if (s->begun) {
        MPI_Wait(&s->request, MPI_STATUS_IGNORE);
        if (s->persistent)
            MPI_Request_free(&s->request);
    }
    for (i = 0; i < m.size; i++)
        s->data[i] = mixed(2, step, (uint64_t)(rank * WAYS + way), (uint64_t)i) ^ (way < 2 ? now.value : 0);
    s->begun = 1;
    s->persistent = 0;
    s->request = MPI_REQUEST_NULL;
    switch (m.sends) {
    case 0:
        MPI_Isend(s->data, m.size, MPI_UINT64_T, m.to, m.tag, m.comm, &s->request);
        break;
    case 1:
        MPI_Bsend(s->data, m.size, MPI_UINT64_T, m.to, m.tag, m.comm);
        break;
    case 2:
        MPI_Issend(s->data, m.size, MPI_UINT64_T, m.to, m.tag, m.comm, &s->request);
        break;
    case 3:
        MPI_Send_init(s->data, m.size, MPI_UINT64_T, m.to, m.tag, m.comm, &s->request);
        MPI_Start(&s->request);
        s->persistent = 1;
        break;
    case 4:
        MPI_Send(s->data, m.size, MPI_UINT64_T, m.to, m.tag, m.comm);
        break;
    case 5:
        MPI_Ibsend(s->data, m.size, MPI_UINT64_T, m.to, m.tag, m.comm, &s->request);
        break;
    }
}

static void take(int way, const uint64_t *data, int n)
{
    int i;

    for (i = 0; i < n; i++)
        if (way < 2)
            now.value = (now.value ^ data[i]) * UINT64_C(6364136223846793005) + 1;
        else
            now.sum += data[i]; /* in any order */
}

static int begins_early(int receives) { return receives == 1 || receives == 2; }

static void begin_receive(uint64_t step, int way)
{
    struct message m = message(step, (rank + 2 * size - 1 - way % 2) % size, way);
    struct receiving *r = &receiving[step % SLOTS][way];
    int source = way < 2 ? m.from : MPI_ANY_SOURCE;

    if (!begins_early(m.receives))
        return;
    memset(&r->is, 0, sizeof r->is);
    r->is.begun = 1;
    r->is.persistent = m.receives == 2;
    if (r->is.persistent) {
        MPI_Recv_init(r->data, MOST, MPI_UINT64_T, source, m.tag, m.comm, &r->request);
        MPI_Start(&r->request);
    } else
        MPI_Irecv(r->data, MOST, MPI_UINT64_T, source, m.tag, m.comm, &r->request);
}

static void receive_one(uint64_t step, int way)
{
    static uint64_t data[MOST];
    struct message m = message(step, (rank + 2 * size - 1 - way % 2) % size, way);
    struct receiving *r = &receiving[step % SLOTS][way];
    int source = way < 2 ? m.from : MPI_ANY_SOURCE, n = 0, flag = 0, index;
    MPI_Status status;
    MPI_Message matched;
    MPI_Request request;
    uint64_t one = 0;

    memset(&status, 0, sizeof status);
    if (r->is.begun) {
        if (!r->is.done) {
            if (r->is.persistent || step % 2 == 0)
                MPI_Wait(&r->request, &status);
            else {
                MPI_Waitany(1, &r->request, &index, &status);
                if (index != 0)
                    die("MPI_Waitany does not find the request");
            }
            MPI_Get_count(&status, MPI_UINT64_T, &n);
            if (way < 2 && status.MPI_SOURCE != m.from)
                die("a message of another rank");
            if (status.MPI_TAG != m.tag)
                die("a message with another tag");
        } else
            n = r->is.count;
        if (r->is.persistent && !r->is.done)
            MPI_Request_free(&r->request);
        r->is.begun = 0;
        take(way, r->data, n);
        return;
    }
    switch (m.receives) {
    case 3:
        MPI_Probe(source, m.tag, m.comm, &status);
        MPI_Get_count(&status, MPI_UINT64_T, &n);
        MPI_Recv(data, n, MPI_UINT64_T, status.MPI_SOURCE, m.tag, m.comm, &status);
        break;
    case 4:
        MPI_Mprobe(source, m.tag, m.comm, &matched, &status);
        MPI_Get_count(&status, MPI_UINT64_T, &n);
        MPI_Mrecv(data, n, MPI_UINT64_T, &matched, &status);
        break;
    case 5:
        while (!flag)
            MPI_Improbe(source, m.tag, m.comm, &flag, &matched, &status);
        MPI_Imrecv(data, MOST, MPI_UINT64_T, &matched, &request);
        MPI_Wait(&request, &status);
        break;
    case 6:
        MPI_Sendrecv(&one, 1, MPI_UINT64_T, MPI_PROC_NULL, 0, data, MOST, MPI_UINT64_T, source, m.tag, m.comm, &status);
        break;
    default:
        MPI_Recv(data, MOST, MPI_UINT64_T, source, m.tag, m.comm, &status);
    }
    MPI_Get_count(&status, MPI_UINT64_T, &n);
    if ((way < 2 && status.MPI_SOURCE != m.from) || status.MPI_TAG != m.tag)
        die("a message of another rank or with another tag");
    take(way, data, n);
}

int opal_crs_self_user_checkpoint(char **restart_cmd);
int opal_crs_self_user_restart(void);

int opal_crs_self_user_checkpoint(char **restart_cmd)
{
    FILE *f = fopen("state", "w");
    MPI_Status status;
    int s, way, wrong = f == NULL || fwrite(&now, sizeof now, 1, f) != 1;

    (void)restart_cmd;
    for (s = 0; s < SLOTS; s++)
        for (way = 0; way < WAYS; way++) {
            struct receiving *r = &receiving[s][way];

            if (r->is.begun && !r->is.done) {
                MPI_Test(&r->request, &r->is.done, &status);
                if (r->is.done) {
                    MPI_Get_count(&status, MPI_UINT64_T, &r->is.count);
                    if (r->is.persistent)
                        MPI_Request_free(&r->request);
                }
            }
            wrong = wrong || fwrite(&r->is, sizeof r->is, 1, f) != 1;
            if (r->is.begun && r->is.done)
                wrong = wrong || fwrite(r->data, sizeof r->data, 1, f) != 1;
        }
    return (f != NULL && fclose(f) != 0) || wrong;
}

int opal_crs_self_user_restart(void)
{
    FILE *f = fopen("state", "r");
    int s, way, wrong = f == NULL || fread(&now, sizeof now, 1, f) != 1;

    for (s = 0; s < SLOTS; s++)
        for (way = 0; way < WAYS; way++) {
            struct receiving *r = &receiving[s][way];

            wrong = wrong || fread(&r->is, sizeof r->is, 1, f) != 1;
            if (!wrong && r->is.begun && r->is.done)
                wrong = fread(r->data, sizeof r->data, 1, f) != 1;
        }
    restarted = !wrong;
    return (f != NULL && fclose(f) != 0) || wrong;
}

/* Begins the receives again that had been begun and were not done, in the order of their steps. */
static void begin_again(void)
{
    uint64_t step = now.step > SLOTS ? now.step - SLOTS : 0;
    int way;

    for (; step < now.step; step++)
        for (way = 0; way < WAYS; way++) {
            struct receiving *r = &receiving[step % SLOTS][way];

            if (r->is.begun && !r->is.done)
                begin_receive(step, way);
        }
}

/* Ends what has been begun: nothing is in transit now. */
static void give_up(void)
{
    int s, way;

    for (s = 0; s < SLOTS; s++)
        for (way = 0; way < WAYS; way++) {
            struct receiving *r = &receiving[s][way];
            struct sending *b = &sending[s][way];

            if (r->is.begun && !r->is.done) {
                MPI_Cancel(&r->request);
                MPI_Wait(&r->request, MPI_STATUS_IGNORE);
                if (r->is.persistent)
                    MPI_Request_free(&r->request);
            }
            if (b->begun) {
                MPI_Wait(&b->request, MPI_STATUS_IGNORE);
                if (b->persistent)
                    MPI_Request_free(&b->request);
            }
        }
}

int main(int argc, char **argv)
{
    uint64_t steps = strtoull(argv[1], NULL, 10), before, at, digest[2], all[2], end;
    int way, wanted = argc > 3 ? abs(atoi(argv[3])) : 0, stays = argc > 3 && argv[3][0] == '-', number, room = 64 * SLOTS * WAYS * 8 * 64;
    void *buffer = malloc((size_t)room);

    seed = strtoull(argv[2], NULL, 10);
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Comm_dup(MPI_COMM_WORLD, &comms[0]);
    MPI_Comm_split(MPI_COMM_WORLD, 0, rank, &comms[1]);
    MPI_Buffer_attach(buffer, room);
    if (restarted)
        begin_again();
    before = now.step;
    /* The next checkpoint: its number is how many gaps have passed. */
    for (number = 0, at = 0; at <= before; number++)
        at += 1 + mixed(3, (uint64_t)number, 0, 0) % 5;
    while (now.step < steps + LATE) {
        if (now.step < steps) {
            for (way = 0; way < WAYS; way++)
                begin_receive(now.step, way);
            for (way = 0; way < WAYS; way++)
                send_one(now.step, way);
        }
        for (end = now.step + 1, digest[0] = now.step > LATE ? now.step - LATE : 0; digest[0] < end && digest[0] < steps; digest[0]++)
            for (way = 0; way < WAYS; way++)
                if (digest[0] + (uint64_t)message(digest[0], (rank + 2 * size - 1 - way % 2) % size, way).late == now.step)
                    receive_one(digest[0], way);
        now.step++;
        if (now.step == at && number <= wanted && now.step < steps) {
            SCR_CR_Quiesce_start(MPI_COMM_WORLD, MPI_INFO_NULL);
            if (SCR_CR_Quiesce_checkpoint(MPI_COMM_WORLD, NULL, NULL, MPI_INFO_NULL) != 0)
                die("no checkpoint");
            SCR_CR_Quiesce_end(MPI_COMM_WORLD, MPI_INFO_NULL);
            if (!stays) {
                give_up();
                if (rank == 0)
                    printf("checkpoint %d\n", number);
                MPI_Finalize();
                return 0;
            }
            number++;
            at += 1 + mixed(3, (uint64_t)number - 1, 0, 0) % 5;
        }
    }
    give_up();
    digest[0] = mixed(4, now.value, now.sum, (uint64_t)rank);
    digest[1] = now.sum;
    MPI_Allreduce(digest, all, 2, MPI_UINT64_T, MPI_BXOR, MPI_COMM_WORLD);
    if (rank == 0)
        printf("result %016llx %016llx\n", (unsigned long long)all[0], (unsigned long long)all[1]);
    MPI_Buffer_detach(&buffer, &room);
    free(buffer);
    MPI_Finalize();
    return 0;
}
