! scr_cr - the functions of scr_cr.h for Fortran programs
!
! scr_cr.h says what they do.  Functions of the program are interoperable, and are passed as
! c_funloc(function):
!
!     integer(c_int) function checkpoint(restart_cmd) bind(c)  ! type(c_ptr), intent(inout) :: restart_cmd
!     integer(c_int) function continue() bind(c)               ! and the one for restart
!     integer(c_int) function notice(event, state) bind(c)     ! integer(c_int), value :: event, state
!
! They return 0, or another value after an error.  restart_cmd may become the address of a text
! that ends with c_null_char and stays.  Communicators and infos are integers; of a type(MPI_Comm) or
! type(MPI_Info) pass the component MPI_VAL.  Handles of checkpoints have a length of
! SCR_MAX_FILENAME (module scr).
!
! The module has interfaces only: no code of it is linked.  Link with -lscr_cr -lscr.  With another
! compiler than gfortran, compile this file with the program.
module scr_cr
  use, intrinsic :: iso_c_binding, only: c_int
  implicit none
  private

  integer(c_int), parameter, public :: SCR_CR_SUCCESS = 0
  integer(c_int), parameter, public :: SCR_CR_INC_PRE_CRS_PRE_MPI = 0
  integer(c_int), parameter, public :: SCR_CR_INC_PRE_CRS_POST_MPI = 1
  integer(c_int), parameter, public :: SCR_CR_INC_POST_CRS_PRE_MPI = 2
  integer(c_int), parameter, public :: SCR_CR_INC_POST_CRS_POST_MPI = 3
  integer(c_int), parameter, public :: SCR_CR_INC_STATE_PREPARE = 0
  integer(c_int), parameter, public :: SCR_CR_INC_STATE_CONTINUE = 1
  integer(c_int), parameter, public :: SCR_CR_INC_STATE_RESTART = 2
  integer(c_int), parameter, public :: SCR_CR_INC_STATE_ERROR = 3

  public :: scr_cr_inc_register_callback
  public :: scr_cr_self_register_checkpoint_callback, scr_cr_self_register_continue_callback, scr_cr_self_register_restart_callback
  public :: scr_cr_checkpoint, scr_cr_restart, scr_cr_migrate
  public :: scr_cr_quiesce_start, scr_cr_quiesce_end, scr_cr_quiesce_checkpoint

  ! These procedures are in libscr_cr.so.
  interface
    ! previous gets the callback before this one, to be called through c_f_procpointer.
    subroutine scr_cr_inc_register_callback(event, function, previous, ierror)
      use, intrinsic :: iso_c_binding, only: c_int, c_funptr
      integer(c_int), intent(in) :: event
      type(c_funptr), intent(in) :: function
      type(c_funptr), intent(out) :: previous
      integer(c_int), intent(out) :: ierror
    end subroutine scr_cr_inc_register_callback

    subroutine scr_cr_self_register_checkpoint_callback(function, ierror)
      use, intrinsic :: iso_c_binding, only: c_int, c_funptr
      type(c_funptr), intent(in) :: function
      integer(c_int), intent(out) :: ierror
    end subroutine scr_cr_self_register_checkpoint_callback

    subroutine scr_cr_self_register_continue_callback(function, ierror)
      use, intrinsic :: iso_c_binding, only: c_int, c_funptr
      type(c_funptr), intent(in) :: function
      integer(c_int), intent(out) :: ierror
    end subroutine scr_cr_self_register_continue_callback

    subroutine scr_cr_self_register_restart_callback(function, ierror)
      use, intrinsic :: iso_c_binding, only: c_int, c_funptr
      type(c_funptr), intent(in) :: function
      integer(c_int), intent(out) :: ierror
    end subroutine scr_cr_self_register_restart_callback

    subroutine scr_cr_checkpoint(handle, seq, info, ierror)
      import :: c_int
      character(len=*), intent(inout) :: handle
      integer(c_int), intent(inout) :: seq
      integer, intent(in) :: info
      integer(c_int), intent(out) :: ierror
    end subroutine scr_cr_checkpoint

    subroutine scr_cr_restart(handle, seq, info, ierror)
      import :: c_int
      character(len=*), intent(in) :: handle
      integer(c_int), intent(in) :: seq
      integer, intent(in) :: info
      integer(c_int), intent(out) :: ierror
    end subroutine scr_cr_restart

    ! A blank hostname is none.
    subroutine scr_cr_migrate(comm, hostname, rank, info, ierror)
      import :: c_int
      integer, intent(in) :: comm
      character(len=*), intent(in) :: hostname
      integer(c_int), intent(in) :: rank
      integer, intent(in) :: info
      integer(c_int), intent(out) :: ierror
    end subroutine scr_cr_migrate

    subroutine scr_cr_quiesce_start(comm, info, ierror)
      import :: c_int
      integer, intent(in) :: comm, info
      integer(c_int), intent(out) :: ierror
    end subroutine scr_cr_quiesce_start

    subroutine scr_cr_quiesce_end(comm, info, ierror)
      import :: c_int
      integer, intent(in) :: comm, info
      integer(c_int), intent(out) :: ierror
    end subroutine scr_cr_quiesce_end

    subroutine scr_cr_quiesce_checkpoint(comm, handle, seq, info, ierror)
      import :: c_int
      integer, intent(in) :: comm
      character(len=*), intent(inout) :: handle
      integer(c_int), intent(inout) :: seq
      integer, intent(in) :: info
      integer(c_int), intent(out) :: ierror
    end subroutine scr_cr_quiesce_checkpoint
  end interface
end module scr_cr
