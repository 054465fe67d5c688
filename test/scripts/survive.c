/*
 * survive - a program that continues after processes have died, with an MPI that does, too
 *
 *     survive SEED DEATHS STEPS
 *
 * It writes a checkpoint in each step.  In DEATHS of the steps a process dies, at a random instant, and the storage of
 * its node is lost with it.  The others repair the communicator with a new process in its place, which
 * runs on another node, take the session over to it, and restart from the newest checkpoint.  Each rank
 * has a node of its own below the current directory.
 *
 * Rank 0 prints "survived N deaths" at the end, and any rank "wrong: ..." if it is not offered a
 * checkpoint that was complete, or finds other bytes.
 */

#include <mpi.h>
#include <mpi-ext.h>
#include <scr.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <unistd.h>

static MPI_Comm job;
static int rank, ranks, seed, deaths, steps;
static int complete = -1; /* the highest step that is known to be complete */
static int generation;    /* repairs so far */
static int own;           /* the generation in which this process was made */
static char **arguments;

static void wrong(const char *what)
{
    printf("wrong: rank %d, generation %d: %s; the last error is: %s\n", rank, generation, what, SCR_Get_error());
    fflush(stdout);
    MPI_Abort(MPI_COMM_WORLD, 3);
}

/* A number from 0 to 1 that depends on the seed and two others only. */
static double draw(int a, int b)
{
    unsigned short x[3] = {(unsigned short)seed, (unsigned short)a, (unsigned short)b};

    erand48(x);
    erand48(x);
    return erand48(x);
}

static void live_on(int r, int g)
{
    char name[100], dir[3000], here[2000];

    snprintf(name, sizeof name, "n%d.%d", r, g);
    setenv("SCR_NODE_NAME", name, 1);
    snprintf(dir, sizeof dir, "%s/nodes/%s", getcwd(here, sizeof here), name);
    setenv("SCR_CACHE_BASE", dir, 1);
    setenv("SCR_CNTL_BASE", dir, 1);
}

static void die(int sig)
{
    (void)sig;
    kill(getpid(), SIGKILL);
}

static int put(const char *name, int step)
{
    char path[SCR_MAX_FILENAME];
    FILE *f;
    int i;

    if (SCR_Route_file(name, path) != SCR_SUCCESS || (f = fopen(path, "w")) == NULL)
        return 0;
    for (i = 0; i < 20000; i++)
        fprintf(f, "%d %d %d\n", step, rank, i);
    return fclose(f) == 0;
}

static int get(const char *name, int step)
{
    char path[SCR_MAX_FILENAME];
    FILE *f;
    int i, a, b, c, ok = 1;

    if (SCR_Route_file(name, path) != SCR_SUCCESS || (f = fopen(path, "r")) == NULL)
        return 0;
    for (i = 0; i < 20000 && ok; i++)
        ok = fscanf(f, "%d %d %d", &a, &b, &c) == 3 && a == step && b == rank && c == i;
    fclose(f);
    return ok;
}

/* Returns the step to continue with, or -1 after an error. */
static int restart(void)
{
    char name[SCR_MAX_FILENAME], file[2 * SCR_MAX_FILENAME];
    int flag, step = -1, ok;

    if (SCR_Have_restart(&flag, name) != SCR_SUCCESS)
        return -1;
    if (!flag && complete >= 0)
        wrong("no checkpoint is offered, and one was complete");
    if (!flag)
        return 0;
    if (sscanf(name, "step.%d", &step) != 1 || step < complete)
        wrong(name);
    if (SCR_Start_restart(name) != SCR_SUCCESS)
        return -1;
    snprintf(file, sizeof file, "%s/rank_%d", name, rank);
    ok = get(file, step);
    if (!ok)
        wrong("a file does not have what was written");
    if (SCR_Complete_restart(ok) != SCR_SUCCESS)
        return -1;
    return step + 1;
}

