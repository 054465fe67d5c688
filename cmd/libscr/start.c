//go:build mpi

/*
 * Starts Go in the first call of the library, and not when it is loaded: a program
 * that is linked with the library and never calls it gets no thread and no handler.
 * docs/go-runtime.md says what this relies on, and which tests check it.
 *
 * When Go's runtime starts, it installs handlers for SIGSEGV, SIGBUS, SIGFPE, SIGPIPE and
 * SIGURG, changes the flags of the program's handlers, starts threads that may receive
 * signals sent to the process, and raises the limit of open files.  A program that crashes
 * would then print the stacks of goroutines and not its own, and a signal for which one of
 * the program's threads waits could kill the program.  One of Go's threads, the monitor,
 * wakes every 20 us to check the others, for a while after each message that took
 * long: where many ranks share a core, that uses more of it than everything else.
 *
 * So all signals are blocked before the runtime starts, and its threads inherit that: the
 * program's threads receive all signals but SIGSEGV and SIGBUS, which are Go's own faults,
 * and two that belong to the C library.  The monitor gets a timer slack of 50 ms, so that it
 * wakes every 50 ms; Go's other threads have that of the program.  Right after the start, the
 * handlers of all signals are restored.  (SIGURG is not sent at all, see the Makefile.)
 */

#define _GNU_SOURCE

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <mpi.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "_cgo_export.h"
#include "signals.h"

const int goscr_faults[GOSCR_FAULTS] = {SIGSEGV, SIGBUS};
struct sigaction goscr_handlers[GOSCR_FAULTS];

/* ------------------------------------------------------ loading the library */

static int argument_count; /* of main */
static char **arguments;
static pid_t started_in; /* the process in which Go runs; 0: Go has not started */
static int inherited;    /* this process is a child, and its parent had initialized MPI */

static pthread_mutex_t starting = PTHREAD_MUTEX_INITIALIZER;
static int begun; /* whether MPI was initialized at the last fork */

/*
 * Runs in the parent: in the child of a process with threads, MPI_Initialized could wait
 * for a lock that no thread releases.
 */
static void before_fork(void)
{
    if (MPI_Initialized(&begun) != MPI_SUCCESS)
        begun = 0;
    pthread_mutex_lock(&starting);
}

static void after_fork(void) { pthread_mutex_unlock(&starting); }

/*
 * Descriptors of locks that the process holds.  A child that executes no other program has them,
 * too, and would hold the locks for as long as it lives.
 */
#define LOCKS 16
static int locks[LOCKS] = {[0 ... LOCKS - 1] = -1};

/* Any thread calls this. If there is no room, a child has the lock. */
void goscr_lock_held(int fd, int held)
{
    int i, before;

    for (i = 0; i < LOCKS; i++) {
        before = held ? -1 : fd;
        if (__atomic_compare_exchange_n(&locks[i], &before, held ? fd : -1, 0, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST))
            return;
    }
}

static void in_child(void)
{
    int i;

    for (i = 0; i < LOCKS; i++)
        if (locks[i] >= 0) {
            close(locks[i]);
            locks[i] = -1;
        }
    inherited = inherited || begun;
    pthread_mutex_unlock(&starting);
}

/* This is all that happens when the library is loaded. */
__attribute__((constructor)) static void keep_arguments(int argc, char **argv)
{
    argument_count = argc;
    arguments = argv;
    pthread_atfork(before_fork, after_fork, in_child);
}

/* -------------------------------------------------------------- the process */

/*
 * Calls the kernel directly: the C library's sigaction() adds a flag (SA_RESTORER) to
 * every handler that it sets, and a program that compares flags would see the change.
 */
int goscr_action(int sig, const struct goscr_action *set, struct goscr_action *get)
{
    return (int)syscall(SYS_rt_sigaction, sig, set, get, sizeof get->mask);
}

static struct goscr_action found[NSIG];
static sigset_t found_mask;
static struct rlimit found_files;
static int found_slack;

