/*
 * Messages of the program: how many are in transit, and those that were received for it.
 *
 *     counts.c       communicators, and how many messages went to and came from each rank
 *     most.c         the largest count of each communicator that any rank has
 *     requests.c     receives that were begun, persistent requests, collective operations
 *     quiet.c        the store of messages, and the way to rest
 *     calls.c        MPI's calls for messages, which count
 *     collectives.c  MPI's collective calls, and those that make communicators
 *     redirect.c     Fortran's calls of PMPI
 */

#ifndef GOSCR_QUIET_H
#define GOSCR_QUIET_H

#include <mpi.h>
#include <stddef.h>
#include <stdint.h>

/* Within the library, calls and variables need no table of addresses. */
#pragma GCC visibility push(hidden)

/* ------------------------------------------------------------------------ the lock */

extern int goscr_locks; /* threads of the program may call at the same time */
extern void *volatile goscr_owner;
extern int goscr_depth; /* how often the owner has it again */
/* A thread by an address that is its own; no function has to be called to find it. */
extern __thread char goscr_thread __attribute__((tls_model("initial-exec")));
void goscr_wait_for_lock(void);

/*
 * Nearly always free: then it costs one exchange.  A thread that has it may take it again, since MPI
 * may call functions of the program meanwhile, of errors and of generalized requests.
 */
static inline void goscr_quiet_lock(void)
{
    void *nobody = NULL;

    if (goscr_locks && !__atomic_compare_exchange_n((void **)&goscr_owner, &nobody, (void *)&goscr_thread, 0, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED))
        goscr_wait_for_lock();
}

static inline void goscr_quiet_unlock(void)
{
    if (!goscr_locks)
        return;
    if (goscr_depth > 0)
        goscr_depth--;
    else
        __atomic_store_n((void **)&goscr_owner, NULL, __ATOMIC_RELEASE);
}

/* ------------------------------------------------------------------- communicators */

/* A communicator of the program, as its messages are counted. */
struct space {
    MPI_Comm comm;
    int64_t id;    /* the same on all its ranks, and in a later run that makes the same communicators */
    int *world;    /* ranks in MPI_COMM_WORLD of those that this rank talks to; NULL: the same */
    int size;
    int *own; /* the same of its own group, if there are two groups */
    int own_size;
    int members, leader; /* of both groups, if there are two: how many, and the lowest in MPI_COMM_WORLD */
    int foreign;         /* some are not in MPI_COMM_WORLD: its messages are not counted */
    unsigned children;   /* communicators that were made of it */
    uint64_t begun;      /* nonblocking collective operations, by this rank */
    uint64_t blocking;   /* the others */
    uint64_t target;     /* to how many of both this rank has to come before it can be saved */
    int inside;          /* threads of the program that are in a blocking one */
    int saved_inside;    /* ... when the program's function had saved it */
    int users;           /* its handle, requests, calls that wait */
    struct space *next;
};

extern struct space goscr_everybody; /* MPI_COMM_WORLD */
extern struct space *goscr_spaces;   /* the others */
extern unsigned goscr_freed;         /* how many communicators were freed */

/* The communicator that a thread has used last, which it mostly uses again. */
struct recent {
    MPI_Comm comm;
    struct space *space;
    unsigned freed;
};
extern __thread struct recent goscr_recent __attribute__((tls_model("initial-exec")));
struct space *goscr_find_space(MPI_Comm comm);

static inline struct space *goscr_space(MPI_Comm comm)
{
    if (comm == MPI_COMM_WORLD)
        return &goscr_everybody;
    if (goscr_recent.comm == comm && goscr_recent.freed == goscr_freed && goscr_recent.space != NULL)
        return goscr_recent.space;
    return goscr_find_space(comm);
}

