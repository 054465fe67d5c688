/*
 * Regions without messages (44-quiet.sh): what is received for the program comes to its receives
 * and probes as MPI would deliver it.  Prints one line for each check of each rank that fails, and
 * "ends" at the end.  Other parts: "output" begins a dataset while messages are in transit; "threads"
 * exchanges messages in several threads; "uncounted" calls what is not counted, if MPI has it;
 * "forgotten" cancels and frees requests; "dlopen LIBRARY" loads it again and again in another thread;
 * "memory" lets malloc and calloc fail; "large" sends more bytes than an int can count; "spawn PROGRAM"
 * has a communicator with a process that it starts, which is "child".
 */

#define _POSIX_C_SOURCE 200809L

#include <dlfcn.h>
#include <mpi.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "scr.h"
#include "scr_cr.h"

static int rank, size;
static MPI_Comm world; /* returns errors */

#define CHECK(what)                                                          \
    do {                                                                     \
        if (!(what)) {                                                       \
            printf("rank %d, line %d: not so: %s\n", rank, __LINE__, #what); \
            fflush(stdout);                                                  \
        }                                                                    \
    } while (0)

static void rest(void)
{
    CHECK(SCR_CR_Quiesce_start(MPI_COMM_WORLD, MPI_INFO_NULL) == SCR_CR_SUCCESS);
    CHECK(SCR_CR_Quiesce_end(MPI_COMM_WORLD, MPI_INFO_NULL) == SCR_CR_SUCCESS);
}

static int class_of(int code)
{
    int c = -1;

    MPI_Error_class(code, &c);
    return c;
}

/* Rank 0 sends to rank 1, and all is at rest. */
static void sent(int tag, int n)
{
    int data[100], i;
    MPI_Request r;

    for (i = 0; i < n; i++)
        data[i] = 1000 * tag + i;
    if (rank == 0)
        MPI_Isend(data, n, MPI_INT, 1, tag, world, &r);
    rest();
    if (rank == 0)
        MPI_Wait(&r, MPI_STATUS_IGNORE);
}

static int right(const int *data, int tag, int n)
{
    int i;

    for (i = 0; i < n; i++)
        if (data[i] != 1000 * tag + i)
            return 0;
    return 1;
}

static int status_is(const MPI_Status *s, int source, int tag, int n)
{
    int count = -1;

    MPI_Get_count(s, MPI_INT, &count);
    return s->MPI_SOURCE == source && s->MPI_TAG == tag && count == n;
}

static void misuse(void)
{
    MPI_Comm part, ring, other;
    MPI_Group group;
    MPI_Request r, p;
    int one = 1, all[2], yes = 1;
#if MPI_VERSION >= 4
    MPI_Request prepared;
#endif

    CHECK(SCR_CR_Quiesce_end(MPI_COMM_WORLD, MPI_INFO_NULL) != 0);
    CHECK(SCR_CR_Quiesce_checkpoint(MPI_COMM_WORLD, NULL, NULL, MPI_INFO_NULL) != 0);
    CHECK(SCR_CR_Quiesce_start(MPI_COMM_NULL, MPI_INFO_NULL) != 0);
    MPI_Comm_split(MPI_COMM_WORLD, rank == 0, rank, &part);
    MPI_Comm_set_errhandler(part, MPI_ERRORS_RETURN);
    MPI_Cart_create(MPI_COMM_WORLD, 1, &size, &yes, 0, &ring);
    MPI_Comm_set_errhandler(ring, MPI_ERRORS_RETURN);
    MPI_Comm_group(MPI_COMM_WORLD, &group);
    MPI_Send_init(&one, 1, MPI_INT, 0, 1, world, &p);
#if MPI_VERSION >= 4
    MPI_Barrier_init(world, MPI_INFO_NULL, &prepared);
#endif
    CHECK(SCR_CR_Quiesce_start(MPI_COMM_WORLD, MPI_INFO_NULL) == 0);
    CHECK(SCR_CR_Quiesce_start(MPI_COMM_WORLD, MPI_INFO_NULL) != 0);
    CHECK(SCR_CR_Checkpoint(NULL, NULL, MPI_INFO_NULL) != 0);
    CHECK(SCR_CR_Quiesce_end(part, MPI_INFO_NULL) != 0);
    CHECK(class_of(MPI_Send(&one, 1, MPI_INT, 0, 1, world)) == MPI_ERR_OTHER);
    CHECK(class_of(MPI_Isend(&one, 1, MPI_INT, 0, 1, part, &r)) == MPI_ERR_OTHER);
    CHECK(class_of(MPI_Sendrecv(&one, 1, MPI_INT, 0, 1, &one, 1, MPI_INT, 0, 1, world, MPI_STATUS_IGNORE)) == MPI_ERR_OTHER);
    CHECK(class_of(MPI_Start(&p)) == MPI_ERR_OTHER);
    CHECK(class_of(MPI_Barrier(world)) == MPI_ERR_OTHER);
    CHECK(class_of(MPI_Allreduce(MPI_IN_PLACE, &one, 1, MPI_INT, MPI_SUM, world)) == MPI_ERR_OTHER);
    CHECK(class_of(MPI_Ibarrier(world, &r)) == MPI_ERR_OTHER);
    CHECK(class_of(MPI_Ibcast(&one, 1, MPI_INT, 0, world, &r)) == MPI_ERR_OTHER);
    CHECK(class_of(MPI_Iscan(MPI_IN_PLACE, &one, 1, MPI_INT, MPI_SUM, part, &r)) == MPI_ERR_OTHER);
    CHECK(class_of(MPI_Neighbor_allgather(&one, 1, MPI_INT, all, 1, MPI_INT, ring)) == MPI_ERR_OTHER);
    CHECK(class_of(MPI_Ineighbor_allgather(&one, 1, MPI_INT, all, 1, MPI_INT, ring, &r)) == MPI_ERR_OTHER);
    CHECK(class_of(MPI_Comm_idup(world, &other, &r)) == MPI_ERR_OTHER);
    CHECK(class_of(MPI_Comm_split(part, 0, 0, &other)) == MPI_ERR_OTHER);
    CHECK(class_of(MPI_Comm_create_group(world, group, 1, &other)) == MPI_ERR_OTHER);
#if MPI_VERSION >= 4
    CHECK(class_of(MPI_Bcast_c(&one, 1, MPI_INT, 0, world)) == MPI_ERR_OTHER);
    CHECK(class_of(MPI_Start(&prepared)) == MPI_ERR_OTHER);
#endif
    CHECK(SCR_CR_Quiesce_end(MPI_COMM_WORLD, MPI_INFO_NULL) == 0);
#if MPI_VERSION >= 4
    MPI_Request_free(&prepared);
#endif
    MPI_Comm_free(&ring);
    MPI_Group_free(&group);
    CHECK(MPI_Barrier(world) == MPI_SUCCESS);
    MPI_Request_free(&p);
    /* Of a part: only its own messages are stopped. */
    if (rank != 0) {
        CHECK(SCR_CR_Quiesce_start(part, MPI_INFO_NULL) == 0);
        CHECK(class_of(MPI_Barrier(part)) == MPI_ERR_OTHER);
        if (rank == 1)
            CHECK(MPI_Send(&one, 1, MPI_INT, 0, 2, world) == MPI_SUCCESS);
        CHECK(SCR_CR_Quiesce_end(part, MPI_INFO_NULL) == 0);
    } else
        MPI_Recv(&one, 1, MPI_INT, 1, 2, world, MPI_STATUS_IGNORE);
    MPI_Comm_free(&part);
}

static void receives(void)
{
    int data[100], flag = 0, code, n, indices[3];
    MPI_Status s, several[3];
    MPI_Request r, three[3];
    MPI_Message m;

    sent(3, 10);
    sent(2, 0);
    sent(1, 5);
    if (rank == 1) { /* of the order in which they were sent */
        MPI_Probe(MPI_ANY_SOURCE, MPI_ANY_TAG, world, &s);
        CHECK(status_is(&s, 0, 3, 10));
        MPI_Iprobe(0, 1, world, &flag, &s);
        CHECK(flag && status_is(&s, 0, 1, 5));
        MPI_Iprobe(0, 7, world, &flag, &s);
        CHECK(!flag);
        MPI_Recv(data, 100, MPI_INT, 0, 1, world, &s);
        CHECK(status_is(&s, 0, 1, 5) && right(data, 1, 5));
        MPI_Recv(data, 100, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, world, &s);
        CHECK(status_is(&s, 0, 3, 10) && right(data, 3, 10));
        MPI_Irecv(data, 100, MPI_INT, MPI_ANY_SOURCE, 2, world, &r);
        MPI_Request_get_status(r, &flag, &s);
        CHECK(!flag || status_is(&s, 0, 2, 0));
        MPI_Wait(&r, &s);
        CHECK(status_is(&s, 0, 2, 0));
    }
    sent(4, 10);
    sent(4, 20);
    sent(4, 30);
    if (rank == 1) { /* too long, twice; then the rest is as it was */
        CHECK(class_of(MPI_Recv(data, 5, MPI_INT, 0, 4, world, &s)) == MPI_ERR_TRUNCATE);
        MPI_Irecv(data, 5, MPI_INT, 0, 4, world, &r);
        code = MPI_Wait(&r, &s);
        CHECK(class_of(code) == MPI_ERR_TRUNCATE);
        MPI_Mprobe(0, 4, world, &m, &s);
        CHECK(status_is(&s, 0, 4, 30));
        MPI_Mrecv(data, 100, MPI_INT, &m, &s);
        CHECK(status_is(&s, 0, 4, 30) && right(data, 4, 30));
    }
    sent(5, 6);
    if (rank == 1) { /* into every second element */
        MPI_Datatype second;

        MPI_Type_vector(6, 1, 2, MPI_INT, &second);
        MPI_Type_commit(&second);
        memset(data, 0, sizeof data);
        MPI_Recv(data, 1, second, 0, 5, world, &s);
        for (n = 0; n < 12; n++)
            CHECK(data[n] == (n % 2 ? 0 : 5000 + n / 2));
        MPI_Type_free(&second);
    }
    sent(6, 1);
    sent(7, 2);
    if (rank == 1) { /* several at once: of the store, of MPI, and persistent */
        int a[4], b[4], c[4], out = 0, all = 0;

        MPI_Recv_init(a, 4, MPI_INT, 0, 6, world, &three[0]);
        MPI_Start(&three[0]);
        MPI_Irecv(b, 4, MPI_INT, 0, 7, world, &three[1]);
        MPI_Irecv(c, 4, MPI_INT, 2, 8, world, &three[2]);
        while (all < 2) {
            MPI_Waitsome(3, three, &out, indices, several);
            for (n = 0; n < out; n++) {
                CHECK(indices[n] < 2 && status_is(&several[n], 0, 6 + indices[n], 1 + indices[n]));
                all++;
            }
        }
        CHECK(right(a, 6, 1) && right(b, 7, 2));
        MPI_Cancel(&three[2]);
        MPI_Wait(&three[2], &s);
        MPI_Test_cancelled(&s, &flag);
        CHECK(flag);
        MPI_Request_free(&three[0]);
    }
    rest();
    /* A receive that was begun before gets the message itself, and one of a freed request. */
    if (rank == 1) {
        MPI_Irecv(data, 100, MPI_INT, 0, 9, world, &r);
        MPI_Irecv(data + 50, 50, MPI_INT, 0, 10, world, &three[0]);
        MPI_Request_free(&three[0]);
    }
    sent(9, 3);
    sent(10, 4);
    if (rank == 1) {
        MPI_Test(&r, &flag, &s);
        CHECK(flag && status_is(&s, 0, 9, 3) && right(data, 9, 3) && right(data + 50, 10, 4));
    }
    sent(11, 2);
    if (rank == 1) { /* while the store has something */
        int own = 5;

        MPI_Sendrecv_replace(&own, 1, MPI_INT, 1, 12, 1, 12, world, &s);
        CHECK(own == 5 && status_is(&s, 1, 12, 1));
        MPI_Sendrecv(&own, 1, MPI_INT, 1, 12, data, 100, MPI_INT, MPI_ANY_SOURCE, 12, world, &s);
        CHECK(data[0] == 5 && status_is(&s, 1, 12, 1));
        MPI_Recv(&own, 1, MPI_INT, MPI_PROC_NULL, MPI_ANY_TAG, world, &s);
        CHECK(s.MPI_SOURCE == MPI_PROC_NULL);
        MPI_Recv(data, 100, MPI_INT, 0, 11, world, &s);
        CHECK(status_is(&s, 0, 11, 2));
    }
}

/* Two groups, and messages between them and within them. */
static void communicators(void)
{
    MPI_Comm half, between, merged;
    int data[2] = {0, 0};
    MPI_Status s;

    MPI_Comm_split(MPI_COMM_WORLD, rank == 0, rank, &half);
    MPI_Intercomm_create(half, 0, MPI_COMM_WORLD, rank == 0 ? 1 : 0, 5, &between);
    MPI_Intercomm_merge(between, rank == 0, &merged);
    if (rank == 0) {
        data[0] = 1;
        MPI_Send(data, 1, MPI_INT, 1, 3, between); /* to rank 2 of all */
        data[0] = 2;
        MPI_Send(data, 1, MPI_INT, 1, 3, merged);
        data[0] = 3;
        MPI_Send(data, 1, MPI_INT, 2, 3, world);
    }
    if (rank == 1)
        MPI_Send(data, 2, MPI_INT, 1, 3, half);
    rest();
    if (rank == 2) {
        MPI_Recv(data, 1, MPI_INT, MPI_ANY_SOURCE, 3, world, &s);
        CHECK(data[0] == 3 && s.MPI_SOURCE == 0);
        MPI_Recv(data, 1, MPI_INT, MPI_ANY_SOURCE, 3, merged, &s);
        CHECK(data[0] == 2 && s.MPI_SOURCE == size - 1);
        MPI_Recv(data, 1, MPI_INT, MPI_ANY_SOURCE, 3, between, &s);
        CHECK(data[0] == 1 && s.MPI_SOURCE == 0);
        MPI_Recv(data, 2, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, half, &s);
        CHECK(status_is(&s, 0, 3, 2));
    }
    MPI_Comm_free(&merged);
    MPI_Comm_free(&between);
    MPI_Comm_free(&half);
}

static void wait_for(MPI_Request *r) { MPI_Wait(r, MPI_STATUS_IGNORE); }

/* Nonblocking collective operations: those that all have begun are completed, others are an error. */
static void collectives(void)
{
    MPI_Comm copy, part, ring;
    MPI_Request r[4];
    MPI_Status s;
    int sum = 0, from[2] = {-1, -1}, flag = 0, i, yes = 1;

    MPI_Cart_create(MPI_COMM_WORLD, 1, &size, &yes, 0, &ring);
    MPI_Ibarrier(world, &r[0]);
    MPI_Iallreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, world, &r[1]);
    MPI_Ineighbor_allgather(&rank, 1, MPI_INT, from, 1, MPI_INT, ring, &r[2]);
    MPI_Comm_idup(world, &copy, &r[3]);
    CHECK(SCR_CR_Quiesce_start(MPI_COMM_WORLD, MPI_INFO_NULL) == 0);
    for (i = 0; i < 4; i++) {
        flag = 0;
        MPI_Test(&r[i], &flag, MPI_STATUS_IGNORE);
        CHECK(flag); /* at once, since all are complete */
    }
    CHECK(sum == size * (size - 1) / 2 && from[0] == (rank + size - 1) % size && from[1] == (rank + 1) % size);
    CHECK(SCR_CR_Quiesce_end(MPI_COMM_WORLD, MPI_INFO_NULL) == 0);

    if (rank == 0) { /* what is sent over the new communicator, and over another, is known apart */
        MPI_Send(&rank, 1, MPI_INT, 1, 4, copy);
        MPI_Send(&size, 1, MPI_INT, 1, 4, world);
    }
    rest();
    if (rank == 1) {
        MPI_Recv(&sum, 1, MPI_INT, 0, 4, world, &s);
        CHECK(sum == size);
        MPI_Recv(&sum, 1, MPI_INT, 0, 4, copy, &s);
        CHECK(sum == 0);
    }

    if (rank == 0) /* some have not begun it */
        MPI_Ibarrier(copy, &r[0]);
    CHECK(SCR_CR_Quiesce_start(MPI_COMM_WORLD, MPI_INFO_NULL) != 0);
    CHECK(strstr(SCR_Get_error(), "not all ranks have begun the same collective operations: rank 0 ") != NULL);
    if (rank != 0)
        MPI_Ibarrier(copy, &r[0]);
    wait_for(&r[0]);
    rest();

    MPI_Comm_split(MPI_COMM_WORLD, rank == 0, rank, &part); /* a rank that is not asked has not begun it */
    if (rank != 0) {
        MPI_Ibarrier(copy, &r[0]);
        CHECK(SCR_CR_Quiesce_start(part, MPI_INFO_NULL) == 0);
        CHECK(SCR_CR_Quiesce_end(part, MPI_INFO_NULL) == 0);
    } else
        MPI_Ibarrier(copy, &r[0]);
    wait_for(&r[0]);
#ifndef OPEN_MPI /* Open MPI 4.1 forgets what such an operation needs */
    MPI_Ibarrier(copy, &r[0]);
    MPI_Comm_free(&copy);
    CHECK(SCR_CR_Quiesce_start(MPI_COMM_WORLD, MPI_INFO_NULL) == 0);
    MPI_Test(&r[0], &flag, MPI_STATUS_IGNORE);
    CHECK(flag);
    CHECK(SCR_CR_Quiesce_end(MPI_COMM_WORLD, MPI_INFO_NULL) == 0);
#else
    MPI_Comm_free(&copy);
#endif
#if MPI_VERSION >= 4
    MPI_Barrier_init(world, MPI_INFO_NULL, &r[0]);
    if (rank == 0)
        MPI_Start(&r[0]);
    CHECK(SCR_CR_Quiesce_start(MPI_COMM_WORLD, MPI_INFO_NULL) != 0);
    if (rank != 0)
        MPI_Start(&r[0]);
    rest();
    wait_for(&r[0]);
    MPI_Request_free(&r[0]);
#endif
    MPI_Comm_free(&part);
    MPI_Comm_free(&ring);
}

