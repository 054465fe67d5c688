/*
 * field - programs whose ranks write one file together, and SCR
 *
 * A ring of cells, each of which exchanges heat with its neighbours. The result is the same
 * to the bit for any number of ranks, and for any number of restarts. docs/shared-files.md
 * says which way of writing checkpoints is for which program.
 *
 *     mpicc -O2 -o field-mpiio field.c mpiio.c -lscr
 *     h5pcc -O2 -o field-hdf5 field.c hdf5.c -lscr
 *     mpirun -n 4 ./field-hdf5 -n 100000 -s 1000 -c 100 -o result
 */

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "field.h"

static void die(const struct field *f, const char *what)
{
    fprintf(stderr, "field: rank %d: %s\n", f->rank, what);
    MPI_Abort(MPI_COMM_WORLD, 1);
    exit(1);
}

int complain(const struct field *f, const char *what, const char *file)
{
    fprintf(stderr, "field: rank %d: %s %s\n", f->rank, what, file);
    return 0;
}

int everywhere(MPI_Comm comm, int ok)
{
    int all;

    MPI_Allreduce(&ok, &all, 1, MPI_INT, MPI_MIN, comm);
    return all;
}

static void must(const struct field *f, int code, const char *call)
{
    if (code != SCR_SUCCESS)
        die(f, call);
}

int64_t first_of(const struct field *f, int rank)
{
    int64_t each = f->cells / f->ranks, more = f->cells % f->ranks;

    return rank * each + (rank < more ? rank : more);
}

static void begin(struct field *f)
{
    int64_t i;

    f->step = 0;
    for (i = 0; i < f->count; i++)
        f->now[i + 1] = (double)((f->first + i) * 7919 % 1000);
}

