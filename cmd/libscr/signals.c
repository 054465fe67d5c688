//go:build mpi

/*
 * Prevents what the Go runtime would do to the process of a program.
 * docs/go-runtime.md says what this relies on, and which tests check it.
 *
 * When the library is loaded the runtime installs handlers for SIGSEGV, SIGBUS,
 * SIGFPE, SIGPIPE and SIGURG, changes the flags of those that the program has,
 * starts threads on which any signal of the process may arrive, and raises the
 * limit of open files.  A program that crashes would then write the stacks of
 * goroutines and not its own, and one that waits for a signal in a thread of its
 * own could be killed by it.  One of its threads, the monitor, wakes every 20 us
 * to see what the others do, for a while after each message that took long: where
 * many ranks share a core, that takes more of it than everything else.
 *
 * So before the runtime starts, all signals are blocked, and its threads inherit
 * that: they leave all signals but those of their own faults, and SIGPROF, to the
 * threads of the program.  They also inherit a timer slack of 50 ms, so that the
 * monitor wakes every 50 ms.  Whatever waits for milliseconds in Go may wait as long.
 * Right after the start, the handlers of all signals are put back, and so is the
 * timer slack of the program's thread.
 * (SIGURG is not sent at all, see the Makefile.  A handler of SIGPROF can run in a
 * thread of Go's, where it has as little stack as profilers' handlers need.)
 *
 * Go is only at work while a function of the interface is.  For that time
 *
 *   - fault() handles SIGSEGV, SIGBUS and SIGFPE.  It passes faults in Go to Go's
 *     handler, so that a bug here, or a file that is cut short while it is mapped,
 *     becomes a return code; all others go to the program's handler;
 *   - handlers of the program run on a stack of their own (SA_ONSTACK), because the
 *     stacks of goroutines have a few kilobytes, and a handler would overflow them.
 *     In brief functions, which are called for each of many files, signals are
 *     blocked instead: changing all handlers takes longer than such a function;
 *   - SIGPIPE and SIGXFSZ are blocked in the thread: a message that nobody
 *     reads, or a file that may not grow, is an error and does not end the program.
 */

#define _GNU_SOURCE

#include "_cgo_export.h"
#include "signals.h"

#include <dirent.h>
#include <dlfcn.h>
#include <link.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>

enum { FAULTS = 3, STACK = 256 << 10 }; /* only what is touched of it counts */
enum { LATE_NS = 50 * 1000 * 1000 };     /* timer slack of Go's threads */

static const int faults[FAULTS] = {SIGSEGV, SIGBUS, SIGFPE};
static struct sigaction runtimes[FAULTS]; /* Go's handlers */

/* ------------------------------------------------------ loading the library */

static struct sigaction found[NSIG];
static sigset_t found_mask;
static struct rlimit found_files;
static int found_slack;
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

static int argument_count;
static char **arguments;

/* All that loading the library does. */
__attribute__((constructor)) static void keep_arguments(int argc, char **argv)
{
    argument_count = argc;
    arguments = argv;
}

static void before_go(void)
{
    sigset_t all;
    int sig;

    for (sig = 1; sig < NSIG; sig++)
        sigaction(sig, NULL, &found[sig]);
    getrlimit(RLIMIT_NOFILE, &found_files);
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &found_mask);
    found_slack = prctl(PR_GET_TIMERSLACK, 0, 0, 0, 0);
    if (found_slack > 0)
        prctl(PR_SET_TIMERSLACK, (unsigned long)LATE_NS, 0, 0, 0);
}

static void after_go(void)
{
    struct sigaction now;
    int sig, i;

    for (i = 0; i < FAULTS; i++)
        sigaction(faults[i], NULL, &runtimes[i]);
    for (sig = 1; sig < NSIG; sig++) {
        if (sigaction(sig, NULL, &now) == 0 &&
            (now.sa_handler != found[sig].sa_handler || now.sa_flags != found[sig].sa_flags))
            sigaction(sig, &found[sig], NULL);
    }
    pthread_sigmask(SIG_SETMASK, &found_mask, NULL);
    if (found_slack > 0)
        prctl(PR_SET_TIMERSLACK, (unsigned long)found_slack, 0, 0, 0);
    dl_iterate_phdr(find_code, (void *)(uintptr_t)find_code);
}

/*
 * The threads that Go has started before it was told (sigtable.go) have signals
 * unblocked that are the program's.  A handler blocks them, in each of these threads, by
 * changing the mask to which the kernel returns.  They are known by their mask, which no
 * thread of the program is likely to have: all but just these, and those of Go's faults.
 */
enum { CARRIER = SIGSTKFLT };

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

/* The mask of a thread as /proc has it, 0 if there is none. */
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