/* A send that MPI refuses is not waited for. */
static void failed_send(void)
{
    MPI_Request r;
    int one = 1;

    if (rank == 0) {
        CHECK(MPI_Send(&one, 1, MPI_INT, 1, -5, world) != MPI_SUCCESS);
        CHECK(MPI_Isend(&one, -1, MPI_INT, 1, 1, world, &r) != MPI_SUCCESS);
    }
    rest();
}

enum { THREADS = 3, ROUNDS = 100 };
static MPI_Comm of_thread[THREADS];

/* Sends to the next rank and receives from the one before, in several ways. */
static void *exchange(void *which)
{
    MPI_Comm comm = of_thread[*(int *)which];
    int i, out, in, flag, index, next = (rank + 1) % size, before = (rank + size - 1) % size;
    MPI_Request r[2];
    MPI_Status s, several[2];

    for (i = 0; i < ROUNDS; i++) {
        out = i * size + rank;
        if (i % 5 == 4) {
            MPI_Sendrecv(&out, 1, MPI_INT, next, 1, &in, 1, MPI_INT, before, 1, comm, &s);
            CHECK(in == i * size + before);
            continue;
        }
        MPI_Irecv(&in, 1, MPI_INT, i % 2 ? before : MPI_ANY_SOURCE, 1, comm, &r[0]);
        MPI_Isend(&out, 1, MPI_INT, next, 1, comm, &r[1]);
        switch (i % 5) {
        case 0:
            MPI_Wait(&r[0], &s);
            break;
        case 1:
            for (flag = 0; !flag;)
                MPI_Test(&r[0], &flag, &s);
            break;
        case 2:
            MPI_Waitall(2, r, several);
            break;
        case 3:
            MPI_Waitany(1, r, &index, &s);
            CHECK(index == 0 && s.MPI_SOURCE == before);
            break;
        }
        MPI_Wait(&r[1], MPI_STATUS_IGNORE);
        CHECK(in == i * size + before);
    }
    return NULL;
}

