! A program that takes part in its checkpoints (44-languages.sh); takespart.py is the same in Python.
!
!     takespart self STEPS [register]  saves and restores itself after every second step, by functions
!                                      that it exports, or registers
!     takespart inc                    has callbacks called around a checkpoint
!     takespart refuse                 ... of which that of the last rank refuses it
!     takespart again MARKER           asks after step 5 to be started again from step 2, unless the file
!                                      MARKER exists, which it makes then
!     takespart alone                  asks for what only scr_run does
!     takespart quiet                  sends a message, and writes a checkpoint before it is received
module functions
  use, intrinsic :: iso_c_binding
  use scr_cr
  implicit none
  integer :: rank = -1, step = 0
  logical :: refuses = .false., restarted = .false.
  type(c_funptr) :: below(0:3)

  abstract interface
    integer(c_int) function callback(event, state) bind(c)
      import :: c_int
      integer(c_int), value :: event, state
    end function callback
  end interface
contains
  subroutine say(what, number)
    use, intrinsic :: iso_fortran_env, only: output_unit
    character(len=*), intent(in) :: what
    integer, intent(in) :: number
    write (output_unit, '(i0,1x,a,1x,i0)') rank, what, number
    flush (output_unit)
  end subroutine say

  integer(c_int) function save_state(restart_cmd) bind(c, name='opal_crs_self_user_checkpoint')
    type(c_ptr), intent(inout) :: restart_cmd
    character(kind=c_char, len=13), target, save :: command = 'takespart on' // c_null_char
    integer :: unit, status
    open (newunit=unit, file='state', status='new', action='write', iostat=status)
    if (status == 0) write (unit, *, iostat=status) step, rank
    if (status == 0) close (unit, iostat=status)
    if (c_associated(restart_cmd)) status = 1
    restart_cmd = c_loc(command)
    save_state = int(status, c_int)
  end function save_state

  integer(c_int) function went_on() bind(c, name='opal_crs_self_user_continue')
    call say('continues', step)
    went_on = 0
  end function went_on

  integer(c_int) function restore_state() bind(c, name='opal_crs_self_user_restart')
    integer :: unit, status, whose
    open (newunit=unit, file='state', status='old', action='read', iostat=status)
    if (status == 0) read (unit, *, iostat=status) step, whose
    if (status == 0) close (unit, iostat=status)
    rank = whose ! checked by main
    restarted = status == 0
    restore_state = int(status, c_int)
  end function restore_state

  integer(c_int) function lower(event, state) bind(c)
    integer(c_int), value :: event, state
    call say('lower', 10 * int(event) + int(state))
    lower = 0
    if (refuses .and. event == SCR_CR_INC_PRE_CRS_POST_MPI) lower = 5
  end function lower

  integer(c_int) function upper(event, state) bind(c)
    integer(c_int), value :: event, state
    procedure(callback), pointer :: next
    call say('upper', 10 * int(event) + int(state))
    call c_f_procpointer(below(event), next)
    upper = next(event, state)
  end function upper
end module functions

