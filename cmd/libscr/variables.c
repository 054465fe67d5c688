//go:build mpi

/* The functions of variables.h. Each prepares the thread for Go (signals.c) and calls the function of the same name in variables.go. */

#include "variables.h"

#include "_cgo_export.h"
#include "call.h"

int goscr_variables_init(MPI_Comm *comm, unsigned id, const char *config) { CALL("VELOC_Init", go_variables_init(comm, id, config)); }
int goscr_variables_finalize(void) { CALL("VELOC_Finalize", go_variables_finalize()); }

int goscr_variables_protect(int id, void *data, size_t count, size_t size, const char *group)
{
    OF(GOSCR_BRIEF, "VELOC_Mem_protect", go_variables_protect(id, data, count, size, group));
}
int goscr_variables_unprotect(int id, const char *group) { OF(GOSCR_BRIEF, "VELOC_Mem_unprotect", go_variables_unprotect(id, group)); }
int goscr_variables_clear(const char *group) { OF(GOSCR_BRIEF, "VELOC_Mem_clear", go_variables_clear(group)); }
int goscr_variables_place(int id, void *data, size_t size, const char *group)
{
    OF(GOSCR_BRIEF, "VELOC_Mem_protect", go_variables_place(id, data, size, group));
}
int goscr_variables_uses(const char *group, int *flag) { OF(GOSCR_BRIEF, "VELOC_Mem_protect", go_variables_uses(group, flag)); }

int goscr_variables_begin(const char *name, int version) { CALL("VELOC_Checkpoint_begin", go_variables_begin(name, version)); }
int goscr_variables_write(int selection, const int *ids, int n)
{
    OF(GOSCR_LONG, "VELOC_Checkpoint_selective", go_variables_write(selection, ids, n));
}
int goscr_variables_end(int valid) { CALL("VELOC_Checkpoint_end", go_variables_end(valid)); }
int goscr_variables_checkpoint(const char *name, int version) { CALL("VELOC_Checkpoint", go_variables_checkpoint(name, version)); }

int goscr_variables_file(char *file) { OF(GOSCR_BRIEF, "VELOC_Route_file", go_variables_file(file)); }

int goscr_variables_wait(void) { CALL("VELOC_Checkpoint_wait", go_variables_wait()); }
int goscr_variables_finished(int *flag) { OF(GOSCR_BRIEF, "VELOC_Checkpoint_finished", go_variables_finished(flag)); }
int goscr_variables_remove(const char *name) { CALL("VELOC_Cleanup", go_variables_remove(name)); }

int goscr_variables_find(const char *name, int most, int rank, int *version)
{
    CALL("VELOC_Restart_test", go_variables_find(name, most, rank, version));
}
int goscr_variables_restart_begin(const char *name, int version, int rank)
{
    CALL("VELOC_Restart_begin", go_variables_restart_begin(name, version, rank));
}
int goscr_variables_size(int id, long long *size) { OF(GOSCR_LONG, "VELOC_Recover_size", go_variables_size(id, size)); }
int goscr_variables_read(int selection, const int *ids, int n)
{
    OF(GOSCR_LONG, "VELOC_Recover_selective", go_variables_read(selection, ids, n));
}
int goscr_variables_read_all(void) { CALL("VELOC_Restart", go_variables_read_all()); }
int goscr_variables_restart_end(int valid) { CALL("VELOC_Restart_end", go_variables_restart_end(valid)); }
int goscr_variables_restart(const char *name, int version) { CALL("VELOC_Restart", go_variables_restart(name, version)); }