/* Several threads: handles of requests that one has completed are those of requests of others. */
static void threads(void)
{
    pthread_t t[THREADS];
    int i, which[THREADS];

    for (i = 0; i < THREADS; i++)
        MPI_Comm_dup(MPI_COMM_WORLD, &of_thread[i]);
    for (i = 0; i < THREADS; i++) {
        which[i] = i;
        CHECK(pthread_create(&t[i], NULL, exchange, &which[i]) == 0);
    }
    for (i = 0; i < THREADS; i++)
        pthread_join(t[i], NULL);
    rest();
    for (i = 0; i < THREADS; i++)
        MPI_Comm_free(&of_thread[i]);
}

#if MPI_VERSION >= 4
/* A call whose messages are not counted: from then on it is not known what is in transit. */
static void uncounted(void)
{
    int out = 1, in = 0;

    MPI_Sendrecv_c(&out, 1, MPI_INT, rank, 0, &in, 1, MPI_INT, rank, 0, world, MPI_STATUS_IGNORE);
    CHECK(in == 1);
    CHECK(SCR_CR_Quiesce_start(MPI_COMM_WORLD, MPI_INFO_NULL) != 0);
}
#endif

/* Whether a send was cancelled the sender may know, but not the receiver: the counts are not known any more. */
static void cancelled_send(void)
{
    MPI_Request r;
    MPI_Status s;
    int one = 1, flag = 0;

    if (rank == 1)
        MPI_Irecv(&one, 1, MPI_INT, 0, 13, world, &r);
    if (rank == 0) {
        MPI_Issend(&one, 1, MPI_INT, 1, 14, world, &r);
        MPI_Cancel(&r);
        MPI_Send(&one, 1, MPI_INT, 1, 13, world);
    }
    if (rank == 1) {
        MPI_Wait(&r, MPI_STATUS_IGNORE);
        MPI_Irecv(&one, 1, MPI_INT, 0, 14, world, &r);
    }
    if (rank == 0) {
        MPI_Wait(&r, &s);
        MPI_Test_cancelled(&s, &flag);
    }
    MPI_Bcast(&flag, 1, MPI_INT, 0, world);
    if (rank == 1) {
        if (flag)
            MPI_Cancel(&r);
        MPI_Wait(&r, MPI_STATUS_IGNORE);
    }
    CHECK(SCR_CR_Quiesce_start(MPI_COMM_WORLD, MPI_INFO_NULL) != 0);
    CHECK(MPI_Barrier(world) == MPI_SUCCESS);
}

