//go:build mpi

#define _GNU_SOURCE // RTLD_DEFAULT

#include "library.h"
#include "shim.h"

#include <dlfcn.h>
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
// its peers at a time. It also ends after some time: Open MPI yields the core in each poll if
// there are more ranks than cores, and where other processes compute, it comes back only after
// their time slices.
enum {
    BURST = 50,
    BURST_NS = 2 * 1000 * 1000,
    YIELD_NS = 200 * 1000,
    NAP_MIN_NS = 20 * 1000,
    NAP_MAX_NS = 1000 * 1000,
    LOOK_NS = 1000 * 1000,
};

static __thread int64_t nothing = INT64_MAX; // the shortest burst of the thread so far

static int64_t by(clockid_t clock)
{
    struct timespec t;
    clock_gettime(clock, &t);
    return t.tv_sec * (int64_t)1000000000 + t.tv_nsec;
}

static int64_t now(void) { return by(CLOCK_MONOTONIC); }
// A burst takes processor time only: one that another process interrupts has found nothing more.
static int64_t worked(void) { return by(CLOCK_THREAD_CPUTIME_ID); }

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

// A probe does not fail when a process dies (Open MPI 5.0.7), but a pending receive does. So each communicator has a
// receive from any rank that no message ends. It fails when one of the ranks has died, whichever.
enum { WATCH = NOTICE + 1 }; // only an MPI that continues after deaths uses it, and such an MPI takes larger tags

typedef struct {
    int32_t gates;
    char reason[GOSCR_REASON + 1];
} notice;

// look receives a notice, if one has arrived: *from is the rank that has sent it, or -1. It returns
// an error of MPI if a process has died, or no notice can be received any more.
static int look(goscr_family *f, int *from, notice *n)
{
    MPI_Status s;
    int found = 0, over = 1;
    *from = -1;
    if (f->comm == MPI_COMM_NULL || PMPI_Finalized(&over) != MPI_SUCCESS || over) return MPI_SUCCESS;
    TRY(PMPI_Iprobe(MPI_ANY_SOURCE, NOTICE, f->comm, &found, &s));
    if (!found) return f->watch == MPI_REQUEST_NULL ? MPI_SUCCESS : PMPI_Test(&f->watch, &found, MPI_STATUS_IGNORE);
    TRY(PMPI_Recv(n, sizeof *n, MPI_BYTE, s.MPI_SOURCE, NOTICE, f->comm, MPI_STATUS_IGNORE));
    *from = s.MPI_SOURCE;
    return MPI_SUCCESS;
}

static void revoke(goscr_family *f, const char *reason);

int goscr_revoked(goscr_family *f)
{
    notice n;
    int code, from = -1;
    if (f == NULL) return 0;
    if (f->revoker < 0 && (code = look(f, &from, &n)) != MPI_SUCCESS) {
        // A process has died, and MPI continues. This rank may be waiting for one that lives, has had an
        // error because of that, and has given up; and it would never find its notice.
        char text[GOSCR_REASON];
        goscr_error_string(code, text, sizeof text);
        revoke(f, text);
    }
    if (from >= 0) {
        f->revoker = from;
        f->revokers_gates = n.gates;
        memcpy(f->reason, n.reason, sizeof f->reason);
        f->reason[GOSCR_REASON] = 0;
        nothing = INT64_MAX;
    }
    return f->revoker >= 0;
}

static int known_revoked(const goscr_family *f) { return f != NULL && f->revoker >= 0; }

// pause_polling is called after each poll that has found nothing. It reports whether the
// communicator has been revoked: then the rank must not continue waiting.
static int pause_polling(goscr_family *f, goscr_patience *p)
{
    int64_t t = now();
    if (p->began == 0) p->began = t;
    if (++p->polls < BURST && t - p->began < BURST_NS) return 0;
    if (p->bursts++ > 0) {
        // MPI moves pieces of long messages during polls. Such a burst takes longer
        // than one that finds nothing, and more pieces follow.
        int64_t took = worked() - p->worked_before;
        if (p->polls == BURST && took < nothing) nothing = took;
        if (nothing < INT64_MAX && took > 2 * nothing + 10000) p->idle = 0;
    }
    p->polls = 0;
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
    p->began = now();
    p->worked_before = worked();
    return 0;
}