/* New communicators.  `parent` may be MPI_COMM_NULL: then `mark` and its ranks identify it. */
void goscr_space_made(MPI_Comm parent, MPI_Comm made, int64_t mark);
void goscr_space_freed(MPI_Comm comm);
/* One that is there once a request has completed: its id, and then the communicator. */
int64_t goscr_next_child(struct space *parent);
void goscr_space_with(MPI_Comm made, int64_t id);
/*
 * Around a blocking collective call: a rank that is within one cannot be saved, and others have to begin it, too.
 * Counts it, unless `comm` is MPI_COMM_NULL.
 */
extern volatile int goscr_inside;
extern volatile int goscr_function_calls; /* a function of the program has sent, or begun a collective operation, itself */
void goscr_goes_in(MPI_Comm comm);

void goscr_comes_out(void);

/* Notes which blocking collective operations the program, which has just been saved, is in; or that it is in none. */
void goscr_note_inside(int saved);

/* How many collective operations a rank has begun, over a communicator by its id; and of those that it has freed since the
 * ranks were together: others may be behind. */
struct begun {
    int64_t space;
    uint64_t n;
};
/* As MPI_Allreduce, and MPI_Sendrecv with one rank: also for the thread of requests, if MPI does not allow it to call (lend.c). */
int goscr_allreduce(const void *own, void *all, int n, MPI_Datatype type, MPI_Op op, MPI_Comm comm);
int goscr_exchange(const void *out, int n_out, void *in, int n_in, MPI_Datatype type, int peer, int tag, MPI_Comm comm);

/*
 * Sets each count of a list to the largest that any rank has for the same id, sorts the list by ids, and keeps one of each id.
 * `own` may be NULL: this rank has failed.  Collective over `over`, whose ranks are those of MPI_COMM_WORLD.  Returns 0, or
 * 1 on all ranks after an error.
 */
int goscr_most(MPI_Comm over, struct begun *own, int *n);
enum { GOSCR_MOST_OLD = 1024 };
extern struct begun goscr_old[GOSCR_MOST_OLD];
extern int goscr_old_n;

/* Adds users, or with n less than 0 takes them away: after the last one the space is gone. */
void goscr_space_use(struct space *s, int n);
/* Whether all its ranks are among some of MPI_COMM_WORLD, for which `in` is not 0; NULL: among all. */
int goscr_within(const struct space *s, const char *in);

/* ------------------------------------------------------------------------- counts */

extern int goscr_counts; /* messages: between MPI_Init and MPI_Finalize */
extern int goscr_rank, goscr_size;
extern uint64_t *goscr_sent_to, *goscr_received_from; /* for each rank of MPI_COMM_WORLD */
/* Why the counts may be wrong; NULL: they are right. */
extern const char *volatile goscr_unknown;

/* Begins to count, after MPI_Init; several: threads of the program may call at the same time. */
void goscr_counts_begin(int several);

static inline void goscr_add(uint64_t *counters, const struct space *s, int peer, uint64_t n)
{
    if (s == NULL || (unsigned)peer >= (unsigned)s->size)
        return; /* MPI_PROC_NULL */
    if (s->world != NULL) {
        if (s->foreign)
            return;
        peer = s->world[peer];
        if (peer < 0)
            return;
    }
    if (goscr_locks)
        __atomic_fetch_add(&counters[peer], n, __ATOMIC_RELAXED);
    else
        counters[peer] += n;
}

static inline void goscr_count(uint64_t *counters, const struct space *s, int peer) { goscr_add(counters, s, peer, 1); }

/* Counts a message to, or one from, a rank of a communicator. */
static inline void goscr_sent(MPI_Comm comm, int peer)
{
    if (goscr_counts)
        goscr_count(goscr_sent_to, goscr_space(comm), peer);
}

/* ... that was counted, and which MPI has refused to send. */
static inline void goscr_not_sent(MPI_Comm comm, int peer)
{
    if (goscr_counts)
        goscr_add(goscr_sent_to, goscr_space(comm), peer, (uint64_t)-1);
}

static inline void goscr_received(const struct space *s, const MPI_Status *status)
{
    if (goscr_counts)
        goscr_count(goscr_received_from, s, status->MPI_SOURCE);
}

/* ------------------------------------------------------------------------ requests */

