//go:build mpi

/*
 * Handles signals during a call of the interface, which is the only time at which the
 * program's threads run Go code.  docs/go-runtime.md says what this relies on, and which
 * tests check it.
 *
 *   - fault() handles SIGSEGV and SIGBUS.  It passes faults in Go code to Go's
 *     handler, so that a bug in this library, or a file that is truncated while it is
 *     mapped, becomes a return code; it passes all others to the program's handler;
 *   - the program's handlers run on an alternate stack (SA_ONSTACK), because the stacks
 *     of goroutines have a few kilobytes, and a handler would overflow them.
 *     In brief functions, which are called for each of many files, signals are
 *     blocked instead: changing all handlers takes longer than such a function;
 *   - SIGPIPE and SIGXFSZ are blocked in the thread: a write to a pipe without a reader,
 *     or to a file that may not grow, returns an error and does not end the program.
 */

#define _GNU_SOURCE

#include "signals.h"

#include <pthread.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <ucontext.h>

enum { FAULTS = GOSCR_FAULTS, STACK = 256 << 10 }; /* bytes; only pages that are touched use memory */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int users, longer; /* threads in a function, and those in one that may take long */

/* The program's handlers: of faults, as the kernel has them, and of signals whose flags are changed for a call. */
static struct goscr_action programs[FAULTS];
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
#error "goscr does not know where this processor stores the address of the instruction that faulted"
#endif
    return goscr_is_code(at);
}

/* Runs a handler of the program with the mask and the arguments that the kernel would use. */
static void hand_over(struct goscr_action *to, int sig, siginfo_t *info, void *context)
{
    struct goscr_action action = *to;
    sigset_t mask = ((ucontext_t *)context)->uc_sigmask;
    int i;

    for (i = 1; i < NSIG; i++)
        if (action.mask >> (i - 1) & 1)
            sigaddset(&mask, i);
    if (!(action.flags & SA_NODEFER))
        sigaddset(&mask, sig);
    if (action.flags & SA_RESETHAND)
        to->handler = (void *)SIG_DFL;
    pthread_sigmask(SIG_SETMASK, &mask, NULL);
    if (action.flags & SA_SIGINFO)
        ((void (*)(int, siginfo_t *, void *))action.handler)(sig, info, context);
    else
        ((void (*)(int))action.handler)(sig);
}

static void fault(int sig, siginfo_t *info, void *context)
{
    int i = sig == goscr_faults[0] ? 0 : 1;
    int sent = info->si_code <= 0; /* a process sent it; no instruction faulted */
    struct goscr_action *to = &programs[i];

    if (!sent && in_this_library(context)) {
        goscr_handlers[i].sa_sigaction(sig, info, context);
    } else if (!(to->flags & SA_SIGINFO) && (to->handler == (void *)SIG_DFL || to->handler == (void *)SIG_IGN)) {
        if (sent && to->handler == (void *)SIG_IGN)
            return;
        /* The instruction faults once more, and the program ends with this signal. */
        signal(sig, SIG_DFL);
        if (sent)
            raise(sig); /* blocked until this returns */
    } else {
        hand_over(to, sig, info, context);
    }
}

static int is_fault(int sig) { return sig == goscr_faults[0] || sig == goscr_faults[1]; }

/* fault() as the kernel has it once the C library, which adds how a handler returns, has set it. */
static struct goscr_action ours;

static void set_first(int sig)
{
    struct sigaction action;

    memset(&action, 0, sizeof action);
    action.sa_sigaction = fault;
    action.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_RESTART;
    sigfillset(&action.sa_mask);
    sigaction(sig, &action, NULL);
    goscr_action(sig, NULL, &ours);
}

static void take_faults(void)
{
    struct goscr_action now;
    int i;

    for (i = 0; i < FAULTS; i++) {
        if (ours.handler == NULL) {
            goscr_action(goscr_faults[i], NULL, &programs[i]);
            set_first(goscr_faults[i]);
        } else if (goscr_action(goscr_faults[i], &ours, &now) == 0 && now.handler != ours.handler) {
            programs[i] = now;
        }
    }
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
    struct goscr_action now;
    int i;

    for (i = 0; i < FAULTS; i++)
        if (goscr_action(goscr_faults[i], &programs[i], &now) == 0 && now.handler != ours.handler)
            goscr_action(goscr_faults[i], &now, NULL);
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
            return; /* Go then sets an alternate stack of its own */
        here.stack = memory;
        pthread_once(&stacks_once, make_key);
        pthread_setspecific(stacks, memory);
    }
    memset(&stack, 0, sizeof stack);
    stack.ss_sp = here.stack;
    stack.ss_size = STACK;
    here.stack_changed = sigaltstack(&stack, &here.programs) == 0;
}

static void give_stack_back(void)
{
    if (here.stack_changed)
        sigaltstack(&here.programs, NULL);
    here.stack_changed = 0;
}

/* Adds the signals that are blocked in this thread during a call. */
static void add_blocked(sigset_t *set)
{
    sigaddset(set, SIGPIPE);
    sigaddset(set, SIGXFSZ);
}

static void block_all_but_faults(sigset_t *before)
{
    sigset_t mask;
    int i;

    sigfillset(&mask);
    for (i = 0; i < FAULTS; i++)
        sigdelset(&mask, goscr_faults[i]);
    pthread_sigmask(SIG_SETMASK, &mask, before);
}

int goscr_enter(int length)
{
    sigset_t mask;
    int i, failed;

    if (here.inside)
        return GOSCR_WITHIN;
    here.inside = 1;
    here.length = length;
    block_all_but_faults(&here.mask); /* until the stack and the handlers are set */
    take_stack();
    failed = goscr_start();
    if (failed) {
        give_stack_back();
        here.inside = 0;
        mask = here.mask;
        pthread_sigmask(SIG_SETMASK, &mask, NULL);
        return failed;
    }
    pthread_mutex_lock(&lock);
    if (users++ == 0)
        take_faults();
    if (length == GOSCR_LONG && longer++ == 0)
        move_handlers();
    pthread_mutex_unlock(&lock);
    sigemptyset(&here.pending);
    if (sigismember(&here.mask, SIGPIPE) || sigismember(&here.mask, SIGXFSZ)) /* else none can be pending */
        sigpending(&here.pending);
    if (length == GOSCR_BRIEF)
        return 0;
    mask = here.mask;
    add_blocked(&mask);
    for (i = 0; i < FAULTS; i++)
        sigdelset(&mask, goscr_faults[i]);
    pthread_sigmask(SIG_SETMASK, &mask, NULL);
    return 0;
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

    forget_pending();
    if (here.length == GOSCR_LONG) /* in a brief function they are blocked from its begin to its end */
        block_all_but_faults(NULL);
    pthread_mutex_lock(&lock);
    if (here.length == GOSCR_LONG && --longer == 0)
        move_back();
    if (--users == 0)
        give_faults_back();
    pthread_mutex_unlock(&lock);
    give_stack_back();
    here.inside = 0; /* before a blocked signal is delivered: its handler may call the library */
    mask = here.mask;
    pthread_sigmask(SIG_SETMASK, &mask, NULL);
}
