integer(c_int), parameter, public :: SCR_CR_INC_POST_CRS_POST_MPI = 3
integer(c_int), parameter, public :: SCR_CR_INC_POST_CRS_PRE_MPI = 2
integer(c_int), parameter, public :: SCR_CR_INC_PRE_CRS_POST_MPI = 1
integer(c_int), parameter, public :: SCR_CR_INC_PRE_CRS_PRE_MPI = 0
integer(c_int), parameter, public :: SCR_CR_INC_STATE_CONTINUE = 1
integer(c_int), parameter, public :: SCR_CR_INC_STATE_ERROR = 3
integer(c_int), parameter, public :: SCR_CR_INC_STATE_PREPARE = 0
integer(c_int), parameter, public :: SCR_CR_INC_STATE_RESTART = 2
integer(c_int), parameter, public :: SCR_CR_SUCCESS = 0
subroutine scr_cr_checkpoint(handle, seq, info, ierror)
subroutine scr_cr_inc_register_callback(event, function, previous, ierror)
subroutine scr_cr_migrate(comm, hostname, rank, info, ierror)
subroutine scr_cr_quiesce_checkpoint(comm, handle, seq, info, ierror)
subroutine scr_cr_quiesce_end(comm, info, ierror)
subroutine scr_cr_quiesce_start(comm, info, ierror)
subroutine scr_cr_restart(handle, seq, info, ierror)
subroutine scr_cr_self_register_checkpoint_callback(function, ierror)
subroutine scr_cr_self_register_continue_callback(function, ierror)
subroutine scr_cr_self_register_restart_callback(function, ierror)
