//go:build mpi

#include "shim.h"

#include <limits.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define TRY(call)                              \
    do {                                       \
        int try_code = (call);                 \
        if (try_code != MPI_SUCCESS) return try_code; \
    } while (0)

// Waiting. A rank polls in bursts. Between bursts it at first yields this core to
// the rank that may send; later it sleeps, and takes hardly any processor time.
//
// A burst has more than one poll, since MPICH checks the messages of only a few of
// its peers at a time.
enum {
    BURST = 50,
    YIELD_NS = 200 * 1000,
    NAP_MIN_NS = 20 * 1000,
    NAP_MAX_NS = 1000 * 1000,
    LOOK_NS = 1000 * 1000,
};

typedef struct {
    int polls;
    int64_t burst_began;
    int64_t idle;    // since when polls have found nothing; 0: they have just found something
    int64_t looked;  // for notices
    long nap;
} patience;

static int64_t nothing = INT64_MAX; // the shortest burst so far

static int64_t now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * (int64_t)1000000000 + t.tv_nsec;
}

// Revocation. A rank that revokes a communicator sends a notice to each of the others,
// which look for it every millisecond while they wait, and at the beginning of a call
// (goscr_revoked). Ranks do not forward notices: a rank that waits in the program's MPI
// would not forward any. Notices are so short that MPI delivers them without the
// receiver's help: a rank that never looks for its notice can still finalize MPI.
//
// If a rank finds a notice while it waits, MPI keeps the request, its buffers and the
// communicator until the process ends, and does not use the communicator's number again.
// A burst of polls takes longer from then on.
enum { NOTICE = 32767 }; // mpi.MaxTag is less

typedef struct {
    int32_t gates;
    char reason[GOSCR_REASON + 1];
} notice;

// look receives a notice, if one has arrived.
static int look(goscr_family *f, int *from, notice *n)
{
    MPI_Status s;
    int found = 0, over = 1;
    if (f->comm == MPI_COMM_NULL || MPI_Finalized(&over) != MPI_SUCCESS || over) return 0;
    if (MPI_Iprobe(MPI_ANY_SOURCE, NOTICE, f->comm, &found, &s) != MPI_SUCCESS || !found) return 0;
    if (MPI_Recv(n, sizeof *n, MPI_BYTE, s.MPI_SOURCE, NOTICE, f->comm, MPI_STATUS_IGNORE) != MPI_SUCCESS) return 0;
    *from = s.MPI_SOURCE;
    return 1;
}

int goscr_revoked(goscr_family *f)
{
    notice n;
    if (f == NULL) return 0;
    if (f->revoker < 0 && look(f, &f->revoker, &n)) {
        f->revokers_gates = n.gates;
        memcpy(f->reason, n.reason, sizeof f->reason);
        f->reason[GOSCR_REASON] = 0;
        nothing = INT64_MAX;
    }
    return f->revoker >= 0;
}

static int known_revoked(const goscr_family *f) { return f != NULL && f->revoker >= 0; }

// pause_polling is called after each poll that has found nothing. It reports whether the
// communicator has been revoked: then the rank must not go on waiting.
static int pause_polling(goscr_family *f, patience *p)
{
    if (++p->polls % BURST != 0) return 0;
    int64_t t = now();
    if (p->polls > BURST) {
        // MPI moves pieces of long messages during polls. Such a burst takes longer
        // than one that finds nothing, and more pieces follow.
        int64_t took = t - p->burst_began;
        if (took < nothing) nothing = took;
        if (took > 2 * nothing + 10000) p->idle = 0;
    }
    if (p->idle == 0) {
        p->idle = t;
        p->nap = 0;
    }
    if (p->looked == 0) p->looked = t;
    if (t - p->looked >= LOOK_NS) {
        if (goscr_revoked(f)) return 1;
        p->looked = t;
    }
    if (t - p->idle < YIELD_NS) {
        sched_yield();
    } else {
        p->nap = p->nap == 0 ? NAP_MIN_NS : p->nap + p->nap / 2;
        if (p->nap > NAP_MAX_NS) p->nap = NAP_MAX_NS;
        struct timespec nap = {0, p->nap};
        nanosleep(&nap, NULL);
    }
    p->burst_began = now();
    return 0;
}

