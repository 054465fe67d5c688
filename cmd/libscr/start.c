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

#include <fcntl.h>
#include <link.h>
#include <mpi.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
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

/* ------------------------------------------------------------------- the start */

/* Of this library: all of it, its code, and its data. */
static uintptr_t begin, end, code_begin, code_end, data_begin, data_end;

static int find_library(struct dl_phdr_info *object, size_t size, void *inside)
{
    uintptr_t at = (uintptr_t)inside;
    int i, found = 0;

    (void)size;
    begin = UINTPTR_MAX;
    for (i = 0; i < object->dlpi_phnum; i++) {
        const ElfW(Phdr) *part = &object->dlpi_phdr[i];
        uintptr_t from = object->dlpi_addr + part->p_vaddr, to = from + part->p_memsz;

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
    return found;
}

int goscr_is_code(uintptr_t address) { return code_begin <= address && address < code_end; }

/* -------------------------------------------------------------- its threads */

/* An entry of runtime.sigtable, which says what Go does with a signal. */
struct entry {
    int32_t flags;
    const char *name; /* a Go string, as in "SIGPROF: profiling alarm clock" */
    int64_t length;
};
enum { UNBLOCK = 1 << 7 }; /* Go unblocks the signal in each of its threads */

static int begins(const struct entry *e, const char *name)
{
    int64_t length = (int64_t)strlen(name);
    uintptr_t at = (uintptr_t)e->name;

    return e->length >= length && e->length < 100 && begin <= at && at < end - 100 && memcmp(e->name, name, (size_t)length) == 0;
}

/*
 * Has Go leave all signals to the program but SIGSEGV and SIGBUS, which are faults of
 * its own, and two by which the C library reaches all threads.  On Go's threads their
 * handlers would run on the stack of a goroutine, which is small, and a signal that the
 * program has blocked everywhere, to wait for it, would arrive there.  Go's table is not
 * to be had by its name; it is found by its contents.
 */
static void leave_signals(void)
{
    uintptr_t at;
    int sig;

    for (at = data_begin; at + 65 * sizeof(struct entry) <= data_end; at += sizeof(void *)) {
        struct entry *table = (struct entry *)at;

        if (!begins(&table[0], "SIGNONE") || !begins(&table[SIGSEGV], "SIGSEGV") || !begins(&table[SIGPROF], "SIGPROF"))
            continue;
        for (sig = 1; sig < 65; sig++)
            if (sig != SIGSEGV && sig != SIGBUS && sig != 32 && sig != 33)
                table[sig].flags &= ~UNBLOCK;
        return;
    }
}

/* -------------------------------------------------------------------- is there room */

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

/* Where the linker has put Go's start (start.ld). */
typedef void (*constructor)(int, char **, char **);
extern constructor goscr_start_begin[], goscr_start_end[];

static void start(void)
{
    constructor *c;

    dl_iterate_phdr(find_library, (void *)(uintptr_t)find_library);
    leave_signals();
    prepare();
    for (c = goscr_start_begin; c < goscr_start_end; c++)
        (*c)(argument_count, arguments, environ);
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
        if (!has_room()) {
            failed = GOSCR_NO_ROOM;
        } else {
            start();
            started_in = getpid();
        }
        give_low_back();
    }
    pthread_mutex_unlock(&starting);
    return failed;
}
