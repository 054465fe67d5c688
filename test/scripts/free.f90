! The module's procedures that examples/heat-fortran does without: integers for
! flags, names made by the library, named arguments.
program free
  use, intrinsic :: iso_c_binding, only: c_int
  use mpi
  use scr
  implicit none

  integer :: rank, ierror, unit, part
  integer(c_int) :: flag, status
  logical :: yes
  character(len=SCR_MAX_FILENAME) :: name, file
  character(len=:), allocatable :: own

  call MPI_Init(ierror)
  call MPI_Comm_rank(MPI_COMM_WORLD, rank, ierror)
  call scr_get_version(name, ierror)
  call expect('version', name == 'v3.1.0')
  call scr_need_checkpoint(flag, ierror)
  call scr_get_error(name, status)
  call expect('why a call failed', ierror /= SCR_SUCCESS .and. status == SCR_SUCCESS .and. &
    index(name, 'SCR_Need_checkpoint: ') == 1)
  call scr_init(ierror)
  call expect('init', ierror == SCR_SUCCESS)
  call scr_need_checkpoint(flag, ierror)
  call expect('need, an integer', ierror == SCR_SUCCESS .and. flag == 0)
  call scr_should_exit(flag, ierror)
  call expect('exit, an integer', ierror == SCR_SUCCESS .and. flag == 0)
  call scr_have_restart(flag=flag, name=name, ierror=ierror)
  call expect('have, an integer', ierror == SCR_SUCCESS)

  if (flag /= 0) then
    call expect('the name the library made', name == 'scr.dataset.3')
    call scr_start_restart(name, ierror)
    call expect('start', ierror == SCR_SUCCESS)
    call scr_complete_restart(merge(0, 1, rank == 1), ierror)
    call expect('complete, not valid on rank 1', ierror /= SCR_SUCCESS)
    call scr_have_restart(yes, name, ierror)
    call expect('the one before', ierror == SCR_SUCCESS .and. yes .and. name == 'scr.dataset.2')
    call scr_start_restart(name, ierror)
    call scr_complete_restart(rank /= 1, ierror)
    call expect('complete, false on rank 1', ierror /= SCR_SUCCESS)
    call scr_have_restart(yes, name, ierror)
    call expect('none is left', ierror == SCR_SUCCESS .and. .not. yes .and. name == '')
    if (rank == 0) print '(a)', 'restarted'
  end if

  own = 'free/' // achar(iachar('a') + rank)
  call scr_start_output('free', SCR_FLAG_OUTPUT, ierror)
  call expect('start', ierror == SCR_SUCCESS)
  call scr_complete_output(merge(0_c_int, 1_c_int, rank == 1), ierror)
  call expect('complete, 0 on rank 1', ierror /= SCR_SUCCESS)
  call MPI_Comm_split(MPI_COMM_WORLD, min(rank, 1), rank, part, ierror)
  call scr_recover(part, ierror)
  call scr_get_error(name, status)
  call expect('recover without some processes', ierror /= SCR_SUCCESS .and. &
    index(name, 'SCR_Recover: the new communicator lacks ') == 1)
  call MPI_Comm_free(part, ierror)
  call write_one(' ')
  call write_one('')
  call scr_current(name='none of these', ierror=ierror)
  call expect('current', ierror == SCR_SUCCESS)
  call scr_drop(name='none of these', ierror=ierror)
  call expect('drop', ierror == SCR_SUCCESS)
  call scr_delete(name='none of these', ierror=ierror)
  call expect('delete', ierror == SCR_SUCCESS)
  call MPI_Comm_split(MPI_COMM_WORLD, 0, -rank, part, ierror)
  call MPI_Barrier(part, ierror) ! no rank is in the call before
  call scr_recover(repaired=part, ierror=ierror)
  call expect('recover with all', ierror == SCR_SUCCESS)
  call MPI_Comm_free(part, ierror)
  call scr_have_restart(yes, name, ierror)
  call expect('a checkpoint is offered then', ierror == SCR_SUCCESS .and. yes .and. index(name, 'scr.dataset.') == 1)
  call scr_finalize(ierror)
  call expect('finalize', ierror == SCR_SUCCESS)
  if (rank == 0) print '(a)', 'end of free'
  call MPI_Finalize(ierror)

contains

  subroutine write_one(given)
    character(len=*), intent(in) :: given

    if (given == '') then
      call scr_start_checkpoint(ierror)
    else
      call scr_start_output(given, SCR_FLAG_CHECKPOINT, ierror)
    end if
    call expect('start without a name', ierror == SCR_SUCCESS)
    call scr_route_file(name=own, file=file, ierror=ierror)
    open (newunit=unit, file=file, status='replace')
    write (unit, '(a)') own
    close (unit)
    if (given == '') then
      call scr_complete_checkpoint(.true., ierror)
    else
      call scr_complete_output(1_c_int, ierror)
    end if
    call expect('complete', ierror == SCR_SUCCESS)
  end subroutine write_one

  subroutine expect(what, good)
    character(len=*), intent(in) :: what
    logical, intent(in) :: good
    logical :: all

    call MPI_Reduce(good, all, 1, MPI_LOGICAL, MPI_LAND, 0, MPI_COMM_WORLD, ierror)
    if (rank == 0) print '(3a)', trim(merge('ok    ', 'not ok', all)), ' ', what
  end subroutine expect
end program free