// A request has no communicator, so MPICH passes its errors to the handler of
// MPI_COMM_WORLD, which belongs to the program and usually aborts. return_errors
// replaces that handler while requests are tested.
static int return_errors(MPI_Errhandler *handler)
{
    TRY(MPI_Comm_get_errhandler(MPI_COMM_WORLD, handler));
    return MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
}

static void restore_handler(MPI_Errhandler *handler)
{
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, *handler);
    MPI_Errhandler_free(handler);
}

static int finish(goscr_family *family, MPI_Request *request, MPI_Status *status)
{
    MPI_Errhandler handler;
    TRY(return_errors(&handler));
    patience p = {0};
    int code, done = 0, revoked = 0;
    while ((code = MPI_Test(request, &done, status)) == MPI_SUCCESS && !done && !revoked) revoked = pause_polling(family, &p);
    restore_handler(&handler);
    return revoked ? GOSCR_REVOKED : code;
}

static int finish_plain(goscr_comm comm, int started, MPI_Request *request)
{
    TRY(started);
    return finish(comm.family, request, MPI_STATUS_IGNORE);
}

static int describe(MPI_Status *from, goscr_status *to)
{
    MPI_Count n;
    TRY(MPI_Get_elements_x(from, MPI_BYTE, &n));
    to->count = n;
    to->source = from->MPI_SOURCE;
    to->tag = from->MPI_TAG;
    return MPI_SUCCESS;
}

static int source(int src) { return src < 0 ? MPI_ANY_SOURCE : src; }

// shape is a count and a datatype for a number of bytes, which may not fit in an int.
typedef struct {
    int count;
    MPI_Datatype type;
} shape;

enum { BLOCK = 1 << 20 };

static int shape_of(int64_t n, shape *s)
{
    if (n <= INT_MAX) {
        *s = (shape){(int)n, MPI_BYTE};
        return MPI_SUCCESS;
    }
    MPI_Datatype block;
    TRY(MPI_Type_contiguous(BLOCK, MPI_BYTE, &block));
    int lengths[2] = {(int)(n / BLOCK), (int)(n % BLOCK)};
    MPI_Aint places[2] = {0, (MPI_Aint)(n - n % BLOCK)};
    MPI_Datatype types[2] = {block, MPI_BYTE};
    int code = MPI_Type_create_struct(2, lengths, places, types, &s->type);
    MPI_Type_free(&block);
    TRY(code);
    s->count = 1;
    code = MPI_Type_commit(&s->type);
    if (code != MPI_SUCCESS) MPI_Type_free(&s->type);
    return code;
}

// MPI keeps the datatype for as long as an operation needs it.
static void shape_free(shape *s)
{
    if (s->type != MPI_BYTE) MPI_Type_free(&s->type);
}

void goscr_error_string(int code, char *text, int len)
{
    char s[MPI_MAX_ERROR_STRING];
    int n = 0;
    if (MPI_Error_string(code, s, &n) != MPI_SUCCESS) n = snprintf(s, sizeof s, "error %d", code);
    snprintf(text, len, "%.*s", n, s);
}

int goscr_is_truncation(int code)
{
    int class;
    return MPI_Error_class(code, &class) == MPI_SUCCESS && class == MPI_ERR_TRUNCATE;
}

int goscr_state(int *initialized, int *finalized)
{
    TRY(MPI_Initialized(initialized));
    return MPI_Finalized(finalized);
}

int goscr_init(void)
{
    int provided;
    return MPI_Init_thread(NULL, NULL, MPI_THREAD_FUNNELED, &provided);
}

