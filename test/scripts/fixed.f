C     The calls as FORTRAN 77 makes them: names that end in blanks, results
C     filled up with blanks, no interfaces.  Two runs: the second restarts.
C     Says "ok" or "not ok" of each check on rank 0, the worst of all ranks.
      program fixed
      implicit none
      include 'mpif.h'
      include 'scrf.h'
      integer rank, ierror, flag, i
      character*(SCR_MAX_FILENAME) name, file, text
      character*8 short
      character*2000 long, longer
      character*64 mine
      logical there
      common /job/ rank

      call MPI_INIT(ierror)
      call MPI_COMM_RANK(MPI_COMM_WORLD, rank, ierror)
      name = 'x'
      call SCR_GET_VERSION(short, ierror)
      call expect('version', ierror .eq. SCR_SUCCESS .and.
     &     short .eq. 'v3.1.0')
      text = 'x'
      call SCR_CONFIG('SCR_CHECKPOINT_INTERVAL=2', text, ierror)
      call expect('set', ierror .eq. SCR_SUCCESS .and. text .eq. ' ')
      call SCR_CONFIG('SCR_CHECKPOINT_INTERVAL  ', text, ierror)
      call expect('ask', ierror .eq. SCR_SUCCESS .and. text .eq. '2')
      call SCR_CONFIG('SCR_NO_SUCH_PARAMETER', text, ierror)
      call expect('ask for nothing', ierror .eq. SCR_SUCCESS .and.
     &     text .eq. ' ')
      call SCR_CONFIG('SCR_FETCH', text, ierror)
      call expect('ask for a default', ierror .eq. SCR_SUCCESS .and.
     &     text .eq. ' ')
      call SCR_CONFIG('GROUPS=a Power=x', text, ierror)
      call SCR_CONFIG('GROUPS = b Power = y', text, ierror)
      call SCR_CONFIG('GROUPS=b Power', text, ierror)
      call expect('ask for a child', ierror .eq. SCR_SUCCESS .and.
     &     text .eq. 'y')
      call SCR_CONFIG('GROUPS', text, ierror)
      call expect('an ambiguous question', text .eq. ' ')
      call SCR_CONFIG('GROUPS=', text, ierror)
      call SCR_CONFIG('GROUPS=b Power', text, ierror)
      call expect('take back', text .eq. ' ')
      call SCR_CONFIG('SCR_PREFIX', short, ierror)
      call expect('ask, too short', ierror .ne. SCR_SUCCESS .and.
     &     short .eq. ' ')
      call SCR_START_OUTPUT('early', SCR_FLAG_CHECKPOINT, ierror)
      call expect('before init', ierror .ne. SCR_SUCCESS)

      call SCR_INIT(ierror)
      call expect('init', ierror .eq. SCR_SUCCESS)
      write (mine, '(a,i1)') 'fixed.2/rank ', rank
      flag = -1
      call SCR_HAVE_RESTART(flag, name, ierror)
      call expect('have', ierror .eq. SCR_SUCCESS)
      if (flag .eq. 1) then
         call expect('its name', name .eq. 'fixed.2')
         call SCR_HAVE_RESTART(flag, short(1:3), ierror)
         call expect('have, too short', ierror .ne. SCR_SUCCESS .and.
     &        flag .eq. 1 .and. short(1:3) .eq. ' ')
         name = 'x'
         call SCR_START_RESTART(name, ierror)
         call expect('start', ierror .eq. SCR_SUCCESS .and.
     &        name .eq. 'fixed.2')
         call SCR_ROUTE_FILE(mine, file, ierror)
         call expect('route', ierror .eq. SCR_SUCCESS .and.
     &        file(1:1) .eq. '/')
         open (10, file=file, status='old')
         read (10, '(a)') text
         close (10)
         call expect('what was written', text .eq. mine)
         call SCR_COMPLETE_RESTART(1, ierror)
         call expect('complete', ierror .eq. SCR_SUCCESS)
         if (rank .eq. 0) print '(a)', 'restarted'
      else
         call expect('none', flag .eq. 0 .and. name .eq. 'x')
      end if

      call SCR_NEED_CHECKPOINT(flag, ierror)
      call expect('need', ierror .eq. SCR_SUCCESS .and. flag .eq. 0)
      call SCR_NEED_CHECKPOINT(flag, ierror)
      call expect('need now', ierror .eq. SCR_SUCCESS .and.
     &     flag .eq. 1)
      call SCR_SHOULD_EXIT(flag, ierror)
      call expect('exit', ierror .eq. SCR_SUCCESS .and. flag .eq. 0)

