!     scrf.h - goscr for Fortran programs: the constants of scr.h
!
!     Include this file in each program unit that calls SCR, in fixed or
!     free form. Link with -lscrf. The subroutines are the functions of
!     scr.h with one more argument, IERROR, which is set to SCR_SUCCESS
!     or, after an error, to another value. A name that is returned is
!     padded with blanks; its variable must have a length of
!     SCR_MAX_FILENAME.
!
!     call SCR_INIT(IERROR)
!     call SCR_INIT_COMM(COMM, IERROR)
!     call SCR_FINALIZE(IERROR)
!     call SCR_RECOVER(REPAIRED, IERROR)
!     call SCR_GET_VERSION(VERSION, IERROR)
!     call SCR_GET_ERROR(ERROR, IERROR)
!     call SCR_CONFIG(CONFIG, VAL, IERROR)
!     call SCR_ROUTE_FILE(NAME, FILE, IERROR)
!     call SCR_HAVE_RESTART(FLAG, NAME, IERROR)
!     call SCR_START_RESTART(NAME, IERROR)
!     call SCR_COMPLETE_RESTART(VALID, IERROR)
!     call SCR_NEED_CHECKPOINT(FLAG, IERROR)
!     call SCR_START_OUTPUT(NAME, FLAGS, IERROR)
!     call SCR_COMPLETE_OUTPUT(VALID, IERROR)
!     call SCR_START_CHECKPOINT(IERROR)
!     call SCR_COMPLETE_CHECKPOINT(VALID, IERROR)
!     call SCR_SHOULD_EXIT(FLAG, IERROR)
!     call SCR_CURRENT(NAME, IERROR)
!     call SCR_DROP(NAME, IERROR)
!     call SCR_DELETE(NAME, IERROR)
!
!     INTEGER IERROR, COMM, REPAIRED, FLAG, FLAGS, VALID
!     CHARACTER*(*) VERSION, CONFIG, VAL, NAME, FILE

      integer SCR_SUCCESS
      parameter (SCR_SUCCESS = 0)

      integer SCR_MAX_FILENAME
      parameter (SCR_MAX_FILENAME = 1024)

      integer SCR_FLAG_NONE
      parameter (SCR_FLAG_NONE = 0)
      integer SCR_FLAG_CHECKPOINT
      parameter (SCR_FLAG_CHECKPOINT = 1)
      integer SCR_FLAG_OUTPUT
      parameter (SCR_FLAG_OUTPUT = 2)
