! scr - goscr for Fortran programs: the subroutines with explicit interfaces
!
! The subroutines and their arguments are the same as in scrf.h.  With this module
! the compiler checks the number and the kinds of arguments.  The arguments flag and
! valid can be logical as well as integer.
!
!     use scr
!     call scr_have_restart(flag, name, ierror)
!
! libscrf.so contains this module as gfortran compiled it.  With another compiler,
! compile this file with the program and link both with -lscrf.
module scr
  use, intrinsic :: iso_c_binding, only: c_int
  implicit none
  private

  integer(c_int), parameter, public :: SCR_SUCCESS = 0
  integer, parameter, public :: SCR_MAX_FILENAME = 1024
  integer(c_int), parameter, public :: SCR_FLAG_NONE = 0
  integer(c_int), parameter, public :: SCR_FLAG_CHECKPOINT = 1
  integer(c_int), parameter, public :: SCR_FLAG_OUTPUT = 2

  public :: scr_init, scr_init_comm, scr_finalize, scr_recover, scr_get_version, scr_get_error, scr_config, scr_route_file
  public :: scr_have_restart, scr_start_restart, scr_complete_restart
  public :: scr_need_checkpoint, scr_start_output, scr_complete_output
  public :: scr_start_checkpoint, scr_complete_checkpoint, scr_should_exit
  public :: scr_current, scr_drop, scr_delete

  ! These procedures are in scrf.c.
  interface
    subroutine scr_init(ierror)
      import :: c_int
      integer(c_int), intent(out) :: ierror
    end subroutine scr_init

    ! For a type(MPI_Comm), pass its component MPI_VAL.
    subroutine scr_init_comm(comm, ierror)
      import :: c_int
      integer, intent(in) :: comm
      integer(c_int), intent(out) :: ierror
    end subroutine scr_init_comm

    subroutine scr_finalize(ierror)
      import :: c_int
      integer(c_int), intent(out) :: ierror
    end subroutine scr_finalize

    subroutine scr_recover(repaired, ierror)
      import :: c_int
      integer, intent(in) :: repaired
      integer(c_int), intent(out) :: ierror
    end subroutine scr_recover

    subroutine scr_get_version(version, ierror)
      import :: c_int
      character(len=*), intent(out) :: version
      integer(c_int), intent(out) :: ierror
    end subroutine scr_get_version

    subroutine scr_get_error(error, ierror)
      import :: c_int
      character(len=*), intent(out) :: error
      integer(c_int), intent(out) :: ierror
    end subroutine scr_get_error

    subroutine scr_config(config, val, ierror)
      import :: c_int
      character(len=*), intent(in) :: config
      character(len=*), intent(out) :: val
      integer(c_int), intent(out) :: ierror
    end subroutine scr_config

    subroutine scr_route_file(name, file, ierror)
      import :: c_int
      character(len=*), intent(in) :: name
      character(len=*), intent(out) :: file
      integer(c_int), intent(out) :: ierror
    end subroutine scr_route_file

    subroutine scr_start_restart(name, ierror)
      import :: c_int
      character(len=*), intent(inout) :: name
      integer(c_int), intent(out) :: ierror
    end subroutine scr_start_restart

    subroutine scr_start_output(name, flags, ierror)
      import :: c_int
      character(len=*), intent(in) :: name
      integer(c_int), intent(in) :: flags
      integer(c_int), intent(out) :: ierror
    end subroutine scr_start_output

    subroutine scr_start_checkpoint(ierror)
      import :: c_int
      integer(c_int), intent(out) :: ierror
    end subroutine scr_start_checkpoint

    subroutine scr_current(name, ierror)
      import :: c_int
      character(len=*), intent(in) :: name
      integer(c_int), intent(out) :: ierror
    end subroutine scr_current

    subroutine scr_drop(name, ierror)
      import :: c_int
      character(len=*), intent(in) :: name
      integer(c_int), intent(out) :: ierror
    end subroutine scr_drop

    subroutine scr_delete(name, ierror)
      import :: c_int
      character(len=*), intent(in) :: name
      integer(c_int), intent(out) :: ierror
    end subroutine scr_delete
  end interface

  interface scr_have_restart
    subroutine scr_have_restart(flag, name, ierror)
      import :: c_int
      integer(c_int), intent(out) :: flag
      character(len=*), intent(inout) :: name
      integer(c_int), intent(out) :: ierror
    end subroutine scr_have_restart
    module procedure scr_have_restart_logical
  end interface scr_have_restart

  interface scr_need_checkpoint
    subroutine scr_need_checkpoint(flag, ierror)
      import :: c_int
      integer(c_int), intent(out) :: flag, ierror
    end subroutine scr_need_checkpoint
    module procedure scr_need_checkpoint_logical
  end interface scr_need_checkpoint

  interface scr_should_exit
    subroutine scr_should_exit(flag, ierror)
      import :: c_int
      integer(c_int), intent(out) :: flag, ierror
    end subroutine scr_should_exit
    module procedure scr_should_exit_logical
  end interface scr_should_exit

  interface scr_complete_restart
    subroutine scr_complete_restart(valid, ierror)
      import :: c_int
      integer(c_int), intent(in) :: valid
      integer(c_int), intent(out) :: ierror
    end subroutine scr_complete_restart
    module procedure scr_complete_restart_logical
  end interface scr_complete_restart

  interface scr_complete_output
    subroutine scr_complete_output(valid, ierror)
      import :: c_int
      integer(c_int), intent(in) :: valid
      integer(c_int), intent(out) :: ierror
    end subroutine scr_complete_output
    module procedure scr_complete_output_logical
  end interface scr_complete_output

  interface scr_complete_checkpoint
    subroutine scr_complete_checkpoint(valid, ierror)
      import :: c_int
      integer(c_int), intent(in) :: valid
      integer(c_int), intent(out) :: ierror
    end subroutine scr_complete_checkpoint
    module procedure scr_complete_checkpoint_logical
  end interface scr_complete_checkpoint