// A request has no communicator, so MPICH passes its errors to the handler of
// MPI_COMM_WORLD, which belongs to the program and usually aborts. return_errors
// replaces that handler while requests are tested, but not in another thread than the
// program's: that may be using MPI.
static int return_errors(const goscr_family *f, MPI_Errhandler *handler)
{
    *handler = MPI_ERRHANDLER_NULL;
    if (f != NULL && f->background) return MPI_SUCCESS;
    TRY(PMPI_Comm_get_errhandler(MPI_COMM_WORLD, handler));
    return PMPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
}

static void restore_handler(MPI_Errhandler *handler)
{
    if (*handler == MPI_ERRHANDLER_NULL) return;
    PMPI_Comm_set_errhandler(MPI_COMM_WORLD, *handler);
    PMPI_Errhandler_free(handler);
}

static int finish(goscr_family *family, MPI_Request *request, MPI_Status *status)
{
    MPI_Errhandler handler;
    TRY(return_errors(family, &handler));
    goscr_patience p = {0};
    int code, done = 0, revoked = 0;
    while ((code = PMPI_Test(request, &done, status)) == MPI_SUCCESS && !done && !revoked) revoked = pause_polling(family, &p);
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
    TRY(PMPI_Get_elements_x(from, MPI_BYTE, &n));
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
    TRY(PMPI_Type_contiguous(BLOCK, MPI_BYTE, &block));
    int lengths[2] = {(int)(n / BLOCK), (int)(n % BLOCK)};
    MPI_Aint places[2] = {0, (MPI_Aint)(n - n % BLOCK)};
    MPI_Datatype types[2] = {block, MPI_BYTE};
    int code = PMPI_Type_create_struct(2, lengths, places, types, &s->type);
    PMPI_Type_free(&block);
    TRY(code);
    s->count = 1;
    code = PMPI_Type_commit(&s->type);
    if (code != MPI_SUCCESS) PMPI_Type_free(&s->type);
    return code;
}

// MPI keeps the datatype for as long as an operation needs it.
static void shape_free(shape *s)
{
    if (s->type != MPI_BYTE) PMPI_Type_free(&s->type);
}

void goscr_error_string(int code, char *text, int len)
{
    char s[MPI_MAX_ERROR_STRING];
    int n = 0;
    if (PMPI_Error_string(code, s, &n) != MPI_SUCCESS) n = snprintf(s, sizeof s, "error %d", code);
    snprintf(text, len, "%.*s", n, s);
}

int goscr_is_truncation(int code)
{
    int class;
    return PMPI_Error_class(code, &class) == MPI_SUCCESS && class == MPI_ERR_TRUNCATE;
}

int goscr_state(int *initialized, int *finalized)
{
    TRY(PMPI_Initialized(initialized));
    return PMPI_Finalized(finalized);
}

int goscr_multiple(int *multiple)
{
    int provided;
    TRY(PMPI_Query_thread(&provided));
    *multiple = provided == MPI_THREAD_MULTIPLE;
    return MPI_SUCCESS;
}

int goscr_init(void)
{
    int provided;
    return PMPI_Init_thread(NULL, NULL, MPI_THREAD_FUNNELED, &provided);
}

int goscr_other_mpi(char *name, int n) { return is_other_mpi(name, n); }

// is_set reports whether a parameter of the MPI that is true or false is true.
static int is_set(const char *name)
{
    int level, index, count = 0, verbosity, bind, scope, set = 0;
    char text[64];
    int length = sizeof text;
    union { // the parameter's type depends on the MPI
        char bytes[8];
        int64_t whole;
    } value = {{0}};
    MPI_Datatype type;
    MPI_T_enum kind;
    MPI_T_cvar_handle handle;

    if (PMPI_T_init_thread(MPI_THREAD_SINGLE, &level) != MPI_SUCCESS) return 0;
    if (PMPI_T_cvar_get_index(name, &index) == MPI_SUCCESS &&
        PMPI_T_cvar_get_info(index, text, &length, &verbosity, &type, &kind, NULL, NULL, &bind, &scope) == MPI_SUCCESS &&
        (type == MPI_C_BOOL || type == MPI_INT) && PMPI_T_cvar_handle_alloc(index, NULL, &handle, &count) == MPI_SUCCESS) {
        set = count == 1 && PMPI_T_cvar_read(handle, &value) == MPI_SUCCESS && value.whole != 0;
        PMPI_T_cvar_handle_free(&handle);
    }
    PMPI_T_finalize();
    return set;
}

