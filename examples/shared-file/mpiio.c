/*
 * mpiio.c - a checkpoint is one file, which all ranks write and read together by MPI-IO
 *
 * It needs storage that all ranks share: SCR_CACHE_BYPASS=1, or a store with GROUP=WORLD. Then
 * any number of ranks can restart from it.
 *
 *     struct header, in the bytes of the machine
 *     double[cells]
 */

#include <stdio.h>
#include <string.h>

#include "field.h"

struct header {
    char magic[8]; /* "FIELD-1" and a zero byte; another version has another number */
    int64_t order; /* 1; another number if the file has another byte order */
    int64_t cells;
    int64_t step;
};

static const char MAGIC[8] = "FIELD-1";

static int open_file(const struct field *f, const char *name, int mode, MPI_File *file)
{
    char path[SCR_MAX_FILENAME], wanted[SCR_MAX_FILENAME + 16];

    /* Every rank asks for the path, and gets the same. */
    snprintf(wanted, sizeof wanted, "%s/field", name);
    if (!everywhere(MPI_COMM_WORLD, SCR_Route_file(wanted, path) == SCR_SUCCESS))
        return 0;
    if (!everywhere(MPI_COMM_WORLD, MPI_File_open(MPI_COMM_WORLD, path, mode, MPI_INFO_NULL, file) == MPI_SUCCESS))
        return complain(f, "cannot open", path);
    return 1;
}

static MPI_Offset offset(const struct field *f)
{
    return (MPI_Offset)(sizeof(struct header) + (size_t)f->first * sizeof(double));
}

static int write_shared(const struct field *f, const char *name)
{
    struct header head = {.order = 1, .cells = f->cells, .step = f->step};
    MPI_File file;
    int ok;

    memcpy(head.magic, MAGIC, sizeof MAGIC);
    if (!open_file(f, name, MPI_MODE_CREATE | MPI_MODE_WRONLY, &file))
        return 0;
    ok = MPI_File_set_size(file, 0) == MPI_SUCCESS; /* of an earlier job there may be a longer one */
    if (MPI_File_write_at_all(file, 0, &head, f->rank == 0 ? sizeof head : 0, MPI_BYTE, MPI_STATUS_IGNORE) != MPI_SUCCESS)
        ok = 0;
    if (MPI_File_write_at_all(file, offset(f), f->now + 1, (int)f->count, MPI_DOUBLE, MPI_STATUS_IGNORE) != MPI_SUCCESS)
        ok = 0;
    if (MPI_File_close(&file) != MPI_SUCCESS)
        ok = 0;
    return ok || complain(f, "cannot write", name);
}

static int read_shared(struct field *f, const char *name)
{
    struct header head;
    MPI_File file;
    MPI_Offset size;
    MPI_Status status;
    int ok, count;

    if (!open_file(f, name, MPI_MODE_RDONLY, &file))
        return 0;
    memset(&head, 0, sizeof head);
    ok = MPI_File_get_size(file, &size) == MPI_SUCCESS &&
         size == (MPI_Offset)(sizeof head + (size_t)f->cells * sizeof(double));
    if (MPI_File_read_at_all(file, 0, &head, sizeof head, MPI_BYTE, MPI_STATUS_IGNORE) != MPI_SUCCESS)
        ok = 0;
    ok = ok && memcmp(head.magic, MAGIC, sizeof MAGIC) == 0 && head.order == 1 && head.cells == f->cells && head.step >= 0;
    if (MPI_File_read_at_all(file, offset(f), f->now + 1, (int)f->count, MPI_DOUBLE, &status) != MPI_SUCCESS ||
        MPI_Get_count(&status, MPI_DOUBLE, &count) != MPI_SUCCESS || count != f->count)
        ok = 0;
    MPI_File_close(&file);
    f->step = head.step;
    return ok || complain(f, "this is not a checkpoint of this job:", name);
}

static int option(int letter, const char *value)
{
    (void)letter;
    (void)value;
    return 0; /* there are none */
}

const struct storage storage = {option, "", "", write_shared, read_shared};
