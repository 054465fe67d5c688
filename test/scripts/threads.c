/*
 * threads - a program with threads of its own and of OpenMP
 *
 *     threads PART     one of the functions below; one run each
 *
 * Prints "ok NAME" and "not ok NAME" on rank 0.  A check succeeds if it does so on all
 * ranks.  Exit status 77: the MPI has no MPI_THREAD_MULTIPLE.
 */

#define _GNU_SOURCE

#include <dirent.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <mpi.h>
#include <omp.h>
#include <scr.h>

static int rank;

/* Uses a communicator of its own, so that it can run at the same time as a call. */
static MPI_Comm checks;

static void check(const char *name, int yes)
{
    int all;

    MPI_Allreduce(&yes, &all, 1, MPI_INT, MPI_MIN, checks);
    if (rank == 0)
        printf("%s %s\n", all ? "ok" : "not ok", name);
}

static void *start(void *f)
{
    ((void (*)(void))(size_t)f)();
    return NULL;
}

static void in_a_thread(void (*f)(void))
{
    pthread_t thread;

    if (pthread_create(&thread, NULL, start, (void *)(size_t)f) != 0 || pthread_join(thread, NULL) != 0)
        check("a thread", 0);
}

static int put(const char *path, const char *text)
{
    FILE *f = fopen(path, "w");

    return f != NULL && fputs(text, f) >= 0 && fclose(f) == 0;
}

static int has(const char *path, const char *text)
{
    char found[64] = "";
    FILE *f = fopen(path, "r");

    if (f == NULL)
        return 0;
    if (fgets(found, sizeof found, f) == NULL)
        found[0] = '\0';
    fclose(f);
    return strcmp(found, text) == 0;
}

static int step;

static void init(void) { check("SCR_Init", SCR_Init() == SCR_SUCCESS); }
static void finalize(void) { check("SCR_Finalize", SCR_Finalize() == SCR_SUCCESS); }

static void checkpoint(void)
{
    char name[64], path[SCR_MAX_FILENAME];
    int ok;

    snprintf(name, sizeof name, "step.%d", ++step);
    ok = SCR_Start_output(name, SCR_FLAG_CHECKPOINT) == SCR_SUCCESS;
    snprintf(name, sizeof name, "step.%d/rank_%d", step, rank);
    ok = ok && SCR_Route_file(name, path) == SCR_SUCCESS && put(path, name);
    check("a checkpoint", SCR_Complete_output(ok) == SCR_SUCCESS && ok);
}

static void restart(void)
{
    char name[64], path[SCR_MAX_FILENAME];
    int flag = 0, ok;

    check("SCR_Have_restart", SCR_Have_restart(&flag, path) == SCR_SUCCESS && flag == 1 && SCR_Start_restart(NULL) == SCR_SUCCESS);
    snprintf(name, sizeof name, "step.%d/rank_%d", step, rank);
    ok = SCR_Route_file(name, path) == SCR_SUCCESS && has(path, name);
    check("the checkpoint is what another thread wrote", SCR_Complete_restart(ok) == SCR_SUCCESS && ok);
}

/* Makes every call in another thread. */
static void calls(void)
{
    in_a_thread(init);
    in_a_thread(checkpoint);
    checkpoint();
    in_a_thread(checkpoint);
    in_a_thread(finalize);
    init();
    in_a_thread(restart);
    in_a_thread(checkpoint);
    finalize();
}

/* One thread makes checkpoints while another uses MPI and a third makes calls of
 * its own that are not collective. */
static volatile int going = 1;

static void *messages(void *comm)
{
    long sent = 0;

    for (;;) {
        long sum = going || sent == 0; /* all ranks have sent as many */

        MPI_Allreduce(MPI_IN_PLACE, &sum, 1, MPI_LONG, MPI_SUM, *(MPI_Comm *)comm);
        if (sum == 0)
            return (void *)sent;
        sent++;
    }
}

static void *questions(void *nothing)
{
    long asked = 0;

    (void)nothing;
    while (going || asked == 0) {
        char *value = (char *)SCR_Config("SCR_SET_SIZE");

        if (value == NULL || strcmp(value, "8") != 0)
            return (void *)-1L;
        free(value);
        asked++;
        usleep(100); /* by sched_yield a thread could keep the others from the processor */
    }
    return (void *)asked;
}