// goscr_goes_on says whether the MPI continues after processes have died. The rule is cautious,
// since an MPI which only has the names of the calls may hang in them, as MPICH 4.0.2: it must
// be Open MPI 5 or newer, have the calls, and have been started with them.
int goscr_goes_on(char *why, int n)
{
    static const char *const calls[] = {"MPIX_Comm_revoke", "MPIX_Comm_shrink", "MPIX_Comm_agree", "MPIX_Comm_ack_failed"};
    static char version[1 << 16]; // as in library.h
    int length = 0, major = 0;

    if (PMPI_Get_library_version(version, &length) != MPI_SUCCESS) version[0] = 0;
    version[strcspn(version, ",\n")] = 0;
    if (sscanf(version, "Open MPI v%d", &major) != 1 || major < 5) {
        snprintf(why, n, "the MPI is %s", version);
        return 0;
    }
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++) {
        if (dlsym(RTLD_DEFAULT, calls[i]) == NULL) {
            snprintf(why, n, "this %s was built without %s", version, calls[i]);
            return 0;
        }
    }
    if (!is_set("mpi_ft_enable")) {
        snprintf(why, n, "mpirun was called without --with-ft ulfm");
        return 0;
    }
    return 1;
}

// goscr_compare counts the processes of a communicator that another one does not have, and
// returns the caller's rank in the other one among the processes of both. It does not communicate.
int goscr_compare(MPI_Comm before, const MPI_Comm *after, int *lacks, int *rank)
{
    MPI_Group all, left, gone, both;
    int inter = 0;

    if (*after == MPI_COMM_NULL) return MPI_ERR_COMM;
    TRY(PMPI_Comm_test_inter(*after, &inter));
    if (inter) return MPI_ERR_COMM;
    TRY(PMPI_Comm_group(before, &all));
    TRY(PMPI_Comm_group(*after, &left));
    TRY(PMPI_Group_intersection(left, all, &both)); // not empty: the caller is in it
    TRY(PMPI_Group_rank(both, rank));
    PMPI_Group_free(&both);
    TRY(PMPI_Group_difference(all, left, &gone));
    TRY(PMPI_Group_size(gone, lacks));
    if (*lacks > 0) PMPI_Group_free(&gone); // else it is MPI_GROUP_EMPTY
    PMPI_Group_free(&left);
    return PMPI_Group_free(&all);
}

// adopt makes operations on a new communicator return their errors.
static int adopt(MPI_Comm *comm)
{
    int code = PMPI_Comm_set_errhandler(*comm, MPI_ERRORS_RETURN);
    if (code != MPI_SUCCESS) PMPI_Comm_free(comm);
    return code;
}

int goscr_dup(const MPI_Comm *from, goscr_family *family, MPI_Comm *dup)
{
    MPI_Comm comm = *from;
    if (known_revoked(family)) return GOSCR_REVOKED;
    if (comm == MPI_COMM_NULL) return MPI_ERR_COMM;
    // Errors of the dup would go to the program's handler, which may abort.
    MPI_Errhandler handler;
    TRY(PMPI_Comm_get_errhandler(comm, &handler));
    TRY(PMPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN));
    int inter = 0;
    int code = PMPI_Comm_test_inter(comm, &inter);
    MPI_Request request;
    if (code == MPI_SUCCESS) code = inter ? MPI_ERR_COMM : PMPI_Comm_idup(comm, dup, &request);
    if (code == MPI_SUCCESS) code = finish(family, &request, MPI_STATUS_IGNORE);
    PMPI_Comm_set_errhandler(comm, handler);
    PMPI_Errhandler_free(&handler);
    TRY(code);
    return adopt(dup);
}

int goscr_world(MPI_Comm *dup)
{
    MPI_Comm world = MPI_COMM_WORLD;
    return goscr_dup(&world, NULL, dup);
}

// interrupt ends the operations of all ranks on a communicator, if the MPI continues after processes have died.
static void interrupt(MPI_Comm comm)
{
    char why[100];
    int (*interrupts)(MPI_Comm);
    if (!goscr_goes_on(why, sizeof why)) return;
    *(void **)&interrupts = dlsym(RTLD_DEFAULT, "MPIX_Comm_revoke");
    interrupts(comm);
}

