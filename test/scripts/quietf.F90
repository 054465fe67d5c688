! Messages that a program in Fortran sends and receives are counted, and come from the store (44-quiet.sh).
! With -DF08 by module mpi_f08.  Prints a line for each check that fails, and "ends" at the end.
program quietf
#ifdef F08
  use mpi_f08
#else
  use mpi
#endif
  implicit none
  interface
     integer(c_int) function begin_rest() bind(C)
       use iso_c_binding
     end function
     integer(c_int) function end_rest() bind(C)
       use iso_c_binding
     end function
  end interface
#ifdef F08
  type(MPI_Request) :: requests(2)
  type(MPI_Status) :: status, statuses(2)
  type(MPI_Comm) :: copy, later
#else
  integer :: requests(2), status(MPI_STATUS_SIZE), statuses(MPI_STATUS_SIZE, 2), copy, later
#endif
  integer :: rank, code, n, data(10), class
  logical :: flag

  call MPI_Init(code)
  call MPI_Comm_rank(MPI_COMM_WORLD, rank, code)
  call MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN, code)
  call MPI_Comm_dup(MPI_COMM_WORLD, copy, code)
  data = rank
  if (rank == 0) then
     call MPI_Send(data, 3, MPI_INTEGER, 1, 7, copy, code)
     call MPI_Send(data, 2, MPI_INTEGER, 1, 5, MPI_COMM_WORLD, code)
     call MPI_Isend(data, 10, MPI_INTEGER, 1, 6, MPI_COMM_WORLD, requests(1), code)
  end if
  call check(begin_rest() == 0, 1)
  call MPI_Send(data, 1, MPI_INTEGER, 1, 5, MPI_COMM_WORLD, code)
  call MPI_Error_class(code, class, n)
  call check(class == MPI_ERR_OTHER, 2)
  call check(end_rest() == 0, 3)
  if (rank == 0) call MPI_Wait(requests(1), MPI_STATUS_IGNORE, code)
  if (rank == 1) then
     call MPI_Iprobe(MPI_ANY_SOURCE, 5, MPI_COMM_WORLD, flag, status, code)
     call check(flag, 4) ! at once, from the store
     call MPI_Get_count(status, MPI_INTEGER, n, code)
     call check(n == 2, 5)
     data = -1
     call MPI_Recv(data, 10, MPI_INTEGER, MPI_ANY_SOURCE, 7, copy, status, code)
     call MPI_Get_count(status, MPI_INTEGER, n, code)
     call check(n == 3 .and. data(3) == 0 .and. data(4) == -1 .and. source(status) == 0, 6)
     call MPI_Irecv(data, 10, MPI_INTEGER, 0, 6, MPI_COMM_WORLD, requests(1), code)
     call MPI_Irecv(data(9), 2, MPI_INTEGER, 0, 5, MPI_COMM_WORLD, requests(2), code)
     call MPI_Waitall(2, requests, statuses, code)
#ifdef F08
     call check(source(statuses(1)) == 0 .and. source(statuses(2)) == 0, 7)
#else
     call check(source(statuses(:, 1)) == 0 .and. source(statuses(:, 2)) == 0, 7)
#endif
  end if
  call MPI_Comm_idup(MPI_COMM_WORLD, later, requests(1), code)
  call MPI_Wait(requests(1), MPI_STATUS_IGNORE, code)
  data = 10 * (rank + 1)
  if (rank == 0) then
     call MPI_Send(data, 4, MPI_INTEGER, 1, 8, later, code)
     call MPI_Send(data, 5, MPI_INTEGER, 1, 8, MPI_COMM_WORLD, code)
  end if
  call check(begin_rest() == 0, 10)
  call check(end_rest() == 0, 11)
  if (rank == 1) then
     call MPI_Recv(data, 10, MPI_INTEGER, 0, 8, MPI_COMM_WORLD, status, code)
     call MPI_Get_count(status, MPI_INTEGER, n, code)
     call check(n == 5, 12)
     call MPI_Recv(data, 10, MPI_INTEGER, 0, 8, later, status, code)
     call MPI_Get_count(status, MPI_INTEGER, n, code)
     call check(n == 4 .and. data(4) == 10, 13)
  end if
  call MPI_Comm_free(later, code)
  call MPI_Barrier(copy, code)
  call MPI_Comm_free(copy, code)
  call check(begin_rest() == 0, 8)
  call check(end_rest() == 0, 9)
  print '(i0, a)', rank, ' ends'
  call MPI_Finalize(code)

contains

  integer function source(status)
#ifdef F08
    type(MPI_Status), intent(in) :: status
    source = status%MPI_SOURCE
#else
    integer, intent(in) :: status(MPI_STATUS_SIZE)
    source = status(MPI_SOURCE)
#endif
  end function

  subroutine check(right, number)
    logical, intent(in) :: right
    integer, intent(in) :: number
    if (.not. right) print '(a, i0, a, i0)', 'rank ', rank, ': wrong: ', number
  end subroutine
end program