program takespart
  use mpi
  use scr, only: SCR_MAX_FILENAME
  use functions
  implicit none
  character(len=SCR_MAX_FILENAME) :: mode, given, prefix, handle, handles(9), short*3
  integer :: ierror, steps, place, ranks, unit, seq, seqs(9), n = 0, value
  logical :: there, asked = .false.
  integer(c_int) :: failed, event
  type(c_funptr) :: previous

  call get_command_argument(1, mode)
  call get_command_argument(2, given)
  call get_environment_variable('SCR_PREFIX', prefix)
  if (mode /= 'quiet' .and. command_argument_count() == 3) call register()
  call MPI_Init(ierror)
  call MPI_Comm_rank(MPI_COMM_WORLD, place, ierror)
  call MPI_Comm_size(MPI_COMM_WORLD, ranks, ierror)
  if (rank /= -1 .and. rank /= place) call say('has the state of another rank than', place)
  rank = place
  if (restarted) call say('restarts', step)
  select case (mode)
  case ('self')
    read (given, *) steps
    do step = step + 1, steps
      if (mod(step, 2) == 0) call write_checkpoint()
    end do
  case ('inc', 'refuse')
    refuses = mode == 'refuse' .and. rank == ranks - 1
    do event = 0, 3
      call scr_cr_inc_register_callback(event, c_funloc(lower), previous, failed)
      if (failed /= 0) call say('cannot register', int(event))
      call scr_cr_inc_register_callback(event, c_funloc(upper), below(event), failed)
      if (failed /= 0) call say('cannot register', int(event))
    end do
    call scr_cr_inc_register_callback(4_c_int, c_funloc(lower), previous, failed)
    call say('wrong event', merge(1, 0, failed /= 0))
    call write_checkpoint()
    short = 'xyz'
    if (mode == 'inc') then
      call scr_cr_checkpoint(short, seq, MPI_INFO_NULL, failed)
      call say('short handle' // short, merge(1, 0, failed /= 0))
    end if
  case ('again')
    step = step + 1
    do while (step <= 6 .or. asked)
      if (mod(step, 2) == 0 .and. .not. asked) call write_checkpoint()
      inquire (file=given, exist=there)
      call MPI_Barrier(MPI_COMM_WORLD, ierror)
      if (step == 5 .and. .not. there) then
        asked = .true.
        if (rank == 1) then
          open (newunit=unit, file=given, status='new')
          close (unit)
          call scr_cr_restart(handles(1), seqs(1), MPI_INFO_NULL, failed)
          if (failed /= 0) call MPI_Abort(MPI_COMM_WORLD, 4, ierror)
        end if
      end if
      step = step + 1
    end do
  case ('alone')
    call write_checkpoint()
    call scr_cr_restart(handles(1), seqs(1), MPI_INFO_NULL, failed)
    call say('restart fails', merge(1, 0, failed /= 0))
    call scr_cr_migrate(MPI_COMM_WORLD, ' ', -1, MPI_INFO_NULL, failed)
    call say('migration fails', merge(1, 0, failed /= 0))
    call scr_cr_quiesce_end(MPI_COMM_WORLD, MPI_INFO_NULL, failed)
    call say('quiesce_end fails', merge(1, 0, failed /= 0))
    call scr_cr_quiesce_checkpoint(MPI_COMM_WORLD, handle, seq, MPI_INFO_NULL, failed)
    call say('quiesce_checkpoint fails', merge(1, 0, failed /= 0))
  case ('quiet')
    call in_transit()
  end select
  call say('ends', step)
  call MPI_Finalize(ierror)
contains
  subroutine register()
    call scr_cr_self_register_checkpoint_callback(c_funloc(save_state), failed)
    if (failed == 0) call scr_cr_self_register_continue_callback(c_funloc(went_on), failed)
    if (failed == 0) call scr_cr_self_register_restart_callback(c_funloc(restore_state), failed)
    if (failed /= 0) error stop 'register'
  end subroutine register

  subroutine write_checkpoint()
    handle = 'xyz'
    seq = -1
    call scr_cr_checkpoint(handle, seq, MPI_INFO_NULL, failed)
    call say('checkpoint', merge(seq, -1, failed == 0))
    if (failed == 0 .and. handle /= prefix) call say('handle ' // trim(handle), 1)
    n = n + 1
    handles(n) = handle
    seqs(n) = seq
  end subroutine write_checkpoint

  subroutine in_transit()
    if (.not. restarted .and. rank == 0) call MPI_Send(4711, 1, MPI_INTEGER, 1, 7, MPI_COMM_WORLD, ierror)
    if (.not. restarted) then
      call scr_cr_quiesce_start(MPI_COMM_WORLD, MPI_INFO_NULL, failed)
      if (failed /= 0) call say('quiesce_start fails', 1)
      call MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN, ierror)
      if (failed == 0 .and. rank == 0) then
        call MPI_Send(1, 1, MPI_INTEGER, 1, 7, MPI_COMM_WORLD, ierror)
        call say('send fails', merge(1, 0, ierror /= MPI_SUCCESS))
      end if
      if (failed == 0) then
        call scr_cr_quiesce_checkpoint(MPI_COMM_WORLD, handle, seq, MPI_INFO_NULL, failed)
        call say('checkpoint', merge(seq, -1, failed == 0))
        call scr_cr_quiesce_end(MPI_COMM_WORLD, MPI_INFO_NULL, failed)
      end if
    end if
    if (rank == 1) then
      call MPI_Recv(value, 1, MPI_INTEGER, 0, 7, MPI_COMM_WORLD, MPI_STATUS_IGNORE, ierror)
      call say('receives', value)
    end if
  end subroutine in_transit
end program takespart
