/*
 * scr_cr.h - taking part in checkpoints and restarts: the C interface of libscr_cr.so
 *
 * For libraries and programs that have to do something around each checkpoint: complete what an
 * accelerator computes, write buffers of files, stop threads; and for programs that write their
 * checkpoints in functions of their own, which it calls.  Link with -lscr_cr -lscr, or put
 * libscr_cr.so into LD_PRELOAD.  It needs the libscr.so of the same build.  Usable from C89 and
 * from C++.
 *
 * Each name exists twice: as SCR_CR_..., and as OMPI_CR_..., the name that Open MPI had for the
 * same.  A program which is written for that, with `#ifdef OMPI_HAVE_MPI_EXT_CR`, needs no
 * change: compile it with `-include scr_cr.h`.  Where <mpi-ext.h> has these names itself, include
 * it first; then this file leaves them out.
 *
 * The functions return SCR_CR_SUCCESS, or another value after an error, and print the reason on
 * stderr.
 */

#ifndef SCR_CR_H
#define SCR_CR_H

#include <mpi.h>

#ifdef __cplusplus
extern "C" {
#endif

#define SCR_CR_SUCCESS 0

/* ------------------------------------------- interlayer notification callbacks (INC) */

/*
 * When a callback is called.  Before a checkpoint: PRE_CRS_PRE_MPI, then PRE_CRS_POST_MPI; after
 * it, and after a restart: POST_CRS_PRE_MPI, then POST_CRS_POST_MPI.  In the first and the last
 * a callback may call MPI as it likes; in the two between them it must not send, or begin a
 * collective operation, since messages in transit may have been stopped.
 */
typedef enum {
    SCR_CR_INC_PRE_CRS_PRE_MPI = 0,
    SCR_CR_INC_PRE_CRS_POST_MPI = 1,
    SCR_CR_INC_POST_CRS_PRE_MPI = 2,
    SCR_CR_INC_POST_CRS_POST_MPI = 3
} SCR_CR_INC_callback_event_t;

/*
 * What happens.  PREPARE comes with the events before a checkpoint.  With those after it comes
 * the outcome: CONTINUE if it is complete, else ERROR.  Each PREPARE is followed by one outcome,
 * unless the program ends.  RESTART comes after a restart, in a process that has read a
 * checkpoint; a callback hears of it if it is registered before SCR_Complete_restart.
 */
typedef enum {
    SCR_CR_INC_STATE_PREPARE = 0,
    SCR_CR_INC_STATE_CONTINUE = 1,
    SCR_CR_INC_STATE_RESTART = 2,
    SCR_CR_INC_STATE_ERROR = 3
} SCR_CR_INC_callback_state_t;

/*
 * A callback.  It returns 0, or another value after an error.  An error in state PREPARE refuses
 * the checkpoint: the call that was to begin it, SCR_Start_output or SCR_Start_checkpoint, fails
 * on all ranks, and then the callbacks are called with ERROR.  An error in another state is
 * printed, and changes nothing.  Callbacks run on the thread that has called SCR_Start_output or
 * the like, outside of the library: a callback may call it, but begin no checkpoint.  If
 * SCR_Finalize finds a checkpoint that is not completed, the callbacks run after the library has
 * ended.
 */
typedef int (*SCR_CR_INC_callback_function)(SCR_CR_INC_callback_event_t event, SCR_CR_INC_callback_state_t state);

/*
 * Register a callback for an event.  `*previous`, unless `previous` is NULL, gets the one that
 * was registered before, which the new one should call, before or after its own work; it is
 * never NULL: the first one registered gets a function that does nothing.  A library that goes
 * away registers the function that it has got; NULL removes all.  Callbacks are called around
 * each dataset that is a checkpoint, by SCR_Start_output, SCR_Start_checkpoint and the functions
 * that complete it, and by SCR_Complete_restart.  Not collective; any time, also before MPI_Init.
 */
int SCR_CR_INC_register_callback(SCR_CR_INC_callback_event_t event, SCR_CR_INC_callback_function function,
                                 SCR_CR_INC_callback_function *previous);

/* --------------------------------------- programs that save and restore themselves */

/*
 * A program that has these three functions writes checkpoints and restarts without calling SCR.
 * They are found by their names, if the program exports them (-Wl,--export-dynamic):
 *
 *     int opal_crs_self_user_checkpoint(char **restart_cmd);
 *     int opal_crs_self_user_continue(void);
 *     int opal_crs_self_user_restart(void);
 *
 * The parameter SCR_CR_SELF_PREFIX says what the names begin with in place of opal_crs_self_user.
 * Each returns 0, or another value after an error.
 *
 *   - checkpoint writes what a restart needs to files in the working directory, which is a
 *     directory of this rank's own meanwhile: all files that are there and below it when the
 *     function returns are the checkpoint.  It may also ask SCR_Route_file where to write.  An
 *     error on any rank makes the checkpoint fail on all, and the one before stays.  In
 *     `*restart_cmd`, which is NULL at first, it may store a command for a shell, which stays
 *     the program's: if it is the same on all ranks, scr_restart runs it on each of them in
 *     place of the program as it was started.
 *   - continue is called afterwards, also if the checkpoint has failed.
 *   - restart is called in a later run, before MPI_Init returns, with these files in the
 *     working directory; it must not change them.  After an error on any rank all are called
 *     once more with an older checkpoint, if there is one.
 *
 * If any rank has the first function, MPI_Init calls SCR_Init, and MPI_Finalize SCR_Finalize.
 *
 * The first two are called by SCR_CR_Checkpoint; and, when scr_checkpoint asks or an interval is
 * over (SCR_CHECKPOINT_SECONDS and the like), by a thread of this library beside the program's:
 * then the first takes a lock that the program's steps need, and the second releases it; the
 * program must not wait for a message with the lock.  Messages in transit are part of the
 * checkpoint.  A receive that was begun and not completed is begun again after a restart, and a
 * call that sends, within which the program was saved, is repeated and sends nothing.  If ranks
 * have begun different collective operations, or one was saved within a blocking one that others
 * have completed, the checkpoint fails, unless the functions communicate, to agree on a step.
 * That thread has a working directory of its own, so main keeps its own.  A function that
 * takes more than SCR_CR_LIMIT_SECONDS makes the checkpoint fail; with SCR_CR_THREAD=0, where nobody can
 * interrupt it, when it returns, and requests are answered with an error until then.  After `scr_checkpoint --term` or
 * scr_halt the process gets SIGTERM.  MPI_Init asks for MPI_THREAD_MULTIPLE if the functions are
 * exported, or registered before it, and the program sees the level that it has asked for itself.
 * If MPI gives less, it is as with SCR_CR_THREAD=0, and each blocking collective call waits for all
 * its ranks.
 */
typedef int (*SCR_CR_self_checkpoint_fn)(char **restart_cmd);
typedef int (*SCR_CR_self_continue_fn)(void);
typedef int (*SCR_CR_self_restart_fn)(void);

/*
 * Register one of the functions, in place of the one that is found by its name.  Before MPI_Init
 * not collective.  After MPI_Init collective: the first of them calls SCR_Init, if MPI_Init has
 * not, and the one for restart calls the function if there is a checkpoint.
 */
int SCR_CR_self_register_checkpoint_callback(SCR_CR_self_checkpoint_fn fn);
int SCR_CR_self_register_continue_callback(SCR_CR_self_continue_fn fn);
int SCR_CR_self_register_restart_callback(SCR_CR_self_restart_fn fn);

/*
 * Write a checkpoint, by the function of the program.  `*handle`, which the program must free(),
 * and `*seq` are what scr_restart is given to restart from it: `scr_restart -s SEQ HANDLE`.  Both
 * may be NULL.  No keys of `info` are known.  Collective over MPI_COMM_WORLD.
 */
int SCR_CR_Checkpoint(char **handle, int *seq, MPI_Info info);

/* ------------------------------------------------------------------ restart and migration */

/*
 * Ask scr_run to end the run, and to begin the next one from the checkpoint that SCR_CR_Checkpoint
 * or scr_checkpoint has named.  The call returns, and the processes are ended soon afterwards.  Any
 * rank may call; not collective.  An error if the job does not run under scr_run, or if the job has
 * no such checkpoint.
 */
int SCR_CR_Restart(char *handle, int seq, MPI_Info info);

/*
 * Ask scr_run to move ranks of `comm` to other nodes.  Each rank says where it is to go: to the node
 * `hostname`, unless that is NULL or ""; else to the node of rank `rank` of MPI_COMM_WORLD, unless that is
 * less than 0.  Ranks that name neither go to spare nodes if this is so of all ranks of `comm`, and else stay.
 * With the value "true" for the key CR_OFF_NODE in `info` a rank names neither; an error if another rank does.
 *
 * The call returns; scr_run asks the program for a checkpoint, as scr_checkpoint does, and starts it
 * again on the other nodes.  Collective over `comm`.  An error if the job does not run under scr_run.  What
 * scr_migrate says of a migration that is not possible, scr_run prints, and the program continues.
 */
int SCR_CR_Migrate(MPI_Comm comm, char *hostname, int rank, MPI_Info info);

/* ------------------------------------------------------------ regions without messages */

/*
 * Brings messages to rest: when Quiesce_start returns, each message that a rank of `comm` has
 * sent to another, over any communicator, has been received: by a receive that the program has
 * begun, or by this library, from which the program's next receives and probes get it as if it
 * came now.  Until Quiesce_end the program must not send, or begin collective operations, over
 * `comm`, or over any communicator if `comm` is MPI_COMM_WORLD: these calls are errors of MPI, of
 * the class MPI_ERR_OTHER.  It may receive, and complete what it has begun.  Collective over
 * `comm`; no keys of `info` are known.
 *
 * A nonblocking collective operation that all ranks of its communicator have begun before is
 * complete then, as MPI_Test finds.  If only some of them have begun it, Quiesce_start is an error on
 * all, and one rank prints how many it has: such an operation stays in transit until the others
 * begin it.  The other threads of the program must not be in a call that receives.
 *
 * Messages are counted by this library's own MPI_Send, MPI_Recv and so on, of C and of Fortran.  After
 * a call of MPI 4 that it does not count (MPI_Send_c and its like, MPI_Isendrecv, partitioned ones)
 * Quiesce_start is an error that names the call.  It does not see one-sided operations.
 */
int SCR_CR_Quiesce_start(MPI_Comm comm, MPI_Info info);
int SCR_CR_Quiesce_end(MPI_Comm comm, MPI_Info info);

/*
 * SCR_CR_Checkpoint between Quiesce_start and Quiesce_end of MPI_COMM_WORLD.  Both save the
 * messages that the program has not received yet with its own files, as goscr.messages, and after a
 * restart it receives them, over communicators that it has made in the same order.
 */
int SCR_CR_Quiesce_checkpoint(MPI_Comm comm, char **handle, int *seq, MPI_Info info);

/* --------------------------------------------------------------------- other names */

#ifndef OMPI_HAVE_MPI_EXT_CR
#define OMPI_HAVE_MPI_EXT_CR 1

#define OMPI_CR_INC_callback_event_t SCR_CR_INC_callback_event_t
#define OMPI_CR_INC_PRE_CRS_PRE_MPI SCR_CR_INC_PRE_CRS_PRE_MPI
#define OMPI_CR_INC_PRE_CRS_POST_MPI SCR_CR_INC_PRE_CRS_POST_MPI
#define OMPI_CR_INC_POST_CRS_PRE_MPI SCR_CR_INC_POST_CRS_PRE_MPI
#define OMPI_CR_INC_POST_CRS_POST_MPI SCR_CR_INC_POST_CRS_POST_MPI
#define OMPI_CR_INC_callback_state_t SCR_CR_INC_callback_state_t
#define OMPI_CR_INC_STATE_PREPARE SCR_CR_INC_STATE_PREPARE
#define OMPI_CR_INC_STATE_CONTINUE SCR_CR_INC_STATE_CONTINUE
#define OMPI_CR_INC_STATE_RESTART SCR_CR_INC_STATE_RESTART
#define OMPI_CR_INC_STATE_ERROR SCR_CR_INC_STATE_ERROR
#define OMPI_CR_INC_callback_function SCR_CR_INC_callback_function

int OMPI_CR_INC_register_callback(SCR_CR_INC_callback_event_t event, SCR_CR_INC_callback_function function,
                                  SCR_CR_INC_callback_function *previous);

#define OMPI_CR_self_checkpoint_fn SCR_CR_self_checkpoint_fn
#define OMPI_CR_self_continue_fn SCR_CR_self_continue_fn
#define OMPI_CR_self_restart_fn SCR_CR_self_restart_fn

int OMPI_CR_self_register_checkpoint_callback(SCR_CR_self_checkpoint_fn fn);
int OMPI_CR_self_register_continue_callback(SCR_CR_self_continue_fn fn);
int OMPI_CR_self_register_restart_callback(SCR_CR_self_restart_fn fn);
int OMPI_CR_Checkpoint(char **handle, int *seq, MPI_Info info);
int OMPI_CR_Restart(char *handle, int seq, MPI_Info info);
int OMPI_CR_Migrate(MPI_Comm comm, char *hostname, int rank, MPI_Info info);
int OMPI_CR_Quiesce_start(MPI_Comm comm, MPI_Info info);
int OMPI_CR_Quiesce_end(MPI_Comm comm, MPI_Info info);
int OMPI_CR_Quiesce_checkpoint(MPI_Comm comm, char **handle, int *seq, MPI_Info info);

#endif

#ifdef __cplusplus
}
#endif

#endif
