/*
 * survive - a program that continues after processes have died, with an MPI that does, too
 *
 *     survive SEED DEATHS STEPS [HOW [TOGETHER [NODES]]]
 *
 * It writes a checkpoint in each step.  DEATHS times one process dies, or TOGETHER of them at one time, at an
 * instant that SEED draws: in a call of the library, or while it computes or writes a file.  Mostly the
 * storage of its node is lost with it.  The others repair the communicator, take the session over to it, and restart
 * from the newest checkpoint.  HOW says what they do about the place of the dead:
 *
 *     spawn   new processes take it, which MPI_Comm_spawn starts (the default)
 *     spare   processes take it that mpirun has started beside the job; it is DEATHS * TOGETHER of them
 *     shrink  nobody: there are fewer ranks from then on, which needs SCR_GLOBAL_RESTART=1
 *
 * Each rank has a node of its own below the current directory; with NODES=shared two ranks have one, and
 * two that die together are on the same.
 *
 * Rank 0 prints "survived N deaths" at the end; any rank prints "wrong: ..." if it is not offered a
 * checkpoint that was complete, or finds other bytes, and "MPI: ..." if MPI itself fails.  The file
 * "deaths" gets a line for each process that dies, with where it was, and "ends" one for each rank that
 * has come to MPI_Finalize.  SIGUSR1 makes a process print where it is.
 */

#include <fcntl.h>
#include <mpi.h>
#include <mpi-ext.h>
#include <scr.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <unistd.h>

enum { MOST = 64 };

/* Where a process dies. */
enum where { INIT, RECOVER, RESTART, START, WRITE, COMPLETE, COMPUTE, FINALIZE, NOWHERE };

/* What new processes have to be told. */
static struct {
    int generation;           /* repairs so far */
    int losses;               /* nodes that are lost since the checkpoints were whole for certain */
    int dead;                 /* in the last repair */
    int places[MOST];         /* ... and their ranks */
    int lived[MOST];          /* for each node: the generation in which its storage was new */
} now;

static struct {
    enum where where;
    int step, rank; /* the first that dies */
    int victims[2];
} next;

static MPI_Comm job, all; /* the ranks; the same with the spares */
static int rank = -1, ranks, seed, deaths, steps, together = 1, shared;
static enum { SPAWN, SPARE, SHRINK } how;
static int complete = -1; /* the highest step that is known to be complete */
static int in_session;    /* SCR_Init or SCR_Recover has succeeded, and SCR_Finalize was not called since */
static char **arguments;

static const char *volatile place = "MPI_Init";
static int volatile inside;         /* a call of the library */
static int pids[MOST], nodes[MOST]; /* of all ranks */
static int node;                    /* of this process */

static void wrong(const char *what)
{
    printf("wrong: rank %d, generation %d: %s; the last error is: %s\n", rank, now.generation, what, SCR_Get_error());
    fflush(stdout);
    MPI_Abort(MPI_COMM_WORLD, 3);
}

/* Ends the job after an operation of MPI that has to succeed. All that were in the last communicator say where they are. */
static void check(int code, const char *operation)
{
    char text[MPI_MAX_ERROR_STRING];
    int n;

    place = operation;
    if (code == MPI_SUCCESS)
        return;
    for (n = 0; n < ranks; n++)
        if (pids[n] > 0)
            kill(pids[n], SIGUSR1);
    MPI_Error_string(code, text, &n);
    printf("MPI: rank %d, generation %d: %s: %s\n", rank, now.generation, operation, text);
    fflush(stdout);
    MPI_Abort(MPI_COMM_WORLD, 4);
}

/* A number from 0 to 1 that depends on the seed and two others only. */
static double draw(int a, int b)
{
    unsigned short x[3] = {(unsigned short)seed, (unsigned short)a, (unsigned short)b};

    erand48(x);
    erand48(x);
    return erand48(x);
}

/* ---------------------------------------------------------------- deaths */

/* These two are for signals: they only use what is allowed there. */
static void tell(int fd, const char *text)
{
    if (write(fd, text, strlen(text)) < 0)
        _exit(5);
}

static void note(int fd, const char *verb)
{
    char number[] = "rank 00 ";

    number[5] = (char)('0' + rank / 10 % 10);
    number[6] = (char)('0' + rank % 10);
    tell(fd, rank < 0 ? "a process without a rank " : number);
    tell(fd, verb);
    tell(fd, inside ? "in " : "after ");
    tell(fd, place);
    tell(fd, "\n");
}

