/*
 * steps - a program for tests that kill jobs, lose nodes and damage files
 *
 *     steps [-n COUNT] [-p PATTERN] [-l LOG] [-k PHASE:PERCENT:STEP:RANK] [-w FILE] [-o] [-t]
 *
 * Restarts from the newest checkpoint if there is one, checks every byte, mode
 * and time of its files, and writes COUNT more (default 3): checkpoint "ckpt.N"
 * for step N.  The content of a file is computed from rank, step and number of the file.
 *
 *   -p  files of a rank: mixed (default), zero, many, uneven, big
 *   -l  rank 0 appends what has happened, each line with one write:
 *           restarted N     all ranks have read checkpoint N, and found it exact
 *           begun N         before SCR_Start_output
 *           complete N      after SCR_Complete_output has succeeded
 *   -k  kill rank RANK by SIGKILL after PERCENT of a phase: init, have, start, write,
 *       complete.  RANK -1 is all ranks at the same time; -2 is all ranks, each at its
 *       own time between half and one and a half of that.  The phases start, write and
 *       complete are those of the STEPth checkpoint of this run.  A phase is assumed to
 *       take as much processor time as it did before, in this run or in the last (file
 *       LOG.PHASE).  Ranks whose time does not come are killed before SCR_Finalize.
 *   -w  calls SCR_Need_checkpoint after the last checkpoint until FILE is there, as a program
 *       does that computes
 *   -o  flags SCR_FLAG_OUTPUT too
 *   -t  initialize MPI with MPI_THREAD_MULTIPLE
 *
 * Exit status 3 if something is not as it was written, 4 if a call fails.  At the
 * end rank 0 prints "memory KIB", by how much the peak resident memory of a rank
 * has grown since before SCR_Init.  A rank that crashes prints which library its code was in.
 */

#define _GNU_SOURCE

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <link.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>

#include <mpi.h>
#include <scr.h>

static int rank, ranks;
static const char *pattern = "mixed", *logname, *computes; /* NULL: it does not */

static struct {
    const char *phase; /* NULL: no rank is killed */
    char text[16];
    int percent, step, rank;
} plan;

static void die(int status, const char *what, const char *which)
{
    fprintf(stderr, "steps: rank %d: %s %s%s%s\n", rank, what, which, errno ? ": " : "", errno ? strerror(errno) : "");
    MPI_Abort(MPI_COMM_WORLD, status);
    exit(status);
}

static const char *in = "the program"; /* the last call of a library */

static struct {
    uintptr_t begin, size;
} component; /* where Open MPI's mca_pmix_ext3x.so is before MPI_Finalize */

static int find_component(struct dl_phdr_info *info, size_t size, void *unused)
{
    int i;

    (void)size;
    (void)unused;
    if (strstr(info->dlpi_name, "/mca_pmix_ext3x.so") == NULL)
        return 0;
    component.begin = info->dlpi_addr;
    for (i = 0; i < info->dlpi_phnum; i++)
        if (info->dlpi_phdr[i].p_type == PT_LOAD && info->dlpi_phdr[i].p_vaddr + info->dlpi_phdr[i].p_memsz > component.size)
            component.size = info->dlpi_phdr[i].p_vaddr + info->dlpi_phdr[i].p_memsz;
    return 1;
}

/* What the handler of an MPI does not print: one that unwinds the stack prints nothing if the code is gone. */
static void crash(int sig, siginfo_t *info, void *context)
{
    Dl_info found = {NULL};
    void *at = NULL;

#if defined(__x86_64__)
    at = (void *)((ucontext_t *)context)->uc_mcontext.gregs[REG_RIP];
#elif defined(__aarch64__)
    at = (void *)((ucontext_t *)context)->uc_mcontext.pc;
#endif
    fprintf(stderr, "steps: rank %d: signal %d in %s, thread %d of process %d, address %p, code %p: ", rank, sig, in, (int)gettid(),
            (int)getpid(), info->si_addr, at);
    if (dladdr(at, &found) != 0)
        fprintf(stderr, "%s+%#tx %s\n", found.dli_fname, (char *)at - (char *)found.dli_fbase, found.dli_sname ? found.dli_sname : "");
    else
        fprintf(stderr, "in no library\n");
    /*
     * Open MPI 4.1 unloads this component in MPI_Finalize while one of its threads may still have an event for a function of it.
     * All work of the program is done by then.
     */
    if (found.dli_fname == NULL && (uintptr_t)at - component.begin < component.size) {
        fprintf(stderr, "steps: it was in mca_pmix_ext3x.so, which Open MPI has unloaded\n");
        _exit(0);
    }
    /* It was reset (SA_RESETHAND): the instruction faults once more, and the process ends. */
}

