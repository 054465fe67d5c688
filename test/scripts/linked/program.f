C     The same in FORTRAN 77: see program.c.
      program linked
      implicit none
      include 'mpif.h'
      include 'scrf.h'
      integer rank, ierror, flag, run
      character*(SCR_MAX_FILENAME) name, started, val
      common /job/ rank

      call MPI_INIT(ierror)
      call MPI_COMM_RANK(MPI_COMM_WORLD, rank, ierror)
      call SCR_CONFIG('SCR_CHECKPOINT_INTERVAL=2', val, ierror)
      call SCR_CONFIG('SCR_CHECKPOINT_INTERVAL', val, ierror)
      call expect('ask', ierror .eq. SCR_SUCCESS .and. val .eq. '2')
      call SCR_INIT(ierror)
      call expect('init', ierror .eq. SCR_SUCCESS)
      run = 1
      flag = -1
      call SCR_HAVE_RESTART(flag, name, ierror)
      call expect('have', ierror .eq. SCR_SUCCESS)
      if (flag .eq. 1) then
         call SCR_START_RESTART(started, ierror)
         call expect('start', ierror .eq. SCR_SUCCESS .and.
     &        started .eq. name)
         call get(name)
         call SCR_COMPLETE_RESTART(1, ierror)
         call expect('restart', ierror .eq. SCR_SUCCESS)
         run = 2
         if (rank .eq. 0) print '(2a)', 'restarted ', trim(name)
      end if
      call SCR_NEED_CHECKPOINT(flag, ierror)
      call expect('need', ierror .eq. SCR_SUCCESS .and. flag .eq. 0)
      call SCR_START_CHECKPOINT(ierror)
      call expect('start', ierror .eq. SCR_SUCCESS)
      call put('unnamed')
      call SCR_COMPLETE_CHECKPOINT(1, ierror)
      call expect('complete', ierror .eq. SCR_SUCCESS)
      if (run .eq. 2) then
         call SCR_CURRENT('first', ierror)
         call expect('current', ierror .eq. SCR_SUCCESS)
         call SCR_DROP('first', ierror)
         call expect('drop', ierror .eq. SCR_SUCCESS)
         call SCR_DELETE('both', ierror)
         call expect('delete', ierror .eq. SCR_SUCCESS)
         call output('last')
      else
         call output('first')
         call output('both')
      end if
      call SCR_SHOULD_EXIT(flag, ierror)
      call expect('exit', ierror .eq. SCR_SUCCESS .and. flag .eq. 0)
      call SCR_FINALIZE(ierror)
      call expect('finalize', ierror .eq. SCR_SUCCESS)
      if (rank .eq. 0) print '(a)', 'end'
      call MPI_FINALIZE(ierror)
      end

      subroutine expect(what, good)
      implicit none
      include 'mpif.h'
      character*(*) what
      logical good, all
      integer ierror
      call MPI_ALLREDUCE(good, all, 1, MPI_LOGICAL, MPI_LAND,
     &     MPI_COMM_WORLD, ierror)
      if (.not. all) then
         write (0, '(2a)') 'not as expected: ', what
         call MPI_ABORT(MPI_COMM_WORLD, 1, ierror)
      end if
      end

      subroutine path(dataset, file)
      implicit none
      include 'scrf.h'
      character*(*) dataset, file
      character*80 name
      integer rank, ierror
      common /job/ rank
      write (name, '(2a,i1)') trim(dataset), '/rank_', rank
      call SCR_ROUTE_FILE(name, file, ierror)
      call expect('route', ierror .eq. SCR_SUCCESS)
      end

      subroutine put(dataset)
      implicit none
      include 'scrf.h'
      character*(*) dataset
      character*(SCR_MAX_FILENAME) file
      integer rank
      common /job/ rank
      call path(dataset, file)
      open (10, file=file)
      write (10, '(a,i2)') dataset, rank
      close (10)
      end

      subroutine get(dataset)
      implicit none
      include 'scrf.h'
      character*(*) dataset
      character*(SCR_MAX_FILENAME) file
      character*80 text, want
      integer rank
      common /job/ rank
      call path(dataset, file)
      open (10, file=file, status='old')
      read (10, '(a)') text
      close (10)
      write (want, '(a,i2)') trim(dataset), rank
      call expect('what was written', text .eq. want)
      end

      subroutine output(dataset)
      implicit none
      include 'scrf.h'
      character*(*) dataset
      integer ierror
      call SCR_START_OUTPUT(dataset, SCR_FLAG_CHECKPOINT +
     &     SCR_FLAG_OUTPUT, ierror)
      call expect('start output', ierror .eq. SCR_SUCCESS)
      call put(dataset)
      call SCR_COMPLETE_OUTPUT(1, ierror)
      call expect('complete output', ierror .eq. SCR_SUCCESS)
      end