static void die(int sig)
{
    int i, fd = open("deaths", O_WRONLY | O_CREAT | O_APPEND, 0666);

    (void)sig;
    note(fd, together == 1 ? "dies " : "dies with another ");
    for (i = 1; i < together; i++)
        kill(pids[next.victims[i]], SIGKILL);
    kill(getpid(), SIGKILL);
}

static void say_where(int sig)
{
    (void)sig;
    note(2, "is ");
}

/* How many nodes may be lost at one time. */
static int tolerated(void)
{
    const char *scheme = getenv("SCR_COPY_TYPE");

    return scheme != NULL && strcmp(scheme, "RS") == 0 ? 2 : 1;
}

/* Draws who dies in this generation, and where. All ranks draw the same. */
static void draw_death(void)
{
    enum where some[8];
    int n = 0, g = now.generation;

    next.where = NOWHERE;
    if (g >= deaths)
        return;
    if (g == 0)
        some[n++] = INIT;
    /* Without new processes a node is lost in any case, and there may be too many before all is rebuilt. */
    if (g > 0 && how != SHRINK) {
        some[n++] = RECOVER;
        some[n++] = RESTART;
    }
    some[n++] = START;
    some[n++] = WRITE;
    some[n++] = COMPLETE;
    some[n++] = COMPUTE;
    if (g == deaths - 1) /* nothing is left to do after it */
        some[n++] = FINALIZE;
    next.where = some[(int)(draw(g, 0) * n)];
    next.rank = (int)(draw(g, 1) * ranks);
    next.victims[0] = next.rank;
    if (shared)
        next.victims[1] = next.rank ^ 1;
    else
        next.victims[1] = (next.rank + 1 + (int)(draw(g, 4) * (ranks - 1))) % ranks;
}

/* Draws in which of the steps from a first one on it is. */
static void draw_step(int first)
{
    next.step = first + (int)(draw(now.generation, 2) * (steps - first));
    if (next.where != NOWHERE && first >= steps)
        next.where = FINALIZE;
}

/*
 * Called before something in which a rank may die: it then dies after a time that is drawn, and which is less than
 * the given one in milliseconds.
 */
static void enter(enum where where, int step, int ms, const char *name, int call)
{
    place = name;
    inside = call;
    if (where == next.where && rank == next.rank && (where < START || where == FINALIZE || step == next.step)) {
        struct itimerval when = {{0, 0}, {0, 0}};

        when.it_value.tv_usec = 1 + (long)(draw(now.generation, 3) * ms * 1000);
        setitimer(ITIMER_REAL, &when, NULL);
    }
}

/* Called after it: whoever is to die does so here if it has lasted shorter. */
static void leave(enum where where, int step)
{
    inside = 0;
    if (where == next.where && rank == next.rank && (where < START || where == FINALIZE || step == next.step))
        for (;;)
            pause();
}

/* ---------------------------------------------------------------- files */

static int put(const char *name, int step)
{
    char path[SCR_MAX_FILENAME];
    FILE *f;
    int i;

    if (SCR_Route_file(name, path) != SCR_SUCCESS || (f = fopen(path, "w")) == NULL)
        return 0;
    fprintf(f, "%d\n", ranks);
    for (i = 0; i < 20000; i++)
        fprintf(f, "%d %d %d\n", step, rank, i);
    return fclose(f) == 0;
}

/* Reads the file of a rank, and returns how many ranks there were, or 0 after an error. */
static int get(const char *name, int step, int r)
{
    char path[SCR_MAX_FILENAME];
    FILE *f;
    int i, a, b, c, of = 0, ok;

    if (SCR_Route_file(name, path) != SCR_SUCCESS || (f = fopen(path, "r")) == NULL)
        return 0;
    ok = fscanf(f, "%d", &of) == 1;
    for (i = 0; i < 20000 && ok; i++)
        ok = fscanf(f, "%d %d %d", &a, &b, &c) == 3 && a == step && b == r && c == i;
    fclose(f);
    return ok ? of : 0;
}

static int setting(const char *name)
{
    const char *value = getenv(name);

    return value == NULL ? 0 : atoi(value);
}