static void prepare(void)
{
    sigset_t all;
    int sig;

    for (sig = 1; sig < NSIG; sig++)
        goscr_action(sig, NULL, &found[sig]);
    getrlimit(RLIMIT_NOFILE, &found_files);
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &found_mask);
    found_slack = prctl(PR_GET_TIMERSLACK, 0, 0, 0, 0);
}

/* Does not replace a handler that another thread of the program has set meanwhile. */
static void put_back(void)
{
    struct goscr_action now;
    int sig, i;

    for (i = 0; i < GOSCR_FAULTS; i++)
        sigaction(goscr_faults[i], NULL, &goscr_handlers[i]);
    for (sig = 1; sig < NSIG; sig++) {
        if (goscr_action(sig, NULL, &now) == 0 &&
            (goscr_is_code((uintptr_t)now.handler) || (now.handler == found[sig].handler && now.flags != found[sig].flags)))
            goscr_action(sig, &found[sig], NULL);
    }
    pthread_sigmask(SIG_SETMASK, &found_mask, NULL);
}

void goscr_limits(void)
{
    struct rlimit now;

    if (found_files.rlim_cur != 0 && getrlimit(RLIMIT_NOFILE, &now) == 0 && now.rlim_max == found_files.rlim_max &&
        now.rlim_cur > found_files.rlim_cur)
        setrlimit(RLIMIT_NOFILE, &found_files);
}

/* ------------------------------------------------------------------- the start */

/* The addresses of this library: all of it, its code, and its data that can be written to. */
static uintptr_t begin, end, code_begin, code_end, data_begin, data_end;

static int find_library(struct dl_phdr_info *object, size_t size, void *inside)
{
    uintptr_t at = (uintptr_t)inside, read_only = 0; /* the end of what relocation alone has written */
    int i, found = 0;

    (void)size;
    begin = UINTPTR_MAX;
    for (i = 0; i < object->dlpi_phnum; i++) {
        const ElfW(Phdr) *part = &object->dlpi_phdr[i];
        uintptr_t from = object->dlpi_addr + part->p_vaddr, to = from + part->p_memsz;

        if (part->p_type == PT_GNU_RELRO)
            read_only = to;
        if (part->p_type != PT_LOAD)
            continue;
        begin = from < begin ? from : begin;
        end = to;
        if (part->p_flags & PF_X) {
            code_begin = from;
            code_end = to;
            found = from <= at && at < to;
        } else if (part->p_flags & PF_W) {
            data_begin = from;
            data_end = from + part->p_filesz;
        }
    }
    if (data_begin < read_only && read_only < data_end)
        data_begin = read_only;
    return found;
}

/* The ends of section goscr_text, if the library is part of a static program. */
extern const char __start_goscr_text[] __attribute__((weak, visibility("hidden")));
extern const char __stop_goscr_text[] __attribute__((weak, visibility("hidden")));

static void find_code(void)
{
    dl_iterate_phdr(find_library, (void *)(uintptr_t)find_library);
    if (__start_goscr_text != NULL) { /* else all code of the file is the library's */
        code_begin = (uintptr_t)__start_goscr_text;
        code_end = (uintptr_t)__stop_goscr_text;
    }
}

const char *goscr_path(void)
{
    Dl_info library;

    return dladdr((void *)(uintptr_t)goscr_start, &library) != 0 ? library.dli_fname : NULL;
}

int goscr_is_code(uintptr_t address) { return code_begin <= address && address < code_end; }

/* -------------------------------------------------------------- its threads */

enum { LATE_NS = 50 * 1000 * 1000 }; /* timer slack of the monitor */

/* A thread that Go creates. */
struct thread {
    void *(*run)(void *);
    void *argument;
    int slack;
};

static void *run_with_slack(struct thread t)
{
    if (t.slack > 0) /* 0: a program with real-time threads, whose timers have no slack */
        prctl(PR_SET_TIMERSLACK, (unsigned long)t.slack, 0, 0, 0);
    return t.run(t.argument);
}

static void *run(void *argument)
{
    struct thread t = *(struct thread *)argument;

    free(argument);
    return run_with_slack(t);
}

