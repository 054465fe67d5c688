/*
 * heat - a plate cools down, in parallel, and survives the loss of a node
 *
 * The two-dimensional heat equation on a grid of NX x NY points, solved by
 * Jacobi iteration.  Each rank owns a block of rows and exchanges its border
 * rows with the ranks above and below in every step.  Every 100 steps (-c) each
 * rank writes its rows to a file of its own, using SCR.  When the program is
 * started again after a failure, it restarts from the newest checkpoint.  Its
 * result is the same to the last bit however often it was interrupted.
 *
 * The calls of SCR are in restart(), checkpoint(), iterate() and main(); the rest
 * would be the same without SCR.
 *
 *     mpicc -O2 -o heat heat.c -lscr -lm
 *     mpirun -n 4 ./heat -x 1024 -y 1024 -s 1000 -c 100 -o final.heat
 */

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <mpi.h>
#include <scr.h>

/* The header of a checkpoint file, by which read_rows() rejects files of other grids and ranks. */
struct header {
    char magic[8];     /* "HEATCKPT" */
    uint32_t version;  /* 1; another number if the file has another byte order */
    uint32_t rank;
    uint32_t ranks;
    uint32_t reserved;
    int64_t nx, ny;    /* the whole grid */
    int64_t first;     /* first row of this rank, and number of rows */
    int64_t rows;
    int64_t step;      /* steps computed */
};

static const char MAGIC[8] = {'H', 'E', 'A', 'T', 'C', 'K', 'P', 'T'};

struct heat {
    int rank, ranks;
    int64_t nx, ny;
    int64_t first, rows;
    int64_t step;
    double *now, *next; /* rows + 2 rows of nx: the first and last are halos */
};

struct options {
    int64_t nx, ny, steps, every;
    const char *output;
};

/* ---------------------------------------------------------------- failures */

/* Ends the job after an error that no rank can handle. */
static void die(const struct heat *h, const char *what, const char *detail)
{
    fprintf(stderr, "heat: rank %d: %s: %s\n", h->rank, what, detail);
    fflush(stderr);
    MPI_Abort(MPI_COMM_WORLD, 1);
    exit(1);
}

/* Prints an error after which the job can continue, on the rank that met it. */
static void complain(const struct heat *h, const char *what, const char *file)
{
    fprintf(stderr, "heat: rank %d: %s %s: %s\n", h->rank, what, file,
            errno ? strerror(errno) : "unexpected contents");
}

static void check(const struct heat *h, int rc, const char *call)
{
    char text[32];

    if (rc != SCR_SUCCESS) {
        snprintf(text, sizeof text, "error %d", rc);
        die(h, call, text);
    }
}

/* -------------------------------------------------------------- the physics */

static double *row(const struct heat *h, double *field, int64_t i)
{
    return field + (i + 1) * h->nx; /* -1 and h->rows are the halos */
}

/* A warm plate with two hot discs and a cold bar, its edges held at 0. */
static double initial(const struct heat *h, int64_t i, int64_t j)
{
    double x = (double)j / (double)(h->nx - 1);
    double y = (double)i / (double)(h->ny - 1);

    if (i == 0 || j == 0 || i == h->ny - 1 || j == h->nx - 1)
        return 0.0;
    if ((x - 0.3) * (x - 0.3) + (y - 0.35) * (y - 0.35) < 0.02)
        return 100.0;
    if ((x - 0.7) * (x - 0.7) + (y - 0.6) * (y - 0.6) < 0.01)
        return 80.0;
    if (fabs(x - 0.5) < 0.02 && y > 0.2 && y < 0.9)
        return -50.0;
    return 20.0;
}

/* The number of rows of a rank: the rows are divided evenly, and the first ranks have one more. */
static int64_t rows_of(const struct heat *h, int rank)
{
    return h->ny / h->ranks + (rank < h->ny % h->ranks);
}

/* Sets the state at step 0. */
static void begin(struct heat *h)
{
    int64_t i, j;

    h->step = 0;
    for (i = -1; i <= h->rows; i++)
        for (j = 0; j < h->nx; j++)
            row(h, h->now, i)[j] = initial(h, h->first + i, j);
}