// goscr_other_mpi reports whether the calls here reach another MPI than that of mpi.h, in
// which handles have other meanings. That happens if the program is linked with another
// MPI, since the loader finds that first. name gets the name of the MPI that is called.
// MPIs with the same ABI, such as the descendants of MPICH, count as the same.
int goscr_other_mpi(char *name, int n)
{
    // The other MPI may have a larger limit than the header.
    static char version[1 << 16];
    int length = 0;
    if (MPI_Get_library_version(version, &length) != MPI_SUCCESS) return 0;
    snprintf(name, n, "%.*s", (int)strcspn(version, ",\n"), version);
#if defined(OPEN_MPI)
    return strstr(version, "MPICH") != NULL || strstr(version, "Intel(R) MPI") != NULL;
#elif defined(MPICH_VERSION)
    return strstr(version, "Open MPI") != NULL;
#else
    return 0;
#endif
}

// adopt makes operations on a new communicator return their errors.
static int adopt(MPI_Comm *comm)
{
    int code = MPI_Comm_set_errhandler(*comm, MPI_ERRORS_RETURN);
    if (code != MPI_SUCCESS) MPI_Comm_free(comm);
    return code;
}

int goscr_dup(const MPI_Comm *from, goscr_family *family, MPI_Comm *dup)
{
    MPI_Comm comm = *from;
    if (known_revoked(family)) return GOSCR_REVOKED;
    if (comm == MPI_COMM_NULL) return MPI_ERR_COMM;
    // Errors of the dup would go to the program's handler, which may abort.
    MPI_Errhandler handler;
    TRY(MPI_Comm_get_errhandler(comm, &handler));
    TRY(MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN));
    int inter = 0;
    int code = MPI_Comm_test_inter(comm, &inter);
    MPI_Request request;
    if (code == MPI_SUCCESS) code = inter ? MPI_ERR_COMM : MPI_Comm_idup(comm, dup, &request);
    if (code == MPI_SUCCESS) code = finish(family, &request, MPI_STATUS_IGNORE);
    MPI_Comm_set_errhandler(comm, handler);
    MPI_Errhandler_free(&handler);
    TRY(code);
    return adopt(dup);
}

int goscr_world(MPI_Comm *dup)
{
    MPI_Comm world = MPI_COMM_WORLD;
    return goscr_dup(&world, NULL, dup);
}

// gate is a barrier before an operation that can only wait in MPI. It returns MPI_SUCCESS
// once all ranks of a communicator have entered it, or GOSCR_REVOKED on all of them if one
// of them never will.
//
// So a rank that finds a notice in a gate must know whether the revoker has entered that
// gate, too: then all ranks will, and it goes on waiting. The notice has the number of gates
// that the revoker has entered. Only gates of communicators with all ranks count, since all
// ranks enter these in the same order.
static int gate(goscr_comm comm)
{
    goscr_family *f = comm.family;
    MPI_Request request;
    patience p = {0};
    int size, mine = 0, done = 0;

    if (f == NULL) return MPI_SUCCESS;
    if (goscr_revoked(f)) return GOSCR_REVOKED;
    TRY(MPI_Comm_size(comm.mpi, &size));
    if (size == f->size) mine = ++f->gates;
    TRY(MPI_Ibarrier(comm.mpi, &request));
    for (;;) {
        MPI_Errhandler handler;
        TRY(return_errors(&handler));
        int code = MPI_Test(&request, &done, MPI_STATUS_IGNORE);
        restore_handler(&handler);
        TRY(code);
        if (done) return MPI_SUCCESS;
        if (!known_revoked(f))
            pause_polling(f, &p);
        else if (mine == 0 || f->revokers_gates < mine)
            return GOSCR_REVOKED;
        else
            sched_yield();
    }
}