static void beside(void)
{
    MPI_Comm other;
    pthread_t one, two;
    void *sent = NULL, *asked = NULL;
    int i;

    SCR_Config("SCR_SET_SIZE=8"); /* what is not set has no value */
    init();
    MPI_Comm_dup(MPI_COMM_WORLD, &other);
    pthread_create(&one, NULL, messages, &other);
    pthread_create(&two, NULL, questions, NULL);
    for (i = 0; i < 8; i++)
        in_a_thread(checkpoint);
    going = 0;
    pthread_join(one, &sent);
    pthread_join(two, &asked);
    check("messages of another thread, meanwhile", (long)sent > 0);
    check("questions of a third", (long)asked > 0);
    MPI_Comm_free(&other);
    finalize();
}

/* All threads of a rank route files of one dataset. */
enum { FILES = 200 };

static void many(void)
{
    int bad = 0, i;

    init();
    check("SCR_Start_output", SCR_Start_output("many", SCR_FLAG_CHECKPOINT) == SCR_SUCCESS);
#pragma omp parallel for num_threads(4) reduction(+ : bad) schedule(dynamic)
    for (i = 0; i < FILES; i++) {
        char name[64], path[SCR_MAX_FILENAME];

        snprintf(name, sizeof name, "many/%d/%d", rank, i);
        bad += SCR_Route_file(name, path) != SCR_SUCCESS || !put(path, name);
    }
    check("files of four threads", bad == 0);
    check("SCR_Complete_output", SCR_Complete_output(bad == 0) == SCR_SUCCESS);
    finalize();
    init();
    check("a restart", SCR_Start_restart(NULL) == SCR_SUCCESS);
#pragma omp parallel for num_threads(4) reduction(+ : bad) schedule(dynamic)
    for (i = 0; i < FILES; i++) {
        char name[64], path[SCR_MAX_FILENAME];

        snprintf(name, sizeof name, "many/%d/%d", rank, i);
        bad += SCR_Route_file(name, path) != SCR_SUCCESS || !has(path, name);
    }
    check("... all four find theirs", bad == 0 && SCR_Complete_restart(1) == SCR_SUCCESS);
    finalize();
}

/* Uses OpenMP before, between and after calls: the processors on which its threads may
 * run, and the signals that they block, do not change. */
struct team {
    int threads, cpus;
    double sum;
    sigset_t masks;
};

static struct team parallel(void)
{
    struct team t;
    double sum = 0;
    int i, threads = 0, cpus = 0;

    memset(&t, 0, sizeof t);
#pragma omp parallel num_threads(4) reduction(+ : threads, cpus)
    {
        cpu_set_t set;
        sigset_t mask;

        sched_getaffinity(0, sizeof set, &set);
        pthread_sigmask(SIG_SETMASK, NULL, &mask);
        threads++;
        cpus += CPU_COUNT(&set);
#pragma omp critical
        {
            int s;

            for (s = 1; s < NSIG; s++)
                if (sigismember(&mask, s) == 1)
                    sigaddset(&t.masks, s);
        }
    }
#pragma omp parallel for num_threads(4) reduction(+ : sum)
    for (i = 1; i <= 1000000; i++)
        sum += i;
    t.threads = threads;
    t.cpus = cpus;
    t.sum = sum;
    return t;
}

static int same(struct team a, struct team b)
{
    return a.threads == b.threads && a.cpus == b.cpus && a.sum == b.sum && memcmp(&a.masks, &b.masks, 8) == 0;
}

static void openmp(void)
{
    struct team before = parallel();

    check("four threads compute", before.threads == 4 && before.sum == 500000500000.0);
    init();
    check("after SCR_Init they are as before", same(before, parallel()));
    checkpoint();
    check("after a checkpoint they are as before", same(before, parallel()));
    finalize();
    check("after SCR_Finalize they are as before", same(before, parallel()));
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        void (*run)(void);
        int level;
    } parts[] = {{"calls", calls, MPI_THREAD_MULTIPLE}, {"beside", beside, MPI_THREAD_MULTIPLE},
        {"many", many, MPI_THREAD_FUNNELED}, {"openmp", openmp, MPI_THREAD_FUNNELED}};
    size_t i;
    int have;

    setvbuf(stdout, NULL, _IOLBF, 0);
    for (i = 0; argc > 1 && i < sizeof parts / sizeof *parts; i++) {
        if (strcmp(parts[i].name, argv[1]) != 0)
            continue;
        MPI_Init_thread(&argc, &argv, parts[i].level, &have);
        MPI_Comm_rank(MPI_COMM_WORLD, &rank);
        MPI_Comm_dup(MPI_COMM_WORLD, &checks);
        if (have >= parts[i].level)
            parts[i].run();
        if (rank == 0)
            printf("end of %s\n", argv[1]);
        MPI_Comm_free(&checks);
        MPI_Finalize();
        return have >= parts[i].level ? 0 : 77;
    }
    return 2;
}