/* A checkpoint of a program that calls SCR, with messages on their way. */
static void output(void)
{
    char file[SCR_MAX_FILENAME];
    int data[3] = {1, 2, 3}, i;
    FILE *f;

    CHECK(SCR_Init() == SCR_SUCCESS);
    if (rank == 0)
        for (i = 0; i < 3; i++)
            MPI_Send(data, i, MPI_INT, 1, i / 2, world);
    CHECK(SCR_Start_output("it", SCR_FLAG_CHECKPOINT) == SCR_SUCCESS);
    sprintf(file, "%s/it/%d", getenv("SCR_PREFIX"), rank);
    CHECK(SCR_Route_file(file, file) == SCR_SUCCESS);
    f = fopen(file, "w");
    CHECK(f != NULL && fclose(f) == 0);
    CHECK(SCR_Complete_output(1) == SCR_SUCCESS);
    if (rank == 1)
        for (i = 0; i < 3; i++) {
            MPI_Status s;

            MPI_Recv(data, 3, MPI_INT, 0, MPI_ANY_TAG, world, &s);
            CHECK(status_is(&s, 0, i / 2, i));
        }
    CHECK(SCR_Finalize() == SCR_SUCCESS);
}

/* The sizes for which malloc and calloc fail once; 0: for none.  The largest that malloc was asked for. */
static volatile size_t no_malloc, no_calloc, no_calloc_of, largest;