static void show_crashes(void)
{
    struct sigaction action;

    memset(&action, 0, sizeof action);
    action.sa_sigaction = crash;
    action.sa_flags = SA_SIGINFO | SA_RESETHAND | SA_ONSTACK;
    sigaction(SIGSEGV, &action, NULL);
    sigaction(SIGBUS, &action, NULL);
}

static void record(const char *what, long n)
{
    char line[64];
    int length, fd;

    if (rank != 0 || logname == NULL)
        return;
    length = snprintf(line, sizeof line, "%s %ld\n", what, n);
    fd = open(logname, O_WRONLY | O_CREAT | O_APPEND, 0600);
    errno = 0;
    if (fd < 0 || write(fd, line, (size_t)length) != length)
        die(4, "cannot write", logname);
    close(fd);
}

/* ------------------------------------------------------------------ killing */

/* Processor time of the process. */
static double now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static void duration_name(char *name, size_t size, const char *phase)
{
    snprintf(name, size, "%s.%s", logname ? logname : "steps", phase);
}

/* How long the phase took last time, in seconds of processor time. */
static double last_time(const char *phase)
{
    char name[512];
    double t = 0.02;
    FILE *f;

    duration_name(name, sizeof name, phase);
    if (rank == 0 && (f = fopen(name, "r")) != NULL) {
        if (fscanf(f, "%lf", &t) != 1)
            t = 0.02;
        fclose(f);
    }
    MPI_Bcast(&t, 1, MPI_DOUBLE, 0, MPI_COMM_WORLD);
    return t;
}

static uint64_t mix(uint64_t x)
{
    x += 0x9e3779b97f4a7c15u;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return x ^ (x >> 31);
}

static double phase_began;

/* A timer of the kernel kills the process, whatever it is doing.  The timer counts the
 * processor time that the process has used, not the time of the clock, so that other work
 * on the machine does not move the instant. */
static void enter(const char *phase, int step)
{
    struct sigevent event;
    struct itimerspec when;
    timer_t timer;
    double t;

    if (plan.phase != NULL && strcmp(plan.phase, phase) == 0 && (step == 0 || step == plan.step)) {
        t = last_time(phase) * plan.percent / 100.0 + 1e-9;
        if (plan.rank == -2)
            t *= 0.5 + (double)(mix(mix((uint64_t)plan.percent) + (uint64_t)rank) % 1000) / 1000.0;
        memset(&event, 0, sizeof event);
        event.sigev_notify = SIGEV_SIGNAL;
        event.sigev_signo = SIGKILL;
        memset(&when, 0, sizeof when);
        when.it_value.tv_sec = (time_t)t;
        when.it_value.tv_nsec = (long)((t - (double)(time_t)t) * 1e9) + 1;
        MPI_Barrier(MPI_COMM_WORLD);
        if (plan.rank < 0 || plan.rank == rank) {
            if (timer_create(CLOCK_PROCESS_CPUTIME_ID, &event, &timer) != 0 || timer_settime(timer, 0, &when, NULL) != 0)
                die(4, "no timer for", phase);
        }
    }
    phase_began = now();
}

static void leave(const char *phase)
{
    char name[512];
    FILE *f;

    if (rank != 0 || logname == NULL)
        return;
    duration_name(name, sizeof name, phase);
    if ((f = fopen(name, "w")) != NULL) {
        fprintf(f, "%.9f\n", now() - phase_began);
        fclose(f);
    }
}

/* -------------------------------------------------------------------- files */

static uint64_t seed_of(long step, int file) { return mix(mix(mix((uint64_t)rank) + (uint64_t)step) + (uint64_t)file); }

static int file_count(long step)
{
    if (strcmp(pattern, "zero") == 0)
        return rank == 0 ? 0 : 3;
    if (strcmp(pattern, "many") == 0)
        return 10000;
    if (strcmp(pattern, "uneven") == 0)
        return rank == 1 ? 0 : rank == 3 ? 3 : 1;
    if (strcmp(pattern, "big") == 0)
        return 1;
    return 1 + (int)(mix(seed_of(step, -1)) % 3);
}

