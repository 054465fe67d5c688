/*
 * scr.h - scalable checkpoint/restart: the C interface of goscr
 *
 * Compatible with the interface of SCR 3.1.  Usable from C89 and from C++.
 *
 * The life of a program that uses the library:
 *
 *     MPI_Init
 *     SCR_Init
 *     SCR_Have_restart, and if there is one:
 *         SCR_Start_restart; SCR_Route_file, read; SCR_Complete_restart
 *     compute, and now and then:
 *         SCR_Need_checkpoint, and if it says so:
 *             SCR_Start_output; SCR_Route_file, write; SCR_Complete_output
 *         SCR_Should_exit
 *     SCR_Finalize
 *     MPI_Finalize
 *
 * A function is "collective" if all ranks of MPI_COMM_WORLD must call it, in the
 * same order relative to the other collective functions.  Any rank may call the
 * other functions at any time, except as noted.  Unless noted otherwise, a function
 * returns SCR_SUCCESS, or another value after an error, and prints the reason on
 * stderr.  Collective functions succeed on all ranks or fail on all.  The library
 * never ends the program, unless one of two parameters is set: SCR_HALT_EXIT=1, or
 * SCR_ABORT_ON_ERROR=1, with which it calls MPI_Abort where SCR 3.1 does.
 *
 * Any thread may call the library.  Threads that call at the same time wait for
 * each other.  If threads call collective functions, MPI must be initialized with
 * the thread level that this needs.  The library leaves the program's signal
 * handlers in place.  They also run during a call, but must not call the library
 * then.
 */

#ifndef SCR_H
#define SCR_H

