/*
 * scrf - the functions of scr.h as subroutines for Fortran compilers
 *
 * The C function for a subroutine has a name in lower case with a trailing
 * underscore. Arguments are passed by reference. The length of each CHARACTER
 * argument follows after the last argument, as a size_t (gfortran 8 and later, and
 * the compilers of Intel, NVIDIA and LLVM on 64-bit machines). Fortran pads texts
 * with blanks, which are removed here.
 */

#include <mpi.h>
#include <stdlib.h>

#include "scr.h"
#include "text.h"

void scr_init_(int* ierror) { *ierror = SCR_Init(); }

void scr_init_comm_(const MPI_Fint* comm, int* ierror) { *ierror = SCR_Init_comm(MPI_Comm_f2c(*comm)); }

void scr_finalize_(int* ierror) { *ierror = SCR_Finalize(); }

void scr_recover_(const MPI_Fint* repaired, int* ierror) { *ierror = SCR_Recover(MPI_Comm_f2c(*repaired)); }

void scr_get_version_(char* version, int* ierror, size_t version_length)
{
    *ierror = fortran_text("SCR_GET_VERSION", "the version", SCR_Get_version(), version, version_length);
}

void scr_get_error_(char* error, int* ierror, size_t error_length)
{
    *ierror = fortran_text("SCR_GET_ERROR", "the error", SCR_Get_error(), error, error_length);
}

/* VAL is blank if the parameter has no value, or if the call sets a parameter. */
void scr_config_(const char* config, char* val, int* ierror, size_t config_length, size_t val_length)
{
    char* line = c_text(config, config_length);
    const char* value = SCR_Config(line);

    *ierror = fortran_text("SCR_CONFIG", "the value", value != NULL ? value : "", val, val_length);
    free((char*)value);
    free(line);
}

void scr_route_file_(const char* name, char* file, int* ierror, size_t name_length, size_t file_length)
{
    char path[SCR_MAX_FILENAME] = "";
    char* given = c_text(name, name_length);
    int stored;

    *ierror = SCR_Route_file(given, path);
    /* After an error, too: then the variable gets the name, as the buffer of C programs. */
    stored = fortran_text("SCR_ROUTE_FILE", "the path", *ierror != SCR_SUCCESS && given != NULL ? given : path, file, file_length);
    if (*ierror == SCR_SUCCESS) {
        *ierror = stored;
    }
    free(given);
}

void scr_have_restart_(int* flag, char* name, int* ierror, size_t name_length)
{
    char found[SCR_MAX_FILENAME] = "";

    *ierror = SCR_Have_restart(flag, found);
    if (*ierror == SCR_SUCCESS && *flag) {
        *ierror = fortran_text("SCR_HAVE_RESTART", "the name", found, name, name_length);
    }
}

void scr_start_restart_(char* name, int* ierror, size_t name_length)
{
    char found[SCR_MAX_FILENAME] = "";

    *ierror = SCR_Start_restart(found);
    if (*ierror == SCR_SUCCESS) {
        *ierror = fortran_text("SCR_START_RESTART", "the name", found, name, name_length);
    }
}

void scr_complete_restart_(const int* valid, int* ierror) { *ierror = SCR_Complete_restart(*valid); }

void scr_need_checkpoint_(int* flag, int* ierror) { *ierror = SCR_Need_checkpoint(flag); }

/* If the name is blank, the library makes one. */
void scr_start_output_(const char* name, const int* flags, int* ierror, size_t name_length)
{
    char* given = c_text(name, name_length);

    *ierror = SCR_Start_output(given != NULL && *given != '\0' ? given : NULL, *flags);
    free(given);
}

void scr_complete_output_(const int* valid, int* ierror) { *ierror = SCR_Complete_output(*valid); }

void scr_start_checkpoint_(int* ierror) { *ierror = SCR_Start_checkpoint(); }

void scr_complete_checkpoint_(const int* valid, int* ierror) { *ierror = SCR_Complete_checkpoint(*valid); }

void scr_should_exit_(int* flag, int* ierror) { *ierror = SCR_Should_exit(flag); }

/* Calls a function whose argument is the name of a dataset. */
static int named(int (*call)(const char*), const char* name, size_t length)
{
    char* given = c_text(name, length);
    int rc = call(given);

    free(given);
    return rc;
}

void scr_current_(const char* name, int* ierror, size_t name_length) { *ierror = named(SCR_Current, name, name_length); }

void scr_drop_(const char* name, int* ierror, size_t name_length) { *ierror = named(SCR_Drop, name, name_length); }

void scr_delete_(const char* name, int* ierror, size_t name_length) { *ierror = named(SCR_Delete, name, name_length); }
