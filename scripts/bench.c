/*
 * bench - measures the cost of checkpoints; scripts/bench runs it
 *
 *     bench write FILES BYTES COUNT   write COUNT checkpoints
 *     bench restart FILES BYTES COUNT restart from a checkpoint in the cache, verify
 *                                     it, then write COUNT for comparison
 *     bench fetch FILES BYTES COUNT   the same with a checkpoint that has to be fetched
 *     bench idle 1 0 1                only start and stop the library
 *     bench async FILES BYTES COUNT   compute while every second checkpoint is flushed
 *     bench encode FILES BYTES COUNT  compute alone and after each checkpoint, while it may be
 *                                     being protected
 *     bench paced FILES BYTES COUNT   ... or do nothing meanwhile
 *     bench behind FILES BYTES COUNT  after each checkpoint, wait until the network is idle
 *     bench stream 1 BYTES COUNT      send BYTES around the ring of ranks by plain TCP
 *     bench price FILES BYTES COUNT   compute, and write COUNT checkpoints meanwhile; none with 0 bytes
 *     bench limits 1 BYTES COUNT      time copies and messages without the library
 *     bench calls FILES BYTES COUNT   time the system calls that a checkpoint needs to look at
 *                                     its files and to read them
 *     bench outside FILES BYTES STEP  restart if it can, then sleep for STEP us again and
 *                                     again, and write a checkpoint when SCR says so
 *     bench bare 1 0 STEP             the same without the library
 *
 * Each rank writes FILES files of BYTES bytes.  Prints "init SECONDS"; for each
 * checkpoint "checkpoint ROUTE WRITE COMPLETE START SENT RECEIVED", for a restart "restart
 * INIT READ SENT RECEIVED", for one that is fetched "fetch HAVE READ SENT RECEIVED", for
 * limits "limits WRITE READ MOVE OVERWRITE PLAIN" (see limits()), for calls "calls SECONDS", for stream "stream SECONDS
 * SENT RECEIVED", for behind "behind SECONDS SENT RECEIVED" (see behind()), and for price "price
 * SECONDS BLOCKED" (see price()).  Times are
 * seconds of the slowest rank, counted from when all ranks had begun.  SENT and RECEIVED are
 * the bytes that eth0 of a node has sent and received, with all headers, during
 * SCR_Complete_output, since before SCR_Init (or SCR_Have_restart), or during SECONDS; of the
 * node where they are most, and 0 if there is no eth0.  At the end it prints "memory KIB", the
 * growth of the peak resident memory since before SCR_Init, of the rank where it is largest, and
 * "private KIB", the memory that only this process has and that it would not have without
 * the library, after SCR_Init, likewise of the rank where it is largest.  "faults CALL COUNT" is
 * how many page faults without a read SCR_Init, SCR_Start_output or SCR_Complete_output has caused,
 * likewise, and "meetings CALL COUNT" how many collective operations of MPI it took.  The
 * program's own buffer is not counted.  When the loop of outside or bare begins, "pid PID" of
 * the last rank, and "running TIME", in seconds of the day's clock.
 */

#define _GNU_SOURCE /* madvise, RUSAGE_THREAD */

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <spawn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <mpi.h>
#include <scr.h>

#include "bench.h"

#define PIECE ((size_t)1 << 20)

/* Counts the collective operations of the thread of main, in whichever way a library calls MPI: each
 * function below stands before that of MPI, under both of its names. */
static long meetings;
static pthread_t main_thread;

