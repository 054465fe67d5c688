/*
 * signals - a program that checks that the library leaves its signals, stacks, children
 *           and limits unchanged
 *
 *     signals PART     one of the functions below; one run each
 *
 * Prints "ok NAME" and "not ok NAME".  Parts named die_* end the program; they are run
 * with the library and with one that does nothing, and must end in the same way.
 *
 * With -DLOAD it is not linked with the library.  It sets its own handlers, and then
 * loads the library that LIBRARY in the environment names.
 */

#define _GNU_SOURCE

#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <ucontext.h>
#include <unistd.h>

#include <mpi.h>
#include <scr.h>

#ifdef LOAD
#define FUNCTION(name, result, types) static result(*p_##name) types
FUNCTION(SCR_Init, int, (void));
FUNCTION(SCR_Finalize, int, (void));
FUNCTION(SCR_Start_output, int, (const char *, int));
FUNCTION(SCR_Route_file, int, (const char *, char *));
FUNCTION(SCR_Complete_output, int, (int));
FUNCTION(SCR_Get_error, const char *, (void));
FUNCTION(SCR_Recover, int, (MPI_Comm));
#define SCR_Init p_SCR_Init
#define SCR_Finalize p_SCR_Finalize
#define SCR_Start_output p_SCR_Start_output
#define SCR_Route_file p_SCR_Route_file
#define SCR_Complete_output p_SCR_Complete_output
#define SCR_Get_error p_SCR_Get_error
#define SCR_Recover p_SCR_Recover

static void *load(void)
{
    void *library = dlopen(getenv("LIBRARY"), RTLD_NOW | RTLD_LOCAL);

    if (library == NULL) {
        printf("not ok the library can be loaded: %s\n", dlerror());
        exit(1);
    }
    *(void **)&SCR_Init = dlsym(library, "SCR_Init");
    *(void **)&SCR_Finalize = dlsym(library, "SCR_Finalize");
    *(void **)&SCR_Start_output = dlsym(library, "SCR_Start_output");
    *(void **)&SCR_Route_file = dlsym(library, "SCR_Route_file");
    *(void **)&SCR_Complete_output = dlsym(library, "SCR_Complete_output");
    *(void **)&SCR_Get_error = dlsym(library, "SCR_Get_error");
    *(void **)&SCR_Recover = dlsym(library, "SCR_Recover");
    return library;
}
#else
static void *load(void) { return NULL; }
#endif

static int rank;

static void check(const char *name, int yes) { printf("%s %s\n", yes ? "ok" : "not ok", name); }

/* ------------------------------------------- something to do during a call */

static void (*within)(void);

static void now_is_the_time(void)
{
    void (*f)(void) = within;

    within = NULL;
    if (f != NULL)
        f();
}

/* The library calls these functions instead of the MPI's. It calls MPI by its second names, so that
 * other libraries do not count its messages as the program's. */
int PMPI_Iallreduce(const void *in, void *out, int n, MPI_Datatype type, MPI_Op op, MPI_Comm comm, MPI_Request *request)
{
    static int (*next)(const void *, void *, int, MPI_Datatype, MPI_Op, MPI_Comm, MPI_Request *);

    if (next == NULL)
        *(void **)&next = dlsym(RTLD_NEXT, "PMPI_Iallreduce");
    now_is_the_time();
    return next(in, out, n, type, op, comm, request);
}

static void (*on_send)(void);

int PMPI_Isend(const void *buf, int n, MPI_Datatype type, int to, int tag, MPI_Comm comm, MPI_Request *request)
{
    static int (*next)(const void *, int, MPI_Datatype, int, int, MPI_Comm, MPI_Request *);
    void (*f)(void) = n > 4096 ? on_send : NULL;

    if (next == NULL)
        *(void **)&next = dlsym(RTLD_NEXT, "PMPI_Isend");
    if (f != NULL) {
        on_send = NULL;
        f();
    }
    return next(buf, n, type, to, tag, comm, request);
}

/* Calls a function of the library that calls f. */
static int in_a_call(void (*f)(void))
{
    within = f;
    return SCR_Start_output("in.a.call", SCR_FLAG_CHECKPOINT) == SCR_SUCCESS && SCR_Complete_output(1) == SCR_SUCCESS &&
        within == NULL;
}

static int steps;

static int checkpoint(void)
{
    char name[64], path[SCR_MAX_FILENAME];
    static char data[100000];
    FILE *f;
    int ok;

    snprintf(name, sizeof name, "step.%d", ++steps);
    if (SCR_Start_output(name, SCR_FLAG_CHECKPOINT) != SCR_SUCCESS)
        return 0;
    snprintf(name, sizeof name, "step.%d/rank_%d", steps, rank);
    ok = SCR_Route_file(name, path) == SCR_SUCCESS && (f = fopen(path, "w")) != NULL;
    ok = ok && fwrite(data, 1, sizeof data, f) == sizeof data;
    ok = ok && fclose(f) == 0;
    return SCR_Complete_output(ok) == SCR_SUCCESS && ok;
}

static void catch_with(int sig, void (*handler)(int), int flags)
{
    struct sigaction action;

    memset(&action, 0, sizeof action);
    action.sa_handler = handler;
    action.sa_flags = flags;
    sigaction(sig, &action, NULL);
}

/* ----------------------------------------------------- ways to end a program */

static volatile int *volatile nowhere;
static void null_pointer(void) { *nowhere = 1; }
static void segv_sent(void) { kill(getpid(), SIGSEGV); }
static void term(void) { kill(getpid(), SIGTERM); }
static void usr1(void) { kill(getpid(), SIGUSR1); }
static void bus(void) { raise(SIGBUS); }
static void fpe(void) { raise(SIGFPE); }

static void broken_pipe(void)
{
    int fd[2];

    if (pipe(fd) == 0 && close(fd[0]) == 0 && write(fd[1], "x", 1) < 0)
        printf("a pipe that nobody reads: %s\n", strerror(errno));
}

static void after(void (*f)(void))
{
    SCR_Init();
    SCR_Start_output("x", SCR_FLAG_CHECKPOINT);
    SCR_Complete_output(1);
    f();
    SCR_Finalize();
}