static int64_t file_size(long step, int file)
{
    uint64_t s = mix(seed_of(step, file) + 1);

    if (strcmp(pattern, "zero") == 0)
        return 0;
    if (strcmp(pattern, "many") == 0)
        return (int64_t)(s % 100);
    if (strcmp(pattern, "uneven") == 0)
        return rank == 0 ? 40000003 : rank == 2 ? 1 : 0;
    if (strcmp(pattern, "big") == 0)
        return rank == 0 ? (int64_t)3 << 30 : 12345;
    return s % 8 == 0 ? 0 : (int64_t)(s % 300000);
}

static mode_t file_mode(long step, int file)
{
    static const mode_t modes[] = {0600, 0644, 0400, 0755};

    return modes[seed_of(step, file) % 4];
}

static struct timespec file_time(long step, int file)
{
    struct timespec t;

    t.tv_sec = (time_t)(1000000000 + step * 1000 + file);
    t.tv_nsec = (long)(seed_of(step, file) % 1000000000);
    return t;
}

static void fill(uint64_t *words, size_t n, uint64_t seed, uint64_t at)
{
    size_t i;

    for (i = 0; i < n; i++)
        words[i] = (seed + at + i) * 0x9e3779b97f4a7c15u ^ (at + i) >> 7;
}

#define WORDS ((size_t)1 << 16)
static uint64_t words[WORDS], found[WORDS];

static void route_name(char *name, size_t size, long step, int file)
{
    snprintf(name, size, "ckpt.%ld/rank_%d/%d.dat", step, rank, file);
}

static void write_file(const char *path, long step, int file)
{
    int64_t left = file_size(step, file), at = 0;
    struct timespec times[2];
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);

    if (fd < 0)
        die(4, "cannot create", path);
    while (left > 0) {
        size_t n = left < (int64_t)sizeof words ? (size_t)left : sizeof words;

        fill(words, (n + 7) / 8, seed_of(step, file), (uint64_t)at / 8);
        if (write(fd, words, n) != (ssize_t)n)
            die(4, "cannot write", path);
        at += (int64_t)n;
        left -= (int64_t)n;
    }
    times[0] = times[1] = file_time(step, file);
    if (fchmod(fd, file_mode(step, file)) != 0 || futimens(fd, times) != 0 || close(fd) != 0)
        die(4, "cannot finish", path);
}

static void check_file(const char *path, long step, int file)
{
    int64_t left = file_size(step, file), at = 0;
    struct timespec t = file_time(step, file);
    struct stat st;
    int fd = open(path, O_RDONLY);

    if (fd < 0 || fstat(fd, &st) != 0)
        die(3, "cannot read", path);
    errno = 0;
    if (st.st_size != left)
        die(3, "wrong size:", path);
    if ((st.st_mode & 07777) != file_mode(step, file))
        die(3, "wrong mode:", path);
    if (st.st_uid != geteuid())
        die(3, "wrong owner:", path);
    if (st.st_mtim.tv_sec != t.tv_sec || st.st_mtim.tv_nsec != t.tv_nsec)
        die(3, "wrong time:", path);
    while (left > 0) {
        size_t n = left < (int64_t)sizeof words ? (size_t)left : sizeof words;

        fill(words, (n + 7) / 8, seed_of(step, file), (uint64_t)at / 8);
        if (read(fd, found, n) != (ssize_t)n)
            die(3, "cannot read", path);
        if (memcmp(words, found, n) != 0)
            die(3, "wrong contents:", path);
        at += (int64_t)n;
        left -= (int64_t)n;
    }
    close(fd);
}

/* --------------------------------------------------------------------- steps */

static long restart(void)
{
    char name[SCR_MAX_FILENAME], wanted[SCR_MAX_FILENAME], path[SCR_MAX_FILENAME];
    long step;
    int have, file;

    enter("have", 0);
    if (SCR_Have_restart(&have, name) != SCR_SUCCESS)
        die(4, "SCR_Have_restart", "failed");
    leave("have");
    if (!have) {
        record("restarted", 0);
        return 0;
    }
    if (SCR_Start_restart(name) != SCR_SUCCESS)
        die(4, "SCR_Start_restart", "failed");
    errno = 0;
    if (sscanf(name, "ckpt.%ld", &step) != 1)
        die(3, "strange checkpoint", name);
    for (file = 0; file < file_count(step); file++) {
        route_name(wanted, sizeof wanted, step, file);
        if (SCR_Route_file(wanted, path) != SCR_SUCCESS)
            die(3, "not there:", wanted);
        check_file(path, step, file);
    }
    if (SCR_Complete_restart(1) != SCR_SUCCESS)
        die(4, "SCR_Complete_restart", "failed");
    record("restarted", step);
    return step;
}

