/*
 * The C interface of VELOC 1.8, in goscr: programs name their variables, and the library writes and reads them. docs/variables.md describes it.
 * All functions return VELOC_SUCCESS or VELOC_FAILURE unless a comment says otherwise. Those marked with * are collective over
 * the communicator of VELOC_Init.
 */

#ifndef GOSCR_VELOC_H
#define GOSCR_VELOC_H

#include <mpi.h>
#include <string.h>

#include "veloc/defs.h"

#ifdef __cplusplus
extern "C" {
#endif

/* * Begins. cfg_file is a configuration file, "" if the environment has all. */
int VELOC_Init(MPI_Comm comm, const char *cfg_file);
/* The same for a process that needs no communicator, nor MPI. id is its own: no other process has it. */
int VELOC_Init_single(unsigned int id, const char *cfg_file);
/* * Ends, once all is protected and persistent that is to be, whatever `drain` is. */
int VELOC_Finalize(int drain);

/* Name a variable of count * base_size bytes. With a name, only checkpoints of that name contain it. */
int VELOC_Mem_protect(int id, void *ptr, size_t count, size_t base_size);
int VELOC_Region_protect(int id, void *ptr, size_t count, size_t base_size, const char *name);
int VELOC_Mem_unprotect(int id);
int VELOC_Region_unprotect(int id, const char *name);
int VELOC_Mem_clear(void);
int VELOC_Region_clear(const char *name);

/* * Write a version of a checkpoint: begin, mem, end. */
int VELOC_Checkpoint(const char *name, int version);
int VELOC_Checkpoint_begin(const char *name, int version);        /* * */
int VELOC_Checkpoint_mem(void);                                   /* all variables */
int VELOC_Checkpoint_selective(int mode, int *ids, int id_count); /* some of them */
int VELOC_Checkpoint_end(int success);                            /* * */
/* * Waits until the last checkpoint is protected and persistent. */
int VELOC_Checkpoint_wait(void);
/* 1 if that needs no wait on the caller, 0 if it does. */
int VELOC_Checkpoint_finished(void);

/* Stores the path of the caller's file in `routed`, which has VELOC_MAX_NAME bytes: between begin and end. */
int VELOC_Route_file(const char *original, char *routed);

/* * The newest version from which all ranks can restart; with version > 0 it is at most that. VELOC_FAILURE if there is none. */
int VELOC_Restart_test(const char *name, int version);
/* * Read a version: begin, mem, end. */
int VELOC_Restart(const char *name, int version);
int VELOC_Restart_begin(const char *name, int version);        /* * */
int VELOC_Recover_size(int id);                                /* bytes that the version has of a variable, or VELOC_FAILURE */
int VELOC_Recover_mem(void);                                   /* all variables */
int VELOC_Recover_selective(int mode, int *ids, int id_count); /* some of them */
int VELOC_Restart_end(int success);                            /* * */

/* * Removes the checkpoints of a name from the caches of the nodes, not from the persistent directory. */
int VELOC_Cleanup(const char *name);

#ifdef __cplusplus
}
#endif

#endif
