/*
 * What libveloc-client.so calls in libscr.so (internal/variables). All functions return 0, or 1 if they have failed, after a
 * line on stderr that says why; the comments say what else.
 */

#ifndef GOSCR_VARIABLES_H
#define GOSCR_VARIABLES_H

#include <mpi.h>
#include <stddef.h>

/* Begins a session: of the ranks of *comm, or, if comm is NULL, of this process alone, which has a number of its own. */
int goscr_variables_init(MPI_Comm *comm, unsigned id, const char *config);
int goscr_variables_finalize(void);

/* group is NULL for variables of all names without a group. */
int goscr_variables_protect(int id, void *data, size_t count, size_t size, const char *group);
int goscr_variables_unprotect(int id, const char *group);
int goscr_variables_clear(const char *group);
/* Gives a variable of a group other memory, and leaves the other groups as they are. */
int goscr_variables_place(int id, void *data, size_t size, const char *group);
/* Stores 1 in *flag if the version that is being written or read is of the variables of the group, else 0. */
int goscr_variables_uses(const char *group, int *flag);

int goscr_variables_begin(const char *name, int version);
int goscr_variables_write(int selection, const int *ids, int n);
int goscr_variables_end(int valid);
int goscr_variables_checkpoint(const char *name, int version);

/* Stores the path of the caller's file in file, which has goscr_variables_file_size bytes. */
enum { goscr_variables_file_size = 1024 };
int goscr_variables_file(char *file);

int goscr_variables_wait(void);
/* Stores 1 in *flag if nothing of the caller goes on in the background, else 0. */
int goscr_variables_finished(int *flag);
int goscr_variables_remove(const char *name);

/* Stores the newest version that is at most `most`, if that is not 0, in *version, or -1. rank: see restart_begin. */
int goscr_variables_find(const char *name, int most, int rank, int *version);
/* With rank >= 0 the caller reads the file of that rank, in the prefix directory, and no other rank takes part. */
int goscr_variables_restart_begin(const char *name, int version, int rank);
/* Stores the size of a variable in *size, or -1. */
int goscr_variables_size(int id, long long *size);
int goscr_variables_read(int selection, const int *ids, int n);
/* Collective: all variables on all ranks, or none on any. */
int goscr_variables_read_all(void);
int goscr_variables_restart_end(int valid);
int goscr_variables_restart(const char *name, int version);

#endif
