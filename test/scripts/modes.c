/*
 * modes - a program for the tests of modes, which can restart with any number of ranks
 *
 *     modes [-a] [-s [-m]] [-r] [-n COUNT] [-w]
 *
 * Restarts from the newest checkpoint if there is one: each rank reads its file.  Then
 * writes COUNT more (default 0), "ckpt.N" for step N.  Rank 0 prints "restarted N of
 * RANKS" or "from the beginning", then "complete N".
 *
 *   -a  each rank reads the files of all ranks that wrote the checkpoint
 *   -s  all ranks write parts of one file, and also one file each
 *   -m  they write that file together, by MPI-IO
 *   -r  restart without the library's calls: the file LAST names the step
 *   -w  the last checkpoint is not completed: rank 0 kills the job
 *
 * Exit status 3 if something is not as it was written, 4 if a call fails.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <mpi.h>
#include <scr.h>

enum { PART = 3000 };

static int rank, ranks;

static void die(int status, const char *what, const char *which)
{
    fprintf(stderr, "modes: rank %d: %s %s: %s\n", rank, what, which, strerror(errno));
    MPI_Abort(MPI_COMM_WORLD, status);
    exit(status);
}

static void must(int code, const char *call)
{
    if (code != SCR_SUCCESS)
        die(4, "call failed:", call);
}

/* The bytes that a rank writes in a step, which depend on the number of ranks, too. */
static void fill(char *buffer, int step, int of, int who)
{
    int i;

    memset(buffer, 0, PART);
    snprintf(buffer, PART, "%d %d %d", of, step, who);
    for (i = 32; i < PART; i++)
        buffer[i] = (char)(i * 31 + step * 7 + of * 5 + who);
}

static void put(const char *path, long offset, int step)
{
    char buffer[PART];
    int f = open(path, O_WRONLY | O_CREAT, 0644);

    fill(buffer, step, ranks, rank);
    if (f < 0 || pwrite(f, buffer, PART, offset) != PART || close(f) != 0)
        die(4, "cannot write", path);
}

/* Writes the part of a rank in a file that all ranks open together. */
static void put_together(const char *path, long offset, int step)
{
    char buffer[PART];
    MPI_File f;

    fill(buffer, step, ranks, rank);
    if (MPI_File_open(MPI_COMM_WORLD, path, MPI_MODE_CREATE | MPI_MODE_WRONLY, MPI_INFO_NULL, &f) != MPI_SUCCESS)
        die(4, "cannot open by MPI-IO", path);
    if (MPI_File_write_at_all(f, offset, buffer, PART, MPI_BYTE, MPI_STATUS_IGNORE) != MPI_SUCCESS)
        die(4, "cannot write by MPI-IO", path);
    if (MPI_File_close(&f) != MPI_SUCCESS)
        die(4, "cannot close by MPI-IO", path);
}

static int get(const char *path, long offset, char *buffer)
{
    int f = open(path, O_RDONLY), ok;

    ok = f >= 0 && pread(f, buffer, PART, offset) == PART;
    if (f >= 0)
        close(f);
    return ok;
}

/* The path from which to read a file, which is routed only in a restart. */
static void place(int routed, const char *name, char *path)
{
    strcpy(path, name);
    if (routed)
        must(SCR_Route_file(name, path), "SCR_Route_file");
}

/* Returns the number of ranks that wrote the step. */
static int check(int step, int routed, int all, int shared)
{
    char name[64], path[SCR_MAX_FILENAME], buffer[PART], want[PART];
    int ranks_then = 0, of = all ? 1 : rank + 1, who;

    for (who = all ? 0 : rank; who < of; who++) {
        snprintf(name, sizeof name, "ckpt.%d/own/%d", step, who);
        place(routed, name, path);
        if (!get(path, 0, buffer))
            die(3, "cannot read", path);
        if (who == 0 || !all)
            ranks_then = atoi(buffer);
        if (all)
            of = ranks_then;
        fill(want, step, ranks_then, who);
        if (memcmp(buffer, want, PART) != 0)
            die(3, "not as it was written:", path);
        if (!shared)
            continue;
        snprintf(name, sizeof name, "ckpt.%d/all", step);
        place(routed, name, path);
        if (!get(path, (long)PART * who, buffer) || memcmp(buffer, want, PART) != 0)
            die(3, "not as it was written:", path);
    }
    return ranks_then;
}

static void checkpoint(int step, int shared, int together, int killed)
{
    char name[64], path[SCR_MAX_FILENAME], dataset[32];

    snprintf(dataset, sizeof dataset, "ckpt.%d", step);
    must(SCR_Start_output(dataset, SCR_FLAG_CHECKPOINT), "SCR_Start_output");
    if (shared) {
        snprintf(name, sizeof name, "ckpt.%d/all", step);
        must(SCR_Route_file(name, path), "SCR_Route_file");
        (together ? put_together : put)(path, (long)PART * rank, step);
    }
    snprintf(name, sizeof name, "ckpt.%d/own/%d", step, rank);
    must(SCR_Route_file(name, path), "SCR_Route_file");
    put(path, 0, step);
    MPI_Barrier(MPI_COMM_WORLD);
    if (killed && rank == 0)
        raise(SIGKILL);
    must(SCR_Complete_output(1), "SCR_Complete_output");
    if (rank == 0)
        printf("complete %d\n", step);
}

int main(int argc, char **argv)
{
    char dataset[SCR_MAX_FILENAME];
    int option, all = 0, shared = 0, together = 0, alone = 0, killed = 0, count = 0, have = 0, step = 0, of, i;
    FILE *last;

    while ((option = getopt(argc, argv, "asmrwn:")) != -1) {
        switch (option) {
        case 'a': all = 1; break;
        case 's': shared = 1; break;
        case 'm': together = 1; break;
        case 'r': alone = 1; break;
        case 'w': killed = 1; break;
        case 'n': count = atoi(optarg); break;
        default: return 2;
        }
    }
    setvbuf(stdout, NULL, _IOLBF, 0);
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    must(SCR_Init(), "SCR_Init");
    if (alone) {
        last = fopen("LAST", "r");
        if (last == NULL || fscanf(last, "%d", &step) != 1)
            die(4, "cannot read", "LAST");
        fclose(last);
        have = 1;
    } else {
        must(SCR_Have_restart(&have, dataset), "SCR_Have_restart");
        if (have) {
            must(SCR_Start_restart(dataset), "SCR_Start_restart");
            step = atoi(dataset + strlen("ckpt."));
        }
    }
    if (have) {
        of = check(step, !alone, all, shared);
        if (!alone)
            must(SCR_Complete_restart(1), "SCR_Complete_restart");
        if (rank == 0)
            printf("restarted %d of %d\n", step, of);
    } else if (rank == 0) {
        printf("from the beginning\n");
    }
    for (i = 1; i <= count; i++)
        checkpoint(step + i, shared, together, killed && i == count);
    must(SCR_Finalize(), "SCR_Finalize");
    MPI_Finalize();
    return 0;
}