int goscr_split(goscr_comm comm, int color, int key, MPI_Comm *part, int *none)
{
    TRY(gate(comm));
    TRY(MPI_Comm_split(comm.mpi, color < 0 ? MPI_UNDEFINED : color, key, part));
    *none = *part == MPI_COMM_NULL;
    if (known_revoked(comm.family)) return GOSCR_REVOKED;
    return *none ? MPI_SUCCESS : adopt(part);
}

// goscr_free frees a communicator. Before it frees the one that carries notices, it waits
// for all ranks: a rank could otherwise still send a notice, which MPI might deliver on the
// next communicator with the same number.
int goscr_free(goscr_comm comm)
{
    goscr_family *f = comm.family;
    if (known_revoked(f)) return GOSCR_REVOKED;
    if (f != NULL && f->comm == comm.mpi) {
        TRY(goscr_barrier(comm));
        f->comm = MPI_COMM_NULL;
    }
    return MPI_Comm_free(&comm.mpi);
}

void goscr_found(goscr_family *f, MPI_Comm comm, int rank, int size)
{
    memset(f, 0, sizeof *f);
    f->comm = comm;
    f->rank = rank;
    f->size = size;
    f->revoker = -1;
}

// When many ranks revoke at once, each stops sending notices when it learns that a lower rank
// has revoked, so that far fewer messages are sent than if all of them went on.
enum { ROUND = 32 };

static int lower_has_revoked(goscr_family *f)
{
    notice n;
    int from;
    while (look(f, &from, &n))
        if (from < f->rank) return 1;
    return 0;
}

// How long a rank polls for its notices to be sent: MPI may have to make connections first.
static const int64_t HELP_NS = (int64_t)5 * 1000 * 1000 * 1000;

static void help(int count, MPI_Request *sent, int64_t until)
{
    MPI_Status statuses[ROUND];
    MPI_Errhandler handler;
    int done = 0;
    if (return_errors(&handler) != MPI_SUCCESS) return;
    while (MPI_Testall(count, sent, &done, statuses) == MPI_SUCCESS && !done && now() < until) {
        struct timespec nap = {0, NAP_MIN_NS};
        nanosleep(&nap, NULL);
    }
    restore_handler(&handler);
    for (int i = 0; i < count; i++)
        if (sent[i] != MPI_REQUEST_NULL) MPI_Request_free(&sent[i]);
}

void goscr_revoke(goscr_family *f, const char *reason)
{
    int over = 1;
    if (f->comm == MPI_COMM_NULL || goscr_revoked(f) || MPI_Finalized(&over) != MPI_SUCCESS || over) return;
    notice *n = calloc(1, sizeof *n); // MPI may keep it for ever
    if (n == NULL) return;
    snprintf(n->reason, sizeof n->reason, "%s", reason);
    n->gates = f->gates;
    f->revoker = f->rank;
    f->revokers_gates = f->gates;
    nothing = INT64_MAX;
    memcpy(f->reason, n->reason, sizeof f->reason);
    int64_t until = now() + HELP_NS;
    for (int i = 1; i < f->size && (i == 1 || !lower_has_revoked(f)); i += ROUND) {
        MPI_Request sent[ROUND];
        int count = 0;
        for (int k = i; k < f->size && k < i + ROUND; k++)
            if (MPI_Isend(n, sizeof *n, MPI_BYTE, (f->rank + k) % f->size, NOTICE, f->comm, &sent[count]) == MPI_SUCCESS) count++;
        help(count, sent, until);
    }
}

int goscr_world_place(int *rank, int *size) { return goscr_place(MPI_COMM_WORLD, rank, size); }

int goscr_place(MPI_Comm comm, int *rank, int *size)
{
    TRY(MPI_Comm_rank(comm, rank));
    return MPI_Comm_size(comm, size);
}