static void during(void (*f)(void))
{
    SCR_Init();
    within = f;
    SCR_Start_output("x", SCR_FLAG_CHECKPOINT);
    if (within != NULL) /* the library that does nothing */
        now_is_the_time();
    SCR_Complete_output(1);
    SCR_Finalize();
}

static void fault_handler(int sig)
{
    static const char text[] = "the program's handler\n";

    if (write(1, text, sizeof text - 1) > 0)
        _exit(40 + sig);
}

static void die_segv(void) { after(null_pointer); }
static void die_segv_sent(void) { after(segv_sent); }
static void die_term(void) { after(term); }
static void die_usr1(void) { after(usr1); }
static void die_bus(void) { after(bus); }
static void die_fpe(void) { after(fpe); }
static void die_pipe(void) { after(broken_pipe); }
static void die_segv_within(void) { during(null_pointer); }
static void die_segv_sent_within(void) { during(segv_sent); }
static void die_term_within(void) { during(term); }
static void die_handled(void) { catch_with(SIGSEGV, fault_handler, 0); after(null_pointer); }
static void die_handled_within(void) { catch_with(SIGSEGV, fault_handler, 0); during(null_pointer); }
static void die_bus_handled_within(void) { catch_with(SIGBUS, fault_handler, SA_RESETHAND); during(bus); }

/* ---------------------------------------------------------------- handlers */

struct found {
    struct sigaction signals[65];
    sigset_t mask;
    stack_t stack;
    struct rlimit files;
    int slack; /* of the thread's timers */
};

static void look(struct found *f)
{
    int i;

    memset(f, 0, sizeof *f);
    for (i = 1; i < 65; i++)
        sigaction(i, NULL, &f->signals[i]);
    pthread_sigmask(SIG_SETMASK, NULL, &f->mask);
    sigaltstack(NULL, &f->stack);
    getrlimit(RLIMIT_NOFILE, &f->files);
    f->slack = prctl(PR_GET_TIMERSLACK, 0, 0, 0, 0);
}

static int same(const struct found *a, const struct found *b)
{
    int i, ok = 1;

    for (i = 1; i < 65; i++) {
        if (a->signals[i].sa_handler == b->signals[i].sa_handler && a->signals[i].sa_flags == b->signals[i].sa_flags &&
            memcmp(&a->signals[i].sa_mask, &b->signals[i].sa_mask, 8) == 0)
            continue;
        printf("  %s: flags %#x, were %#x\n", strsignal(i), (unsigned)b->signals[i].sa_flags, (unsigned)a->signals[i].sa_flags);
        ok = 0;
    }
    if (memcmp(&a->mask, &b->mask, 8) != 0)
        ok = printf("  the mask is another\n") == 0;
    if (a->stack.ss_sp != b->stack.ss_sp || a->stack.ss_flags != b->stack.ss_flags)
        ok = printf("  the alternate stack is another\n") == 0;
    if (a->files.rlim_cur != b->files.rlim_cur)
        ok = printf("  %ld open files, were %ld\n", (long)b->files.rlim_cur, (long)a->files.rlim_cur) == 0;
    if (a->slack != b->slack)
        ok = printf("  timers are late by %d ns, were by %d\n", b->slack, a->slack) == 0;
    return ok;
}

enum { THREADS = 64 };

/* Returns the number of threads of the process. */
static int threads(int list[THREADS])
{
    DIR *d = opendir("/proc/self/task");
    struct dirent *e;
    int n = 0;

    while (d != NULL && (e = readdir(d)) != NULL)
        if (e->d_name[0] != '.' && n < THREADS)
            list[n++] = atoi(e->d_name);
    if (d != NULL)
        closedir(d);
    return n;
}

/* Whether one of the new threads since then has a large timer slack, which becomes *monitor, and the
 * others that of the program.  *monitor is 0 if the user may not know. */
static int late_now(const int *then, int n, int *monitor, int says)
{
    int now[THREADS], count = threads(now), monitors = 0, others = 0, ok = 1, i, j;
    char path[64];
    long slack;
    FILE *f;

    *monitor = 0;
    for (i = 0; i < count; i++) {
        for (j = 0; j < n && then[j] != now[i]; j++)
            ;
        if (j < n)
            continue;
        snprintf(path, sizeof path, "/proc/%d/timerslack_ns", now[i]);
        slack = -1;
        if ((f = fopen(path, "r")) == NULL)
            continue; /* it has ended */
        if (fscanf(f, "%ld", &slack) != 1 && (errno == EPERM || errno == EACCES)) {
            fclose(f);
            *monitor = 0;
            return printf("  only root may see the timers of thread %d\n", now[i]) > 0;
        }
        fclose(f);
        if (slack == 50000000)
            monitors++, *monitor = now[i];
        else if (slack == 60000)
            others++;
        else {
            ok = 0;
            if (says)
                printf("  thread %d: timers may be late by %ld ns\n", now[i], slack);
        }
    }
    if (monitors == 1 && others > 0)
        return ok;
    if (says)
        printf("  %d threads with late timers, and %d with those of the program\n", monitors, others);
    return 0;
}

/* ... as soon as new threads run: until then they have the slack of those that have created them. */
static int late(const int *then, int n, int *monitor)
{
    int i;

    for (i = 0; i < 20000; i++) {
        if (late_now(then, n, monitor, 0))
            return 1;
        usleep(1000);
    }
    return late_now(then, n, monitor, 1);
}

static volatile sig_atomic_t calls;
static void count(int sig) { (void)sig; calls++; }

static struct found before;

static void looks_inside(void)
{
    struct rlimit files;

    check("the limit of files is the program's, also within a call",
        getrlimit(RLIMIT_NOFILE, &files) == 0 && files.rlim_cur == before.files.rlim_cur);
}