int __real_pthread_create(pthread_t *id, const pthread_attr_t *attributes, void *(*f)(void *), void *argument);
void *__real_malloc(size_t size);
static int spare(size_t bytes);

/* Whether the system gives this process so much memory now.  Nobody intercepts these calls. */
static int would_get(size_t bytes)
{
    long at = syscall(SYS_mmap, NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0L);

    return at != -1 && syscall(SYS_munmap, at, bytes) == 0;
}

/*
 * A thread's first allocation, when the C library maps a heap for it.  Where it cannot map one, it unmaps the parts that
 * it got, which UCX has intercepted: UCX takes a lock, has no memory for its list of what was unmapped, and prints
 * that; for the text it allocates, on the same thread and with the lock, and waits for itself.  So there is
 * memory before.
 */
enum { HEAP = 1 << 20 };

static void make_heap(void)
{
    while (!would_get(HEAP) && spare(HEAP))
        continue;
    free(__real_malloc(1));
}

/*
 * Go ends the process if it cannot create a thread.  So some are created before Go starts, and wait until the
 * system refuses one: then one of them takes its place, and waits again when it has ended.  Go ends a thread
 * that has copied, since its priority is lower than that of others; so one that was used is used last.  At a load
 * of 28, protections and flushes in the background used 6 to 8 at a time, and once more.
 */
enum { THREADS = 12 };
enum { NEW, USED, BUSY };
static struct waiting {
    pthread_t id;
    sem_t go;
    struct thread thread; /* what it runs then; run is NULL: it ends */
    int state;
} waiting[THREADS];
static int waiting_threads;

static void *wait_until_needed(void *argument)
{
    struct waiting *w = argument;
    sigset_t all;

    for (;;) {
        while (sem_wait(&w->go) != 0)
            continue; /* a signal */
        if (w->thread.run == NULL)
            return NULL;
        make_heap();
        run_with_slack(w->thread);
        sigfillset(&all);
        pthread_sigmask(SIG_SETMASK, &all, NULL);
        __atomic_store_n(&w->state, USED, __ATOMIC_RELEASE);
    }
}

/* Called before Go starts, by one thread. */
static int add_waiting(void)
{
    struct waiting *w = &waiting[waiting_threads];
    sigset_t all, before;
    int error;

    if (sem_init(&w->go, 0, 0) != 0)
        return errno;
    sigfillset(&all); /* the program's handlers do not run in these threads, nor in those of Go */
    pthread_sigmask(SIG_SETMASK, &all, &before);
    error = __real_pthread_create(&w->id, NULL, wait_until_needed, w);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    waiting_threads += error == 0;
    return error;
}

static void end_waiting(void)
{
    struct waiting *w = &waiting[--waiting_threads];

    sem_post(&w->go);
    pthread_join(w->id, NULL);
    sem_destroy(&w->go);
}

/* Has a waiting thread run what a new one should.  Any thread of Go calls it. */
static int use_waiting(pthread_t *id, const struct thread *t)
{
    int i, state, free_in;

    for (state = NEW; state < BUSY; state++)
        for (i = 0; i < waiting_threads; i++) {
            free_in = state;
            if (!__atomic_compare_exchange_n(&waiting[i].state, &free_in, BUSY, 0, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED))
                continue;
            waiting[i].thread = *t;
            *id = waiting[i].id;
            sem_post(&waiting[i].go);
            return 1;
        }
    return 0;
}

/* Whether a thread with a stack as in the attributes gets that and a heap now. */
static int has_memory_for_thread(const pthread_attr_t *attributes)
{
    size_t stack = 0;

    return pthread_attr_getstacksize(attributes, &stack) != 0 || would_get(stack + HEAP);
}

/*
 * The linker lets Go's runtime call this in place of pthread_create (see the Makefile).  The first
 * thread runs what Go does at its start, and the second is the monitor: Go creates it before
 * anything else can.  A thread inherits the slack of the thread that creates it, which may be the
 * monitor.
 *
 * Where the system refuses a thread (ulimit -u, a control group's limit, no memory), one that waits takes its
 * place.  Its stack has the size that Go's attributes say, which is the default.
 */
