! heat - examples/heat in Fortran: a plate cools down, in parallel, and survives
! the loss of a node
!
! It computes the same as the C program and writes the same files, so that each of
! them can restart from a checkpoint of the other.  The calls of SCR are in restart,
! checkpoint, iterate and the main program; the rest would be the same without SCR.
!
!     mpifort -O2 -o heat heat.f90 -lscrf
!     mpirun -n 4 ./heat -x 1024 -y 1024 -s 1000 -c 100 -o final.heat
module plate
  use, intrinsic :: iso_fortran_env, only: int32, int64, real64, output_unit, error_unit
  use mpi
  implicit none

  integer :: rank, ranks
  integer(int64) :: nx = 1024, ny = 1024 ! points of the whole plate
  integer(int64) :: first, rows          ! the rows of this rank; first counts from 0
  integer(int64) :: step
  real(real64), allocatable :: now(:, :), next(:, :) ! rows 0 and rows + 1 are copies of the neighbours' rows

contains

  subroutine setup
    integer :: ierror

    call MPI_Comm_rank(MPI_COMM_WORLD, rank, ierror)
    call MPI_Comm_size(MPI_COMM_WORLD, ranks, ierror)
    if (ny < ranks) call die('more ranks than rows')
    rows = rows_of(rank)
    first = rank * (ny / ranks) + min(int(rank, int64), mod(ny, int(ranks, int64)))
    allocate (now(nx, 0:rows + 1), next(nx, 0:rows + 1))
    call begin
    next = now
  end subroutine setup

  ! The rows are divided evenly, and the first ranks have one more.
  pure function rows_of(r)
    integer, intent(in) :: r
    integer(int64) :: rows_of

    rows_of = ny / ranks
    if (r < mod(ny, int(ranks, int64))) rows_of = rows_of + 1
  end function rows_of

  ! Sets the state at step 0.
  subroutine begin
    integer(int64) :: i, j

    step = 0
    do i = 0, rows + 1
      do j = 1, nx
        now(j, i) = initial(first + i - 1, j - 1)
      end do
    end do
  end subroutine begin

  ! A warm plate with two hot discs and a cold bar, its edges held at 0.
  pure function initial(i, j)
    integer(int64), intent(in) :: i, j
    real(real64) :: initial, x, y

    x = real(j, real64) / real(nx - 1, real64)
    y = real(i, real64) / real(ny - 1, real64)
    if (i == 0 .or. j == 0 .or. i == ny - 1 .or. j == nx - 1) then
      initial = 0
    else if ((x - 0.3_real64) * (x - 0.3_real64) + (y - 0.35_real64) * (y - 0.35_real64) < 0.02_real64) then
      initial = 100
    else if ((x - 0.7_real64) * (x - 0.7_real64) + (y - 0.6_real64) * (y - 0.6_real64) < 0.01_real64) then
      initial = 80
    else if (abs(x - 0.5_real64) < 0.02_real64 .and. y > 0.2_real64 .and. y < 0.9_real64) then
      initial = -50
    else
      initial = 20
    end if
  end function initial

  subroutine exchange
    integer :: up, down, n, ierror

    up = merge(rank - 1, MPI_PROC_NULL, rank > 0)
    down = merge(rank + 1, MPI_PROC_NULL, rank < ranks - 1)
    n = int(nx)
    call MPI_Sendrecv(now(1, 1), n, MPI_DOUBLE_PRECISION, up, 0, now(1, rows + 1), n, MPI_DOUBLE_PRECISION, down, 0, &
                      MPI_COMM_WORLD, MPI_STATUS_IGNORE, ierror)
    call MPI_Sendrecv(now(1, rows), n, MPI_DOUBLE_PRECISION, down, 1, now(1, 0), n, MPI_DOUBLE_PRECISION, up, 1, &
                      MPI_COMM_WORLD, MPI_STATUS_IGNORE, ierror)
  end subroutine exchange

  subroutine one_step
    real(real64), parameter :: k = 0.2_real64 ! stable below 0.25
    real(real64), allocatable :: swap(:, :)
    integer(int64) :: i, j

    call exchange
    do i = 1, rows
      if (first + i == 1 .or. first + i == ny) cycle ! the edge of the plate is constant
      do j = 2, nx - 1
        next(j, i) = now(j, i) + k * (now(j, i - 1) + now(j, i + 1) + now(j - 1, i) + now(j + 1, i) - 4 * now(j, i))
      end do
    end do
    call move_alloc(now, swap)
    call move_alloc(next, now)
    call move_alloc(swap, next)
    step = step + 1
  end subroutine one_step

  ! Ends the job after an error that no rank can handle.
  subroutine die(why)
    character(len=*), intent(in) :: why
    integer :: ierror

    write (error_unit, '(a,i0,2a)') 'heat: rank ', rank, ': ', why
    call MPI_Abort(MPI_COMM_WORLD, 1, ierror)
  end subroutine die

  subroutine say(line)
    character(len=*), intent(in) :: line

    if (rank /= 0) return
    write (output_unit, '(a)') line
    flush (output_unit)
  end subroutine say

  pure function text(number)
    integer(int64), intent(in) :: number
    character(len=:), allocatable :: text
    character(len=20) :: digits

    write (digits, '(i0)') number
    text = trim(digits)
  end function text