enum {
    GOSCR_SENDS = 1, /* a persistent send */
    GOSCR_PERSISTENT = 2,
    GOSCR_ACTIVE = 4,      /* a persistent one that was started */
    GOSCR_COUNTED = 8,     /* its message; or that the operation is complete */
    GOSCR_DONE = 16,       /* a persistent receive, from the store: MPI does not know of it */
    GOSCR_FREED = 32,      /* by the program, before it was complete */
    GOSCR_GIVEN = 64,      /* what it receives comes from the store */
    GOSCR_COLLECTIVE = 128,
    GOSCR_AWAITED = 256    /* a thread waits for it, and then counts its message */
};

/* What few requests need. */
struct more {
    int peer, tag; /* of a persistent one, as the program gives them */
    int source, given_tag; /* GOSCR_GIVEN: in which status that has to be */
    MPI_Status status;     /* GOSCR_DONE */
    MPI_Comm made;         /* by MPI_Comm_idup, */
    int64_t made_id;       /* ... and its id; 0: none */
};

/* A receive that was begun, a persistent request, or a nonblocking collective operation. */
struct entry {
    MPI_Request request; /* the key; MPI_REQUEST_NULL: the place is free */
    struct space *space;
    struct more *more;
    int is;
    int count; /* of a receive, and its buffer and type */
    void *buffer;
    MPI_Datatype type;
    uint64_t order; /* in which receives were begun */
};

extern volatile int goscr_entries; /* how many there are */

/* Those before goscr_await are called under the lock. */
struct entry *goscr_enter_request(MPI_Request r, struct space *space, int is); /* NULL: there is no memory, or nothing is counted */
struct more *goscr_more(struct entry *e);                                      /* NULL: there is no memory */
struct entry *goscr_entry(MPI_Request r);
void goscr_forget(struct entry *e);
void goscr_freed_request(struct entry *e); /* by the program, before it was complete: it is known until then */
void goscr_completed(struct entry *e, MPI_Request now, MPI_Status *status); /* `now`: what MPI has made of the request */
void goscr_started(struct entry *e);                                        /* a persistent one */
void goscr_receives(struct entry *e, void *buffer, int count, MPI_Datatype type); /* where a receive puts its message; NULL: no entry */
/*
 * Puts what receives have got into the next snapshot, if the program has not seen it: after a restart it begins
 * these receives again.  Returns why that is not possible, NULL: it is done.
 */
const char *goscr_copy_unseen(void);
void goscr_cancels(MPI_Request r);                                          /* before the program cancels it */
void goscr_count_completed(void);   /* what has completed, and the program has not completed yet */
/* How many collective operations within some ranks this rank has begun, and has not completed; `open`: MPI has not either. */
int goscr_collectives(const char *in, int open);

void goscr_seen(struct entry *e, MPI_Status *status); /* that it is complete, and the request stays */

/*
 * Takes a request out before a thread waits for it: once it has completed, another thread may get one
 * with the same handle.  Returns whether it is in the table.  Afterwards goscr_waited or, if it has not
 * completed, goscr_put_back is called, also without the lock.
 */
int goscr_await(MPI_Request r, struct entry *taken);
void goscr_waited(struct entry *taken, MPI_Request now, MPI_Status *status);
void goscr_put_back(struct entry *taken, MPI_Request now);

/* ----------------------------------------------------------------------- the store */

extern volatile int goscr_drained; /* how many messages are in it */
extern MPI_Comm goscr_self;        /* for messages of this process to itself */
void goscr_keep_until_sent(MPI_Request r, void *data); /* of a send to itself; frees the data then */

/*
 * The first message of the store that a receive gets, under the lock.  Returns whether there is one.
 * With `take` it goes into *data, which the caller frees.
 */
int goscr_stored(MPI_Comm comm, int source, int tag, int take, MPI_Status *status, void **data, int64_t *n);

/* Begins to send the bytes of a message of the store to this process.  Returns a code of MPI. */
int goscr_send_self(const void *data, int64_t n, int tag, MPI_Request *r);