contains

  subroutine scr_have_restart_logical(flag, name, ierror)
    logical, intent(out) :: flag
    character(len=*), intent(inout) :: name
    integer(c_int), intent(out) :: ierror
    integer(c_int) :: answer

    call scr_have_restart(answer, name, ierror)
    flag = answer /= 0
    if (.not. flag) name = '' ! the subroutine with an integer leaves it, as SCR's does
  end subroutine scr_have_restart_logical

  subroutine scr_need_checkpoint_logical(flag, ierror)
    logical, intent(out) :: flag
    integer(c_int), intent(out) :: ierror
    integer(c_int) :: answer

    call scr_need_checkpoint(answer, ierror)
    flag = answer /= 0
  end subroutine scr_need_checkpoint_logical

  subroutine scr_should_exit_logical(flag, ierror)
    logical, intent(out) :: flag
    integer(c_int), intent(out) :: ierror
    integer(c_int) :: answer

    call scr_should_exit(answer, ierror)
    flag = answer /= 0
  end subroutine scr_should_exit_logical

  subroutine scr_complete_restart_logical(valid, ierror)
    logical, intent(in) :: valid
    integer(c_int), intent(out) :: ierror

    call scr_complete_restart(merge(1_c_int, 0_c_int, valid), ierror)
  end subroutine scr_complete_restart_logical

  subroutine scr_complete_output_logical(valid, ierror)
    logical, intent(in) :: valid
    integer(c_int), intent(out) :: ierror

    call scr_complete_output(merge(1_c_int, 0_c_int, valid), ierror)
  end subroutine scr_complete_output_logical

  subroutine scr_complete_checkpoint_logical(valid, ierror)
    logical, intent(in) :: valid
    integer(c_int), intent(out) :: ierror

    call scr_complete_checkpoint(merge(1_c_int, 0_c_int, valid), ierror)
  end subroutine scr_complete_checkpoint_logical

end module scr