static void setup(struct heat *h, const struct options *o)
{
    int r;

    MPI_Comm_rank(MPI_COMM_WORLD, &h->rank);
    MPI_Comm_size(MPI_COMM_WORLD, &h->ranks);
    h->nx = o->nx;
    h->ny = o->ny;
    if (h->ny < h->ranks)
        die(h, "-y", "more ranks than rows");

    h->rows = rows_of(h, h->rank);
    for (h->first = 0, r = 0; r < h->rank; r++)
        h->first += rows_of(h, r);

    h->now = malloc((size_t)((h->rows + 2) * h->nx) * sizeof(double));
    h->next = malloc((size_t)((h->rows + 2) * h->nx) * sizeof(double));
    if (h->now == NULL || h->next == NULL)
        die(h, "the grid", "not enough memory");

    begin(h);
    memcpy(h->next, h->now, (size_t)((h->rows + 2) * h->nx) * sizeof(double));
}

static void exchange_halos(struct heat *h)
{
    int up = h->rank > 0 ? h->rank - 1 : MPI_PROC_NULL;
    int down = h->rank < h->ranks - 1 ? h->rank + 1 : MPI_PROC_NULL;
    int n = (int)h->nx;

    MPI_Sendrecv(row(h, h->now, 0), n, MPI_DOUBLE, up, 0,
                 row(h, h->now, h->rows), n, MPI_DOUBLE, down, 0,
                 MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    MPI_Sendrecv(row(h, h->now, h->rows - 1), n, MPI_DOUBLE, down, 1,
                 row(h, h->now, -1), n, MPI_DOUBLE, up, 1,
                 MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

static void one_step(struct heat *h)
{
    const double k = 0.2; /* stable below 0.25 */
    int64_t i, j;
    double *swap;

    exchange_halos(h);
    for (i = 0; i < h->rows; i++) {
        const double *above = row(h, h->now, i - 1);
        const double *here = row(h, h->now, i);
        const double *below = row(h, h->now, i + 1);
        double *out = row(h, h->next, i);

        if (h->first + i == 0 || h->first + i == h->ny - 1)
            continue; /* the edge of the plate is constant */
        for (j = 1; j < h->nx - 1; j++)
            out[j] = here[j] + k * (above[j] + below[j] + here[j - 1] +
                                    here[j + 1] - 4.0 * here[j]);
    }
    swap = h->now;
    h->now = h->next;
    h->next = swap;
    h->step++;
}

static double mean(struct heat *h)
{
    double sum = 0.0, total = 0.0;
    int64_t i, j;

    for (i = 0; i < h->rows; i++)
        for (j = 0; j < h->nx; j++)
            sum += row(h, h->now, i)[j];
    MPI_Reduce(&sum, &total, 1, MPI_DOUBLE, MPI_SUM, 0, MPI_COMM_WORLD);
    return total / (double)(h->nx * h->ny);
}

/* ------------------------------------------------------------ one rank's file */

static struct header header_of(const struct heat *h)
{
    struct header head;

    memset(&head, 0, sizeof head); /* the padding, too, since it is written to the file */
    memcpy(head.magic, MAGIC, sizeof MAGIC);
    head.version = 1;
    head.rank = (uint32_t)h->rank;
    head.ranks = (uint32_t)h->ranks;
    head.nx = h->nx;
    head.ny = h->ny;
    head.first = h->first;
    head.rows = h->rows;
    head.step = h->step;
    return head;
}

static int write_rows(struct heat *h, const char *file)
{
    struct header head = header_of(h);
    size_t count = (size_t)(h->rows * h->nx);
    FILE *f = fopen(file, "wb");
    int ok;

    if (f == NULL) {
        complain(h, "cannot create", file);
        return 0;
    }
    ok = fwrite(&head, sizeof head, 1, f) == 1 &&
         fwrite(row(h, h->now, 0), sizeof(double), count, f) == count;
    if (fclose(f) != 0)
        ok = 0;
    if (!ok)
        complain(h, "cannot write", file);
    return ok;
}

/* Reads the step from the header; everything else in it must be what this rank would write. */
static int read_rows(struct heat *h, const char *file)
{
    struct header head, ours;
    size_t count = (size_t)(h->rows * h->nx);
    FILE *f = fopen(file, "rb");
    int ok;

    if (f == NULL) {
        complain(h, "cannot open", file);
        return 0;
    }
    errno = 0;
    ok = fread(&head, sizeof head, 1, f) == 1;
    if (ok) {
        ours = header_of(h);
        ours.step = head.step;
        ok = head.step >= 0 && memcmp(&head, &ours, sizeof head) == 0 &&
             fread(row(h, h->now, 0), sizeof(double), count, f) == count &&
             fgetc(f) == EOF;
    }
    if (!ok)
        complain(h, "cannot use", file);
    else
        h->step = head.step;
    fclose(f);
    return ok;
}

/* ------------------------------------------------------------- using SCR */

/* The files of the checkpoint at step 1200 are heat.1200/rank_0.ckpt, heat.1200/rank_1.ckpt, ... */
static void file_name(char *name, size_t size, const char *checkpoint, int rank)
{
    snprintf(name, size, "%s/rank_%d.ckpt", checkpoint, rank);
}

/* Restarts from the newest checkpoint that all ranks can read, if there is one. */
static void restart(struct heat *h)
{
    char checkpoint[SCR_MAX_FILENAME], name[SCR_MAX_FILENAME + 32], file[SCR_MAX_FILENAME];
    int have, valid;
    int64_t step, lowest, highest;

    for (;;) {
        check(h, SCR_Have_restart(&have, checkpoint), "SCR_Have_restart");
        if (!have)
            return;
        check(h, SCR_Start_restart(checkpoint), "SCR_Start_restart");

        file_name(name, sizeof name, checkpoint, h->rank);
        valid = SCR_Route_file(name, file) == SCR_SUCCESS && read_rows(h, file);

        /* The files of all ranks must be of the same step. */
        step = valid ? h->step : -1;
        MPI_Allreduce(&step, &lowest, 1, MPI_INT64_T, MPI_MIN, MPI_COMM_WORLD);
        MPI_Allreduce(&step, &highest, 1, MPI_INT64_T, MPI_MAX, MPI_COMM_WORLD);
        if (lowest != highest)
            valid = 0;

        if (SCR_Complete_restart(valid) == SCR_SUCCESS) {
            if (h->rank == 0)
                printf("restarted from %s at step %" PRId64 "\n", checkpoint, h->step);
            return;
        }
        /* Some ranks may have read their rows before another failed. */
        if (h->rank == 0)
            printf("%s cannot be used, looking for an older one\n", checkpoint);
        begin(h);
    }
}

/* The program continues when a checkpoint fails, because the previous one still exists. */
static void checkpoint(struct heat *h)
{
    char name[SCR_MAX_FILENAME], path[SCR_MAX_FILENAME + 32], file[SCR_MAX_FILENAME];
    double start = MPI_Wtime();
    int valid;

    snprintf(name, sizeof name, "heat.%" PRId64, h->step);
    if (SCR_Start_output(name, SCR_FLAG_CHECKPOINT) != SCR_SUCCESS) {
        if (h->rank == 0)
            printf("checkpoint %s could not be started\n", name);
        return;
    }
    file_name(path, sizeof path, name, h->rank);
    valid = SCR_Route_file(path, file) == SCR_SUCCESS && write_rows(h, file);
    if (SCR_Complete_output(valid) != SCR_SUCCESS) {
        if (h->rank == 0)
            printf("checkpoint %s failed\n", name);
        return;
    }
    if (h->rank == 0)
        printf("checkpoint %s complete, %.3f s\n", name, MPI_Wtime() - start);
}

/* ------------------------------------------------------------- final result */

/* Writes the whole field, row by row, to one file, which does not depend on the number of ranks. */
static void write_result(struct heat *h, const char *file)
{
    int64_t rows, i;
    FILE *f;
    int r;

    if (h->rank != 0) {
        for (i = 0; i < h->rows; i++)
            MPI_Send(row(h, h->now, i), (int)h->nx, MPI_DOUBLE, 0, 2, MPI_COMM_WORLD);
        return;
    }
    f = fopen(file, "wb");
    if (f == NULL)
        die(h, file, strerror(errno));
    for (r = 0; r < h->ranks; r++) {
        rows = rows_of(h, r);
        for (i = 0; i < rows; i++) {
            const double *data = row(h, h->now, i);

            if (r != 0) {
                MPI_Recv(h->next, (int)h->nx, MPI_DOUBLE, r, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
                data = h->next;
            }
            if (fwrite(data, sizeof(double), (size_t)h->nx, f) != (size_t)h->nx)
                die(h, file, strerror(errno));
        }
    }
    if (fclose(f) != 0)
        die(h, file, strerror(errno));
    printf("result in %s\n", file);
}

/* --------------------------------------------------------------------- main */

static int usage(void)
{
    fprintf(stderr,
            "usage: heat [-x NX] [-y NY] [-s STEPS] [-c STEPS] [-o FILE]\n"
            "  -x, -y  size of the grid (default 1024 x 1024)\n"
            "  -s      steps to compute (default 1000)\n"
            "  -c      steps between checkpoints, 0 for none (default 100)\n"
            "  -o      write the final field to FILE\n");
    return 2;
}

static int number(const char *text, int64_t low, int64_t high, int64_t *value)
{
    char *end;

    errno = 0;
    *value = strtoll(text, &end, 10);
    return errno == 0 && end != text && *end == '\0' && *value >= low && *value <= high;
}

static int parse(int argc, char **argv, struct options *o)
{
    int c, ok = 1;

    o->nx = o->ny = 1024;
    o->steps = 1000;
    o->every = 100;
    o->output = NULL;
    while (ok && (c = getopt(argc, argv, "x:y:s:c:o:")) != -1) {
        switch (c) {
        case 'x': ok = number(optarg, 3, 1 << 30, &o->nx); break;
        case 'y': ok = number(optarg, 3, 1 << 30, &o->ny); break;
        case 's': ok = number(optarg, 0, INT64_MAX, &o->steps); break;
        case 'c': ok = number(optarg, 0, INT64_MAX, &o->every); break;
        case 'o': o->output = optarg; break;
        default: ok = 0;
        }
    }
    return ok && optind == argc;
}

static void iterate(struct heat *h, const struct options *o)
{
    int64_t report = o->steps >= 20 ? o->steps / 20 : 1;
    int flag;

    while (h->step < o->steps) {
        one_step(h);
        if (h->step % report == 0 || h->step == o->steps) {
            double m = mean(h);

            if (h->rank == 0)
                printf("step %" PRId64 " of %" PRId64 ", mean %.9f\n", h->step, o->steps, m);
        }
        if (o->every == 0 || h->step % o->every != 0 || h->step == o->steps)
            continue;
        check(h, SCR_Need_checkpoint(&flag), "SCR_Need_checkpoint");
        if (flag)
            checkpoint(h);
        check(h, SCR_Should_exit(&flag), "SCR_Should_exit");
        if (flag) {
            if (h->rank == 0)
                printf("asked to stop at step %" PRId64 "\n", h->step);
            return;
        }
    }
}

int main(int argc, char **argv)
{
    struct options o;
    struct heat h;

    setvbuf(stdout, NULL, _IOLBF, 0);
    MPI_Init(&argc, &argv);
    if (!parse(argc, argv, &o)) {
        MPI_Finalize();
        return usage();
    }
    setup(&h, &o);
    /* iterate() asks only every o.every steps, so the answer should be yes each
     * time.  A user can override this in the environment. */
    SCR_Config("SCR_CHECKPOINT_INTERVAL=1");
    check(&h, SCR_Init(), "SCR_Init");

    restart(&h);
    iterate(&h, &o);
    if (h.step >= o.steps && o.output != NULL)
        write_result(&h, o.output);

    free(h.now);
    free(h.next);
    check(&h, SCR_Finalize(), "SCR_Finalize");
    MPI_Finalize();
    return 0;
}