/* The oldest checkpoint that may be offered, or less than 0 if there may be none. */
static int least_step(void)
{
    int every = setting("SCR_FLUSH");

    /* What is lost with a node is rebuilt only with as many ranks as before: with fewer, what is flushed counts. */
    if (how == SHRINK && now.generation > 0)
        return every == 0 || setting("SCR_FLUSH_ASYNC") ? -1 : complete - (every - 1);
    /* With protection in the background, a lost node costs the checkpoint that is not yet protected. */
    return complete - setting("SCR_ENCODE_ASYNC");
}

/* Returns the step to continue with, or -1 after an error. */
static int restart(void)
{
    char name[SCR_MAX_FILENAME], file[2 * SCR_MAX_FILENAME];
    int least = least_step(), flag, step = -1, r, of = 0;

    place = "SCR_Have_restart";
    if (SCR_Have_restart(&flag, name) != SCR_SUCCESS)
        return -1;
    if (!flag && least >= 0)
        wrong("no checkpoint is offered, and one was complete");
    if (!flag) {
        if (next.where == RESTART) /* then in the first step */
            next.where = START;
        return 0;
    }
    if (sscanf(name, "step.%d", &step) != 1 || step < least)
        wrong(name);
    enter(RESTART, 0, 20, "SCR_Start_restart", 1);
    if (SCR_Start_restart(name) != SCR_SUCCESS)
        return -1;
    inside = 0;
    if (how != SHRINK) {
        snprintf(file, sizeof file, "%s/rank_%d", name, rank);
        of = get(file, step, rank);
        if (of != ranks)
            wrong("a file does not have what was written");
    } else { /* each reads those of several, and each that of rank 0 */
        snprintf(file, sizeof file, "%s/rank_0", name);
        of = get(file, step, 0);
        if (of == 0)
            wrong("the file of rank 0 does not have what was written");
        for (r = rank; r < of; r += ranks) {
            snprintf(file, sizeof file, "%s/rank_%d", name, r);
            if (get(file, step, r) != of)
                wrong("a file of another rank does not have what was written");
        }
    }
    place = "SCR_Complete_restart";
    inside = 1;
    if (SCR_Complete_restart(1) != SCR_SUCCESS)
        return -1;
    leave(RESTART, 0);
    if (rank == 0) {
        printf("generation %d restarts from %s\n", now.generation, name);
        fflush(stdout);
    }
    return step + 1;
}

/* ---------------------------------------------------------------- the program */

/* Returns 0 after an error. */
static int compute(void)
{
    int step = restart(), flag, any, failed;
    char name[64], file[128];

    if (step < 0)
        return 0;
    draw_step(step);
    for (; step < steps; step++) {
        enter(COMPUTE, step, 30, "a step", 0);
        if (MPI_Allreduce(&step, &any, 1, MPI_INT, MPI_MAX, job) != MPI_SUCCESS)
            return 0;
        if (any != step)
            wrong("ranks are in different steps");
        usleep((useconds_t)(draw(step, 5) * 30000)); /* what is in the background runs meanwhile */
        leave(COMPUTE, step);
        if (SCR_Need_checkpoint(&flag) != SCR_SUCCESS)
            return 0;
        snprintf(name, sizeof name, "step.%d", step);
        snprintf(file, sizeof file, "step.%d/rank_%d", step, rank);
        enter(START, step, 5, "SCR_Start_output", 1);
        failed = SCR_Start_output(name, SCR_FLAG_CHECKPOINT) != SCR_SUCCESS;
        leave(START, step);
        if (failed)
            return 0;
        enter(WRITE, step, 10, "the write of a file", 0);
        failed = !put(file, step);
        leave(WRITE, step);
        enter(COMPLETE, step, 15, "SCR_Complete_output", 1);
        failed = SCR_Complete_output(!failed) != SCR_SUCCESS;
        if (!failed)
            complete = step;
        leave(COMPLETE, step);
        if (failed)
            return 0;
    }
    return 1;
}

/* Starts the library, or takes its session over. */
static int begin(void)
{
    enum where where = now.generation == 0 ? INIT : RECOVER;
    int good;

    draw_death();
    if (in_session) {
        enter(where, 0, 60, "SCR_Recover", 1);
        good = SCR_Recover(job) == SCR_SUCCESS;
    } else if (job == MPI_COMM_WORLD) {
        enter(where, 0, 60, "SCR_Init", 1);
        good = SCR_Init() == SCR_SUCCESS;
    } else {
        enter(where, 0, 60, "SCR_Init_comm", 1);
        good = SCR_Init_comm(job) == SCR_SUCCESS;
    }
    leave(where, 0);
    in_session = in_session || good;
    return good;
}