/* Handlers of all kinds, a stack and a mask, before the library is loaded and after. */
static void restored(void)
{
    static const int caught[] = {SIGSEGV, SIGBUS, SIGFPE, SIGPIPE, SIGURG, SIGTERM, SIGCHLD, SIGINT, SIGUSR1, SIGPROF};
    static char memory[64 << 10];
    int list[THREADS], then, monitor;
    struct found now;
    struct sigaction action;
    stack_t stack;
    sigset_t mask;
    size_t i;

    for (i = 0; i < sizeof caught / sizeof *caught; i++) {
        memset(&action, 0, sizeof action);
        action.sa_handler = count;
        action.sa_flags = i % 3 == 0 ? SA_RESTART : i % 3 == 1 ? SA_ONSTACK | SA_NODEFER : 0;
        sigaddset(&action.sa_mask, SIGHUP);
        sigaction(caught[i], &action, NULL);
    }
    signal(SIGHUP, SIG_IGN);
    memset(&stack, 0, sizeof stack);
    stack.ss_sp = memory;
    stack.ss_size = sizeof memory;
    sigaltstack(&stack, NULL);
    sigemptyset(&mask);
    sigaddset(&mask, SIGUSR2);
    sigaddset(&mask, SIGPROF);
    sigaddset(&mask, SIGSEGV);
    pthread_sigmask(SIG_SETMASK, &mask, NULL);
    prctl(PR_SET_TIMERSLACK, 60000UL, 0, 0, 0);
    look(&before);
    then = threads(list);
    load(); /* does nothing if the program is linked with the library */
    look(&now);
    check("loading the library changes nothing", same(&before, &now));
    check("... and starts no thread", threads(list) == then);
    check("SCR_Init", SCR_Init() == SCR_SUCCESS);
    look(&now);
    check("... changes nothing", same(&before, &now));
    check("... and only the timers of one thread that it starts may be late", late(list, then, &monitor));
    check("a checkpoint", in_a_call(looks_inside) && checkpoint());
    look(&now);
    check("... changes nothing", same(&before, &now));
    check("SCR_Finalize", SCR_Finalize() == SCR_SUCCESS);
    look(&now);
    check("... changes nothing", same(&before, &now));
    for (i = 0; i < sizeof caught / sizeof *caught; i++)
        if (sigismember(&mask, caught[i]) == 0)
            raise(caught[i]);
    check("the handlers run, and only when they should", calls == 8);
    if (calls != 8)
        printf("  %d times\n", calls);
}

/* A handler that needs more stack than a goroutine has, at any instant. */
static void greedy(int sig)
{
    volatile char room[48 << 10];
    size_t i;

    (void)sig;
    for (i = 0; i < sizeof room; i += 64)
        room[i] = (char)i;
    calls++;
}

static void modest(int sig) { (void)sig; calls++; }

static volatile sig_atomic_t urgent;
static void count_urgent(int sig) { (void)sig; urgent++; }

static void any_instant(void)
{
    static const struct itimerval often = {{0, 150}, {0, 150}}, never;
    struct sigaction action;
    int i, ok = 1;

    check("SCR_Init", SCR_Init() == SCR_SUCCESS);
    catch_with(SIGALRM, greedy, SA_RESTART); /* on no stack of its own */
    catch_with(SIGPROF, modest, SA_RESTART);
    catch_with(SIGURG, count_urgent, SA_RESTART);
    setitimer(ITIMER_REAL, &often, NULL);
    setitimer(ITIMER_PROF, &often, NULL);
    for (i = 0; i < 60 && ok; i++)
        ok = checkpoint();
    for (i = 0; i < 20000 && ok; i++) {
        char path[SCR_MAX_FILENAME];

        ok = SCR_Route_file("elsewhere", path) == SCR_SUCCESS && strcmp(path, "elsewhere") == 0;
    }
    setitimer(ITIMER_REAL, &never, NULL);
    setitimer(ITIMER_PROF, &never, NULL);
    check("60 checkpoints and 20000 names, with signals at any instant", ok);
    check("... which have arrived", calls > 0);
    check("... and none that nobody has sent", urgent == 0);
    sigaction(SIGALRM, NULL, &action);
    check("... their handler is as it was", action.sa_handler == greedy && !(action.sa_flags & SA_ONSTACK));
    check("SCR_Finalize", SCR_Finalize() == SCR_SUCCESS);
}

/* A program that notices writes to its memory by faults. */
static char *page;
static volatile int faults_wanted = 1;

static void unprotect(int sig, siginfo_t *info, void *context)
{
    (void)context;
    if (sig != SIGSEGV || (char *)info->si_addr != page)
        _exit(99);
    mprotect(page, 4096, PROT_READ | PROT_WRITE);
    calls++;
}

static void *write_to_page(void *done)
{
    long n = 0;

    while (faults_wanted || n == 0) {
        mprotect(page, 4096, PROT_READ);
        *page = 1;
        n++;
    }
    *(long *)done = n;
    return NULL;
}

static void one_fault(void)
{
    int had = calls;

    mprotect(page, 4096, PROT_READ);
    *page = 1;
    check("a fault of the program within a call goes to its handler", calls == had + 1);
}

static void own_faults(void)
{
    struct sigaction action;
    pthread_t thread;
    long n = 0;
    int i, ok;

    page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    memset(&action, 0, sizeof action);
    action.sa_sigaction = unprotect;
    action.sa_flags = SA_SIGINFO;
    sigaction(SIGSEGV, &action, NULL);
    check("SCR_Init", SCR_Init() == SCR_SUCCESS);
    check("a call", in_a_call(one_fault));
    one_fault();
    calls = 0;
    ok = pthread_create(&thread, NULL, write_to_page, &n) == 0;
    for (i = 0; i < 40 && ok; i++)
        ok = checkpoint();
    faults_wanted = 0;
    pthread_join(thread, NULL);
    check("40 checkpoints, while another thread has faults all the time", ok);
    check("... each of which its handler got", n == calls && n > 0);
    check("SCR_Finalize", SCR_Finalize() == SCR_SUCCESS);
}

/* A thread that waits for the signals of the process, which all others block. */
static volatile int waited;

static void *wait_for_usr1(void *n)
{
    sigset_t set;
    int i, sig;

    sigemptyset(&set);
    sigaddset(&set, SIGUSR1);
    for (i = 0; i < *(int *)n; i++)
        if (sigwait(&set, &sig) == 0 && sig == SIGUSR1)
            waited++;
    return NULL;
}

static void send_usr1(void)
{
    int had = waited;

    kill(getpid(), SIGUSR1);
    while (waited == had)
        usleep(100);
}

