/*
 * hdf5.c - a checkpoint in HDF5: one file of all ranks, or one for each group of ranks
 *
 *   -d mpio    (default) one file, which all ranks write together. It needs storage that all
 *              ranks share: SCR_CACHE_BYPASS=1, or a store with GROUP=WORLD. Any number of
 *              ranks can restart from it.
 *   -d core    a file for each group, which its first rank builds in memory and writes at once
 *   -d split   the same with two files, one of them for HDF5's own data
 *   -g RANKS   ranks of a group (default 1). With as many as a node has, there is one file a node.
 *
 * Files of groups go through the cache of the nodes. The first rank of a group collects the cells of
 * the group by messages, so that a restart works wherever the ranks then are.
 *
 * Each file has a dataset "field", and "magic", "step", "cells", "first" as attributes.
 */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <hdf5.h>

#include "field.h"

enum { MAGIC = 0x464c4435 };

static const char *driver = "mpio";
static int group = 1;

/* The cells that a file has, and who writes it. */
struct part {
    MPI_Comm comm; /* of the ranks whose cells these are */
    int writes;    /* whether this rank opens the file */
    int64_t first, count;
    int *counts, *starts; /* of each rank of the group, if this rank collects their cells */
    double *cells;        /* of this rank with mpio, else of the group */
};

static int option(int letter, const char *value)
{
    if (letter == 'd')
        driver = value;
    else
        group = atoi(value);
    return group > 0 && (strcmp(driver, "mpio") == 0 || strcmp(driver, "core") == 0 || strcmp(driver, "split") == 0);
}

static int together(void) { return strcmp(driver, "mpio") == 0; }

static struct part begin_part(const struct field *f)
{
    struct part p = {.comm = MPI_COMM_WORLD, .writes = 1, .first = f->first, .count = f->count, .cells = f->now + 1};
    int leader = f->rank / group * group, end = leader + group < f->ranks ? leader + group : f->ranks, r;

    if (together())
        return p;
    MPI_Comm_split(MPI_COMM_WORLD, leader, f->rank, &p.comm);
    p.writes = f->rank == leader;
    p.first = first_of(f, leader);
    p.count = first_of(f, end) - p.first;
    p.counts = calloc((size_t)(end - leader), sizeof *p.counts);
    p.starts = calloc((size_t)(end - leader), sizeof *p.starts);
    p.cells = calloc((size_t)p.count, sizeof *p.cells);
    if (p.counts == NULL || p.starts == NULL || p.cells == NULL)
        MPI_Abort(MPI_COMM_WORLD, 1);
    for (r = leader; r < end; r++) {
        p.counts[r - leader] = (int)(first_of(f, r + 1) - first_of(f, r));
        p.starts[r - leader] = (int)(first_of(f, r) - p.first);
    }
    return p;
}

static void end_part(struct part *p)
{
    if (together())
        return;
    free(p->counts);
    free(p->starts);
    free(p->cells);
    MPI_Comm_free(&p->comm);
}

/* Routes one file of a checkpoint. */
static int route(const char *name, const struct field *f, const char *suffix, char *path)
{
    char wanted[SCR_MAX_FILENAME + 64];

    if (together())
        snprintf(wanted, sizeof wanted, "%s/field%s", name, suffix);
    else
        snprintf(wanted, sizeof wanted, "%s/part_%d%s", name, f->rank / group, suffix);
    return SCR_Route_file(wanted, path) == SCR_SUCCESS;
}

/* Finds the path for H5Fcreate or H5Fopen, and sets the driver. */
static int place(const char *name, const struct field *f, hid_t access, char *path)
{
    static const char META[] = "-m.h5", RAW[] = "-r.h5";
    char raw[SCR_MAX_FILENAME];
    size_t stem;

    if (together())
        return route(name, f, ".h5", path) && H5Pset_fapl_mpio(access, MPI_COMM_WORLD, MPI_INFO_NULL) >= 0;
    if (strcmp(driver, "core") == 0)
        return route(name, f, ".h5", path) && H5Pset_fapl_core(access, 1 << 20, 1) >= 0;
    /* HDF5 appends META and RAW to one path, so both files have to be in one directory. */
    if (!route(name, f, META, path) || !route(name, f, RAW, raw))
        return 0;
    stem = strlen(path) - strlen(META);
    if (strncmp(path, raw, stem) != 0)
        return complain(f, "not in one directory:", raw);
    path[stem] = '\0';
    return H5Pset_fapl_split(access, META, H5P_DEFAULT, RAW, H5P_DEFAULT) >= 0;
}

static hid_t open_file(const char *name, const struct field *f, const struct part *p, int create)
{
    hid_t access = H5Pcreate(H5P_FILE_ACCESS), file = -1;
    char path[SCR_MAX_FILENAME] = "";
    int ok = place(name, f, access, path);

    if (together())
        ok = everywhere(p->comm, ok);
    if (ok)
        file = create ? H5Fcreate(path, H5F_ACC_TRUNC, H5P_DEFAULT, access) : H5Fopen(path, H5F_ACC_RDONLY, access);
    H5Pclose(access);
    if (together() && !everywhere(p->comm, file >= 0))
        file = -1;
    if (file < 0)
        complain(f, "cannot open", path);
    return file;
}