static void confine_threads(void)
{
    static const int unblocked[] = {SIGILL, SIGTRAP, SIGBUS, SIGFPE, SIGSEGV, SIGSTKFLT, SIGCHLD, SIGPROF, 32, 33, 34};
    unsigned long long go = ~0ULL & ~(1ULL << (SIGKILL - 1)) & ~(1ULL << (SIGSTOP - 1));
    struct sigaction ours, before;
    int found, tries;
    size_t i;

    for (i = 0; i < sizeof unblocked / sizeof *unblocked; i++)
        go &= ~(1ULL << (unblocked[i] - 1));
    memset(&ours, 0, sizeof ours);
    ours.sa_sigaction = block;
    ours.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_RESTART;
    sigfillset(&ours.sa_mask);
    sigaction(CARRIER, &ours, &before);
    for (found = 1, tries = 0; found && tries < 1000; tries++) {
        DIR *threads = opendir("/proc/self/task");
        struct dirent *t;

        found = 0;
        while (threads != NULL && (t = readdir(threads)) != NULL) {
            if (t->d_name[0] == '.' || mask_of(t->d_name) != go)
                continue;
            found = 1;
            syscall(SYS_tgkill, getpid(), atoi(t->d_name), CARRIER);
        }
        if (threads != NULL)
            closedir(threads);
        if (found)
            usleep(100); /* until they have been */
    }
    sigaction(CARRIER, &before, NULL);
}

/* Where the linker has put Go's start (start.ld). */
typedef void (*constructor)(int, char **, char **);
extern constructor goscr_start_begin[], goscr_start_end[];

static pthread_once_t started = PTHREAD_ONCE_INIT;

static void start(void)
{
    constructor *c;

    before_go();
    for (c = goscr_start_begin; c < goscr_start_end; c++)
        (*c)(argument_count, arguments, environ);
    after_go();
    go_started(); /* returns once Go has */
    confine_threads();
}

void goscr_limits(void)
{
    struct rlimit now;

    if (found_files.rlim_cur != 0 && getrlimit(RLIMIT_NOFILE, &now) == 0 && now.rlim_max == found_files.rlim_max &&
        now.rlim_cur > found_files.rlim_cur)
        setrlimit(RLIMIT_NOFILE, &found_files);
}

/* ---------------------------------------------------------- within a function */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int users, longer; /* threads that are within a function, and one that may take long */

/* The program's handlers: of faults, and of signals whose flags are changed for a call. */
static struct sigaction programs[FAULTS];
static struct sigaction moved[NSIG];
static char is_moved[NSIG];

static __thread struct {
    int inside, length;
    sigset_t mask, pending;
    void *stack;
    stack_t programs;
    int stack_changed;
} here;

static pthread_key_t stacks;
static pthread_once_t stacks_once = PTHREAD_ONCE_INIT;

static void free_stack(void *stack) { munmap(stack, STACK); }
static void make_key(void) { pthread_key_create(&stacks, free_stack); }

static int in_this_library(void *context)
{
    uintptr_t at;
#if defined(__x86_64__)
    at = (uintptr_t)((ucontext_t *)context)->uc_mcontext.gregs[REG_RIP];
#elif defined(__aarch64__)
    at = (uintptr_t)((ucontext_t *)context)->uc_mcontext.pc;
#else
#error "where does this processor keep the address of an instruction that faults?"
#endif
    return code_begin <= at && at < code_end;
}

/* Runs a handler of the program as the kernel would have. */
static void hand_over(struct sigaction *to, int sig, siginfo_t *info, void *context)
{
    struct sigaction action = *to;
    sigset_t mask = ((ucontext_t *)context)->uc_sigmask;
    int i;

    for (i = 1; i < NSIG; i++)
        if (sigismember(&action.sa_mask, i) == 1)
            sigaddset(&mask, i);
    if (!(action.sa_flags & SA_NODEFER))
        sigaddset(&mask, sig);
    if (action.sa_flags & SA_RESETHAND)
        to->sa_handler = SIG_DFL;
    pthread_sigmask(SIG_SETMASK, &mask, NULL);
    if (action.sa_flags & SA_SIGINFO)
        action.sa_sigaction(sig, info, context);
    else
        action.sa_handler(sig);
}

static void fault(int sig, siginfo_t *info, void *context)
{
    int i = sig == faults[0] ? 0 : sig == faults[1] ? 1 : 2;
    int sent = info->si_code <= 0; /* by a process, not by an instruction */
    struct sigaction *to = &programs[i];

    if (!sent && in_this_library(context)) {
        runtimes[i].sa_sigaction(sig, info, context);
    } else if (!(to->sa_flags & SA_SIGINFO) && (to->sa_handler == SIG_DFL || to->sa_handler == SIG_IGN)) {
        if (sent && to->sa_handler == SIG_IGN)
            return;
        /* The instruction faults once more, and the program ends as it should. */
        signal(sig, SIG_DFL);
        if (sent)
            raise(sig); /* blocked until this returns */
    } else {
        hand_over(to, sig, info, context);
    }
}

static int is_fault(int sig) { return sig == faults[0] || sig == faults[1] || sig == faults[2]; }