static void waits_in_a_thread(void)
{
    pthread_t thread;
    int i, n = 1 + 200 + 20, ok;

    ok = pthread_create(&thread, NULL, wait_for_usr1, &n) == 0;
    check("SCR_Init", SCR_Init() == SCR_SUCCESS);
    check("a signal within a call comes to the thread that waits for it", ok && in_a_call(send_usr1));
    for (i = 0; i < 200; i++)
        send_usr1();
    for (i = 0; i < 20 && ok; i++) {
        ok = checkpoint();
        send_usr1();
    }
    pthread_join(thread, NULL);
    check("... and so do all others", ok && waited == n);
    check("SCR_Finalize", SCR_Finalize() == SCR_SUCCESS);
}

/*
 * A program blocks a signal in all its threads, and waits for it in one of them: it
 * receives each one, even while the library works.
 */
static const int taken[] = {SIGCHLD, 34, SIGPROF, SIGSTKFLT, SIGUSR1, SIGWINCH, SIGALRM, SIGTRAP, SIGILL, SIGFPE, SIGURG, SIGHUP};
enum { TAKEN = sizeof taken / sizeof *taken };
static int got[TAKEN];

static void block_all(void)
{
    sigset_t set;

    sigfillset(&set);
    pthread_sigmask(SIG_SETMASK, &set, NULL);
}

static void take_20(void)
{
    static const struct timespec second = {1, 0};
    int i, n;

    for (i = 0; i < TAKEN; i++) {
        sigset_t set;

        sigemptyset(&set);
        sigaddset(&set, taken[i]);
        for (n = 0; n < 20; n++) {
            kill(getpid(), taken[i]);
            got[i] += sigtimedwait(&set, NULL, &second) == taken[i];
        }
    }
}

static int all_20(void)
{
    int i, ok = 1;

    for (i = 0; i < TAKEN; i++) {
        if (got[i] != 20)
            printf("  signal %d: %d of 20\n", taken[i], got[i]);
        ok = ok && got[i] == 20;
        got[i] = 0;
    }
    return ok;
}

static void takes_signals(void)
{
    int i;

    take_20();
    check("before SCR_Init", all_20());
    check("SCR_Init", SCR_Init() == SCR_SUCCESS);
    take_20();
    check("between calls", all_20());
    check("a call", in_a_call(take_20));
    check("in a call", all_20());
    for (i = 0; i < 3; i++)
        check("a checkpoint, which is flushed in the background", checkpoint());
    take_20();
    check("while a flush copies", all_20());
    check("SCR_Finalize", SCR_Finalize() == SCR_SUCCESS);
    take_20();
    check("after SCR_Finalize", all_20());
}

/* A profiler, whose handler has no alternate stack and needs a large one. */
static void profiled(void)
{
    static const struct itimerval often = {{0, 1000}, {0, 1000}}, never;
    int i, ok = 1;

    catch_with(SIGPROF, greedy, SA_RESTART);
    setitimer(ITIMER_PROF, &often, NULL);
    check("SCR_Init", SCR_Init() == SCR_SUCCESS);
    /* A profiler counts processor time, of which 100 checkpoints may take too little. */
    for (i = 0; (i < 100 || (calls == 0 && i < 100000)) && ok; i++)
        ok = checkpoint();
    check("100 checkpoints, flushed by threads", ok);
    check("SCR_Finalize", SCR_Finalize() == SCR_SUCCESS);
    setitimer(ITIMER_PROF, &never, NULL);
    check("... under a profiler, whose handler has run", calls > 0);
}

/* Whether the thread is in a system call that sleeps for a time.  Go's other threads wait for
 * events: with one processor none sleeps. */
static int sleeps(int thread)
{
    char path[64];
    long number = -1;
    FILE *f;

    snprintf(path, sizeof path, "/proc/self/task/%d/syscall", thread);
    f = fopen(path, "r");
    if (f != NULL) {
        if (fscanf(f, "%ld", &number) != 1)
            number = -1; /* "running" */
        fclose(f);
    }
    return number == SYS_nanosleep || number == SYS_clock_nanosleep;
}

/* Prints how many pages SCR_Init has touched first. */
static void touches(void)
{
    struct rusage before, after;

    getrusage(RUSAGE_SELF, &before);
    check("SCR_Init", SCR_Init() == SCR_SUCCESS);
    getrusage(RUSAGE_SELF, &after);
    printf("pages %ld\n", after.ru_minflt - before.ru_minflt);
    check("SCR_Finalize", SCR_Finalize() == SCR_SUCCESS);
}

/* A program that calls the library all the time, and has no timers of its own. */
static void busy(void)
{
    int list[THREADS], then, monitor, asleep = 0, i, ok;

    prctl(PR_SET_TIMERSLACK, 60000UL, 0, 0, 0);
    then = threads(list);
    ok = SCR_Init() == SCR_SUCCESS;
    check("one thread's timers may be late", late(list, then, &monitor));
    for (i = 0; i < 300 && ok; i++) {
        ok = checkpoint();
        asleep += monitor == 0 || sleeps(monitor);
    }
    check("300 checkpoints", ok);
    printf("  asleep after %d of them\n", asleep);
    check("it is the one that sleeps, which is Go's monitor", asleep > 0);
    check("SCR_Finalize", SCR_Finalize() == SCR_SUCCESS);
}

/* Go asks where the stack of a thread ends.  For that of main, the C library would read all of /proc/self/maps. */
static int asked; /* how often the library has asked the C library in the first thread */

int pthread_getattr_np(pthread_t id, pthread_attr_t *attributes)
{
    int (*next)(pthread_t, pthread_attr_t *);
    Dl_info from;

    *(void **)&next = dlsym(RTLD_NEXT, "pthread_getattr_np");
    if (getpid() == (pid_t)syscall(SYS_gettid) && dladdr(__builtin_return_address(0), &from) != 0 && strstr(from.dli_fname, "libscr") != NULL)
        asked++;
    return next(id, attributes);
}

/* Makes a checkpoint when so much more of the stack is used. */
static int deep(long bytes)
{
    volatile char room[64 << 10];
    int ok;

    room[0] = room[sizeof room - 1] = 1;
    ok = bytes > (long)sizeof room ? deep(bytes - (long)sizeof room) : checkpoint();
    return ok && room[0] == room[sizeof room - 1];
}

static int elsewhere;
static void on_another(void) { elsewhere = checkpoint(); }

