//go:build mpi

/*
 * Starts Go with the first call of the library, and not when it is loaded: a program
 * that is linked with the library and never calls it gets no thread and no handler.
 * docs/go-runtime.md says what this relies on, and which tests check it.
 *
 * Starting, the runtime would install handlers for SIGSEGV, SIGBUS, SIGFPE, SIGPIPE and
 * SIGURG, change the flags of those that the program has, start threads on which signals
 * of the process may arrive, and raise the limit of open files.  A program that crashes
 * would then write the stacks of goroutines and not its own, and one that waits for a
 * signal in a thread of its own could be killed by it.  One of Go's threads, the monitor,
 * wakes every 20 us to see what the others do, for a while after each message that took
 * long: where many ranks share a core, that takes more of it than everything else.
 *
 * So before the runtime starts, all signals are blocked, and its threads inherit that:
 * they leave all signals to the threads of the program, but SIGSEGV and SIGBUS, which are
 * faults of their own, and two that are the C library's.  They also inherit a timer slack
 * of 50 ms, so that the monitor wakes every 50 ms.  Whatever waits for milliseconds in Go
 * may wait as long.  Right after the start, the handlers of all signals are put back, and
 * so is the timer slack of the program's thread.  (SIGURG is not sent at all, see the
 * Makefile.)
 */

#define _GNU_SOURCE

#include <dirent.h>
#include <link.h>
#include <mpi.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

#include "_cgo_export.h"
#include "signals.h"

enum { LATE_NS = 50 * 1000 * 1000 }; /* timer slack of Go's threads */

const int goscr_faults[GOSCR_FAULTS] = {SIGSEGV, SIGBUS};
struct sigaction goscr_handlers[GOSCR_FAULTS];

/* ------------------------------------------------------ loading the library */

static int argument_count; /* of main */
static char **arguments;
static pid_t started_in; /* the process in which Go runs, 0: none yet */
static int inherited;    /* this process is a child, and its parent had begun MPI */

static pthread_mutex_t starting = PTHREAD_MUTEX_INITIALIZER;
static int begun; /* MPI, at the last fork */

/* In the parent: in the child nothing may be called that could wait for a lock. */
static void before_fork(void)
{
    if (MPI_Initialized(&begun) != MPI_SUCCESS)
        begun = 0;
    pthread_mutex_lock(&starting);
}

static void after_fork(void) { pthread_mutex_unlock(&starting); }

static void in_child(void)
{
    inherited = inherited || begun;
    pthread_mutex_unlock(&starting);
}

/* All that loading the library does. */
__attribute__((constructor)) static void keep_arguments(int argc, char **argv)
{
    argument_count = argc;
    arguments = argv;
    pthread_atfork(before_fork, after_fork, in_child);
}

/* -------------------------------------------------------------- the process */

/*
 * As the kernel has it: the C library adds a flag to what it sets, so that a program
 * that compares would find a change.
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
    if (found_slack > 0)
        prctl(PR_SET_TIMERSLACK, (unsigned long)LATE_NS, 0, 0, 0);
}

/* Handlers that another thread of the program has set meanwhile stay. */
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
    if (found_slack > 0)
        prctl(PR_SET_TIMERSLACK, (unsigned long)found_slack, 0, 0, 0);
}

void goscr_limits(void)
{
    struct rlimit now;

    if (found_files.rlim_cur != 0 && getrlimit(RLIMIT_NOFILE, &now) == 0 && now.rlim_max == found_files.rlim_max &&
        now.rlim_cur > found_files.rlim_cur)
        setrlimit(RLIMIT_NOFILE, &found_files);
}

/* -------------------------------------------------------------- its threads */

/*
 * The threads that Go has started before it was told (sigtable.go) have signals
 * unblocked that are the program's.  A handler blocks them in each of these threads, by
 * changing the mask to which the kernel returns.  The threads are known by their mask,
 * in which just these signals are unblocked, and those of Go's faults: no thread of a
 * program is likely to have the same.
 */
enum { CARRIER = SIGSTKFLT };

static const int unblocked[] = {SIGILL, SIGTRAP, SIGBUS, SIGFPE, SIGSEGV, SIGSTKFLT, SIGCHLD, SIGPROF, 32, 33, 34};