#ifdef __cplusplus
extern "C" {
#endif

/* The version of the interface. */
#define SCR_MAJOR_VERSION "3"
#define SCR_MINOR_VERSION "1"
#define SCR_PATCH_VERSION "0"
#define SCR_VERSION "v3.1.0"

/* The return code of a function that succeeded; any other value is an error. */
#define SCR_SUCCESS 0

/* The size of a buffer that receives a name or a path, including the final NUL. */
#define SCR_MAX_FILENAME 1024

/* The uses of a dataset; combine them with |. */
#define SCR_FLAG_NONE       0
#define SCR_FLAG_CHECKPOINT 1 /* the program can restart from it */
#define SCR_FLAG_OUTPUT     2 /* it is always copied to the prefix directory */

/* ------------------------------------------------------- begin and end */

/*
 * Start the library: read the configuration, find the datasets that an earlier run
 * has left in the cache, and rebuild lost files.  Collective; after MPI_Init.
 */
int SCR_Init(void);

/*
 * Start the library for the ranks of `comm`, which are then the job: where this file
 * says MPI_COMM_WORLD or all ranks, it means these ranks, numbered as in `comm`.  SCR
 * 3.1 does not have this function.  It is declared only if <mpi.h> is included before
 * this file.  If there are several jobs in one world, each needs an SCR_JOB_ID and an
 * SCR_PREFIX of its own, which SCR_Config can set.  Collective over `comm`, which may
 * be freed afterwards.
 */
#ifdef MPI_VERSION
int SCR_Init_comm(MPI_Comm comm);
#endif

/*
 * Stop the library.  Datasets that still have to be flushed are copied to the prefix
 * directory.  A dataset that was started but not completed is dropped, and this
 * function returns an error, but stops the library all the same.  Collective; before
 * MPI_Finalize.
 */
int SCR_Finalize(void);

/*
 * Go on over the ranks of `repaired`, without a new launch, after ranks have died or the
 * library has failed on one of them.  What the program was writing or reading is given up.
 * Complete datasets stay in the cache, those that were lost with a node are rebuilt, and
 * SCR_Have_restart offers the newest checkpoint, as after SCR_Init.  A rank that is still
 * in another call of the library gets an error from it, even if that call has succeeded on
 * other ranks.
 *
 * All ranks of `repaired` that have called SCR_Init successfully call this; the others,
 * such as new processes, call SCR_Init_comm with the same communicator meanwhile.
 * There must be as many ranks as before, unless the program can restart with any number
 * (SCR_GLOBAL_RESTART=1); with fewer, what was lost with a node is not rebuilt, and the newest
 * checkpoint counts that was flushed.  Communicators of the library that have lost a rank cannot be
 * freed, and stay until the process ends.
 *
 * With any MPI, `repaired` may have all processes that were in the job.  If it lacks some
 * of them, MPI has to continue without them: then this is an error unless the MPI is Open
 * MPI 5 or newer with ULFM, started by mpirun --with-ft ulfm.  After that error the
 * session is as it was, and new processes wait in SCR_Init_comm.  After another error, call
 * this again with another communicator, or SCR_Finalize.  `repaired` must not have processes that have died.
 *
 * Collective over `repaired`, which may be freed afterwards.  It is declared only if
 * <mpi.h> is included before this file.  SCR 3.1 does not have this function.
 */
#ifdef MPI_VERSION
int SCR_Recover(MPI_Comm repaired);
#endif

/*
 * Return the version of the library as text, for instance "v3.1.0".  The text belongs
 * to the library: do not change or free it.  Any time, even before SCR_Init.
 */
char* SCR_Get_version(void);

/*
 * Return why the last call that failed has failed, as the line on stderr says it, also
 * on ranks that do not print that line.  "" if no call has failed.  The text belongs to
 * the library: do not change or free it, and copy it if it is needed after the next
 * call.  Not collective; any time.  SCR 3.1 does not have this function.
 */
const char* SCR_Get_error(void);

/*
 * Set or query a parameter.  Before SCR_Init:
 *
 *     "NAME=VALUE"              set it for this run, in place of an earlier value
 *     "NAME="                   take that back
 *     "NAME=VALUE CHILD=TEXT"   set a child of an item, as in "CKPT=1 TYPE=RS", beside
 *                               other items of the name
 *
 * The result is NULL, and the settings must be the same on all ranks, or SCR_Init fails.
 * Any time:
 *
 *     "NAME"                    the value that counts
 *     "NAME=VALUE CHILD"        a child of an item
 *
 * The result is what the environment, the user's file, the program or the system's file
 * has set, in this order, and the program must free() it.  It is NULL if nobody has set
 * it, also if there is a default, or if it has several values.  Words are separated by
 * spaces, which may also be around '='; the rest of a value is as it stands, but $NAME
 * and ${NAME} are variables of the environment.  NULL and "" do nothing.
 */
const char* SCR_Config(const char* config);

/* The same with a text that is formatted like that of printf. */
const char* SCR_Configf(const char* format, ...)
#ifdef __GNUC__
    __attribute__((format(printf, 1, 2)))
#endif
    ;

/* ------------------------------------------------------------ any phase */

/*
 * Get the path under which to open a file.
 *
 * While a dataset is written: `name` is the name of the file in the prefix directory,
 * absolute or relative to the current directory.  Stores in `file` the path to which
 * the program must write the file; the file then belongs to the dataset and to this
 * rank.
 *
 * During a restart: stores the path from which to read the file.  `name` may omit the
 * directories if only one of the rank's files has that name.
 *
 * At other times, and after an error, `file` is a copy of `name`, with one exception
 * for programs that do not call SCR_Start_restart: before the first Start, the name of
 * a file of the checkpoint to restart from gives the path from which to read it.
 *
 * `file` must have room for SCR_MAX_FILENAME characters, and `name` must not be
 * longer.  Not collective.
 */
int SCR_Route_file(const char* name, char* file);

/* -------------------------------------------------------------- restart */

/*
 * Is there a checkpoint to restart from?  Sets *flag to 1 and copies its name to
 * `name`, or sets *flag to 0.  `name` must have room for SCR_MAX_FILENAME characters,
 * or be NULL.  The answer is the same on all ranks.  Collective.
 */
int SCR_Have_restart(int* flag, char* name);

/*
 * Begin to read the checkpoint that SCR_Have_restart named.  Copies its name to
 * `name` unless that is NULL.  Collective; after SCR_Have_restart has set *flag to 1.
 */
int SCR_Start_restart(char* name);

/*
 * End the restart.  `valid` is 1 on a rank that could read its files, else 0.  If it
 * is 0 on any rank, this returns an error on all ranks, the checkpoint is not offered
 * again, and SCR_Have_restart names the next older one, if any.  Collective.
 */
int SCR_Complete_restart(int valid);

/* --------------------------------------------------- checkpoints, output */

/*
 * Is it time for a checkpoint?  Sets *flag to 1 if so, else to 0.  That depends on the
 * number of calls (SCR_CHECKPOINT_INTERVAL), the time since the last checkpoint
 * (SCR_CHECKPOINT_SECONDS), or the cost of checkpoints in percent of the time
 * (SCR_CHECKPOINT_OVERHEAD).  If none of these is set, it depends on the cost of
 * checkpoints and the mean time between failures (SCR_MTBF_SECONDS, or that of earlier
 * runs).  *flag is always 1 while the job should stop.  Call this wherever the program
 * could write a checkpoint; it may also write one without calling this.  The answer is
 * the same on all ranks.  Collective.
 */
int SCR_Need_checkpoint(int* flag);

/*
 * Begin to write a dataset.  `name` is the name that users will see, for instance
 * "ckpt.100", or NULL if the library should make one.  It must be the same on all
 * ranks, and replaces a dataset of the same name in the prefix directory.  `flags` is
 * a combination of SCR_FLAG_*.  An older dataset may be evicted from the cache to
 * make room.  Collective.
 */
int SCR_Start_output(const char* name, int flags);

/*
 * Complete the dataset; the program must have closed its files.  `valid` is 1 on a rank
 * that wrote all its files, of which it may have none, else 0.  If it is 1 on all ranks,
 * the dataset is protected against the loss of nodes when this returns SCR_SUCCESS;
 * otherwise the dataset is dropped and this returns an error on all ranks.  Collective.
 */
int SCR_Complete_output(int valid);

/*
 * Begin to write a checkpoint, with a name made by the library.  SCR_Complete_checkpoint
 * completes it.  Otherwise like SCR_Start_output with SCR_FLAG_CHECKPOINT.
 */
int SCR_Start_checkpoint(void);

/* Like SCR_Complete_output, but only for a checkpoint begun by SCR_Start_checkpoint. */
int SCR_Complete_checkpoint(int valid);

/* ------------------------------------------------------------------ other */

/*
 * Should the program stop now?  Sets *flag to 1 if a user has asked for that or
 * the end of the allocation is near, else to 0.  The answer is the same on all
 * ranks.  The best time to call this is right after a checkpoint.  Collective.
 */
int SCR_Should_exit(int* flag);

/*
 * Make the dataset called `name`, which is in the prefix directory or the cache, the
 * one to restart from; the numbers of checkpoints continue from it.  Newer datasets are
 * deleted from the cache, and older ones too if this one has to be fetched.  A name that
 * is in neither place is an error.  Collective; not within a restart or an output.
 */
int SCR_Current(const char* name);

/*
 * Remove the dataset called `name` from the index of the prefix directory and from
 * the cache, so that it is not offered for a restart.  Its files in the prefix
 * directory stay.  An unknown name is no error.  Collective; not within a restart or
 * an output.
 */
int SCR_Drop(const char* name);

/*
 * Delete the dataset called `name` from the prefix directory and the cache, with its
 * files and the directories that become empty.  An unknown name is no error.
 * Collective; not within a restart or an output.
 */
int SCR_Delete(const char* name);

#ifdef __cplusplus
} /* extern "C" */
#endif

#endif /* SCR_H */