static int end(void)
{
    int good;

    enter(FINALIZE, 0, 40, "SCR_Finalize", 1);
    good = SCR_Finalize() == SCR_SUCCESS;
    leave(FINALIZE, 0);
    in_session = 0;
    return good;
}

/*
 * Whether all have succeeded, and none has died. All processes come here, so that none begins a repair
 * while another one waits for it elsewhere. Spares wait here.
 */
static int agree(int good)
{
    int code;

    if (!good)
        MPIX_Comm_revoke(job);
    place = "MPIX_Comm_agree";
    code = MPIX_Comm_agree(all, &good);
    return code == MPI_SUCCESS && good;
}

/* ---------------------------------------------------------------- repairs */

static void live(void)
{
    char name[100], dir[3000], here[2000];

    node = shared ? rank / 2 : rank;
    snprintf(name, sizeof name, "n%d.%d", node, now.lived[node]);
    setenv("SCR_NODE_NAME", name, 1);
    snprintf(dir, sizeof dir, "%s/nodes/%s", getcwd(here, sizeof here), name);
    setenv("SCR_CACHE_BASE", dir, 1);
    setenv("SCR_CNTL_BASE", dir, 1);
}

/* Decides what is lost with the dead; one of those that are left deletes it. */
static void lose(int deletes)
{
    int e = now.generation - 1, i, count = shared ? 1 : now.dead, lost;
    char command[100];

    if (next.where > RESTART)
        now.losses = 0;
    lost = how == SHRINK || (now.losses + count <= tolerated() && draw(e, 6) < 0.75);
    if (lost)
        now.losses += count;
    for (i = 0; i < now.dead; i++) {
        int on = nodes[now.places[i]];

        if (deletes)
            printf("rank %d has died, %s\n", now.places[i], lost ? "and its node is lost" : "its node is there");
        if (!lost)
            continue;
        now.lived[on] = now.generation;
        snprintf(command, sizeof command, "rm -rf nodes/n%d.*", on);
        if (deletes && system(command) != 0)
            wrong(command);
    }
    fflush(stdout);
}

/* Finds out which ranks have died, by the places of the processes that are left. */
static void find_dead(MPI_Comm left, int *of_all)
{
    int n, i, is;
    char here[MOST] = {0};

    check(MPI_Comm_size(left, &n), "MPI_Comm_size");
    check(MPI_Allgather(&rank, 1, MPI_INT, of_all, 1, MPI_INT, left), "MPI_Allgather of the places");
    for (i = 0; i < n; i++)
        if (of_all[i] >= 0)
            here[of_all[i]] = 1;
    now.dead = 0;
    for (i = 0; i < ranks; i++)
        if (!here[i])
            now.places[now.dead++] = i;
    now.generation++;
    check(MPI_Comm_rank(left, &is), "MPI_Comm_rank");
    if (now.dead == 0 && is == 0)
        wrong("no process has died, and a call has failed");
    if (rank >= 0 && now.dead != together) {
        printf("MPI: rank %d, generation %d: MPIX_Comm_shrink leaves %d of %d ranks, and %d have died; without", rank, now.generation, n, ranks, together);
        for (i = 0; i < now.dead; i++)
            printf(" %d%s", now.places[i], kill(pids[now.places[i]], 0) == 0 ? " (it runs)" : "");
        puts("");
        fflush(stdout);
        MPI_Abort(MPI_COMM_WORLD, 4);
    }
    lose(is == 0);
}