C     A variable that is too short for the path: the dataset is spoiled.
      call SCR_START_OUTPUT('fixed.1', SCR_FLAG_CHECKPOINT, ierror)
      call expect('start 1', ierror .eq. SCR_SUCCESS)
      call SCR_ROUTE_FILE('fixed.1/a', short, ierror)
      call expect('route, too short', ierror .ne. SCR_SUCCESS .and.
     &     short .eq. ' ')
C     A name that is refused stays, also one that is too long for C.
      call SCR_ROUTE_FILE('/outside', file, ierror)
      call expect('route, outside', ierror .ne. SCR_SUCCESS .and.
     &     file .eq. '/outside')
      long = repeat('n', 2000)
      call SCR_ROUTE_FILE(long, longer, ierror)
      call expect('route, too long', ierror .ne. SCR_SUCCESS .and.
     &     longer .eq. long)
      call SCR_COMPLETE_OUTPUT(1, ierror)
      call expect('complete 1', ierror .ne. SCR_SUCCESS)

      call SCR_START_OUTPUT('fixed.0', IOR(SCR_FLAG_CHECKPOINT,
     &     SCR_FLAG_OUTPUT), ierror)
      call expect('start 0', ierror .eq. SCR_SUCCESS)
      do 10 i = 1, 2
         write (name, '(a,i1,a,i1)') 'fixed.0/', rank, '.', i
         call SCR_ROUTE_FILE(name, file, ierror)
         call expect('route 0', ierror .eq. SCR_SUCCESS)
         open (10, file=file)
         write (10, '(a)') name
         close (10)
   10 continue
      call SCR_COMPLETE_OUTPUT(1, ierror)
      call expect('complete 0', ierror .eq. SCR_SUCCESS)

C     A text that ends in a NUL, as for C.
      call SCR_START_OUTPUT('fixed.2'//char(0)//'garbage',
     &     SCR_FLAG_CHECKPOINT, ierror)
      call expect('start 2', ierror .eq. SCR_SUCCESS)
      call SCR_ROUTE_FILE(mine, file, ierror)
      call expect('route 2', ierror .eq. SCR_SUCCESS)
      open (10, file=file)
      write (10, '(a)') mine
      close (10)
      inquire (file=file, exist=there)
      call expect('written', there)
      call SCR_COMPLETE_OUTPUT(1, ierror)
      call expect('complete 2', ierror .eq. SCR_SUCCESS)

      call SCR_DROP('fixed.0', ierror)
      call expect('drop', ierror .eq. SCR_SUCCESS)
      call SCR_DELETE('fixed.0', ierror)
      call expect('delete', ierror .eq. SCR_SUCCESS)
      call SCR_CURRENT('no such dataset', ierror)
      call expect('current of what is not there',
     &     ierror .eq. SCR_SUCCESS)
      call SCR_FINALIZE(ierror)
      call expect('finalize', ierror .eq. SCR_SUCCESS)
      if (rank .eq. 0) print '(a)', 'end of fixed'
      call MPI_FINALIZE(ierror)
      end

      subroutine expect(what, good)
      implicit none
      include 'mpif.h'
      character*(*) what
      logical good, all
      integer rank, ierror
      common /job/ rank

      call MPI_REDUCE(good, all, 1, MPI_LOGICAL, MPI_LAND, 0,
     &     MPI_COMM_WORLD, ierror)
      if (rank .ne. 0) return
      if (all) then
         print '(2a)', 'ok ', what
      else
         print '(2a)', 'not ok ', what
      end if
      end