static void checkpoint(long step, int nth, int flags)
{
    char name[SCR_MAX_FILENAME], wanted[SCR_MAX_FILENAME], path[SCR_MAX_FILENAME];
    int file;

    snprintf(name, sizeof name, "ckpt.%ld", step);
    record("begun", step);
    enter("start", nth);
    if (SCR_Start_output(name, flags) != SCR_SUCCESS)
        die(4, "SCR_Start_output", name);
    leave("start");
    enter("write", nth);
    for (file = 0; file < file_count(step); file++) {
        route_name(wanted, sizeof wanted, step, file);
        if (SCR_Route_file(wanted, path) != SCR_SUCCESS)
            die(4, "SCR_Route_file", wanted);
        write_file(path, step, file);
    }
    leave("write");
    enter("complete", nth);
    if (SCR_Complete_output(1) != SCR_SUCCESS)
        die(4, "SCR_Complete_output", name);
    leave("complete");
    record("complete", step);
}

/* Computes until the file is there, and asks now and then whether a checkpoint is due. */
static void compute(const char *file)
{
    const struct timespec shortly = {0, 10000000};
    int ends = 0, due;

    while (!ends) {
        nanosleep(&shortly, NULL);
        ends = access(file, F_OK) == 0;
        MPI_Bcast(&ends, 1, MPI_INT, 0, MPI_COMM_WORLD);
        if (SCR_Need_checkpoint(&due) != SCR_SUCCESS)
            die(4, "SCR_Need_checkpoint", "failed");
    }
}

static long peak_kib(void)
{
    char line[256];
    long kib = -1;
    FILE *f = fopen("/proc/self/status", "r");

    if (f == NULL)
        die(4, "cannot read", "/proc/self/status");
    while (fgets(line, sizeof line, f) != NULL)
        if (sscanf(line, "VmHWM: %ld", &kib) == 1)
            break;
    fclose(f);
    return kib;
}

int main(int argc, char **argv)
{
    long count = 3, step, grown, most;
    int c, nth, flags = SCR_FLAG_CHECKPOINT, level = MPI_THREAD_SINGLE, provided;

    while ((c = getopt(argc, argv, "n:p:l:k:w:ot")) != -1)
        if (c == 't') level = MPI_THREAD_MULTIPLE;
    optind = 1;
    MPI_Init_thread(&argc, &argv, level, &provided);
    show_crashes();
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    while ((c = getopt(argc, argv, "n:p:l:k:w:ot")) != -1) {
        switch (c) {
        case 'n': count = atol(optarg); break;
        case 'p': pattern = optarg; break;
        case 'l': logname = optarg; break;
        case 'w': computes = optarg; break;
        case 'o': flags |= SCR_FLAG_OUTPUT; break;
        case 't':
            if (provided != level) die(4, "no MPI_THREAD_MULTIPLE", "");
            break;
        case 'k':
            if (sscanf(optarg, "%15[a-z]:%d:%d:%d", plan.text, &plan.percent, &plan.step, &plan.rank) != 4)
                die(4, "not PHASE:PERCENT:STEP:RANK:", optarg);
            plan.phase = plan.text;
            break;
        default: die(4, "usage:", "see steps.c");
        }
    }
    /* The program's own memory is in use before the peak is read. */
    fill(words, WORDS, 1, 0);
    fill(found, WORDS, 2, 0);
    MPI_Barrier(MPI_COMM_WORLD);
    grown = peak_kib();

    enter("init", 0);
    if (SCR_Init() != SCR_SUCCESS)
        die(4, "SCR_Init", "failed");
    leave("init");
    step = restart();
    for (nth = 1; nth <= count; nth++)
        checkpoint(step + nth, nth, flags);
    if (computes != NULL)
        compute(computes);
    if (plan.phase != NULL && (plan.rank < 0 || plan.rank == rank))
        raise(SIGKILL); /* its timer has not come so far */
    if (plan.phase != NULL)
        MPI_Barrier(MPI_COMM_WORLD); /* the launcher ends the others */
    grown = peak_kib() - grown;
    MPI_Reduce(&grown, &most, 1, MPI_LONG, MPI_MAX, 0, MPI_COMM_WORLD);
    in = "SCR_Finalize";
    if (SCR_Finalize() != SCR_SUCCESS)
        die(4, "SCR_Finalize", "failed");
    if (rank == 0)
        printf("memory %ld\n", most);
    fflush(stdout);
    dl_iterate_phdr(find_component, NULL);
    in = "MPI_Finalize";
    MPI_Finalize();
    in = "exit";
    return 0;
}