end module plate

! One rank's file: a header of 64 bytes and the rows, as in the C program's files.
module rank_file
  use plate
  implicit none

  type, private :: header
    character(len=8) :: magic = 'HEATCKPT'
    integer(int32) :: version = 1, rank = 0, ranks = 0, reserved = 0
    integer(int64) :: nx = 0, ny = 0, first = 0, rows = 0
  end type header

contains

  function ours()
    type(header) :: ours

    ours%rank = rank
    ours%ranks = ranks
    ours%nx = nx
    ours%ny = ny
    ours%first = first
    ours%rows = rows
  end function ours

  function write_rows(file) result(ok)
    character(len=*), intent(in) :: file
    character(len=200) :: why
    type(header) :: h
    logical :: ok
    integer :: unit, status

    h = ours()
    open (newunit=unit, file=file, access='stream', form='unformatted', status='replace', action='write', &
          iostat=status, iomsg=why)
    if (status == 0) then
      write (unit, iostat=status, iomsg=why) h%magic, h%version, h%rank, h%ranks, h%reserved, h%nx, h%ny, &
        h%first, h%rows, step, now(:, 1:rows)
      if (status == 0) then
        close (unit, iostat=status, iomsg=why)
      else
        close (unit)
      end if
    end if
    ok = status == 0
    if (.not. ok) call complain('cannot write', file, why)
  end function write_rows

  ! Reads the step from the header; everything else in it must be what this rank would write.
  function read_rows(file) result(ok)
    character(len=*), intent(in) :: file
    character(len=200) :: why
    type(header) :: h, want
    integer(int64) :: found, size
    logical :: ok
    integer :: unit, status

    why = 'unexpected contents'
    want = ours()
    ok = .false.
    open (newunit=unit, file=file, access='stream', form='unformatted', status='old', action='read', &
          iostat=status, iomsg=why)
    if (status == 0) then
      read (unit, iostat=status, iomsg=why) h%magic, h%version, h%rank, h%ranks, h%reserved, h%nx, h%ny, &
        h%first, h%rows, found
      if (status == 0) then
        inquire (unit=unit, size=size)
        ok = h%magic == want%magic .and. h%version == want%version .and. h%rank == want%rank .and. &
             h%ranks == want%ranks .and. h%reserved == want%reserved .and. h%nx == want%nx .and. &
             h%ny == want%ny .and. h%first == want%first .and. h%rows == want%rows .and. found >= 0 .and. &
             size == 64 + 8 * nx * rows
      end if
      if (ok) then
        read (unit, iostat=status, iomsg=why) now(:, 1:rows)
        ok = status == 0
      end if
      close (unit)
    end if
    if (ok) then
      step = found
    else
      call complain('cannot use', file, why)
    end if
  end function read_rows

  subroutine complain(what, file, why)
    character(len=*), intent(in) :: what, file, why

    write (error_unit, '(a,i0,6a)') 'heat: rank ', rank, ': ', what, ' ', trim(file), ': ', trim(why)
  end subroutine complain

end module rank_file

program heat
  use plate
  use rank_file
  use scr
  implicit none

  integer(int64) :: steps = 1000, every = 100
  character(len=SCR_MAX_FILENAME) :: output = ''
  character(len=SCR_MAX_FILENAME) :: value
  integer :: ierror

  call MPI_Init(ierror)
  call parse
  call setup
  ! iterate asks only every few steps, so the answer should be yes each time.
  ! A user can override this in the environment.
  call scr_config('SCR_CHECKPOINT_INTERVAL=1', value, ierror)
  call scr_init(ierror)
  call check(ierror, 'scr_init')

  call restart
  call iterate
  if (step >= steps .and. output /= '') call write_result

  call scr_finalize(ierror)
  call check(ierror, 'scr_finalize')
  call MPI_Finalize(ierror)