int __wrap_pthread_create(pthread_t *id, const pthread_attr_t *attributes, void *(*f)(void *), void *argument)
{
    enum { MONITOR = 2 };
    static int created;
    struct thread t = {.run = f, .argument = argument}, *copy;
    int n, error = EAGAIN;

    /* It counts before it runs: the first thread may create the second one at once. */
    n = __atomic_add_fetch(&created, 1, __ATOMIC_RELAXED);
    t.slack = n == MONITOR && found_slack > 0 ? LATE_NS : found_slack;
    if (!has_memory_for_thread(attributes) && use_waiting(id, &t))
        return 0;
    copy = malloc(sizeof *copy);
    if (copy != NULL) {
        *copy = t;
        error = __real_pthread_create(id, attributes, run, copy);
        if (error == 0)
            return 0;
        free(copy);
    }
    if (error == EAGAIN && use_waiting(id, &t))
        return 0;
    __atomic_sub_fetch(&created, 1, __ATOMIC_RELAXED); /* Go tries again if it was EAGAIN, a few times */
    return error;
}

/*
 * The linker lets Go's runtime call this in place of pthread_getattr_np, from which it wants the ends of
 * the stack in a thread's first call.  In the main thread the C library reads all of /proc/self/maps for that,
 * several hundred lines in a program with MPI.  But the kernel begins that stack with the name of the
 * program, and lets it grow to its limit.  Whoever calls from elsewhere, or from near the end, gets the C
 * library's answer.
 */
int __real_pthread_getattr_np(pthread_t id, pthread_attr_t *attributes);
int __wrap_pthread_getattr_np(pthread_t id, pthread_attr_t *attributes)
{
    enum { MOST = 64 << 20, REST = 1 << 20 }; /* the kernel maps nothing within 128 MiB of the beginning */
    uintptr_t here = (uintptr_t)__builtin_frame_address(0), page = (uintptr_t)sysconf(_SC_PAGESIZE), end;
    const char *name = (const char *)getauxval(AT_EXECFN);
    struct rlimit limit;
    size_t size;

    if (getpid() != (pid_t)syscall(SYS_gettid) || name == NULL || getrlimit(RLIMIT_STACK, &limit) != 0)
        return __real_pthread_getattr_np(id, attributes);
    end = ((uintptr_t)name + strlen(name) + 1 + sizeof(void *) + page - 1) & ~(page - 1);
    size = (limit.rlim_cur < MOST ? limit.rlim_cur : MOST) & ~(page - 1);
    if (here >= end || size < REST || end - here > size - REST)
        return __real_pthread_getattr_np(id, attributes);
    return pthread_attr_setstack(attributes, (void *)(end - size), size);
}

/* An entry of runtime.sigtable, which says what Go does with a signal. */
struct entry {
    int32_t flags;
    const char *name; /* a Go string, as in "SIGPROF: profiling alarm clock" */
    int64_t length;
};
enum { UNBLOCK = 1 << 7 }; /* Go unblocks the signal in each of its threads */

/* Most words of the data are no entry, and the length tells nearly all of them. */
static int begins(const struct entry *e, const char *name, size_t length)
{
    uintptr_t at = (uintptr_t)e->name;

    return e->length >= (int64_t)length && e->length < 100 && begin <= at && at < end - 100 && memcmp(e->name, name, length) == 0;
}

#define BEGINS(e, name) begins(e, name, sizeof(name) - 1)

/*
 * Makes Go keep all signals blocked in its threads but SIGSEGV and SIGBUS, which are its
 * own faults, and two that the C library sends to all threads.  On Go's threads, the
 * program's handlers would run on the stack of a goroutine, which is small; and a signal
 * that the program has blocked in all its threads, to wait for it, would be delivered
 * there.  Go's table has no symbol that could be used here, so it is found by its contents.
 */