static int put(hid_t file, const char *what, int64_t value)
{
    hid_t one = H5Screate(H5S_SCALAR);
    hid_t at = H5Acreate2(file, what, H5T_STD_I64LE, one, H5P_DEFAULT, H5P_DEFAULT);
    int ok = H5Awrite(at, H5T_NATIVE_INT64, &value) >= 0;

    H5Aclose(at);
    H5Sclose(one);
    return ok;
}

static int64_t get(hid_t file, const char *what)
{
    int64_t value = -1;
    hid_t at;

    if (H5Aexists(file, what) <= 0)
        return -1;
    at = H5Aopen(file, what, H5P_DEFAULT);
    if (H5Aread(at, H5T_NATIVE_INT64, &value) < 0)
        value = -1;
    H5Aclose(at);
    return value;
}

/* Writes or reads the cells of this rank. */
static int transfer(hid_t set, const struct field *f, const struct part *p, int write)
{
    hsize_t start = (hsize_t)(together() ? p->first : 0), count = (hsize_t)p->count;
    hid_t memory = H5Screate_simple(1, &count, NULL), space = H5Dget_space(set), how = H5Pcreate(H5P_DATASET_XFER);
    hsize_t total = (hsize_t)(together() ? f->cells : p->count);
    int ok = H5Sget_simple_extent_ndims(space) == 1 && H5Sget_simple_extent_npoints(space) == (hssize_t)total;

    ok = ok && H5Sselect_hyperslab(space, H5S_SELECT_SET, &start, NULL, &count, NULL) >= 0;
    if (together())
        H5Pset_dxpl_mpio(how, H5FD_MPIO_COLLECTIVE);
    if (ok && write)
        ok = H5Dwrite(set, H5T_NATIVE_DOUBLE, memory, space, how, p->cells) >= 0;
    else if (ok)
        ok = H5Dread(set, H5T_NATIVE_DOUBLE, memory, space, how, p->cells) >= 0;
    H5Pclose(how);
    H5Sclose(space);
    H5Sclose(memory);
    return ok;
}

static int64_t first_in_file(const struct part *p) { return together() ? 0 : p->first; }

static int write_file(const struct field *f, const struct part *p, const char *name)
{
    hsize_t total = (hsize_t)(together() ? f->cells : p->count);
    hid_t file = open_file(name, f, p, 1), space, set;
    int ok;

    if (file < 0)
        return 0;
    space = H5Screate_simple(1, &total, NULL);
    set = H5Dcreate2(file, "field", H5T_IEEE_F64LE, space, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
    ok = put(file, "magic", MAGIC) && put(file, "cells", f->cells) && put(file, "first", first_in_file(p)) &&
         put(file, "step", f->step) && set >= 0 && transfer(set, f, p, 1);
    H5Dclose(set);
    H5Sclose(space);
    if (H5Fclose(file) < 0)
        ok = 0;
    return ok || complain(f, "cannot write", name);
}

static int read_file(struct field *f, struct part *p, const char *name)
{
    hid_t file = open_file(name, f, p, 0), set;
    int ok;

    if (file < 0)
        return 0;
    ok = get(file, "magic") == MAGIC && get(file, "cells") == f->cells && get(file, "first") == first_in_file(p);
    f->step = get(file, "step");
    ok = ok && f->step >= 0 && H5Lexists(file, "field", H5P_DEFAULT) > 0;
    if (ok) { /* all ranks have read the same attributes, so all come here or none */
        set = H5Dopen2(file, "field", H5P_DEFAULT);
        ok = transfer(set, f, p, 0);
        H5Dclose(set);
    }
    if (H5Fclose(file) < 0)
        ok = 0;
    return ok || complain(f, "this is not a checkpoint of this job:", name);
}

static int write_field(const struct field *f, const char *name)
{
    struct part p = begin_part(f);
    int ok = 1;

    if (!together())
        MPI_Gatherv(f->now + 1, (int)f->count, MPI_DOUBLE, p.cells, p.counts, p.starts, MPI_DOUBLE, 0, p.comm);
    if (p.writes)
        ok = write_file(f, &p, name);
    end_part(&p);
    return ok;
}

static int read_field(struct field *f, const char *name)
{
    struct part p = begin_part(f);
    int ok = 1;

    if (p.writes)
        ok = read_file(f, &p, name);
    if (!together()) {
        MPI_Bcast(&ok, 1, MPI_INT, 0, p.comm);
        MPI_Bcast(&f->step, 1, MPI_INT64_T, 0, p.comm);
        MPI_Scatterv(p.cells, p.counts, p.starts, MPI_DOUBLE, f->now + 1, (int)f->count, MPI_DOUBLE, 0, p.comm);
    }
    end_part(&p);
    return ok;
}

const struct storage storage = {
    option, "d:g:",
    " [-d mpio|core|split] [-g RANKS]\n"
    "  -d   one file of all ranks (mpio), or one of each group, by that driver of HDF5\n"
    "  -g   ranks of a group (default 1)",
    write_field, read_field};
