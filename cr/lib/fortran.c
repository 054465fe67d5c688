/*
 * The functions of scr_cr.h as subroutines for Fortran programs; bindings/fortran/scr_cr.f90 has
 * their interfaces.  Names and texts are those of bindings/fortran/scrf.c.  A function of the
 * program is passed as a type(c_funptr).
 */

#include "scr_cr.h"

#include "text.h"

#include <stdlib.h>

void scr_cr_inc_register_callback_(const int *event, const SCR_CR_INC_callback_function *function, SCR_CR_INC_callback_function *previous,
                                   int *ierror)
{
    *ierror = SCR_CR_INC_register_callback((SCR_CR_INC_callback_event_t)*event, *function, previous);
}

void scr_cr_self_register_checkpoint_callback_(const SCR_CR_self_checkpoint_fn *function, int *ierror)
{
    *ierror = SCR_CR_self_register_checkpoint_callback(*function);
}

void scr_cr_self_register_continue_callback_(const SCR_CR_self_continue_fn *function, int *ierror)
{
    *ierror = SCR_CR_self_register_continue_callback(*function);
}

void scr_cr_self_register_restart_callback_(const SCR_CR_self_restart_fn *function, int *ierror)
{
    *ierror = SCR_CR_self_register_restart_callback(*function);
}

/* Gives the handle to Fortran.  A checkpoint that is complete stays, even if its handle has no room. */
static int give(const char *call, int failed, char *found, char *handle, size_t length)
{
    if (!failed)
        failed = fortran_text(call, "the handle", found, handle, length);
    free(found);
    return failed;
}

void scr_cr_checkpoint_(char *handle, int *seq, const MPI_Fint *info, int *ierror, size_t length)
{
    char *found = NULL;
    int failed = SCR_CR_Checkpoint(&found, seq, MPI_Info_f2c(*info));

    *ierror = give("SCR_CR_CHECKPOINT", failed, found, handle, length);
}

void scr_cr_restart_(const char *handle, const int *seq, const MPI_Fint *info, int *ierror, size_t length)
{
    char *given = c_text(handle, length);

    *ierror = SCR_CR_Restart(given, *seq, MPI_Info_f2c(*info));
    free(given);
}

void scr_cr_migrate_(const MPI_Fint *comm, const char *hostname, const int *rank, const MPI_Fint *info, int *ierror, size_t length)
{
    char *given = c_text(hostname, length);

    *ierror = SCR_CR_Migrate(MPI_Comm_f2c(*comm), given, *rank, MPI_Info_f2c(*info));
    free(given);
}

void scr_cr_quiesce_start_(const MPI_Fint *comm, const MPI_Fint *info, int *ierror)
{
    *ierror = SCR_CR_Quiesce_start(MPI_Comm_f2c(*comm), MPI_Info_f2c(*info));
}

void scr_cr_quiesce_end_(const MPI_Fint *comm, const MPI_Fint *info, int *ierror)
{
    *ierror = SCR_CR_Quiesce_end(MPI_Comm_f2c(*comm), MPI_Info_f2c(*info));
}

void scr_cr_quiesce_checkpoint_(const MPI_Fint *comm, char *handle, int *seq, const MPI_Fint *info, int *ierror, size_t length)
{
    char *found = NULL;
    int failed = SCR_CR_Quiesce_checkpoint(MPI_Comm_f2c(*comm), &found, seq, MPI_Info_f2c(*info));

    *ierror = give("SCR_CR_QUIESCE_CHECKPOINT", failed, found, handle, length);
}