static void *next_of(const char *name)
{
    void *found = dlsym(RTLD_NEXT, name);

    if (found == NULL)
        abort();
    return found;
}
#define COUNTED(name, parameters, arguments)                          \
    int P##name parameters                                            \
    {                                                                 \
        static int(*next) parameters;                                 \
        if (next == NULL)                                             \
            *(void **)&next = next_of("P" #name);                     \
        if (pthread_equal(pthread_self(), main_thread))               \
            meetings++;                                               \
        return next arguments;                                        \
    }                                                                 \
    int name parameters { return P##name arguments; }

COUNTED(MPI_Barrier, (MPI_Comm c), (c))
COUNTED(MPI_Ibarrier, (MPI_Comm c, MPI_Request *r), (c, r))
COUNTED(MPI_Bcast, (void *b, int n, MPI_Datatype t, int root, MPI_Comm c), (b, n, t, root, c))
COUNTED(MPI_Ibcast, (void *b, int n, MPI_Datatype t, int root, MPI_Comm c, MPI_Request *r), (b, n, t, root, c, r))
COUNTED(MPI_Reduce, (const void *a, void *b, int n, MPI_Datatype t, MPI_Op o, int root, MPI_Comm c), (a, b, n, t, o, root, c))
COUNTED(MPI_Allreduce, (const void *a, void *b, int n, MPI_Datatype t, MPI_Op o, MPI_Comm c), (a, b, n, t, o, c))
COUNTED(MPI_Iallreduce, (const void *a, void *b, int n, MPI_Datatype t, MPI_Op o, MPI_Comm c, MPI_Request *r), (a, b, n, t, o, c, r))
COUNTED(MPI_Scan, (const void *a, void *b, int n, MPI_Datatype t, MPI_Op o, MPI_Comm c), (a, b, n, t, o, c))
COUNTED(MPI_Exscan, (const void *a, void *b, int n, MPI_Datatype t, MPI_Op o, MPI_Comm c), (a, b, n, t, o, c))
COUNTED(MPI_Iexscan, (const void *a, void *b, int n, MPI_Datatype t, MPI_Op o, MPI_Comm c, MPI_Request *r), (a, b, n, t, o, c, r))
COUNTED(MPI_Gather, (const void *a, int m, MPI_Datatype u, void *b, int n, MPI_Datatype t, int root, MPI_Comm c), (a, m, u, b, n, t, root, c))
COUNTED(MPI_Igather, (const void *a, int m, MPI_Datatype u, void *b, int n, MPI_Datatype t, int root, MPI_Comm c, MPI_Request *r), (a, m, u, b, n, t, root, c, r))
COUNTED(MPI_Allgather, (const void *a, int m, MPI_Datatype u, void *b, int n, MPI_Datatype t, MPI_Comm c), (a, m, u, b, n, t, c))
COUNTED(MPI_Alltoall, (const void *a, int m, MPI_Datatype u, void *b, int n, MPI_Datatype t, MPI_Comm c), (a, m, u, b, n, t, c))
COUNTED(MPI_Comm_dup, (MPI_Comm c, MPI_Comm *made), (c, made))
COUNTED(MPI_Comm_idup, (MPI_Comm c, MPI_Comm *made, MPI_Request *r), (c, made, r))
COUNTED(MPI_Comm_split, (MPI_Comm c, int color, int key, MPI_Comm *made), (c, color, key, made))
COUNTED(MPI_Comm_create, (MPI_Comm c, MPI_Group g, MPI_Comm *made), (c, g, made))

static int rank, files;
static int64_t bytes;
static unsigned char *buffer;
static char written[SCR_MAX_FILENAME]; /* the last file */
static double completing;              /* when the last SCR_Complete_output began */

static void fail(const char *what)
{
    fprintf(stderr, "bench: rank %d: %s: %s\n", rank, what, errno ? strerror(errno) : "failed");
    MPI_Abort(MPI_COMM_WORLD, 1);
    exit(1);
}

/* How often the process met a page that it did not have yet, without a read of a file. */
static long page_faults(void)
{
    struct rusage used;

    getrusage(RUSAGE_SELF, &used);
    return used.ru_minflt;
}

/* Prints how many collective operations and page faults a call took, on the rank with most of them. */
static void print_counts(const char *call, long met, long faults)
{
    long mine[2] = {met, faults}, most[2];

    MPI_Reduce(mine, most, 2, MPI_LONG, MPI_MAX, 0, MPI_COMM_WORLD);
    if (rank == 0)
        printf("meetings %s %ld\nfaults %s %ld\n", call, most[0], call, most[1]);
}

struct traffic {
    int64_t sent, received;
};

/* What eth0 has sent and received. A process sees the interfaces of its own network namespace. */
static struct traffic traffic(void)
{
    struct traffic seen = {0, 0};
    char line[512];
    FILE *f = fopen("/proc/self/net/dev", "r");
    long long received, sent;

    if (f == NULL)
        return seen;
    while (fgets(line, sizeof line, f) != NULL)
        if (sscanf(line, " eth0: %lld %*d %*d %*d %*d %*d %*d %*d %lld", &received, &sent) == 2)
            seen.sent = sent, seen.received = received;
    fclose(f);
    return seen;
}

/* The most that a link has carried since then, in each direction. */
static struct traffic busiest(struct traffic since)
{
    struct traffic now = traffic();
    int64_t mine[2], most[2];

    mine[0] = now.sent - since.sent;
    mine[1] = now.received - since.received;
    MPI_Allreduce(mine, most, 2, MPI_INT64_T, MPI_MAX, MPI_COMM_WORLD);
    now.sent = most[0];
    now.received = most[1];
    return now;
}

static long peak_kib(void)
{
    char line[256];
    long kib = -1;
    FILE *f = fopen("/proc/self/status", "r");

    if (f == NULL)
        fail("/proc/self/status");
    while (fgets(line, sizeof line, f) != NULL)
        if (sscanf(line, "VmHWM: %ld", &kib) == 1)
            break;
    fclose(f);
    return kib;
}

/* Sums the private pages of the process in KiB; if of is not NULL only those of files with
 * this in their path. */
static long private_kib(const char *of)
{
    char line[4096];
    long sum = 0, kib, from, to;
    int counts = 1;
    FILE *f = fopen("/proc/self/smaps", "r");

    if (f == NULL)
        fail("/proc/self/smaps");
    while (fgets(line, sizeof line, f) != NULL) {
        if (sscanf(line, "%lx-%lx ", &from, &to) == 2)
            counts = of == NULL || strstr(line, of) != NULL;
        else if (counts && (sscanf(line, "Private_Clean: %ld", &kib) == 1 || sscanf(line, "Private_Dirty: %ld", &kib) == 1))
            sum += kib;
    }
    fclose(f);
    return sum;
}

/* The buffer has the size of two pieces; a file begins in it at an offset that depends on
 * the rank and the file, so that files differ. */
static const unsigned char *contents(int file)
{
    return buffer + (size_t)(rank * 7919 + file * 104729) % PIECE;
}

static void fill(void)
{
    uint64_t x = 88172645463325252u;
    size_t i;

    buffer = malloc(2 * PIECE);
    if (buffer == NULL)
        fail("memory");
    for (i = 0; i < 2 * PIECE; i++) {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        buffer[i] = (unsigned char)x;
    }
}

static void put(const char *path, int file)
{
    int64_t left = bytes;
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);

    if (fd < 0)
        fail(path);
    while (left > 0) {
        ssize_t n = write(fd, contents(file), left < (int64_t)PIECE ? (size_t)left : PIECE);
        if (n != (left < (int64_t)PIECE ? (ssize_t)left : (ssize_t)PIECE))
            fail(path);
        left -= n;
    }
    if (close(fd) != 0)
        fail(path);
}

static void verify(const char *path, int file, unsigned char *piece)
{
    int64_t left = bytes;
    int fd = open(path, O_RDONLY);

    if (fd < 0)
        fail(path);
    while (left > 0) {
        size_t want = left < (int64_t)PIECE ? (size_t)left : PIECE;

        if (read(fd, piece, want) != (ssize_t)want || memcmp(piece, contents(file), want) != 0)
            fail(path);
        left -= (int64_t)want;
    }
    if (read(fd, piece, 1) != 0)
        fail(path);
    close(fd);
}

static void name_of(char *name, const char *checkpoint, int file)
{
    snprintf(name, SCR_MAX_FILENAME, "%.900s/rank_%d.%d", checkpoint, rank, file);
}

static void checkpoint(int number)
{
    struct traffic links;
    char name[SCR_MAX_FILENAME], path[SCR_MAX_FILENAME], label[64];
    double start, route = 0, write = 0, complete, t;
    long met, faults, starting[2];
    int i;

    snprintf(label, sizeof label, "bench.%d", number);
    t = begin();
    met = meetings;
    faults = page_faults();
    if (SCR_Start_output(label, SCR_FLAG_CHECKPOINT) != SCR_SUCCESS)
        fail("SCR_Start_output");
    starting[0] = meetings - met;
    starting[1] = page_faults() - faults;
    start = slowest(MPI_Wtime() - t);
    MPI_Barrier(MPI_COMM_WORLD);
    for (i = 0; i < files; i++) {
        name_of(name, label, i);
        t = MPI_Wtime();
        if (SCR_Route_file(name, path) != SCR_SUCCESS)
            fail("SCR_Route_file");
        route += MPI_Wtime() - t;
        t = MPI_Wtime();
        put(path, i);
        write += MPI_Wtime() - t;
        memcpy(written, path, sizeof path);
    }
    t = completing = begin();
    links = traffic();
    met = meetings;
    faults = page_faults();
    if (SCR_Complete_output(1) != SCR_SUCCESS)
        fail("SCR_Complete_output");
    faults = page_faults() - faults;
    met = meetings - met;
    complete = slowest(MPI_Wtime() - t);
    links = busiest(links);
    print_counts("start", starting[0], starting[1]);
    print_counts("complete", met, faults);
    route = slowest(route);
    write = slowest(write);
    if (rank == 0)
        printf("checkpoint %.9f %.9f %.9f %.9f %lld %lld\n", route, write, complete, start, (long long)links.sent, (long long)links.received);
}

/* Reads the checkpoint, which SCR_Init has found in the cache in that time, or which is
 * fetched now. */
static int restart(double init, int fetched, struct traffic links)
{
    char label[SCR_MAX_FILENAME], name[SCR_MAX_FILENAME], path[SCR_MAX_FILENAME];
    unsigned char *piece = malloc(PIECE);
    int have, i, number;
    double t;

    if (piece == NULL)
        fail("memory");
    t = begin();
    if (fetched)
        links = traffic();
    if (SCR_Have_restart(&have, label) != SCR_SUCCESS || !have)
        fail("SCR_Have_restart: nothing to restart from");
    if (fetched)
        init = slowest(MPI_Wtime() - t);
    links = busiest(links);
    t = begin();
    if (SCR_Start_restart(label) != SCR_SUCCESS)
        fail("SCR_Start_restart");
    for (i = 0; i < files; i++) {
        name_of(name, label, i);
        if (SCR_Route_file(name, path) != SCR_SUCCESS)
            fail("SCR_Route_file");
        verify(path, i, piece);
    }
    if (SCR_Complete_restart(1) != SCR_SUCCESS)
        fail("SCR_Complete_restart");
    t = slowest(MPI_Wtime() - t);
    if (rank == 0)
        printf("%s %.9f %.9f %lld %lld\n", fetched ? "fetch" : "restart", init, t, (long long)links.sent, (long long)links.received);
    free(piece);
    if (sscanf(label, "bench.%d", &number) != 1)
        fail(label);
    return number;
}

/* The file is read, or written over, in pieces that stay in the processor's cache. */
static double pass(const char *path, int write)
{
    enum { MESSAGE = 64 << 10 };
    static uint64_t piece[MESSAGE / 8];
    static volatile uint64_t sink;
    int64_t at;
    double t;
    int fd = open(path, O_RDWR);

    if (fd < 0)
        fail(path);
    memset(piece, 1, sizeof piece);
    t = begin();
    for (at = 0; at + MESSAGE <= bytes; at += MESSAGE) {
        size_t i;
        uint64_t sum[8] = {0}; /* several, so that no addition waits for the one before */

        if ((write ? pwrite(fd, piece, MESSAGE, at) : pread(fd, piece, MESSAGE, at)) != MESSAGE)
            fail(path);
        for (i = 0; i < (write ? 0 : MESSAGE / 8); i++)
            sum[i % 8] += piece[i];
        for (i = 0; i < 8; i++)
            sink += sum[i];
    }
    t = slowest(MPI_Wtime() - t);
    close(fd);
    return t;
}

/* Sends as many bytes as the file has around a ring of ranks, a few messages at a time. */
static double move(void)
{
    enum { DEPTH = 4, MESSAGE = 256 << 10, HUGE_PAGE = 2 << 20 };
    MPI_Request requests[2 * DEPTH];
    MPI_Status statuses[2 * DEPTH]; /* not MPI_STATUSES_IGNORE, at which gcc warns with MPICH */
    void *memory;
    char *piece;
    int64_t done;
    int i, size;
    double t;

    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (posix_memalign(&memory, HUGE_PAGE, 2 * DEPTH * MESSAGE) != 0)
        fail("memory");
    madvise(memory, 2 * DEPTH * MESSAGE, MADV_HUGEPAGE);
    memset(memory, 1, 2 * DEPTH * MESSAGE);
    piece = memory;
    t = begin();
    for (done = 0; done < bytes; done += DEPTH * MESSAGE) {
        for (i = 0; i < DEPTH; i++) {
            MPI_Irecv(piece + i * MESSAGE, MESSAGE, MPI_BYTE, (rank + size - 1) % size, i, MPI_COMM_WORLD, &requests[i]);
            MPI_Isend(piece + (DEPTH + i) * MESSAGE, MESSAGE, MPI_BYTE, (rank + 1) % size, i, MPI_COMM_WORLD, &requests[DEPTH + i]);
        }
        MPI_Waitall(2 * DEPTH, requests, statuses);
    }
    t = slowest(MPI_Wtime() - t);
    free(memory);
    return t;
}

/*
 * The simplest XOR: each rank in turn adds a piece of its file to the sum that it receives
 * from the left, and sends it to the right, until the sum arrives at the rank that has no
 * piece in it, which writes it.  Nothing is verified, and no two steps overlap.
 */
static double plain_xor(const char *path)
{
    enum { MESSAGE = 128 << 10 };
    static uint64_t own[MESSAGE / 8], sum[MESSAGE / 8], next[MESSAGE / 8];
    char redundancy[SCR_MAX_FILENAME + 4];
    int64_t chunk, at;
    int size, step, c, in, out;
    size_t i, n;
    double t;

    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (size < 2)
        return 0;
    snprintf(redundancy, sizeof redundancy, "%s.xor", path);
    chunk = (bytes + size - 2) / (size - 1);
    t = begin();
    if ((in = open(path, O_RDONLY)) < 0 || (out = open(redundancy, O_RDWR | O_CREAT | O_TRUNC, 0600)) < 0)
        fail(redundancy);
    for (at = 0; at < chunk; at += MESSAGE) {
        n = chunk - at < MESSAGE ? (size_t)(chunk - at) : MESSAGE;
        memset(sum, 0, n);
        for (step = 1; step < size; step++) {
            ssize_t got;

            c = (rank - step + size) % size; /* rank of the redundancy, to which it adds no piece */
            got = pread(in, own, n, (c < rank ? c : c - 1) * chunk + at);
            if (got < 0)
                fail(path);
            memset((char *)own + got, 0, n - (size_t)got);
            for (i = 0; i < (n + 7) / 8; i++)
                sum[i] ^= own[i];
            MPI_Sendrecv(sum, (int)n, MPI_BYTE, (rank + 1) % size, 0, next, (int)n, MPI_BYTE, (rank + size - 1) % size, 0,
                MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            memcpy(sum, next, n);
        }
        if (pwrite(out, sum, n, at) != (ssize_t)n)
            fail(redundancy);
    }
    t = slowest(MPI_Wtime() - t);
    close(in);
    close(out);
    if (unlink(redundancy) != 0)
        fail(redundancy);
    return t;
}

/*
 * Times how long all ranks together need to write a file each, to read it, to send as many
 * bytes around a ring, and to overwrite the file, without other work: no scheme can be
 * faster than the operations that it needs.  It also times the simplest XOR.
 */
static void limits(const char *directory)
{
    char path[SCR_MAX_FILENAME];
    double write, read, moved, over, plain;

    snprintf(path, sizeof path, "%s/limits.%d", directory, rank);
    write = begin();
    put(path, 0);
    write = slowest(MPI_Wtime() - write);
    read = pass(path, 0);
    moved = move();
    over = pass(path, 1);
    plain = plain_xor(path);
    if (unlink(path) != 0)
        fail(path);
    if (rank == 0)
        printf("limits %.9f %.9f %.9f %.9f %.9f\n", write, read, moved, over, plain);
}

/*
 * Times the system calls without which no library can check and read the files of a checkpoint:
 * lstat, open, fstat, read and close for each.
 */
static void calls(const char *directory)
{
    unsigned char *piece = malloc((size_t)bytes);
    char path[SCR_MAX_FILENAME];
    struct stat found;
    double t;
    int i, fd;

    for (i = 0; i < files; i++) {
        snprintf(path, sizeof path, "%s/calls.%d.%d", directory, rank, i);
        put(path, i);
    }
    t = begin();
    for (i = 0; i < files; i++) {
        snprintf(path, sizeof path, "%s/calls.%d.%d", directory, rank, i);
        if (lstat(path, &found) != 0 || (fd = open(path, O_RDONLY)) < 0 || fstat(fd, &found) != 0 || piece == NULL ||
            read(fd, piece, (size_t)bytes) != (ssize_t)bytes || close(fd) != 0)
            fail(path);
    }
    t = slowest(MPI_Wtime() - t);
    for (i = 0; i < files; i++) {
        snprintf(path, sizeof path, "%s/calls.%d.%d", directory, rank, i);
        if (unlink(path) != 0)
            fail(path);
    }
    free(piece);
    if (rank == 0)
        printf("calls %.9f\n", t);
}

static double processor_seconds(int who)
{
    struct rusage used;

    getrusage(who, &used);
    return (double)(used.ru_utime.tv_sec + used.ru_stime.tv_sec) + 1e-6 * (double)(used.ru_utime.tv_usec + used.ru_stime.tv_usec);
}

/* The processor time that all scr_transfer on this machine have used.  It is assumed that
 * only this benchmark runs any. */
static double transfers_seconds(void)
{
    char name[32] = "";
    double used, sum = 0;
    glob_t tasks;
    size_t i;
    FILE *f;

    if (glob("/proc/[0-9]*/task/[0-9]*/schedstat", 0, NULL, &tasks) != 0)
        return 0;
    for (i = 0; i < tasks.gl_pathc; i++) {
        char path[128];
        long pid;

        if (sscanf(tasks.gl_pathv[i], "/proc/%ld/", &pid) != 1)
            continue;
        snprintf(path, sizeof path, "/proc/%ld/comm", pid);
        if ((f = fopen(path, "r")) == NULL)
            continue;
        name[0] = 0;
        if (fscanf(f, "%31s", name) != 1)
            name[0] = 0;
        fclose(f);
        if (strcmp(name, "scr_transfer") != 0 || (f = fopen(tasks.gl_pathv[i], "r")) == NULL)
            continue;
        if (fscanf(f, "%lf", &used) == 1)
            sum += 1e-9 * used;
        fclose(f);
    }
    globfree(&tasks);
    return sum;
}

/* The processor time that copying in the background has used. */
static double others_seconds(void)
{
    const char *type = getenv("SCR_FLUSH_TYPE");

    if (type != NULL && strcmp(type, "DAEMON") == 0)
        return transfers_seconds();
    return processor_seconds(RUSAGE_SELF) - processor_seconds(RUSAGE_THREAD);
}

/* Computes like a program between checkpoints, for some hundredths of a second.  Returns
 * the seconds that it took. */
static double compute(void)
{
    enum { CELLS = 1 << 16, STEPS = 600 };
    static double cells[2][CELLS];
    static int begun;
    double t;
    int i, step;

    /* Not from zeros: where they meet what spreads there are numbers so small that computing
     * with them is slow, the slower the longer it continues. */
    for (i = 0; !begun && i < CELLS; i++)
        cells[0][i] = cells[1][i] = 1;
    begun = 1;
    cells[0][CELLS / 2] += 1;
    t = MPI_Wtime();
    for (step = 0; step < STEPS; step++) {
        const double *from = cells[step % 2];
        double *to = cells[(step + 1) % 2];

        for (i = 1; i < CELLS - 1; i++)
            to[i] = 0.5 * from[i] + 0.25 * (from[i - 1] + from[i + 1]);
    }
    return MPI_Wtime() - t;
}

/* The mean time of a piece of computing while dd copies the last file to the disk. */
static double beside_dd(const char *directory)
{
    char from[SCR_MAX_FILENAME + 3], to[SCR_MAX_FILENAME + 3];
    char *const arguments[] = {"dd", from, to, "bs=1M", "conv=fsync", "status=none", NULL};
    extern char **environ;
    double t, sum = 0;
    int status, pieces = 0;
    pid_t dd;

    snprintf(from, sizeof from, "if=%s", written);
    snprintf(to, sizeof to, "of=%.900s/dd.%d", directory, rank);
    if (posix_spawnp(&dd, "dd", NULL, NULL, arguments, environ) != 0)
        fail("dd");
    for (;;) {
        t = compute();
        if (waitpid(dd, &status, WNOHANG) != 0)
            break;
        sum += t;
        pieces++;
    }
    if (status != 0 || unlink(to + 3) != 0)
        fail("dd");
    return pieces > 0 ? sum / pieces : 0;
}

/*
 * With SCR_FLUSH=2 and SCR_FLUSH_ASYNC=1.  For each pair of checkpoints rank 0 prints,
 * of itself, "async ALONE FLUSHING CHUNKS SECONDS CPU DD": the mean time of a piece of
 * computing while no files are copied, and while they are; the number of such pieces;
 * how long files were copied; the processor time of copying; and the mean time of a piece
 * while dd copies the file.
 */
static void async(int number, int busy)
{
    enum { PIECES = 20 };
    const char *prefix = getenv("SCR_PREFIX");
    const struct timespec nap = {0, 20000000};
    char list[SCR_MAX_FILENAME], directory[SCR_MAX_FILENAME];
    double alone = 0, flushing = 0, dd = 0, begun, used, last;
    int i, copying = 0, pieces = 0;

    for (i = 0; busy && i < PIECES; i++)
        alone += compute() / PIECES;
    checkpoint(number);
    if (busy)
        dd = beside_dd(prefix ? prefix : ".");
    checkpoint(number + 1);
    begun = MPI_Wtime();
    used = others_seconds();
    /* The mover writes the list of files when all files are on the medium. */
    snprintf(list, sizeof list, "%.900s/.scr/scr.dataset.%d/%d.scrfilemap", prefix ? prefix : ".", number + 1, rank);
    snprintf(directory, sizeof directory, "%.900s/bench.%d", prefix ? prefix : ".", number + 1);
    for (;;) {
        if (!copying && access(directory, F_OK) == 0) { /* the first file has been begun */
            copying = 1;
            begun = MPI_Wtime();
            used = others_seconds();
        }
        if (busy)
            last = compute();
        else
            last = 0, nanosleep(&nap, NULL);
        if (access(list, F_OK) == 0)
            break;
        if (copying) {
            flushing += last;
            pieces++;
        }
        if (MPI_Wtime() - begun > 300)
            fail("the flush does not end");
    }
    if (rank == 0)
        printf("async %.9f %.9f %d %.9f %.9f %.9f\n", alone, pieces > 0 ? flushing / pieces : 0, pieces, MPI_Wtime() - begun, others_seconds() - used, dd);
}

/* Waits until the other threads of all ranks have nothing to do any more: until they have used less
 * than 5 ms of processor time in half a second. */
static void settle(void)
{
    const struct timespec nap = {0, 500000000};
    double before, now = others_seconds();

    do {
        before = now;
        nanosleep(&nap, NULL);
        now = others_seconds();
    } while (slowest(now - before) > 0.005);
}

/*
 * Computes a number of pieces alone, and as many after a checkpoint, and asks SCR after each whether
 * another is due, as programs do. Rank 0 prints "encode ALONE AFTER CPU": the seconds of the slowest
 * rank for the pieces, and the processor time of other threads of all ranks until they have nothing to do.
 */
static void encode(int number)
{
    enum { PIECES = 60 };
    double alone, after, used, t;
    int i, flag;

    t = begin();
    for (i = 0; i < PIECES; i++)
        compute();
    alone = slowest(MPI_Wtime() - t);
    checkpoint(number);
    used = others_seconds();
    t = begin();
    for (i = 0; i < PIECES; i++) {
        compute();
        if (SCR_Need_checkpoint(&flag) != SCR_SUCCESS)
            fail("SCR_Need_checkpoint");
    }
    after = slowest(MPI_Wtime() - t);
    settle(); /* the next time alone is without protection */
    used = others_seconds() - used;
    MPI_Allreduce(MPI_IN_PLACE, &used, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    if (rank == 0)
        printf("encode %.9f %.9f %.9f\n", alone, after, used);
}

/*
 * A program that computes on all its cores, with a reduction after each step, and writes number
 * checkpoints; none if there are no bytes. With BENCH_PAUSE in the environment it computes for a quarter of the time. SCR_Finalize is included: it waits for what is not
 * protected yet. Rank 0 prints "price SECONDS BLOCKED": of the whole run without SCR_Init, and of
 * the calls of SCR in it, on the rank where these took longest.
 */
static void price(int number)
{
    enum { STEPS = 6, PIECES = 6 };
    char name[SCR_MAX_FILENAME], path[SCR_MAX_FILENAME], label[64];
    double blocked = 0, sum, all, t, started = begin();
    int i, k, step, flag;

    for (i = 1; i <= number; i++) {
        for (step = 0; step < STEPS; step++) {
            t = MPI_Wtime();
            for (k = 0; k < PIECES; k++)
                compute();
            if (getenv("BENCH_PAUSE") != NULL)
                usleep((useconds_t)(3e6 * (MPI_Wtime() - t)));
            sum = 1;
            MPI_Allreduce(MPI_IN_PLACE, &sum, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
            t = MPI_Wtime();
            if (SCR_Need_checkpoint(&flag) != SCR_SUCCESS)
                fail("SCR_Need_checkpoint");
            blocked += MPI_Wtime() - t;
        }
        if (bytes == 0)
            continue;
        snprintf(label, sizeof label, "bench.%d", i);
        t = MPI_Wtime();
        if (SCR_Start_output(label, SCR_FLAG_CHECKPOINT) != SCR_SUCCESS)
            fail("SCR_Start_output");
        blocked += MPI_Wtime() - t;
        for (k = 0; k < files; k++) {
            name_of(name, label, k);
            if (SCR_Route_file(name, path) != SCR_SUCCESS)
                fail("SCR_Route_file");
            put(path, k);
        }
        t = MPI_Wtime();
        if (SCR_Complete_output(1) != SCR_SUCCESS)
            fail("SCR_Complete_output");
        blocked += MPI_Wtime() - t;
    }
    t = MPI_Wtime();
    if (SCR_Finalize() != SCR_SUCCESS)
        fail("SCR_Finalize");
    blocked += MPI_Wtime() - t;
    blocked = slowest(blocked);
    all = slowest(MPI_Wtime() - started);
    if (rank == 0)
        printf("price %.9f %.9f\n", all, blocked);
}

/*
 * A checkpoint with SCR_ENCODE_ASYNC=1, after which the ranks sleep until their links are idle. Rank 0
 * prints "behind SECONDS SENT RECEIVED": from the begin of SCR_Complete_output until the links
 * carried the last bytes of the protection.
 */
static void behind(int number)
{
    enum { FEW = 8 << 10 }; /* bytes: packets that keep connections alive */
    const struct timespec nap = {0, 2000000};
    struct traffic links, now, then;
    double t, last, idle = 0.5;
    int flag;

    links = traffic();
    checkpoint(number);
    t = completing;
    last = MPI_Wtime();
    then = traffic();
    while (MPI_Wtime() - last < idle) {
        nanosleep(&nap, NULL);
        now = traffic();
        if (now.sent - then.sent + now.received - then.received > FEW)
            last = MPI_Wtime(), then = now;
    }
    last = slowest(last - t);
    links = busiest(links);
    if (SCR_Need_checkpoint(&flag) != SCR_SUCCESS)
        fail("SCR_Need_checkpoint");
    if (rank == 0)
        printf("behind %.9f %lld %lld\n", last, (long long)links.sent, (long long)links.received);
}

/* A socket between two ranks: the rank connects to the right one, and the left one to it. */
static void neighbours(int *to_right, int *from_left)
{
    struct sockaddr_in own = {.sin_family = AF_INET}, *all;
    socklen_t length = sizeof own;
    struct ifaddrs *list, *a;
    int size, listening;

    own.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (getifaddrs(&list) != 0)
        fail("getifaddrs");
    for (a = list; a != NULL; a = a->ifa_next)
        if (a->ifa_addr != NULL && a->ifa_addr->sa_family == AF_INET && strcmp(a->ifa_name, "eth0") == 0)
            own.sin_addr = ((struct sockaddr_in *)(void *)a->ifa_addr)->sin_addr;
    freeifaddrs(list);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if ((all = calloc((size_t)size, sizeof *all)) == NULL)
        fail("memory");
    if ((listening = socket(AF_INET, SOCK_STREAM, 0)) < 0 || bind(listening, (struct sockaddr *)&own, sizeof own) != 0 ||
        listen(listening, 1) != 0 || getsockname(listening, (struct sockaddr *)&own, &length) != 0)
        fail("listen");
    MPI_Allgather(&own, sizeof own, MPI_BYTE, all, sizeof own, MPI_BYTE, MPI_COMM_WORLD);
    if ((*to_right = socket(AF_INET, SOCK_STREAM, 0)) < 0 ||
        connect(*to_right, (struct sockaddr *)&all[(rank + 1) % size], sizeof own) != 0)
        fail("connect");
    if ((*from_left = accept(listening, NULL, NULL)) < 0)
        fail("accept");
    close(listening);
    free(all);
}

/* Sends the bytes around the ring by plain TCP, without MPI: no protocol can be faster. */
static void stream(void)
{
    enum { SPACE = 256 << 10 };
    struct pollfd both[2];
    struct traffic links;
    int64_t sent = 0, received = 0;
    char *in = malloc(SPACE);
    ssize_t n;
    double t;

    if (in == NULL)
        fail("memory");
    neighbours(&both[0].fd, &both[1].fd);
    both[0].events = POLLOUT;
    both[1].events = POLLIN;
    t = begin();
    links = traffic();
    while (sent < bytes || received < bytes) {
        if (sent == bytes)
            both[0].events = 0;
        if (poll(both, 2, -1) < 0)
            fail("poll");
        if (both[0].revents & POLLOUT) {
            n = send(both[0].fd, buffer, (size_t)(bytes - sent < SPACE ? bytes - sent : SPACE), MSG_DONTWAIT | MSG_NOSIGNAL);
            if (n < 0 && errno != EAGAIN)
                fail("send");
            sent += n > 0 ? n : 0;
        }
        if (both[1].revents & POLLIN) {
            n = recv(both[1].fd, in, SPACE, MSG_DONTWAIT);
            if (n == 0 || (n < 0 && errno != EAGAIN))
                fail("recv");
            received += n > 0 ? n : 0;
        }
    }
    t = slowest(MPI_Wtime() - t);
    links = busiest(links);
    close(both[0].fd);
    close(both[1].fd);
    free(in);
    if (rank == 0)
        printf("stream %.9f %lld %lld\n", t, (long long)links.sent, (long long)links.received);
}

/* Prints on rank 0 the time of the day at which all ranks have come here. */
static void here(const char *what)
{
    struct timespec now;

    MPI_Barrier(MPI_COMM_WORLD);
    clock_gettime(CLOCK_REALTIME, &now);
    if (rank == 0)
        printf("%s %ld.%06ld\n", what, (long)now.tv_sec, now.tv_nsec / 1000);
}

/* Steps without end, as a program takes them that others ask for checkpoints.  With the
 * library, number is that of the newest checkpoint. */
static void outside(int library, int number, int64_t step)
{
    const struct timespec nap = {step / 1000000, step % 1000000 * 1000};
    int size, flag = 0;

    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (rank == size - 1)
        printf("pid %ld\n", (long)getpid());
    here("running");
    while (!flag) {
        nanosleep(&nap, NULL);
        MPI_Barrier(MPI_COMM_WORLD);
        if (!library)
            continue;
        if (SCR_Need_checkpoint(&flag) != SCR_SUCCESS)
            fail("SCR_Need_checkpoint");
        if (flag)
            checkpoint(++number);
        if (SCR_Should_exit(&flag) != SCR_SUCCESS)
            fail("SCR_Should_exit");
    }
}

int main(int argc, char **argv)
{
    enum { WRITE, RESTART, FETCH, IDLE, ASYNC, PACED, LIMITS, OUTSIDE, BARE, ENCODE, BEHIND, STREAM, CALLS, PRICE, MODES };
    static const char *const modes[MODES] = {"write", "restart", "fetch", "idle", "async", "paced", "limits", "outside", "bare", "encode", "behind", "stream", "calls", "price"};
    int mode = 0;
    long before, grown, own, most, faults, met;
    int count, i, first = 0;
    struct traffic links;
    double t;

    setvbuf(stdout, NULL, _IOLBF, 0);
    main_thread = pthread_self();
    if (argc > 1 && strcmp(argv[1], "price") == 0)
        MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &i); /* for SCR_ENCODE_CARRIER=MPI */
    else
        MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    while (argc == 5 && mode < MODES && strcmp(argv[1], modes[mode]) != 0)
        mode++;
    if (argc != 5 || mode == MODES || (files = atoi(argv[2])) < 1 || (bytes = atoll(argv[3])) < 0 || (count = atoi(argv[4])) < 1) {
        fprintf(stderr, "usage: bench write|async|encode|paced|restart|fetch|idle|limits|outside|bare|behind|stream|calls|price FILES BYTES COUNT\n");
        MPI_Abort(MPI_COMM_WORLD, 2);
        return 2;
    }
    if (mode == BARE)
        outside(0, 0, count); /* until it is killed */
    if (mode == OUTSIDE)
        here("started");
    fill();
    if (mode == LIMITS || mode == STREAM || mode == CALLS) {
        const char *directory = getenv("SCR_CACHE_BASE");

        for (i = 0; i < count; i++) {
            if (mode == STREAM)
                stream();
            else if (mode == CALLS)
                calls(directory ? directory : "/dev/shm");
            else
                limits(directory ? directory : "/dev/shm");
        }
        MPI_Finalize();
        return 0;
    }

    own = private_kib(NULL) - private_kib("/libscr.so"); /* what the dynamic linker has changed of it */
    before = peak_kib();
    links = traffic();
    t = begin();
    met = meetings;
    faults = page_faults();
    if (SCR_Init() != SCR_SUCCESS)
        fail("SCR_Init");
    faults = page_faults() - faults;
    met = meetings - met;
    t = slowest(MPI_Wtime() - t);
    own = private_kib(NULL) - own;
    if (rank == 0)
        printf("init %.9f\n", t);
    print_counts("init", met, faults);
    if (mode == OUTSIDE) {
        char label[SCR_MAX_FILENAME];

        here("ready");
        if (SCR_Have_restart(&i, label) != SCR_SUCCESS)
            fail("SCR_Have_restart");
        outside(1, i ? restart(t, 0, links) : 0, count);
    }
    if (mode == PRICE) {
        price(count);
        MPI_Finalize();
        return 0;
    }
    if (mode == RESTART || mode == FETCH)
        first = restart(t, mode == FETCH, links);
    for (i = 1; i <= count; i++) {
        switch (mode) {
        case WRITE:
        case RESTART:
        case FETCH:
            checkpoint(first + i);
            break;
        case ASYNC:
        case PACED:
            async(2 * i - 1, mode == ASYNC);
            break;
        case ENCODE:
            encode(i);
            break;
        case BEHIND:
            behind(i);
            break;
        default:
            break;
        }
    }

    grown = peak_kib() - before;
    MPI_Reduce(&grown, &most, 1, MPI_LONG, MPI_MAX, 0, MPI_COMM_WORLD);
    if (rank == 0)
        printf("memory %ld\n", most);
    MPI_Reduce(&own, &most, 1, MPI_LONG, MPI_MAX, 0, MPI_COMM_WORLD);
    if (rank == 0)
        printf("private %ld\n", most);
    if (SCR_Finalize() != SCR_SUCCESS)
        fail("SCR_Finalize");
    MPI_Finalize();
    return 0;
}