/* Returns 0 after an error. */
static int compute(void)
{
    int step = restart(), flag, any;
    char name[64], file[128];

    for (; step >= 0 && step < steps; step++) {
        struct itimerval when = {{0, 0}, {0, 0}};

        if (MPI_Allreduce(&step, &any, 1, MPI_INT, MPI_MAX, job) != MPI_SUCCESS || any != step)
            return 0;
        /* In generation g the next to die is drawn; new processes die as well. */
        if (generation < deaths && rank == (int)(draw(generation, 1) * ranks) && step == (int)(draw(generation, 2) * steps)) {
            when.it_value.tv_usec = 1 + (long)(draw(generation, 3) * 40000);
            setitimer(ITIMER_REAL, &when, NULL);
        }
        if (SCR_Need_checkpoint(&flag) != SCR_SUCCESS)
            return 0;
        snprintf(name, sizeof name, "step.%d", step);
        snprintf(file, sizeof file, "step.%d/rank_%d", step, rank);
        if (SCR_Start_output(name, SCR_FLAG_CHECKPOINT) != SCR_SUCCESS)
            return 0;
        if (SCR_Complete_output(put(file, step)) != SCR_SUCCESS)
            return 0;
        complete = step;
        if (when.it_value.tv_usec > 0) /* it dies in this step */
            pause();
    }
    return step == steps && MPI_Barrier(job) == MPI_SUCCESS;
}

/* Makes a communicator with new processes in the place of dead ones, on all that live. */
static void repair(int new_process)
{
    MPI_Comm left = MPI_COMM_NULL, between, all, next;
    MPI_Group before, now, gone;
    int numbers[100], places[100], count = 0, i, codes[100], place = rank, merged;
    char command[3000], text[20];

    if (!new_process) {
        MPIX_Comm_revoke(job);
        if (MPIX_Comm_shrink(job, &left) != MPI_SUCCESS)
            wrong("MPIX_Comm_shrink");
        MPI_Comm_group(job, &before);
        MPI_Comm_group(left, &now);
        MPI_Group_difference(before, now, &gone);
        MPI_Group_size(gone, &count);
        for (i = 0; i < count; i++)
            numbers[i] = i;
        MPI_Group_translate_ranks(gone, count, numbers, before, places);
        generation++;
        MPI_Comm_rank(left, &i);
        if (i == 0) {
            for (i = 0; i < count; i++) {
                printf("rank %d has died\n", places[i]);
                snprintf(command, sizeof command, "rm -rf nodes/n%d.*", places[i]);
                if (system(command) != 0)
                    wrong(command);
            }
            fflush(stdout);
        }
        if (count > 0) {
            snprintf(text, sizeof text, "%d", generation);
            setenv("GENERATION", text, 1);
            if (MPI_Comm_spawn(arguments[0], arguments + 1, count, MPI_INFO_NULL, 0, left, &between, codes) != MPI_SUCCESS)
                wrong("MPI_Comm_spawn");
        }
    } else {
        MPI_Comm_get_parent(&between);
    }
    if (new_process || count > 0) {
        if (MPI_Intercomm_merge(between, new_process, &all) != MPI_SUCCESS)
            wrong("MPI_Intercomm_merge");
        MPI_Comm_rank(all, &merged);
        /* The first tells all who takes which place, and which generation it is. */
        MPI_Bcast(&count, 1, MPI_INT, 0, all);
        MPI_Bcast(places, count, MPI_INT, 0, all);
        MPI_Bcast(&generation, 1, MPI_INT, 0, all);
        MPI_Comm_size(all, &i);
        if (new_process) {
            place = places[merged - (i - count)];
            own = generation;
        }
        if (MPI_Comm_split(all, 0, place, &next) != MPI_SUCCESS)
            wrong("MPI_Comm_split");
    } else {
        next = left;
    }
    job = next;
    MPI_Comm_set_errhandler(job, MPI_ERRORS_RETURN);
    MPI_Comm_rank(job, &rank);
    MPI_Comm_size(job, &ranks);
    if (new_process)
        live_on(rank, own);
}

int main(int argc, char **argv)
{
    MPI_Comm parent;
    int good;

    if (argc != 4)
        return 2;
    arguments = argv;
    seed = atoi(argv[1]);
    deaths = atoi(argv[2]);
    steps = atoi(argv[3]);
    signal(SIGALRM, die);
    MPI_Init(&argc, &argv);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Comm_get_parent(&parent);
    if (parent == MPI_COMM_NULL) {
        job = MPI_COMM_WORLD;
        MPI_Comm_rank(job, &rank);
        MPI_Comm_size(job, &ranks);
        live_on(rank, 0);
        good = SCR_Init() == SCR_SUCCESS;
    } else {
        repair(1);
        good = SCR_Init_comm(job) == SCR_SUCCESS;
    }
    while (!good || !compute()) {
        repair(0);
        good = SCR_Recover(job) == SCR_SUCCESS;
    }
    if (SCR_Finalize() != SCR_SUCCESS)
        wrong("SCR_Finalize");
    if (rank == 0)
        printf("survived %d deaths\n", generation);
    fflush(stdout);
    MPI_Finalize();
    return 0;
}