/* What has been received as data of another type: `n` bytes, which the caller frees.  Returns a code of MPI. */
int goscr_bytes_of(void *buffer, int count, MPI_Datatype type, void **data, int64_t *n);

/* Begins the receive of data as of a message: `source` and `tag` are for its status. */
int goscr_give(MPI_Comm comm, void *data, int64_t n, void *buffer, int count, MPI_Datatype type, MPI_Status *status);

/*
 * A call that sends and does not return at once, while it is under way: it may be one of a thread that is saved
 * meanwhile.  The message is in transit then, or has been received; the program does not know.
 */
struct under_way {
    int kind, count, to, tag;
    MPI_Datatype type;
    MPI_Comm comm;
    struct under_way *next;
};
enum { GOSCR_SEND = 1, GOSCR_SSEND, GOSCR_BSEND, GOSCR_RSEND, GOSCR_SENDRECV };

extern volatile int goscr_to_repeat; /* calls that the snapshot has, and that the program has not repeated */
int goscr_repeats(const struct under_way *u); /* whether a call is one of them.  Under the lock */
void goscr_sets_out(struct under_way *u);     /* under the lock */
void goscr_arrives(struct under_way *u);

/*
 * Puts what the program does not know into the next snapshot.  `asked`: the program has not called for it, and so a
 * nonblocking collective operation that it has not completed is an error.  Returns 0, or 1 after an error, which it prints.
 */
int goscr_snapshot(const char *call, int asked);
void goscr_snapshot_done(void);

/* Receives what there is, over all communicators.  Takes the lock.  Returns 1, 0: nothing, or -1: an error. */
int goscr_drain(const char *call);

/* Matched messages: how many the program has that it has not received. */
extern volatile int goscr_matched;

extern int goscr_checks; /* SCR_CHECK_IN_FLIGHT=1: what is in transit at a checkpoint is printed */

/* Whether the program has a window for one-sided operations; `why` says why it cannot be saved then. */
enum { GOSCR_WHY_SIZE = 200 };
int goscr_has_window(char why[GOSCR_WHY_SIZE]);

/* Says that messages of a checkpoint are in the store. */
void goscr_quiet_restarted(void);

/* ---------------------------------------------------------------------------- rest */

/*
 * Whether the program is in a region without messages over `goscr_quiet_comm`: then calls that
 * begin some are errors.
 */
extern volatile int goscr_quiet_region;
extern MPI_Comm goscr_quiet_comm;
int goscr_quiet_refuse(MPI_Comm comm, const char *call);

void goscr_quiet_begin(int several);
void goscr_quiet_end(void);

/* What a function is told that is to save the program. */
int goscr_quiet_ready(int has);

/*
 * How many collective operations each rank has to begin, for all to have begun as many: the most that any rank has.
 * `*behind`: whether this rank has begun fewer.  Collective over `over`, a communicator of all ranks.  Returns 0, or 1
 * after an error.
 */
enum goscr_which {
    GOSCR_NONBLOCKING, /* only these */
    GOSCR_ALL,         /* blocking ones, too */
    GOSCR_SAVED        /* ... but not those within which the program was saved: it will repeat them */
};
int goscr_targets(MPI_Comm over, enum goscr_which which, int *behind);
int goscr_is_behind(void);
int goscr_has_open(void); /* whether this rank has begun one and not seen that it is complete, or has a matched message */
void goscr_are_together(void); /* no rank is behind */

/*
 * Brings the messages between the ranks of a communicator to rest.  Collective over it.  A thread of this library
 * has a communicator of its own for that, since the program may do the same meanwhile.
 */
extern MPI_Comm goscr_quiet_beside;
int goscr_quiet(MPI_Comm comm, const char *call);

/* ------------------------------------------------------------------------- Fortran */

/*
 * Directs calls of Fortran to this library's functions.  Returns whether some were not before.
 * redirect.c says why.
 */
int goscr_redirect(void);

#pragma GCC visibility pop

#endif