contains

  subroutine check(code, name)
    integer, intent(in) :: code
    character(len=*), intent(in) :: name

    if (code /= SCR_SUCCESS) call die(name // ' has failed')
  end subroutine check

  ! The files of checkpoint heat.1200 are heat.1200/rank_0.ckpt, heat.1200/rank_1.ckpt, ...
  function file_name(name)
    character(len=*), intent(in) :: name
    character(len=:), allocatable :: file_name

    file_name = trim(name) // '/rank_' // text(int(rank, int64)) // '.ckpt'
  end function file_name

  ! Restarts from the newest checkpoint that all ranks can read, if there is one.
  subroutine restart
    character(len=SCR_MAX_FILENAME) :: name, file
    integer(int64) :: mine, lowest, highest
    logical :: have, valid

    do
      call scr_have_restart(have, name, ierror)
      call check(ierror, 'scr_have_restart')
      if (.not. have) return
      call scr_start_restart(name, ierror)
      call check(ierror, 'scr_start_restart')

      call scr_route_file(file_name(name), file, ierror)
      valid = ierror == SCR_SUCCESS
      if (valid) valid = read_rows(file)

      ! The files of all ranks must be of the same step.
      mine = merge(step, -1_int64, valid)
      call MPI_Allreduce(mine, lowest, 1, MPI_INTEGER8, MPI_MIN, MPI_COMM_WORLD, ierror)
      call MPI_Allreduce(mine, highest, 1, MPI_INTEGER8, MPI_MAX, MPI_COMM_WORLD, ierror)
      call scr_complete_restart(valid .and. lowest == highest, ierror)
      if (ierror == SCR_SUCCESS) then
        call say('restarted from ' // trim(name) // ' at step ' // text(step))
        return
      end if
      ! Some ranks may have read their rows before another failed.
      call say(trim(name) // ' cannot be used, looking for an older one')
      call begin
    end do
  end subroutine restart

  ! The program continues when a checkpoint fails, because the previous one still exists.
  subroutine checkpoint
    character(len=SCR_MAX_FILENAME) :: file
    character(len=:), allocatable :: name
    logical :: valid

    name = 'heat.' // text(step)
    call scr_start_output(name, SCR_FLAG_CHECKPOINT, ierror)
    if (ierror /= SCR_SUCCESS) then
      call say('checkpoint ' // name // ' could not be started')
      return
    end if
    call scr_route_file(file_name(name), file, ierror)
    valid = ierror == SCR_SUCCESS
    if (valid) valid = write_rows(file)
    call scr_complete_output(valid, ierror)
    if (ierror == SCR_SUCCESS) then
      call say('checkpoint ' // name // ' complete')
    else
      call say('checkpoint ' // name // ' failed')
    end if
  end subroutine checkpoint

  subroutine iterate
    logical :: flag

    do while (step < steps)
      call one_step
      if (every == 0) cycle
      if (mod(step, every) /= 0 .or. step == steps) cycle
      call scr_need_checkpoint(flag, ierror)
      call check(ierror, 'scr_need_checkpoint')
      if (flag) call checkpoint
      call scr_should_exit(flag, ierror)
      call check(ierror, 'scr_should_exit')
      if (flag) then
        call say('asked to stop at step ' // text(step))
        return
      end if
    end do
  end subroutine iterate

  ! Writes the whole field, row by row, to one file, which does not depend on the number of ranks.
  subroutine write_result
    integer(int64) :: n
    integer :: unit, r

    if (rank /= 0) then
      call MPI_Send(now(1, 1), int(nx * rows), MPI_DOUBLE_PRECISION, 0, 2, MPI_COMM_WORLD, ierror)
      return
    end if
    open (newunit=unit, file=output, access='stream', form='unformatted', status='replace', action='write')
    write (unit) now(:, 1:rows)
    do r = 1, ranks - 1
      n = rows_of(r) ! rank 0 has the most rows
      call MPI_Recv(next(1, 1), int(nx * n), MPI_DOUBLE_PRECISION, r, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE, ierror)
      write (unit) next(:, 1:n)
    end do
    close (unit)
    call say('result in ' // trim(output))
  end subroutine write_result

  subroutine parse
    character(len=8) :: option
    integer :: i

    do i = 1, command_argument_count(), 2
      call get_command_argument(i, option)
      if (i == command_argument_count()) call usage
      select case (option)
      case ('-x')
        nx = number(i + 1, 3_int64)
      case ('-y')
        ny = number(i + 1, 3_int64)
      case ('-s')
        steps = number(i + 1, 0_int64)
      case ('-c')
        every = number(i + 1, 0_int64)
      case ('-o')
        call get_command_argument(i + 1, output)
      case default
        call usage
      end select
    end do
  end subroutine parse

  function number(i, least)
    integer, intent(in) :: i
    integer(int64), intent(in) :: least
    integer(int64) :: number
    character(len=32) :: digits
    integer :: status

    call get_command_argument(i, digits)
    read (digits, *, iostat=status) number
    if (status /= 0) number = -1
    if (number < least) call usage
  end function number

  subroutine usage
    write (error_unit, '(a)') 'usage: heat [-x NX] [-y NY] [-s STEPS] [-c STEPS] [-o FILE]'
    call MPI_Finalize(ierror)
    stop 2
  end subroutine usage

end program heat