static void take_faults(void)
{
    struct sigaction ours, now;
    int i;

    memset(&ours, 0, sizeof ours);
    ours.sa_sigaction = fault;
    ours.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_RESTART;
    sigfillset(&ours.sa_mask);
    for (i = 0; i < FAULTS; i++)
        if (sigaction(faults[i], &ours, &now) == 0 && now.sa_sigaction != fault)
            programs[i] = now;
}

static void move_handlers(void)
{
    struct sigaction now;
    int sig;

    for (sig = 1; sig < NSIG; sig++) {
        is_moved[sig] = 0;
        if (is_fault(sig) || sigaction(sig, NULL, &now) != 0 || now.sa_handler == SIG_DFL ||
            now.sa_handler == SIG_IGN || (now.sa_flags & SA_ONSTACK))
            continue;
        moved[sig] = now;
        now.sa_flags |= SA_ONSTACK;
        is_moved[sig] = sigaction(sig, &now, NULL) == 0;
    }
}

/* A handler that another thread of the program has set meanwhile stays. */
static void give_faults_back(void)
{
    struct sigaction now;
    int i;

    for (i = 0; i < FAULTS; i++)
        if (sigaction(faults[i], NULL, &now) == 0 && now.sa_sigaction == fault)
            sigaction(faults[i], &programs[i], NULL);
}

static void move_back(void)
{
    struct sigaction now;
    int sig;

    for (sig = 1; sig < NSIG; sig++)
        if (is_moved[sig] && sigaction(sig, NULL, &now) == 0 && now.sa_handler == moved[sig].sa_handler &&
            now.sa_flags == (moved[sig].sa_flags | SA_ONSTACK))
            sigaction(sig, &moved[sig], NULL);
}

static void take_stack(void)
{
    stack_t stack;

    if (here.stack == NULL) {
        void *memory = mmap(NULL, STACK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

        if (memory == MAP_FAILED)
            return; /* the runtime uses one of its own then */
        here.stack = memory;
        pthread_once(&stacks_once, make_key);
        pthread_setspecific(stacks, memory);
    }
    memset(&stack, 0, sizeof stack);
    stack.ss_sp = here.stack;
    stack.ss_size = STACK;
    here.stack_changed = sigaltstack(&stack, &here.programs) == 0;
}

/* Signals that are blocked in this thread during a call. */
static void add_blocked(sigset_t *set)
{
    sigaddset(set, SIGPIPE);
    sigaddset(set, SIGXFSZ);
}

int goscr_enter(int length)
{
    sigset_t mask;
    int i;

    if (here.inside)
        return 0;
    here.inside = 1;
    here.length = length;
    sigfillset(&mask); /* until all is in place */
    for (i = 0; i < FAULTS; i++)
        sigdelset(&mask, faults[i]);
    pthread_sigmask(SIG_SETMASK, &mask, &here.mask);
    take_stack();
    pthread_once(&started, start);
    pthread_mutex_lock(&lock);
    if (users++ == 0)
        take_faults();
    if (length == GOSCR_LONG && longer++ == 0)
        move_handlers();
    pthread_mutex_unlock(&lock);
    sigpending(&here.pending);
    if (length == GOSCR_BRIEF)
        return 1;
    mask = here.mask;
    add_blocked(&mask);
    for (i = 0; i < FAULTS; i++)
        sigdelset(&mask, faults[i]);
    pthread_sigmask(SIG_SETMASK, &mask, NULL);
    return 1;
}

/* Discards the signals of failed writes, which have been returned as errors. */
static void forget_pending(void)
{
    static const struct timespec at_once = {0, 0};
    sigset_t blocked, now;
    int sig;

    sigemptyset(&blocked);
    add_blocked(&blocked);
    sigpending(&now);
    for (sig = 1; sig < NSIG; sig++) {
        sigset_t one;

        if (sigismember(&blocked, sig) != 1 || sigismember(&now, sig) != 1 || sigismember(&here.pending, sig) == 1)
            continue;
        sigemptyset(&one);
        sigaddset(&one, sig);
        sigtimedwait(&one, NULL, &at_once);
    }
}

void goscr_leave(void)
{
    sigset_t mask;
    int i;

    forget_pending();
    sigfillset(&mask);
    for (i = 0; i < FAULTS; i++)
        sigdelset(&mask, faults[i]);
    pthread_sigmask(SIG_SETMASK, &mask, NULL);
    pthread_mutex_lock(&lock);
    if (here.length == GOSCR_LONG && --longer == 0)
        move_back();
    if (--users == 0)
        give_faults_back();
    pthread_mutex_unlock(&lock);
    if (here.stack_changed)
        sigaltstack(&here.programs, NULL);
    here.stack_changed = 0;
    here.inside = 0; /* a handler that has waited may call */
    mask = here.mask;
    pthread_sigmask(SIG_SETMASK, &mask, NULL);
}