/* Calls from anywhere on the stack of main, and from another one. */
static void stacks(void)
{
    enum { REST = 1 << 20, SIZE = 1 << 20 };
    ucontext_t here, there;
    struct rlimit limit;
    int before;

    check("SCR_Init", SCR_Init() == SCR_SUCCESS);
    check("a checkpoint", checkpoint());
    getrlimit(RLIMIT_STACK, &limit);
    check("a checkpoint at the end of the stack", deep(limit.rlim_cur < 64 << 20 ? (long)limit.rlim_cur - REST : 7 << 20));
    check("the C library is not asked where it ends", asked == 0);
    before = asked;
    getcontext(&there);
    there.uc_stack.ss_sp = malloc(SIZE);
    there.uc_stack.ss_size = SIZE;
    there.uc_link = &here;
    makecontext(&there, on_another, 0);
    swapcontext(&here, &there);
    check("a checkpoint on another stack", elsewhere);
    check("... for which it is asked", asked > before);
    check("a checkpoint on the stack of main again", checkpoint());
    check("SCR_Finalize", SCR_Finalize() == SCR_SUCCESS);
    free(there.uc_stack.ss_sp);
}

/* A program that is linked with the library and never calls it. */
static void unused(void)
{
    char line[200];
    int list[THREADS], inside = 0, part = 0, kilobytes = 0, n;
    FILE *f = fopen("/proc/self/smaps", "r");

    while (f != NULL && fgets(line, sizeof line, f) != NULL) {
        if (strchr(line, '-') != NULL && strchr(line, '-') < strchr(line, ' ')) {
            inside = strstr(line, "libscr.so") != NULL || strstr(line, "/static") != NULL;
            part = part || strstr(line, "/static") != NULL; /* libscr.a is part of the program */
        }
        if (inside && sscanf(line, "Private_Dirty: %d", &n) == 1)
            kilobytes += n;
    }
    if (f != NULL)
        fclose(f);
    printf("  the library: %d KiB\n", kilobytes);
    check("less than 1 MiB of memory, 2 with the program", kilobytes > 0 && kilobytes < (part ? 2048 : 1024));
    n = threads(list);
#ifndef LOAD
    check("it has a version", SCR_Get_version() != NULL);
#endif
    check("no thread", threads(list) == n);
}

/* A child that has been made by fork() and calls the library. */
static void forked(void)
{
    int status = 0;
    pid_t child;

    check("SCR_Init", rank >= 0 && SCR_Init() == SCR_SUCCESS);
    child = fork();
    if (child == 0) {
        alarm(600);
        _exit(SCR_Start_output("a", SCR_FLAG_CHECKPOINT) == SCR_SUCCESS || SCR_Finalize() == SCR_SUCCESS ? 2 : 3);
    }
    check("the child gets an error", waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 3);
    check("its parent continues", checkpoint());
    check("SCR_Finalize", SCR_Finalize() == SCR_SUCCESS);
}

/* A child that lives longer than the session does not keep the lock of the job. */
static void outlived(void)
{
    struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_len = 1};
    char path[4096];
    int fd, status;
    pid_t child;

    check("SCR_Init", SCR_Init() == SCR_SUCCESS && checkpoint());
    child = fork();
    if (child == 0) {
        alarm(600);
        for (;;)
            pause();
    }
    snprintf(path, sizeof path, "%s/.scr/job.lock", getenv("SCR_PREFIX"));
    fd = open(path, O_RDONLY);
    check("the job is locked", fd >= 0 && fcntl(fd, F_OFD_GETLK, &lock) == 0 && lock.l_type == F_WRLCK);
    check("SCR_Finalize", SCR_Finalize() == SCR_SUCCESS);
    lock.l_type = F_WRLCK;
    lock.l_pid = 0;
    check("the job is not locked any more", fcntl(fd, F_OFD_GETLK, &lock) == 0 && lock.l_type == F_UNLCK);
    close(fd);
    kill(child, SIGKILL);
    check("the child was there", waitpid(child, &status, 0) == child && WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
}

/* ... also if the parent has not. */
static void forked_before(void)
{
    int status = 0;
    pid_t child = fork();

    if (child == 0) {
        alarm(600);
        _exit(SCR_Init() == SCR_SUCCESS ? 2 : 3);
    }
    check("the child gets an error", waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 3);
}

/* Under ulimit -v. */
static void no_room(void)
{
    check("SCR_Init fails", SCR_Init() != SCR_SUCCESS);
    check("... and nothing else", SCR_Finalize() != SCR_SUCCESS);
}

/* The last rank has reached a limit, which Go would not survive: no rank waits for it, and once it has what it needs all begin. */
static void at_limits(void)
{
    enum { MOST = 4096, LEFT = 3 };
    static int fds[MOST];
    struct rlimit before, now;
    int n = 0, i, ranks, last;

    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    last = rank == ranks - 1;
    while (last && n < MOST && (fds[n] = open("/dev/null", O_RDONLY)) >= 0)
        n++;
    for (i = 0; i < LEFT && n > 0; i++)
        close(fds[--n]);
    check("SCR_Init fails with three descriptors left", SCR_Init() != SCR_SUCCESS);
    check("... and says so", strstr(SCR_Get_error(), last ? "raise ulimit -n" : "cannot start on another rank") != NULL);
    while (n > 0)
        close(fds[--n]);

    getrlimit(RLIMIT_DATA, &before);
    now = before;
    now.rlim_cur = 64 << 20;
    if (last)
        setrlimit(RLIMIT_DATA, &now);
    check("SCR_Init fails under ulimit -d", SCR_Init() != SCR_SUCCESS);
    check("... and says so", strstr(SCR_Get_error(), last ? "raise ulimit -d" : "cannot start on another rank") != NULL);
    if (last)
        setrlimit(RLIMIT_DATA, &before);

    check("SCR_Init", SCR_Init() == SCR_SUCCESS);
    check("a checkpoint", checkpoint());
    check("SCR_Finalize", SCR_Finalize() == SCR_SUCCESS);
}

static void *never(void *nothing) { return nothing; }