// gate is a barrier before an operation that can only wait in MPI. It returns MPI_SUCCESS
// once all ranks of a communicator have entered it, or GOSCR_REVOKED on all of them if one
// of them never will.
//
// So a rank that finds a notice in a gate must know whether the revoker has entered that
// gate, too: then all ranks will, and it continues waiting. The notice has the number of gates
// that the revoker has entered. Only gates of communicators with all ranks count, since all
// ranks enter these in the same order.
//
// A rank on which the barrier fails, because a process has died, has not entered the gate: others may
// wait for it in the barrier. If others have passed, they wait in MPI, which must interrupt them.
static int gate(goscr_comm comm)
{
    goscr_family *f = comm.family;
    MPI_Request request;
    goscr_patience p = {0};
    int size, mine = 0, done = 0;

    if (f == NULL) return MPI_SUCCESS;
    if (goscr_revoked(f)) return GOSCR_REVOKED;
    TRY(PMPI_Comm_size(comm.mpi, &size));
    if (size == f->size) mine = ++f->gates;
    TRY(PMPI_Ibarrier(comm.mpi, &request));
    for (;;) {
        MPI_Errhandler handler;
        TRY(return_errors(f, &handler));
        int code = PMPI_Test(&request, &done, MPI_STATUS_IGNORE);
        restore_handler(&handler);
        if (code != MPI_SUCCESS) {
            if (mine != 0) f->gates--;
            interrupt(comm.mpi);
            return code;
        }
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
    int code = PMPI_Comm_split(comm.mpi, color < 0 ? MPI_UNDEFINED : color, key, part);
    if (code != MPI_SUCCESS) interrupt(comm.mpi);
    TRY(code);
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
        if (f->watch != MPI_REQUEST_NULL) {
            TRY(PMPI_Cancel(&f->watch));
            TRY(PMPI_Wait(&f->watch, MPI_STATUS_IGNORE));
        }
    }
    return PMPI_Comm_free(&comm.mpi);
}

void goscr_found(goscr_family *f, MPI_Comm comm, int rank, int size)
{
    memset(f, 0, sizeof *f);
    f->comm = comm;
    f->rank = rank;
    f->size = size;
    f->revoker = -1;
    f->watch = MPI_REQUEST_NULL;
    char why[100];
    if (goscr_goes_on(why, sizeof why) && PMPI_Irecv(NULL, 0, MPI_BYTE, MPI_ANY_SOURCE, WATCH, comm, &f->watch) != MPI_SUCCESS)
        f->watch = MPI_REQUEST_NULL; // then only errors of other operations tell of deaths
}

// When many ranks revoke at once, each stops sending notices when it learns that a lower rank
// has revoked, so that far fewer messages are sent than if all of them went on.
enum { ROUND = 32 };

static int lower_has_revoked(goscr_family *f)
{
    notice n;
    int from;
    while (look(f, &from, &n) == MPI_SUCCESS && from >= 0)
        if (from < f->rank) return 1;
    return 0;
}

// How long a rank polls for its notices to be sent: MPI may have to make connections first.
static const int64_t HELP_NS = (int64_t)5 * 1000 * 1000 * 1000;

static void help(const goscr_family *f, int count, MPI_Request *sent, int64_t until)
{
    MPI_Status statuses[ROUND];
    MPI_Errhandler handler;
    int done = 0;
    if (return_errors(f, &handler) != MPI_SUCCESS) return;
    while (PMPI_Testall(count, sent, &done, statuses) == MPI_SUCCESS && !done && now() < until) {
        struct timespec nap = {0, NAP_MIN_NS};
        nanosleep(&nap, NULL);
    }
    restore_handler(&handler);
    for (int i = 0; i < count; i++)
        if (sent[i] != MPI_REQUEST_NULL) PMPI_Request_free(&sent[i]);
}

void goscr_revoke(goscr_family *f, const char *reason)
{
    int over = 1;
    if (f->comm == MPI_COMM_NULL || goscr_revoked(f) || PMPI_Finalized(&over) != MPI_SUCCESS || over) return;
    revoke(f, reason);
}

static void revoke(goscr_family *f, const char *reason)
{
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
            if (PMPI_Isend(n, sizeof *n, MPI_BYTE, (f->rank + k) % f->size, NOTICE, f->comm, &sent[count]) == MPI_SUCCESS) count++;
        help(f, count, sent, until);
    }
}

int goscr_world_place(int *rank, int *size) { return goscr_place(MPI_COMM_WORLD, rank, size); }

