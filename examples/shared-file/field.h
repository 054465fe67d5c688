/*
 * field.h - a field of numbers that is spread over the ranks, and a way to store it in files
 *
 * field.c computes and calls SCR. mpiio.c and hdf5.c each define `storage`, one way to write
 * a checkpoint: link field.c with one of them.
 */

#ifndef FIELD_H
#define FIELD_H

#include <mpi.h>
#include <stddef.h>
#include <stdint.h>

#include <scr.h>

struct field {
    int rank, ranks;
    int64_t cells;        /* of all ranks */
    int64_t first, count; /* of this rank */
    int64_t step;
    double *now, *next;   /* count + 2: the first and the last belong to the neighbours */
};

/* Returns the first cell of a rank; that of the rank after the last is the number of cells. */
int64_t first_of(const struct field *f, int rank);

/* Prints an error on this rank and returns 0. */
int complain(const struct field *f, const char *what, const char *file);

/* Returns 1 if ok is true on all ranks of a communicator. Collective. A file that ranks open
 * together must be opened by all of them or by none. */
int everywhere(MPI_Comm comm, int ok);

struct storage {
    /* Takes an option of the command line, and its value; returns 0 if it is wrong. */
    int (*option)(int letter, const char *value);
    const char *letters, *usage;

    /* Writes the field to files of a checkpoint, whose names begin with "NAME/".
     * Collective; returns 1 if this rank has written its part. */
    int (*write)(const struct field *f, const char *name);

    /* Reads what write has written, and compares magic, sizes and number of steps of all that it
     * reads. Collective; returns 1 if this rank has its part, with f->step as it was. */
    int (*read)(struct field *f, const char *name);
};

extern const struct storage storage;

#endif