static void block(int sig, siginfo_t *info, void *context)
{
    sigset_t *mask = &((ucontext_t *)context)->uc_sigmask;
    int s;

    (void)sig;
    if (info->si_code != SI_TKILL || info->si_pid != getpid())
        return;
    for (s = 1; s < NSIG; s++)
        if (s != SIGSEGV && s != SIGBUS && s != 32 && s != 33)
            sigaddset(mask, s);
}

/* The mask of a thread as /proc has it, 0 if the thread has ended. */
static unsigned long long mask_of(const char *thread)
{
    char path[300], line[200];
    unsigned long long mask = 0;
    FILE *f;

    snprintf(path, sizeof path, "/proc/self/task/%s/status", thread);
    f = fopen(path, "re");
    if (f == NULL)
        return 0;
    while (fgets(line, sizeof line, f) != NULL)
        if (sscanf(line, "SigBlk: %llx", &mask) == 1)
            break;
    fclose(f);
    return mask;
}

/* Sends the carrier to each thread of Go's that has not blocked it.  How many there were. */
static int send_to_threads(unsigned long long mask)
{
    DIR *threads = opendir("/proc/self/task");
    struct dirent *t;
    int n = 0;

    while (threads != NULL && (t = readdir(threads)) != NULL) {
        if (t->d_name[0] == '.' || mask_of(t->d_name) != mask)
            continue;
        syscall(SYS_tgkill, getpid(), atoi(t->d_name), CARRIER);
        n++;
    }
    if (threads != NULL)
        closedir(threads);
    return n;
}

static void block_in_threads(void)
{
    unsigned long long mask = ~0ULL & ~(1ULL << (SIGKILL - 1)) & ~(1ULL << (SIGSTOP - 1));
    struct sigaction ours;
    struct goscr_action before;
    int tries, empty;
    size_t i;

    for (i = 0; i < sizeof unblocked / sizeof *unblocked; i++)
        mask &= ~(1ULL << (unblocked[i] - 1));
    memset(&ours, 0, sizeof ours);
    ours.sa_sigaction = block;
    ours.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_RESTART;
    sigfillset(&ours.sa_mask);
    goscr_action(CARRIER, NULL, &before);
    sigaction(CARRIER, &ours, NULL);
    /* A thread that starts another one has all blocked for a moment, and is not found then. */
    for (tries = 0, empty = 0; tries < 2000 && empty < 3; tries++) {
        empty = send_to_threads(mask) > 0 ? 0 : empty + 1;
        usleep(100); /* until they have run the handler */
    }
    if (empty == 3) /* else one still may, when it comes to run */
        goscr_action(CARRIER, &before, NULL);
}

/* ------------------------------------------------------------------- the start */

static uintptr_t code_begin, code_end; /* of this library */

static int find_code(struct dl_phdr_info *object, size_t size, void *inside)
{
    uintptr_t at = (uintptr_t)inside;
    int i;

    (void)size;
    for (i = 0; i < object->dlpi_phnum; i++) {
        const ElfW(Phdr) *part = &object->dlpi_phdr[i];
        uintptr_t begin = object->dlpi_addr + part->p_vaddr;

        if (part->p_type == PT_LOAD && (part->p_flags & PF_X) && begin <= at && at < begin + part->p_memsz) {
            code_begin = begin;
            code_end = begin + part->p_memsz;
            return 1;
        }
    }
    return 0;
}

int goscr_is_code(uintptr_t address) { return code_begin <= address && address < code_end; }

/*
 * Go ends the process if it cannot reserve addresses: for its heap and what describes
 * it, for the stacks of its threads, and for the C library's heap in each of them.
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

/* Where the linker has put Go's start (start.ld). */
typedef void (*constructor)(int, char **, char **);
extern constructor goscr_start_begin[], goscr_start_end[];

static void start(void)
{
    constructor *c;

    dl_iterate_phdr(find_code, (void *)(uintptr_t)find_code);
    prepare();
    for (c = goscr_start_begin; c < goscr_start_end; c++)
        (*c)(argument_count, arguments, environ);
    put_back();
    go_started(); /* returns once all packages of Go are initialized */
    block_in_threads();
}

int goscr_start(void)
{
    int failed = 0;

    if (inherited || (started_in != 0 && started_in != getpid()))
        return GOSCR_CHILD;
    pthread_mutex_lock(&starting);
    if (started_in == 0 && !has_room()) {
        failed = GOSCR_NO_ROOM;
    } else if (started_in == 0) {
        start();
        started_in = getpid();
    }
    pthread_mutex_unlock(&starting);
    return failed;
}