void *__libc_malloc(size_t n);
void *__libc_calloc(size_t n, size_t of);

void *malloc(size_t n)
{
    if (n > largest)
        largest = n;
    if (n == 0 || n != no_malloc)
        return __libc_malloc(n);
    no_malloc = 0;
    return NULL;
}

void *calloc(size_t n, size_t of)
{
    if (n == 0 || n != no_calloc || of != no_calloc_of)
        return __libc_calloc(n, of);
    no_calloc = 0;
    return NULL;
}

/* Receives that are freed before they are complete, and cancelled, are forgotten in time. */
static void forgotten(void)
{
    MPI_Request r;
    int i, one;

    largest = 0;
    for (i = 0; i < 100000; i++) {
        MPI_Irecv(&one, 1, MPI_INT, 0, 17, MPI_COMM_SELF, &r);
        MPI_Cancel(&r);
        MPI_Request_free(&r);
    }
    CHECK(largest < 1 << 20);
}

/* A rank without memory is an error of all, and nothing is lost. */
static void memory(void)
{
    char data[777] = "";
    MPI_Status s;
    int n;

    if (rank == 0) {
        memset(data, 'm', sizeof data);
        MPI_Send(data, 777, MPI_CHAR, 1, 5, world);
    }
    if (rank == 1)
        no_malloc = 778; /* that of the message */
    CHECK(SCR_CR_Quiesce_start(MPI_COMM_WORLD, MPI_INFO_NULL) != 0);
    CHECK(no_malloc == 0);
    CHECK(strstr(SCR_Get_error(), rank == 1 ? "there was no memory for a message" : "another rank could not receive") != NULL);
    rest();
    if (rank == 1) {
        MPI_Recv(data, 777, MPI_CHAR, MPI_ANY_SOURCE, MPI_ANY_TAG, world, &s);
        MPI_Get_count(&s, MPI_CHAR, &n);
        CHECK(n == 777 && s.MPI_TAG == 5 && data[0] == 'm' && data[776] == 'm');
    }
    if (rank == 2) {
        no_calloc_of = sizeof(uint64_t); /* for what is promised by each rank */
        no_calloc = (size_t)size;
    }
    CHECK(SCR_CR_Quiesce_start(MPI_COMM_WORLD, MPI_INFO_NULL) != 0);
    CHECK(no_calloc == 0);
    rest();
}

