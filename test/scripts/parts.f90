! Two jobs in one world, each on a part of it, with checkpoints of its own.
program parts
  use mpi
  use scr
  implicit none

  integer :: world, color, comm, rank, unit, ierror
  logical :: have
  character(len=SCR_MAX_FILENAME) :: name, file, text, prefix
  character(len=1) :: part

  call MPI_Init(ierror)
  call MPI_Comm_rank(MPI_COMM_WORLD, world, ierror)
  color = mod(world, 2)
  write (part, '(i1)') color
  call MPI_Comm_split(MPI_COMM_WORLD, color, -world, comm, ierror)
  call MPI_Comm_rank(comm, rank, ierror)
  call get_environment_variable('PARTS', prefix)
  call scr_config('SCR_JOB_ID=part' // part, text, ierror)
  call scr_config('SCR_PREFIX=' // trim(prefix) // '/' // part, text, ierror)
  call scr_init_comm(comm, ierror)
  call expect('init', ierror == SCR_SUCCESS)
  call MPI_Comm_free(comm, ierror)

  write (file, '(3a,i0)') trim(prefix), '/' // part, '/file', rank
  name = file
  call scr_have_restart(have, text, ierror)
  if (have) then
    call scr_start_restart(text, ierror)
    call expect('its own checkpoint', text == 'of part ' // part)
    call scr_route_file(name, file, ierror)
    open (newunit=unit, file=file, status='old')
    read (unit, '(a)') text
    close (unit)
    call expect('its own file', text == name)
    call scr_complete_restart(.true., ierror)
    call expect('complete', ierror == SCR_SUCCESS)
    if (world == 0) print '(a)', 'restarted'
  end if
  call scr_start_output('of part ' // part, SCR_FLAG_CHECKPOINT, ierror)
  call scr_route_file(name, file, ierror)
  open (newunit=unit, file=file)
  write (unit, '(a)') trim(name)
  close (unit)
  call scr_complete_output(.true., ierror)
  call expect('checkpoint', ierror == SCR_SUCCESS)
  call scr_finalize(ierror)
  call expect('finalize', ierror == SCR_SUCCESS)
  if (world == 0) print '(a)', 'end of parts'
  call MPI_Finalize(ierror)

contains

  subroutine expect(what, good)
    character(len=*), intent(in) :: what
    logical, intent(in) :: good
    logical :: all

    call MPI_Reduce(good, all, 1, MPI_LOGICAL, MPI_LAND, 0, MPI_COMM_WORLD, ierror)
    if (world == 0) print '(3a)', trim(merge('ok    ', 'not ok', all)), ' ', what
  end subroutine expect
end program parts