/* Under ulimit -u, which does not hold for root. */
static void no_threads(void)
{
    struct rlimit none = {1, 1};

    check("another user", setrlimit(RLIMIT_NPROC, &none) == 0 && (geteuid() != 0 || setresuid(65534, 65534, -1) == 0));
    check("SCR_Init fails without threads", SCR_Init() != SCR_SUCCESS);
    check("... and says so", strstr(SCR_Get_error(), "raise ulimit -u") != NULL);
    check("root again", setresuid(0, 0, 0) == 0 || geteuid() != 0);
}

/*
 * The limit of threads is reached after SCR_Init.  It holds for another user than root without the capability to pass it, which
 * all threads of the process have to be, so before the library starts some.
 */
static void no_threads_later(void)
{
    struct __user_cap_header_struct version = {_LINUX_CAPABILITY_VERSION_3, 0};
    struct __user_cap_data_struct rights[2];
    struct rlimit none = {1, 1};
    pthread_t thread;
    int n, ok = 1, list[THREADS], before = threads(list);

    check("another user", geteuid() != 0 || setresuid(65534, 0, 0) == 0);
    check("rights", syscall(SYS_capget, &version, rights) == 0);
    rights[0].effective &= ~(1U << CAP_SYS_RESOURCE | 1U << CAP_SYS_ADMIN);
    check("fewer rights", syscall(SYS_capset, &version, rights) == 0);
    check("SCR_Init", SCR_Init() == SCR_SUCCESS);
    check("the limit", setrlimit(RLIMIT_NPROC, &none) == 0 && pthread_create(&thread, NULL, never, NULL) == EAGAIN);
    for (n = 0; n < 20; n++)
        ok = ok && checkpoint();
    check("checkpoints", ok);
    check("SCR_Finalize", SCR_Finalize() == SCR_SUCCESS);
    printf("threads: %d, before SCR_Init %d\n", threads(list), before);
}

/* No descriptor is left after SCR_Init: a call that needs one is an error, and the program continues. */
static void no_descriptors_later(void)
{
    struct rlimit found, none;
    int started;

    check("SCR_Init", SCR_Init() == SCR_SUCCESS);
    getrlimit(RLIMIT_NOFILE, &found);
    none = found;
    none.rlim_cur = 3;
    check("the limit", setrlimit(RLIMIT_NOFILE, &none) == 0 && open("/", O_RDONLY) < 0);
    started = SCR_Start_output("none", SCR_FLAG_CHECKPOINT | SCR_FLAG_OUTPUT) == SCR_SUCCESS;
    check("a checkpoint is not possible", !started || SCR_Complete_output(1) != SCR_SUCCESS);
    check("more", setrlimit(RLIMIT_NOFILE, &found) == 0);
    check("a checkpoint", checkpoint());
    check("SCR_Finalize", SCR_Finalize() == SCR_SUCCESS);
}

static long status_kb(const char *key)
{
    char line[256];
    long kb = -1;
    FILE *f = fopen("/proc/self/status", "r");

    while (f != NULL && fgets(line, sizeof line, f) != NULL)
        if (strncmp(line, key, strlen(key)) == 0)
            kb = strtol(line + strlen(key), NULL, 10);
    if (f != NULL)
        fclose(f);
    return kb;
}

/* So many files that Go's heap grows. */
static int many_files(const char *dataset, int many)
{
    char name[64], path[SCR_MAX_FILENAME];
    int ok = SCR_Start_output(dataset, SCR_FLAG_CHECKPOINT) == SCR_SUCCESS, i, fd;

    for (i = 0; ok && i < many; i++) {
        snprintf(name, sizeof name, "%s/rank_%d.%d", dataset, rank, i);
        ok = SCR_Route_file(name, path) == SCR_SUCCESS && (fd = open(path, O_CREAT | O_WRONLY, 0600)) >= 0 && close(fd) == 0;
    }
    return SCR_Complete_output(ok) == SCR_SUCCESS && ok;
}

/* Without memory for a message the session is over, on all ranks, and can be begun again. */
static void goes_on(void)
{
    int again = checkpoint();

    check("a checkpoint, or SCR_Recover", again || SCR_Recover(MPI_COMM_WORLD) == SCR_SUCCESS);
    check("a checkpoint", again || checkpoint());
}

/* From some time after SCR_Init on, the system refuses the process more private memory. */
static void no_memory_later(void)
{
    struct rlimit found, none;

    check("SCR_Init", SCR_Init() == SCR_SUCCESS);
    check("a checkpoint", checkpoint());
    getrlimit(RLIMIT_DATA, &found);
    none = found;
    none.rlim_cur = ((rlim_t)status_kb("VmData:") << 10) + (2 << 20); /* the MPI may need some: its own failures are not ours */
    check("the limit", setrlimit(RLIMIT_DATA, &none) == 0 && mmap(NULL, 4 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) == MAP_FAILED);
    many_files("more", 2000); /* an error or not */
    check("the program continues", setrlimit(RLIMIT_DATA, &found) == 0);
    goes_on();
    check("SCR_Finalize", SCR_Finalize() == SCR_SUCCESS);
}