static volatile int loads = 1;

static void *load(void *library)
{
    const struct timespec pause = {0, 200000};
    void *handle;

    while (loads) {
        nanosleep(&pause, NULL); /* else it would take the loader's lock again before another thread can */
        handle = dlopen(library, RTLD_NOW);
        CHECK(handle != NULL && dlclose(handle) == 0);
    }
    return NULL;
}

/* Another thread loads a library all the time. */
static void loading(char *library)
{
    pthread_t t;
    int i;

    CHECK(pthread_create(&t, NULL, load, library) == 0);
    for (i = 0; i < 100; i++)
        rest();
    loads = 0;
    pthread_join(t, NULL);
}

/* One message, which is received in several ways. */
static void large(void)
{
    const size_t n = (size_t)2200 << 20;
    char *data = rank < 2 ? malloc(n) : NULL;
    MPI_Datatype piece;
    MPI_Request r;
    MPI_Message m;
    MPI_Status s;
    MPI_Count count = 0;
    int way;

    MPI_Type_contiguous(1 << 20, MPI_CHAR, &piece);
    MPI_Type_commit(&piece);
    for (way = 0; way < 3; way++) {
        if (rank == 0) {
            CHECK(data != NULL);
            data[0] = data[n / 3] = data[n - 1] = (char)('a' + way);
            MPI_Isend(data, 2200, piece, 1, way, world, &r);
        }
        rest();
        if (rank == 0)
            MPI_Wait(&r, MPI_STATUS_IGNORE);
        if (rank != 1)
            continue;
        if (way == 0)
            MPI_Recv(data, 2200, piece, 0, way, world, &s);
        else if (way == 1) {
            MPI_Irecv(data, 2200, piece, 0, way, world, &r);
            MPI_Wait(&r, &s);
        } else {
            MPI_Mprobe(0, way, world, &m, &s);
            MPI_Get_elements_x(&s, MPI_CHAR, &count);
            CHECK(count == (MPI_Count)n);
            MPI_Mrecv(data, 2200, piece, &m, &s);
        }
        MPI_Get_elements_x(&s, MPI_CHAR, &count);
        CHECK(count == (MPI_Count)n && s.MPI_SOURCE == 0 && s.MPI_TAG == way);
        CHECK(data[0] == 'a' + way && data[n / 3] == 'a' + way && data[n - 1] == 'a' + way);
    }
    MPI_Type_free(&piece);
    free(data);
}

