! The main program of a job that is in C otherwise: see program.c.
program linked
  use mpi
  implicit none
  external :: job
  character(len=1024) :: value
  integer :: ierror

  call MPI_Init(ierror)
  call scr_config('SCR_CHECKPOINT_INTERVAL=9', value, ierror)
  call scr_config('SCR_CHECKPOINT_INTERVAL', value, ierror)
  if (ierror /= 0 .or. value /= '9') call MPI_Abort(MPI_COMM_WORLD, 1, ierror)
  call job()
  call MPI_Finalize(ierror)
end program linked