int goscr_alone(int *spawned, char *library, int n)
{
    char name[MPI_MAX_LIBRARY_VERSION_STRING] = "";
    int length;
    MPI_Comm parent;
    TRY(PMPI_Comm_get_parent(&parent));
    *spawned = parent != MPI_COMM_NULL;
    TRY(PMPI_Get_library_version(name, &length));
    name[strcspn(name, ",\r\n")] = '\0'; // the rest is how it was built
    for (char *p = name; *p != '\0'; p++)
        if (*p == '\t') *p = ' ';
    snprintf(library, n, "%s", name);
    return MPI_SUCCESS;
}

int goscr_place(MPI_Comm comm, int *rank, int *size)
{
    TRY(PMPI_Comm_rank(comm, rank));
    return PMPI_Comm_size(comm, size);
}

int goscr_isend(goscr_comm comm, const char *buf, int64_t n, int dst, int tag, int synchronous, MPI_Request *request)
{
    if (known_revoked(comm.family)) return GOSCR_REVOKED;
    shape s;
    TRY(shape_of(n, &s));
    int code = synchronous ? PMPI_Issend(buf, s.count, s.type, dst, tag, comm.mpi, request)
                           : PMPI_Isend(buf, s.count, s.type, dst, tag, comm.mpi, request);
    shape_free(&s);
    return code;
}

int goscr_irecv(goscr_comm comm, char *buf, int64_t n, int src, int tag, MPI_Request *request)
{
    if (known_revoked(comm.family)) return GOSCR_REVOKED;
    shape s;
    TRY(shape_of(n, &s));
    int code = PMPI_Irecv(buf, s.count, s.type, source(src), tag, comm.mpi, request);
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

// missed waits between polls when the caller polls by itself, as finish does while it waits.
static int missed(goscr_family *f)
{
    if (f != NULL) return pause_polling(f, &f->misses);
    sched_yield();
    return 0;
}

static void hit(goscr_family *f)
{
    if (f != NULL) memset(&f->misses, 0, sizeof f->misses);
}

int goscr_test(goscr_family *family, MPI_Request *request, int received, goscr_status *status)
{
    MPI_Status s;
    MPI_Errhandler handler;
    int done = 0;
    if (known_revoked(family)) return GOSCR_REVOKED;
    TRY(return_errors(family, &handler));
    int code = PMPI_Test(request, &done, &s);
    restore_handler(&handler);
    TRY(code);
    status->flag = done;
    if (done) hit(family);
    else if (missed(family)) return GOSCR_REVOKED;
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
    goscr_patience p = {0};
    if (known_revoked(comm.family)) return GOSCR_REVOKED;
    for (int found = 0;;) {
        TRY(PMPI_Improbe(source(src), tag, comm.mpi, &found, &message, &s));
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
        code = finish_plain(comm, PMPI_Imrecv(buf, parts.count, parts.type, &message, &request), &request);
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
    TRY(PMPI_Iprobe(source(src), tag, comm.mpi, &found, &s));
    status->flag = found;
    if (found) hit(comm.family);
    else if (missed(comm.family)) return GOSCR_REVOKED;
    return found ? describe(&s, status) : MPI_SUCCESS;
}

int goscr_probe(goscr_comm comm, int src, int tag, goscr_status *status)
{
    goscr_patience p = {0};
    if (known_revoked(comm.family)) return GOSCR_REVOKED;
    for (;;) {
        MPI_Status s;
        int found = 0;
        TRY(PMPI_Iprobe(source(src), tag, comm.mpi, &found, &s));
        if (found) return describe(&s, status);
        if (pause_polling(comm.family, &p)) return GOSCR_REVOKED;
    }
}

int goscr_ibarrier(goscr_comm comm, MPI_Request *request)
{
    if (known_revoked(comm.family)) return GOSCR_REVOKED;
    return PMPI_Ibarrier(comm.mpi, request);
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
        TRY(finish_plain(comm, PMPI_Ibcast(buf + at, (int)m, MPI_BYTE, root, comm.mpi, &request), &request));
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
        TRY(finish_plain(comm, PMPI_Iallreduce(MPI_IN_PLACE, values + at, (int)m, MPI_INT64_T, op_of(op), comm.mpi, &request),
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
        TRY(finish_plain(comm, PMPI_Iexscan(MPI_IN_PLACE, values + at, (int)m, MPI_INT64_T, op_of(op), comm.mpi, &request),
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
    int code = PMPI_Igather(send, s.count, s.type, recv, s.count, s.type, root, comm.mpi, &request);
    shape_free(&s);
    return finish_plain(comm, code, &request);
}