static void one_step(struct field *f)
{
    int left = (f->rank + f->ranks - 1) % f->ranks, right = (f->rank + 1) % f->ranks;
    double *swap = f->now;
    int64_t i;

    MPI_Sendrecv(&f->now[1], 1, MPI_DOUBLE, left, 0, &f->now[f->count + 1], 1, MPI_DOUBLE, right, 0,
                 MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    MPI_Sendrecv(&f->now[f->count], 1, MPI_DOUBLE, right, 1, &f->now[0], 1, MPI_DOUBLE, left, 1,
                 MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    for (i = 1; i <= f->count; i++)
        f->next[i] = f->now[i] + 0.25 * (f->now[i - 1] - 2 * f->now[i] + f->now[i + 1]);
    f->now = f->next;
    f->next = swap;
    f->step++;
}

/* --------------------------------------------------------------- using SCR */

static void restart(struct field *f)
{
    char name[SCR_MAX_FILENAME];
    int have, valid;
    int64_t steps[2], agreed[2];

    for (;;) {
        must(f, SCR_Have_restart(&have, name), "SCR_Have_restart");
        if (!have)
            return;
        must(f, SCR_Start_restart(name), "SCR_Start_restart");
        valid = storage.read(f, name);

        /* All ranks must have read files of the same step. */
        steps[0] = valid ? f->step : -1;
        steps[1] = -steps[0];
        MPI_Allreduce(steps, agreed, 2, MPI_INT64_T, MPI_MIN, MPI_COMM_WORLD);
        valid = agreed[0] >= 0 && agreed[0] == -agreed[1];
        if (SCR_Complete_restart(valid) == SCR_SUCCESS) {
            if (f->rank == 0)
                printf("restarted from %s at step %" PRId64 "\n", name, f->step);
            return;
        }
        begin(f); /* some ranks may have read their part */
    }
}

static void checkpoint(const struct field *f)
{
    char name[SCR_MAX_FILENAME];

    /* Each checkpoint has files of its own: it does not overwrite the one before. */
    snprintf(name, sizeof name, "field.%" PRId64, f->step);
    if (SCR_Start_output(name, SCR_FLAG_CHECKPOINT) == SCR_SUCCESS &&
        SCR_Complete_output(storage.write(f, name)) == SCR_SUCCESS && f->rank == 0)
        printf("checkpoint %s complete\n", name);
}

/* -------------------------------------------------------------------- main */

/* Writes all cells to a file, which does not depend on the number of ranks. */
static void write_result(const struct field *f, const char *path)
{
    FILE *out;
    double *part;
    int r;

    if (f->rank != 0) {
        MPI_Send(f->now + 1, (int)f->count, MPI_DOUBLE, 0, 2, MPI_COMM_WORLD);
        return;
    }
    out = fopen(path, "wb");
    part = malloc((size_t)(f->count + 1) * sizeof *part); /* rank 0 has the most */
    if (out == NULL || part == NULL)
        die(f, path);
    for (r = 0; r < f->ranks; r++) {
        size_t count = (size_t)(first_of(f, r + 1) - first_of(f, r));

        if (r > 0)
            MPI_Recv(part, (int)count, MPI_DOUBLE, r, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        if (fwrite(r > 0 ? part : f->now + 1, sizeof *part, count, out) != count)
            die(f, path);
    }
    free(part);
    if (fclose(out) != 0)
        die(f, path);
}

static int64_t number(const char *text)
{
    char *end;
    long long n = strtoll(text, &end, 10);

    return end == text || *end != '\0' || n < 1 || n > INT32_MAX ? -1 : n;
}

int main(int argc, char **argv)
{
    struct field f = {.cells = 100000};
    int64_t steps = 1000, every = 100;
    const char *result = NULL;
    char letters[64];
    int c, ok = 1, flag;

    setvbuf(stdout, NULL, _IOLBF, 0);
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &f.rank);
    MPI_Comm_size(MPI_COMM_WORLD, &f.ranks);
    snprintf(letters, sizeof letters, "n:s:c:o:%s", storage.letters);
    while (ok && (c = getopt(argc, argv, letters)) != -1) {
        switch (c) {
        case 'n': ok = (f.cells = number(optarg)) >= f.ranks; break;
        case 's': ok = (steps = number(optarg)) > 0; break;
        case 'c': ok = (every = number(optarg)) > 0; break;
        case 'o': result = optarg; break;
        default: ok = c != '?' && storage.option(c, optarg);
        }
    }
    if (!ok || optind != argc) {
        if (f.rank == 0)
            fprintf(stderr, "usage: %s [-n CELLS] [-s STEPS] [-c STEPS] [-o FILE]%s\n"
                            "  -n   number of cells (default 100000)\n"
                            "  -s   steps to compute (default 1000)\n"
                            "  -c   steps between checkpoints (default 100)\n"
                            "  -o   write all cells to FILE at the end\n", argv[0], storage.usage);
        MPI_Finalize();
        return 2;
    }
    f.first = first_of(&f, f.rank);
    f.count = first_of(&f, f.rank + 1) - f.first;
    f.now = calloc((size_t)f.count + 2, sizeof *f.now);
    f.next = calloc((size_t)f.count + 2, sizeof *f.next);
    if (f.now == NULL || f.next == NULL)
        die(&f, "not enough memory");

    SCR_Config("SCR_CHECKPOINT_INTERVAL=1");
    must(&f, SCR_Init(), "SCR_Init");
    begin(&f);
    restart(&f);
    while (f.step < steps) {
        one_step(&f);
        if (f.step % every != 0)
            continue;
        must(&f, SCR_Need_checkpoint(&flag), "SCR_Need_checkpoint");
        if (flag)
            checkpoint(&f);
        must(&f, SCR_Should_exit(&flag), "SCR_Should_exit");
        if (flag)
            break;
    }
    if (f.step >= steps && result != NULL)
        write_result(&f, result);
    must(&f, SCR_Finalize(), "SCR_Finalize");
    free(f.now);
    free(f.next);
    MPI_Finalize();
    return 0;
}