int goscr_isend(goscr_comm comm, const char *buf, int64_t n, int dst, int tag, int synchronous, MPI_Request *request)
{
    if (known_revoked(comm.family)) return GOSCR_REVOKED;
    shape s;
    TRY(shape_of(n, &s));
    int code = synchronous ? MPI_Issend(buf, s.count, s.type, dst, tag, comm.mpi, request)
                           : MPI_Isend(buf, s.count, s.type, dst, tag, comm.mpi, request);
    shape_free(&s);
    return code;
}

int goscr_irecv(goscr_comm comm, char *buf, int64_t n, int src, int tag, MPI_Request *request)
{
    if (known_revoked(comm.family)) return GOSCR_REVOKED;
    shape s;
    TRY(shape_of(n, &s));
    int code = MPI_Irecv(buf, s.count, s.type, source(src), tag, comm.mpi, request);
    shape_free(&s);
    return code;
}

int goscr_wait(goscr_family *family, MPI_Request *request, int received, goscr_status *status)
{
    MPI_Status s;
    if (known_revoked(family)) return GOSCR_REVOKED;
    TRY(finish(family, request, &s));
    return received ? describe(&s, status) : MPI_SUCCESS;
}

// missed looks for notices when a program polls by itself, as finish does while it waits.
static int missed(goscr_family *f)
{
    sched_yield();
    return f != NULL && ++f->misses % BURST == 0 && goscr_revoked(f);
}

int goscr_test(goscr_family *family, MPI_Request *request, int received, goscr_status *status)
{
    MPI_Status s;
    MPI_Errhandler handler;
    int done = 0;
    if (known_revoked(family)) return GOSCR_REVOKED;
    TRY(return_errors(&handler));
    int code = MPI_Test(request, &done, &s);
    restore_handler(&handler);
    TRY(code);
    status->flag = done;
    if (!done && missed(family)) return GOSCR_REVOKED;
    return done && received ? describe(&s, status) : MPI_SUCCESS;
}

int goscr_send(goscr_comm comm, const char *buf, int64_t n, int dst, int tag)
{
    MPI_Request request;
    return finish_plain(comm, goscr_isend(comm, buf, n, dst, tag, 0, &request), &request);
}

// goscr_recv probes a message before it receives it, since Open MPI 4.1 writes past
// a buffer that is shorter than a message of more than 4 KiB.
int goscr_recv(goscr_comm comm, char *buf, int64_t n, int src, int tag, goscr_status *status)
{
    MPI_Message message;
    MPI_Status s;
    patience p = {0};
    if (known_revoked(comm.family)) return GOSCR_REVOKED;
    for (int found = 0;;) {
        TRY(MPI_Improbe(source(src), tag, comm.mpi, &found, &message, &s));
        if (found) break;
        if (pause_polling(comm.family, &p)) return GOSCR_REVOKED;
    }
    TRY(describe(&s, status));
    char *scratch = NULL;
    if (status->count > n) {
        buf = scratch = malloc(status->count);
        if (scratch == NULL) return MPI_ERR_NO_MEM;
    }
    shape parts;
    MPI_Request request;
    int code = shape_of(status->count, &parts);
    if (code == MPI_SUCCESS) {
        code = finish_plain(comm, MPI_Imrecv(buf, parts.count, parts.type, &message, &request), &request);
        shape_free(&parts);
    }
    if (scratch != NULL && code != GOSCR_REVOKED) {
        free(scratch);
        if (code == MPI_SUCCESS) code = MPI_ERR_TRUNCATE;
    }
    return code;
}

int goscr_sendrecv(goscr_comm comm, const char *out, int64_t nout, int dst, int outtag,
                   char *in, int64_t nin, int src, int intag, goscr_status *status)
{
    MPI_Request sent;
    TRY(goscr_isend(comm, out, nout, dst, outtag, 0, &sent));
    // The send uses out until it is done, even if the receive fails.
    int code = goscr_recv(comm, in, nin, src, intag, status);
    if (code == GOSCR_REVOKED) return code;
    TRY(finish(comm.family, &sent, MPI_STATUS_IGNORE));
    return code;
}