static void leave_signals(void)
{
    uintptr_t at;
    int sig;

    for (at = data_begin; at + 65 * sizeof(struct entry) <= data_end; at += sizeof(void *)) {
        struct entry *table = (struct entry *)at;

        if (!BEGINS(&table[0], "SIGNONE") || !BEGINS(&table[SIGSEGV], "SIGSEGV") || !BEGINS(&table[SIGPROF], "SIGPROF"))
            continue;
        for (sig = 1; sig < 65; sig++)
            if (sig != SIGSEGV && sig != SIGBUS && sig != 32 && sig != 33)
                table[sig].flags &= ~UNBLOCK;
        return;
    }
}

/* -------------------------------------------------------------------- is there room */

void *__real_mmap(void *address, size_t length, int protection, int flags, int fd, off_t offset);

/*
 * The address space that Go reserves: for its heap and the heap's metadata, for the stacks
 * of its threads, and for the C library's heap of each thread.  Without it, Go would end
 * the process.
 */
enum { ROOM_MB = 1536 };

static int has_room(void)
{
    struct rlimit limit;
    unsigned long pages = 0, megabyte = 1 << 20;
    FILE *f;

    if (getrlimit(RLIMIT_AS, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY)
        return 1;
    f = fopen("/proc/self/statm", "re");
    if (f != NULL) {
        if (fscanf(f, "%lu", &pages) != 1)
            pages = 0;
        fclose(f);
    }
    return limit.rlim_cur / megabyte >= pages * (unsigned long)sysconf(_SC_PAGESIZE) / megabyte + ROOM_MB;
}

static int has_threads(void)
{
    while (waiting_threads < THREADS && add_waiting() == 0)
        continue;
    if (waiting_threads == THREADS)
        return 1;
    while (waiting_threads > 0)
        end_waiting();
    return 0;
}

/* Go cannot do without the descriptors by which it waits for others. */
static int has_descriptors(void)
{
    enum { FILES = 8 };
    int fds[FILES], n = 0, i;

    while (n < FILES && (fds[n] = open("/", O_PATH | O_CLOEXEC)) >= 0)
        n++;
    for (i = 0; i < n; i++)
        close(fds[i]);
    return n == FILES;
}

/*
 * The kernel may refuse memory for the stacks of threads and for Go's heap, or more mappings (Go has
 * some 30), and Go would end the process.  Before Go starts, all that it needs for that is mapped.  Some of it
 * stays mapped, which takes addresses and no memory.  When the kernel refuses Go something later, it gets that.
 */
enum { PIECES = 32 };
static void *pieces[PIECES];

static int map_pieces(int n)
{
    void *piece;

    for (int i = 0; i < n; i++) {
        if (__atomic_load_n(&pieces[i], __ATOMIC_ACQUIRE) != NULL)
            continue;
        /* Two neighbours that are alike would become one mapping. */
        piece = __real_mmap(NULL, GOSCR_PIECE, i % 2 ? PROT_READ | PROT_WRITE : PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (piece == MAP_FAILED)
            return i;
        __atomic_store_n(&pieces[i], piece, __ATOMIC_RELEASE);
    }
    return n;
}

/* Returns 0 if there was none.  Any thread of Go calls it. */
static int unmap_piece(int i)
{
    void *piece = __atomic_exchange_n(&pieces[i], NULL, __ATOMIC_ACQ_REL);

    return piece != NULL && munmap(piece, GOSCR_PIECE) == 0;
}

static int has_memory(void)
{
    int n = map_pieces(PIECES), i;

    for (i = n == PIECES ? GOSCR_RESERVE : 0; i < PIECES; i++)
        unmap_piece(i);
    return n == PIECES;
}

int goscr_refill(void) { return map_pieces(GOSCR_RESERVE); }

/* Unmaps as much of the reserve as is needed for so many bytes.  Returns 0 if nothing is left. */
static int spare(size_t bytes)
{
    size_t given = 0;

    for (int i = 0; given < bytes && i < GOSCR_RESERVE; i++)
        given += unmap_piece(i) ? GOSCR_PIECE : 0;
    return given > 0;
}

/* The linker lets Go's runtime call this in place of mmap (see the Makefile). */
void *__wrap_mmap(void *address, size_t length, int protection, int flags, int fd, off_t offset)
{
    void *mapped;

    do
        mapped = __real_mmap(address, length, protection, flags, fd, offset);
    while (mapped == MAP_FAILED && errno == ENOMEM && spare(length));
    return mapped;
}

/* ... and this in place of malloc: Go ends the process if it has no memory to describe a new thread. */
void *__wrap_malloc(size_t size)
{
    void *memory;

    do
        memory = __real_malloc(size);
    while (memory == NULL && size > 0 && spare(size));
    return memory;
}

/* What Go needs and the process does not have, 0 if it has all. */
static int lacks(void)
{
    return !has_room() ? GOSCR_NO_ROOM : !has_memory() ? GOSCR_NO_MEMORY : !has_threads() ? GOSCR_NO_THREADS :
           !has_descriptors() ? GOSCR_NO_DESCRIPTORS : 0;
}

/*
 * What Go opens for good at its start does not become one of the descriptors 0 to 2 that
 * the program has closed, as package descriptors has it from then on.
 */
static int low[3];

static void hold_low(void)
{
    int fd;

    for (fd = 0; fd < 3; fd++) {
        low[fd] = fcntl(fd, F_GETFD) < 0 ? open("/", O_PATH | O_CLOEXEC) : -1;
        if (low[fd] >= 0 && low[fd] != fd) { /* another thread was faster */
            close(low[fd]);
            low[fd] = -1;
        }
    }
}

static void give_low_back(void)
{
    int fd;

    for (fd = 0; fd < 3; fd++)
        if (low[fd] >= 0 && fcntl(fd, F_GETFL) >= 0 && (fcntl(fd, F_GETFL) & O_PATH))
            close(fd);
}

/*
 * The section into which the linker (start.ld) or scripts/archive has put the constructors
 * that start Go.
 */
typedef void (*constructor)(int, char **, char **);
extern constructor goscr_start_begin[], goscr_start_end[];

/*
 * Returns what Go's runtime reads when it starts, in memory that stays: the arguments, the environment and the auxiliary
 * vector, one after the other, as the kernel has put them, with GOMAXPROCS=1 in the environment.  Otherwise Go
 * would make the structures of a processor, 19 KiB, for each that the machine has, although only one is used: on a machine
 * with 128 that is more memory than all else of the library.  The program's environment does not change.
 */
static char **with_one_processor(void)
{
    static char one[] = "GOMAXPROCS=1";
    size_t variables = 0, kept = argument_count + 1, words;
    char **environment = arguments + kept, **copy;
    ElfW(auxv_t) *auxiliary, *last;

    while (environment[variables] != NULL)
        variables++;
    auxiliary = (ElfW(auxv_t) *)(environment + variables + 1);
    for (last = auxiliary; last->a_type != AT_NULL; last++)
        continue;
    words = (last + 1 - auxiliary) * sizeof *last / sizeof *copy;
    copy = malloc((kept + 1 + variables + 1 + words) * sizeof *copy);
    if (copy == NULL)
        return arguments;
    memcpy(copy, arguments, kept * sizeof *copy);
    copy[kept] = one; /* the first of a name counts */
    memcpy(copy + kept + 1, environment, (variables + 1 + words) * sizeof *copy);
    return copy;
}

static void start(void)
{
    char **given = with_one_processor();
    constructor *c;

    find_code();
    leave_signals();
    prepare();
    for (c = goscr_start_begin; c < goscr_start_end; c++)
        (*c)(argument_count, given, given + argument_count + 1);
    put_back();
    go_started(); /* returns once all packages of Go are initialized */
}

int goscr_start(void)
{
    int failed = 0;

    if (inherited || (started_in != 0 && started_in != getpid()))
        return GOSCR_CHILD;
    pthread_mutex_lock(&starting);
    if (started_in == 0) {
        hold_low();
        failed = lacks();
        if (failed == 0) {
            start();
            started_in = getpid();
        }
        give_low_back();
    }
    pthread_mutex_unlock(&starting);
    return failed;
}
