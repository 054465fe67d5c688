/*
 * What a debugger finds in each rank: whether the program can be checkpointed, by which commands,
 * and the gate at which ranks wait for it after a checkpoint or a restart.  The names, and how a
 * debugger uses them, are those of the design for Open MPI; docs/debugging.md has an example.
 */

#define _GNU_SOURCE

#include "debug.h"

#include "inside.h"
#include "scr.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

int MPIR_checkpointable = 1;

/* Whether a debugger is, or is to be, attached after the next checkpoint or restart. */
volatile int MPIR_debug_with_checkpoint = 0;

/* 0: ranks wait in MPIR_checkpoint_debugger_breakpoint. */
volatile int MPIR_checkpoint_debug_gate = 0;

char MPIR_checkpoint_command[SCR_MAX_FILENAME + 40] = "scr_checkpoint";
char MPIR_restart_command[] = "scr_restart --crdebug";
char MPIR_checkpoint_restart_command[] = "scr_restart --crdebug";
char MPIR_checkpoint_listing_command[SCR_MAX_FILENAME + 40] = "scr_checkpoint -l";
char MPIR_controller_hostname[256] = "localhost";

/* For a breakpoint of the debugger, which has to detach before the checkpoint. */
__attribute__((noinline)) int MPIR_checkpoint_debugger_detach(void)
{
    __asm__ volatile("");
    return 0;
}

/* The gate opens without a debugger when this file is gone; "": it does not. */
static char record[SCR_MAX_FILENAME];

volatile int goscr_debug_waits;

static void nap(void)
{
    const struct timespec t = {0, 20000000};

    nanosleep(&t, NULL);
}

/* Waits until a debugger opens the gate.  Other threads may have been stopped anywhere, so this
 * takes no lock, and does not use the heap. */
__attribute__((noinline)) void MPIR_checkpoint_debugger_breakpoint(void)
{
    int naps;

    for (naps = 1; MPIR_checkpoint_debug_gate == 0; naps++) {
        nap();
        if (record[0] != 0 && naps % 50 == 0 && access(record, F_OK) != 0 && errno == ENOENT)
            MPIR_checkpoint_debug_gate = 1;
    }
}

/* --------------------------------------------------------------- the other threads */

/* Counts the times at which threads were stopped; even: none are to be. */
static volatile int times;

/* What a thread does that is to wait: the handler of a signal.  Other signals reach it. */
static void stand(int number)
{
    int before = errno, mine = times;

    (void)number;
    while (mine % 2 == 1 && mine == times && MPIR_checkpoint_debug_gate == 0)
        nap();
    errno = before;
}

/* A signal that the program does not use; 0: there is none. */
static int unused_signal(void)
{
    struct sigaction now;
    int number;

    for (number = SIGRTMAX; number >= SIGRTMIN; number--)
        if (sigaction(number, NULL, &now) == 0 && !(now.sa_flags & SA_SIGINFO) && now.sa_handler == SIG_DFL)
            return number;
    return 0;
}

enum { MOST_THREADS = 4096 };

static struct {
    long id[MOST_THREADS];
    int n;
} stopped;

static int is_stopped(long id)
{
    int i;

    for (i = 0; i < stopped.n && stopped.id[i] != id; i++)
        continue;
    return i < stopped.n;
}

/* Stops the threads that are not.  Returns how many there were.  readdir uses the heap. */
static int stop_more(int number)
{
    struct entry {
        unsigned long long inode;
        long long offset;
        unsigned short size;
        unsigned char type;
        char name[];
    };
    static union {
        struct entry first;
        char bytes[8192];
    } list;
    const struct entry *e;
    long id, got, at, self = syscall(SYS_gettid);
    int more = 0, fd = open("/proc/self/task", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

    if (fd < 0)
        return 0;
    while ((got = syscall(SYS_getdents64, fd, list.bytes, sizeof list.bytes)) > 0) {
        for (at = 0; at < got; at += e->size) {
            e = (const struct entry *)(const void *)(list.bytes + at);
            id = atol(e->name); /* 0: "." and ".." */
            if (id <= 0 || id == self || stopped.n == MOST_THREADS || is_stopped(id))
                continue;
            stopped.id[stopped.n++] = id;
            more += syscall(SYS_tgkill, getpid(), id, number) == 0;
        }
    }
    close(fd);
    return more;
}

/* Stops the other threads until let_go; those that block the signal continue.  Returns the signal. */
static int stop_others(void)
{
    struct sigaction a;
    int number = unused_signal();

    memset(&a, 0, sizeof a);
    a.sa_handler = stand;
    a.sa_flags = SA_RESTART | SA_ONSTACK; /* threads of Go have small stacks */
    times++;
    stopped.n = 0;
    if (number == 0 || sigaction(number, &a, NULL) != 0)
        return 0;
    while (stop_more(number) > 0) /* they may have made others meanwhile */
        nap();
    return number;
}

static void let_go(int number)
{
    times++;
    if (number != 0) {
        signal(number, SIG_IGN); /* forgets it where it is blocked */
        signal(number, SIG_DFL);
    }
}

/* A debugger makes threads call it that are to wait. */
__attribute__((noinline)) void MPIR_checkpoint_debugger_waitpoint(void)
{
    MPIR_checkpoint_debug_gate = 0;
    MPIR_checkpoint_debugger_breakpoint();
}

/* The same for a debugger that makes threads wait by a signal: their handler. */
__attribute__((noinline)) void MPIR_checkpoint_debugger_signal_handler(int number)
{
    (void)number;
    MPIR_checkpoint_debugger_waitpoint();
}

/* After a checkpoint and after a restart. */
__attribute__((noinline)) void MPIR_checkpoint_debugger_crs_hook(int state)
{
    int number;

    (void)state;
    if (MPIR_debug_with_checkpoint || record[0] != 0) {
        fprintf(stderr, "MPIR_debug_info) %s:%ld\n", MPIR_controller_hostname, (long)getpid());
        fflush(stderr);
        goscr_debug_waits = 1;
        MPIR_checkpoint_debug_gate = 0;
        number = stop_others();
        MPIR_checkpoint_debugger_breakpoint(); /* a debugger that has opened the gate meanwhile is not waited for */
        let_go(number);
        goscr_debug_waits = 0;
    } else
        MPIR_checkpoint_debug_gate = 1;
}

void goscr_debug(int state)
{
    char prefix[SCR_MAX_FILENAME] = "";
    int debug = 0, waits;

    if (state == GOSCR_CR_PREPARE) {
        MPIR_checkpoint_debugger_detach();
        return;
    }
    if (goscr_cr_reference(prefix, &debug) == 0) {
        snprintf(MPIR_checkpoint_command, sizeof MPIR_checkpoint_command, "scr_checkpoint -v -p %s", prefix);
        snprintf(MPIR_checkpoint_listing_command, sizeof MPIR_checkpoint_listing_command, "scr_checkpoint -l -p %s", prefix);
    }
    gethostname(MPIR_controller_hostname, sizeof MPIR_controller_hostname - 1);
    if (state == GOSCR_CR_RESTART && debug)
        MPIR_debug_with_checkpoint = 1;
    waits = state == GOSCR_CR_CONTINUE && goscr_cr_waits(record);
    MPIR_checkpoint_debugger_crs_hook(state);
    record[0] = 0;
    if (waits)
        goscr_cr_left();
}