int goscr_iprobe(goscr_comm comm, int src, int tag, goscr_status *status)
{
    MPI_Status s;
    int found = 0;
    if (known_revoked(comm.family)) return GOSCR_REVOKED;
    TRY(MPI_Iprobe(source(src), tag, comm.mpi, &found, &s));
    status->flag = found;
    if (!found && missed(comm.family)) return GOSCR_REVOKED;
    return found ? describe(&s, status) : MPI_SUCCESS;
}

int goscr_probe(goscr_comm comm, int src, int tag, goscr_status *status)
{
    patience p = {0};
    if (known_revoked(comm.family)) return GOSCR_REVOKED;
    for (;;) {
        MPI_Status s;
        int found = 0;
        TRY(MPI_Iprobe(source(src), tag, comm.mpi, &found, &s));
        if (found) return describe(&s, status);
        if (pause_polling(comm.family, &p)) return GOSCR_REVOKED;
    }
}

int goscr_ibarrier(goscr_comm comm, MPI_Request *request)
{
    if (known_revoked(comm.family)) return GOSCR_REVOKED;
    return MPI_Ibarrier(comm.mpi, request);
}

int goscr_barrier(goscr_comm comm)
{
    MPI_Request request;
    return finish_plain(comm, goscr_ibarrier(comm, &request), &request);
}

// Collective operations on more bytes are done in pieces, the same on all ranks.
enum { PIECE = 1 << 30 };

static int64_t piece(int64_t left, int64_t size) { return left < PIECE / size ? left : PIECE / size; }

int goscr_bcast(goscr_comm comm, char *buf, int64_t n, int root)
{
    if (known_revoked(comm.family)) return GOSCR_REVOKED;
    for (int64_t at = 0; at < n;) {
        MPI_Request request;
        int64_t m = piece(n - at, 1);
        TRY(finish_plain(comm, MPI_Ibcast(buf + at, (int)m, MPI_BYTE, root, comm.mpi, &request), &request));
        at += m;
    }
    return MPI_SUCCESS;
}

static MPI_Op op_of(int op) { return op == GOSCR_SUM ? MPI_SUM : op == GOSCR_MIN ? MPI_MIN : MPI_MAX; }

int goscr_allreduce(goscr_comm comm, int64_t *values, int64_t n, int op)
{
    if (known_revoked(comm.family)) return GOSCR_REVOKED;
    for (int64_t at = 0; at < n;) {
        MPI_Request request;
        int64_t m = piece(n - at, sizeof *values);
        TRY(finish_plain(comm, MPI_Iallreduce(MPI_IN_PLACE, values + at, (int)m, MPI_INT64_T, op_of(op), comm.mpi, &request),
                         &request));
        at += m;
    }
    return MPI_SUCCESS;
}

int goscr_exscan(goscr_comm comm, int64_t *values, int64_t n, int op)
{
    if (known_revoked(comm.family)) return GOSCR_REVOKED;
    for (int64_t at = 0; at < n;) {
        MPI_Request request;
        int64_t m = piece(n - at, sizeof *values);
        TRY(finish_plain(comm, MPI_Iexscan(MPI_IN_PLACE, values + at, (int)m, MPI_INT64_T, op_of(op), comm.mpi, &request),
                         &request));
        at += m;
    }
    return MPI_SUCCESS;
}

int goscr_gather(goscr_comm comm, const char *send, int64_t n, char *recv, int root)
{
    shape s;
    MPI_Request request;
    if (known_revoked(comm.family)) return GOSCR_REVOKED;
    TRY(shape_of(n, &s));
    int code = MPI_Igather(send, s.count, s.type, recv, s.count, s.type, root, comm.mpi, &request);
    shape_free(&s);
    return finish_plain(comm, code, &request);
}