/* A communicator with a process that is not in MPI_COMM_WORLD: its messages are not counted, and not waited for. */
static void foreign(char *program)
{
    static char part[] = "child";
    char *arguments[] = {part, NULL};
    MPI_Comm between, merged;
    int one = 0, code, all;

    MPI_Comm_get_parent(&between);
    if (between == MPI_COMM_NULL)
        CHECK(MPI_Comm_spawn(program, arguments, 1, MPI_INFO_NULL, 0, world, &between, &code) == MPI_SUCCESS);
    MPI_Intercomm_merge(between, program == NULL, &merged);
    MPI_Comm_size(merged, &all);
    if (program == NULL) {
        MPI_Recv(&one, 1, MPI_INT, 0, 1, merged, MPI_STATUS_IGNORE);
        CHECK(one == all);
    } else {
        if (rank == 0)
            MPI_Send(&all, 1, MPI_INT, 1, 1, merged);
        rest();
        if (rank == 1) {
            MPI_Recv(&one, 1, MPI_INT, 0, 1, merged, MPI_STATUS_IGNORE);
            CHECK(one == all);
        }
        rest();
        if (rank == 0)
            MPI_Send(&all, 1, MPI_INT, all - 1, 1, merged);
    }
    MPI_Comm_free(&merged);
    MPI_Comm_disconnect(&between);
}

int main(int argc, char **argv)
{
    int provided;
    char part = argc > 1 ? argv[1][0] : '-';

    MPI_Init_thread(&argc, &argv, part == 't' ? MPI_THREAD_MULTIPLE : MPI_THREAD_SINGLE, &provided);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    world = MPI_COMM_WORLD;
    switch (part) {
    case 'o':
        output();
        break;
    case 't':
        threads();
        break;
    case 'd':
        loading(argv[2]);
        break;
    case 'f':
        forgotten();
        rest();
        break;
    case 'm':
        memory();
        break;
    case 'l':
        large();
        break;
    case 's':
        foreign(argv[2]);
        break;
    case 'c':
        foreign(NULL);
        MPI_Finalize();
        return 0;
    case 'u':
#if MPI_VERSION >= 4
        uncounted();
#endif
        break;
    default:
        misuse();
        receives();
        communicators();
        collectives();
        failed_send();
        rest();
        cancelled_send();
    }
    printf("%d ends\n", rank);
    MPI_Finalize();
    return 0;
}