/* ... or all mappings. */
static void no_mappings_later(void)
{
    enum { MOST = 1 << 20 };
    static void *mapped[MOST];
    int n = 0;

    check("SCR_Init", SCR_Init() == SCR_SUCCESS);
    check("a checkpoint", checkpoint());
    for (; n < MOST; n++) {
        mapped[n] = mmap(NULL, 4096, n % 2 ? PROT_NONE : PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (mapped[n] == MAP_FAILED)
            break;
    }
    check("the limit", n < MOST);
    many_files("more", 1000); /* an error or not; with 4,000, and on a machine at a load of 24 with 2,000, the reserve was too small (docs/go-runtime.md) */
    while (n > 0)
        munmap(mapped[--n], 4096);
    goes_on();
    check("SCR_Finalize", SCR_Finalize() == SCR_SUCCESS);
}

/* --------------------------------------------------------------- the rest */

static void no_reader(void)
{
    int fd[2];

    check("SCR_Init", SCR_Init() == SCR_SUCCESS);
    check("stderr is a pipe that nobody reads", pipe(fd) == 0 && close(fd[0]) == 0 && dup2(fd[1], 2) == 2);
    check("a call that wants to say something", SCR_Complete_output(1) != SCR_SUCCESS);
    check("a checkpoint", checkpoint());
    check("SCR_Finalize", SCR_Finalize() == SCR_SUCCESS);
}

static void too_large(void)
{
    struct rlimit limit;
    char path[SCR_MAX_FILENAME];
    static char data[100000];
    FILE *f;
    int ok;

    getrlimit(RLIMIT_FSIZE, &limit);
    check("SCR_Init", SCR_Init() == SCR_SUCCESS);
    ok = SCR_Start_output("large", SCR_FLAG_CHECKPOINT | SCR_FLAG_OUTPUT) == SCR_SUCCESS &&
        SCR_Route_file("large/file", path) == SCR_SUCCESS && (f = fopen(path, "w")) != NULL &&
        fwrite(data, 1, sizeof data, f) == sizeof data && fclose(f) == 0;
    check("a file is written", ok);
    limit.rlim_cur = 50000;
    setrlimit(RLIMIT_FSIZE, &limit);
    check("it may not be flushed, which is an error", SCR_Complete_output(1) != SCR_SUCCESS);
    limit.rlim_cur = limit.rlim_max;
    setrlimit(RLIMIT_FSIZE, &limit);
    check("a checkpoint", checkpoint());
    check("SCR_Finalize", SCR_Finalize() == SCR_SUCCESS);
}

static char victim[SCR_MAX_FILENAME];
static void cut_short(void) { check("the file is cut short", truncate(victim, 10) == 0); }

/* On two nodes: the program truncates a file while the library reads it. */
static void cut_while_read(void)
{
    struct found now;
    char name[64];
    int fd, ok, rc;

    look(&before);
    check("SCR_Init", SCR_Init() == SCR_SUCCESS);
    snprintf(name, sizeof name, "cut/rank_%d", rank);
    ok = SCR_Start_output("cut", SCR_FLAG_CHECKPOINT) == SCR_SUCCESS && SCR_Route_file(name, victim) == SCR_SUCCESS;
    fd = ok ? open(victim, O_CREAT | O_WRONLY, 0600) : -1;
    check("a file of 4 MiB", fd >= 0 && posix_fallocate(fd, 0, 4 << 20) == 0 && close(fd) == 0);
    if (rank == 0)
        on_send = cut_short;
    rc = SCR_Complete_output(1);
    check("is an error of the call, and not the program's end", rc != SCR_SUCCESS && on_send == NULL);
    check("a checkpoint", checkpoint());
    check("SCR_Finalize", SCR_Finalize() == SCR_SUCCESS);
    look(&now);
    check("nothing is changed", same(&before, &now));
}

static void child(int sig) { (void)sig; calls++; }

static int status_of(pid_t pid)
{
    int status = -1;

    while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
        ;
    return status;
}

static void fork_here(void)
{
    pid_t pid = fork();

    if (pid == 0) {
        char *memory = malloc(1000);

        _exit(memory != NULL ? 7 : 8);
    }
    check("a child, of a fork within a call, does its work", WEXITSTATUS(status_of(pid)) == 7);
}

static void children(void)
{
    struct found now;
    FILE *f;
    char text[16] = "";
    pid_t pid;
    int i;

    catch_with(SIGCHLD, child, 0);
    look(&before);
    check("SCR_Init", SCR_Init() == SCR_SUCCESS);
    check("a checkpoint", checkpoint() && in_a_call(fork_here));
    pid = fork();
    if (pid == 0) {
        look(&now);
        null_pointer();
    }
    i = status_of(pid);
    check("a child that crashes dies of that", WIFSIGNALED(i) && WTERMSIG(i) == SIGSEGV);
    if (!WIFSIGNALED(i))
        printf("  status %#x\n", i);
    pid = fork();
    if (pid == 0) {
        look(&now);
        _exit(same(&before, &now) ? 0 : 1);
    }
    check("a child finds its signals as they are", status_of(pid) == 0);
    check("SIGCHLD comes to the program", calls == 3);
    if (calls != 3)
        printf("  %d times\n", calls);
    check("system", WEXITSTATUS(system("exit 3")) == 3);
    f = popen("echo popen", "r");
    check("popen", f != NULL && fgets(text, sizeof text, f) != NULL && strcmp(text, "popen\n") == 0 && pclose(f) == 0);
    check("a command finds its limit of files as it is",
        (f = popen("ulimit -Sn", "r")) != NULL && fgets(text, sizeof text, f) != NULL && pclose(f) == 0 &&
            (rlim_t)atol(text) == before.files.rlim_cur);
    check("a checkpoint", checkpoint());
    check("SCR_Finalize", SCR_Finalize() == SCR_SUCCESS);
}

/* A call from a handler that has interrupted a call is an error, not a deadlock. */
static int inner;
static void call_again(int sig)
{
    (void)sig;
    inner = SCR_Route_file("x", victim);
}
static void interrupt(void) { raise(SIGUSR1); }

static void from_a_handler(void)
{
    catch_with(SIGUSR1, call_again, 0);
    check("SCR_Init", SCR_Init() == SCR_SUCCESS);
    check("a call, interrupted", in_a_call(interrupt));
    check("... by a handler, whose call is refused", inner != SCR_SUCCESS);
    raise(SIGUSR1);
    check("at another time a handler may call", inner == SCR_SUCCESS);
    check("a checkpoint", checkpoint());
    check("SCR_Finalize", SCR_Finalize() == SCR_SUCCESS);
}

/* ------------------------------------------------------- descriptors 0, 1 and 2 */

static int closed[3]; /* by the program */
static FILE *says;    /* where it says what it finds */
static int wrong;

/*
 * Those that are closed take nothing that the program prints, and give nothing to read. Two
 * files are the C library's: malloc reads the number of processors from the first, once, in a thread
 * that needs the ninth arena, and from the second if the first gives it nothing.
 */
static char processors[64];

static int c_library_reads(int fd)
{
    char path[32], file[256];
    ssize_t n;

    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    n = readlink(path, file, sizeof file - 1);
    file[n < 0 ? 0 : n] = '\0';
    return strcmp(file, "/sys/devices/system/cpu/online") == 0 || strcmp(file, "/proc/stat") == 0;
}

static void print_there(void)
{
    static const char text[] = "what the program prints";
    char path[32], file[256], got[sizeof processors] = "";
    ssize_t n;
    int fd;

    for (fd = 0; fd < 3; fd++) {
        if (!closed[fd] || c_library_reads(fd))
            continue;
        if (write(fd, text, sizeof text) < 0 && (read(fd, got, sizeof got - 1) <= 0 || strcmp(got, processors) == 0 ||
                                                    strncmp(got, "cpu ", 4) == 0))
            continue;
        snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
        n = readlink(path, file, sizeof file);
        fprintf(says, "  descriptor %d is a file: %.*s\n", fd, n < 0 ? 1 : (int)n, n < 0 ? "-" : file);
        wrong++;
    }
}

/* Between calls they are closed, or held by a thread that opens a file. */
static void still_closed(const char *when)
{
    int fd;

    print_there();
    for (fd = 0; fd < 3; fd++)
        if ((fcntl(fd, F_GETFD) < 0) != closed[fd] && (!closed[fd] || !(fcntl(fd, F_GETFL) & O_PATH || c_library_reads(fd))) &&
            (fcntl(fd, F_GETFD) < 0) != closed[fd]) /* again: the C library may have closed its file meanwhile */
            fprintf(says, "not ok %s descriptor %d is %s\n", when, fd, closed[fd] ? "open" : "closed");
    fprintf(says, "%s %s nothing of ours is there\n", wrong ? "not ok" : "ok", when);
    wrong = 0;
}

/* The last argument has the digits of the descriptors that are closed. */
static void without_descriptors(const char *which)
{
    struct timespec moment = {0, 100000};
    int fd, i, ok;
    pid_t pid;

    says = fdopen(fcntl(open("said", O_CREAT | O_WRONLY | O_TRUNC | O_CLOEXEC, 0600), F_DUPFD_CLOEXEC, 100), "w");
    setvbuf(says, NULL, _IOLBF, 0);
    fd = open("/sys/devices/system/cpu/online", O_RDONLY | O_CLOEXEC);
    if (fd < 0 || read(fd, processors, sizeof processors - 1) <= 0)
        fprintf(says, "not ok the number of processors\n");
    close(fd);
    for (fd = 0; fd < 3; fd++)
        if ((closed[fd] = strchr(which, '0' + fd) != NULL))
            close(fd);
    ok = SCR_Init() == SCR_SUCCESS;
    still_closed("after SCR_Init");
    for (i = 0; i < 3 && ok; i++) {
        ok = SCR_Start_output(i == 0 ? "a" : i == 1 ? "b" : "c", SCR_FLAG_CHECKPOINT) == SCR_SUCCESS;
        still_closed("after SCR_Start_output");
        snprintf(victim, sizeof victim, "%c/file", 'a' + i);
        ok = ok && SCR_Route_file(victim, victim) == SCR_SUCCESS;
        still_closed("after SCR_Route_file");
        pid = fork(); /* here, the program's own would be descriptor 0 for a moment */
        if (pid == 0) {
            fd = open(victim, O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
            _exit(fd >= 0 && ftruncate(fd, 3 << 20) == 0 && close(fd) == 0 ? 7 : 1);
        }
        ok = ok && WEXITSTATUS(status_of(pid)) == 7;
        within = print_there;
        ok = ok && SCR_Complete_output(1) == SCR_SUCCESS && within == NULL;
        still_closed("in and after SCR_Complete_output");
        for (fd = 0; fd < 300; fd++) { /* while it is flushed */
            print_there();
            nanosleep(&moment, NULL);
        }
    }
    ok = SCR_Finalize() == SCR_SUCCESS && ok;
    still_closed("after SCR_Finalize");
    fprintf(says, "%s all calls succeed\nend of without_descriptors\n", ok ? "ok" : "not ok");
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        void (*run)(void);
    } parts[] = {{"die_segv", die_segv}, {"die_segv_sent", die_segv_sent}, {"die_term", die_term}, {"die_usr1", die_usr1},
        {"die_bus", die_bus}, {"die_fpe", die_fpe}, {"die_pipe", die_pipe}, {"die_segv_within", die_segv_within},
        {"die_segv_sent_within", die_segv_sent_within}, {"die_term_within", die_term_within}, {"die_handled", die_handled},
        {"die_handled_within", die_handled_within}, {"die_bus_handled_within", die_bus_handled_within},
        {"restored", restored}, {"any_instant", any_instant}, {"own_faults", own_faults},
        {"takes_signals", takes_signals}, {"profiled", profiled}, {"touches", touches}, {"busy", busy}, {"stacks", stacks}, {"unused", unused}, {"forked", forked}, {"outlived", outlived},
        {"forked_before", forked_before}, {"no_room", no_room}, {"at_limits", at_limits}, {"no_threads", no_threads}, {"no_threads_later", no_threads_later}, {"no_descriptors_later", no_descriptors_later}, {"no_memory_later", no_memory_later}, {"no_mappings_later", no_mappings_later}, {"waits_in_a_thread", waits_in_a_thread}, {"no_reader", no_reader}, {"too_large", too_large},
        {"cut_while_read", cut_while_read}, {"children", children}, {"from_a_handler", from_a_handler}};
    sigset_t set;
    size_t i;

    setvbuf(stdout, NULL, _IOLBF, 0);
    if (argc > 1 && strcmp(argv[1], "waits_in_a_thread") == 0) { /* before the MPI has threads */
        sigemptyset(&set);
        sigaddset(&set, SIGUSR1);
        pthread_sigmask(SIG_BLOCK, &set, NULL);
    }
    if (argc > 1 && strcmp(argv[1], "takes_signals") == 0)
        block_all();
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    for (i = 1; i < 65; i++) /* some MPIs have handlers of their own */
        if (i != SIGKILL && i != SIGSTOP && i != 32 && i != 33)
            signal((int)i, SIG_DFL);
    if (argc > 2 && strcmp(argv[1], "without_descriptors") == 0) {
        without_descriptors(argv[2]);
        MPI_Finalize();
        return 0;
    }
    for (i = 0; argc > 1 && i < sizeof parts / sizeof *parts; i++) {
        if (strcmp(parts[i].name, argv[1]) != 0)
            continue;
        parts[i].run();
        printf("end of %s\n", argv[1]);
        MPI_Finalize();
        return 0;
    }
    MPI_Finalize();
    return 2;
}
