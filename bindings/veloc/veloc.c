/* libveloc-client.so: the functions of veloc.h. All that they do is in libscr.so. */

#include <limits.h>
#include <stdio.h>

#include "veloc.h"

#include "variables.h"

int VELOC_Restart_test_of(const char *name, int version, int target_rank);
int VELOC_Restart_begin_of(const char *name, int version, int target_rank);
int VELOC_Place_of(int id, void *ptr, size_t size, const char *name);
int VELOC_Uses_of(const char *name);
int VELOC_Recover_all_of(void);
long long VELOC_Recover_size_of(int id);

static int result(int failed) { return failed ? VELOC_FAILURE : VELOC_SUCCESS; }

int VELOC_Init(MPI_Comm comm, const char *cfg_file) { return result(goscr_variables_init(&comm, 0, cfg_file)); }
int VELOC_Init_single(unsigned int id, const char *cfg_file) { return result(goscr_variables_init(NULL, id, cfg_file)); }

int VELOC_Finalize(int drain)
{
    (void)drain;
    return result(goscr_variables_finalize());
}

int VELOC_Mem_protect(int id, void *ptr, size_t count, size_t base_size)
{
    return result(goscr_variables_protect(id, ptr, count, base_size, NULL));
}
int VELOC_Region_protect(int id, void *ptr, size_t count, size_t base_size, const char *name)
{
    return result(goscr_variables_protect(id, ptr, count, base_size, name));
}
int VELOC_Mem_unprotect(int id) { return result(goscr_variables_unprotect(id, NULL)); }
int VELOC_Region_unprotect(int id, const char *name) { return result(goscr_variables_unprotect(id, name)); }
int VELOC_Mem_clear(void) { return result(goscr_variables_clear(NULL)); }
int VELOC_Region_clear(const char *name) { return result(goscr_variables_clear(name)); }

int VELOC_Checkpoint(const char *name, int version) { return result(goscr_variables_checkpoint(name, version)); }
int VELOC_Checkpoint_begin(const char *name, int version) { return result(goscr_variables_begin(name, version)); }
int VELOC_Checkpoint_mem(void) { return result(goscr_variables_write(VELOC_CKPT_ALL, NULL, 0)); }
int VELOC_Checkpoint_selective(int mode, int *ids, int id_count) { return result(goscr_variables_write(mode, ids, id_count)); }
int VELOC_Checkpoint_end(int success) { return result(goscr_variables_end(success)); }
int VELOC_Checkpoint_wait(void) { return result(goscr_variables_wait()); }

int VELOC_Checkpoint_finished(void)
{
    int finished = 0;

    return goscr_variables_finished(&finished) ? VELOC_FAILURE : finished;
}

int VELOC_Route_file(const char *original, char *routed)
{
    char path[goscr_variables_file_size] = "";
    int failed = goscr_variables_file(path);

    (void)original; /* in the persistent directory, too, the file is NAME-RANK-VERSION.dat */
    if (routed != NULL)
        snprintf(routed, VELOC_MAX_NAME, "%s", path);
    return result(failed);
}

/* Those that end in _of are for veloc.hpp. */
int VELOC_Restart_test_of(const char *name, int version, int target_rank)
{
    int found = -1;

    return goscr_variables_find(name, version, target_rank, &found) ? VELOC_FAILURE : found;
}
int VELOC_Restart_begin_of(const char *name, int version, int target_rank)
{
    return result(goscr_variables_restart_begin(name, version, target_rank));
}
int VELOC_Place_of(int id, void *ptr, size_t size, const char *name) { return result(goscr_variables_place(id, ptr, size, name)); }
int VELOC_Uses_of(const char *name)
{
    int flag = 0;

    return goscr_variables_uses(name, &flag) == 0 && flag;
}
int VELOC_Recover_all_of(void) { return result(goscr_variables_read_all()); }
long long VELOC_Recover_size_of(int id)
{
    long long size = -1;

    return goscr_variables_size(id, &size) ? -1 : size;
}

int VELOC_Restart_test(const char *name, int version) { return VELOC_Restart_test_of(name, version, -1); }
int VELOC_Restart(const char *name, int version) { return result(goscr_variables_restart(name, version)); }
int VELOC_Restart_begin(const char *name, int version) { return VELOC_Restart_begin_of(name, version, -1); }

int VELOC_Recover_size(int id)
{
    long long size = VELOC_Recover_size_of(id);

    return size < 0 || size > INT_MAX ? VELOC_FAILURE : (int)size;
}

int VELOC_Recover_mem(void) { return result(goscr_variables_read(VELOC_RECOVER_ALL, NULL, 0)); }
int VELOC_Recover_selective(int mode, int *ids, int id_count) { return result(goscr_variables_read(mode, ids, id_count)); }
int VELOC_Restart_end(int success) { return result(goscr_variables_restart_end(success)); }

int VELOC_Cleanup(const char *name) { return result(goscr_variables_remove(name)); }