/* All that live make communicators of those that continue. */
static void repair(void)
{
    MPI_Comm left, between, merged, old = all;
    int of_all[MOST], i, spare;

    place = "MPIX_Comm_revoke";
    MPIX_Comm_revoke(old);
    place = "MPIX_Comm_shrink";
    check(MPIX_Comm_shrink(old, &left), "MPIX_Comm_shrink");
    check(MPI_Comm_set_errhandler(left, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler");
    find_dead(left, of_all);
    switch (how) {
    case SHRINK:
        all = job = left;
        break;
    case SPARE:
        all = left;
        check(MPI_Comm_rank(all, &i), "MPI_Comm_rank");
        check(MPI_Bcast(&now, sizeof now, MPI_BYTE, 0, all), "MPI_Bcast");
        for (spare = 0; i > 0; i--) /* the first spares take the places: then the first process is no spare */
            spare += of_all[i - 1] < 0;
        if (rank < 0 && spare < now.dead) {
            rank = now.places[spare];
            live();
        }
        check(MPI_Comm_split(all, rank < 0 ? MPI_UNDEFINED : 0, rank, &job), "MPI_Comm_split");
        break;
    case SPAWN:
        place = "MPI_Comm_spawn";
        check(MPI_Comm_spawn(arguments[0], arguments + 1, now.dead, MPI_INFO_NULL, 0, left, &between, MPI_ERRCODES_IGNORE), "MPI_Comm_spawn");
        place = "MPI_Intercomm_merge";
        check(MPI_Intercomm_merge(between, 0, &merged), "MPI_Intercomm_merge");
        check(MPI_Bcast(&now, sizeof now, MPI_BYTE, 0, merged), "MPI_Bcast");
        check(MPI_Comm_split(merged, 0, rank, &job), "MPI_Comm_split");
        all = job;
    }
}

/* What a new process does meanwhile. */
static void join(MPI_Comm parent)
{
    MPI_Comm merged;
    int i, n;

    place = "MPI_Intercomm_merge";
    check(MPI_Intercomm_merge(parent, 1, &merged), "MPI_Intercomm_merge");
    check(MPI_Bcast(&now, sizeof now, MPI_BYTE, 0, merged), "MPI_Bcast");
    check(MPI_Comm_rank(merged, &i), "MPI_Comm_rank");
    check(MPI_Comm_size(merged, &n), "MPI_Comm_size");
    rank = now.places[i - (n - now.dead)];
    check(MPI_Comm_split(merged, 0, rank, &job), "MPI_Comm_split");
    all = job;
    live();
}

/* Makes the job's communicator ready for use. */
static void use(void)
{
    int pid = getpid();

    place = "the program";
    MPI_Comm_set_errhandler(all, MPI_ERRORS_RETURN);
    if (rank < 0)
        return;
    check(MPI_Comm_set_errhandler(job, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler");
    check(MPI_Comm_rank(job, &rank), "MPI_Comm_rank");
    check(MPI_Comm_size(job, &ranks), "MPI_Comm_size");
    check(MPI_Allgather(&pid, 1, MPI_INT, pids, 1, MPI_INT, job), "MPI_Allgather of the processes");
    check(MPI_Allgather(&node, 1, MPI_INT, nodes, 1, MPI_INT, job), "MPI_Allgather of the nodes");
}

int main(int argc, char **argv)
{
    struct sigaction act = {0};
    MPI_Comm parent;
    FILE *f;
    int good, n;

    if (argc < 4)
        return 2;
    arguments = argv;
    seed = atoi(argv[1]);
    deaths = atoi(argv[2]);
    steps = atoi(argv[3]);
    how = argc > 4 && strcmp(argv[4], "spare") == 0 ? SPARE : argc > 4 && strcmp(argv[4], "shrink") == 0 ? SHRINK : SPAWN;
    together = argc > 5 ? atoi(argv[5]) : 1;
    shared = argc > 6 && strcmp(argv[6], "shared") == 0;
    act.sa_flags = SA_ONSTACK | SA_RESTART; /* Go's threads need the first */
    act.sa_handler = die;
    sigaction(SIGALRM, &act, NULL);
    act.sa_handler = say_where;
    sigaction(SIGUSR1, &act, NULL);
    MPI_Init(&argc, &argv);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Comm_get_parent(&parent);
    if (parent != MPI_COMM_NULL) {
        join(parent);
    } else {
        all = job = MPI_COMM_WORLD;
        MPI_Comm_rank(all, &rank);
        MPI_Comm_size(all, &n);
        ranks = n;
        if (how == SPARE) {
            ranks = n - deaths * together;
            rank = rank < ranks ? rank : -1;
            check(MPI_Comm_split(all, rank < 0 ? MPI_UNDEFINED : 0, rank, &job), "MPI_Comm_split");
        }
        if (rank >= 0)
            live();
    }
    for (;;) {
        use();
        good = agree(rank < 0 || (begin() && compute()));
        if (good && agree(rank < 0 || end()))
            break;
        repair();
    }
    if (rank == 0)
        printf("survived %d deaths\n", now.generation);
    fflush(stdout);
    if ((f = fopen("ends", "a")) != NULL) {
        fprintf(f, "rank %d\n", rank);
        fclose(f);
    }
    place = "MPI_Finalize";
    MPI_Finalize();
    return 0;
}
