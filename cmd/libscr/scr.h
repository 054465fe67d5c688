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
 * A function is "collective" if all ranks of MPI_COMM_WORLD have to call it,
 * in the same order relative to the other collective functions; the others are
 * for any rank at any time in the state named.  Unless said otherwise a function
 * returns SCR_SUCCESS, or another value after an error, which is explained on
 * stderr.  Collective functions return success on all ranks or on none.  The
 * library never ends the program, unless SCR_HALT_EXIT=1 asks for it, and never
 * calls MPI_Abort.
 *
 * Any thread may call, also several at once, which then wait for each other; for
 * the collective functions the MPI has to be initialized to match.  Signals are the
 * program's: its handlers stay, and run during a call as well, but must not call
 * the library then.
 */

#ifndef SCR_H
#define SCR_H

#ifdef __cplusplus
extern "C" {
#endif

/* The version of the interface. */
#define SCR_MAJOR_VERSION 3
#define SCR_MINOR_VERSION 1
#define SCR_PATCH_VERSION 0
#define SCR_VERSION "v3.1.0"

/* What a function returns when all went well; anything else is an error. */
#define SCR_SUCCESS 0

/* The size to give a buffer that receives a name or a path, with its final NUL. */
#define SCR_MAX_FILENAME 1024

/* What a dataset is for; combine with |. */
#define SCR_FLAG_NONE       0
#define SCR_FLAG_CHECKPOINT 1 /* the program can restart from it */
#define SCR_FLAG_OUTPUT     2 /* wanted in the prefix directory in any case */

/* ------------------------------------------------------- begin and end */

/*
 * Start the library: read the configuration, find what an earlier run has left
 * in the cache and rebuild what was lost.  Collective; after MPI_Init.
 */
int SCR_Init(void);

/*
 * The same for the ranks of `comm`, which then are the job: wherever this file
 * says MPI_COMM_WORLD or all ranks, it means them, numbered as in `comm`.  Not in
 * SCR 3.1.  To be seen, <mpi.h> has to be included before this file.  Several
 * jobs in one world each need an SCR_JOB_ID and an SCR_PREFIX of their own,
 * which SCR_Config can set.  Collective over `comm`, which may be freed after.
 */
#ifdef MPI_VERSION
int SCR_Init_comm(MPI_Comm comm);
#endif

/*
 * Stop the library.  A dataset that still has to reach the prefix directory is
 * copied there.  One that has been begun and not completed is dropped, and the
 * result is an error; the library is stopped all the same.  Collective; before
 * MPI_Finalize.
 */
int SCR_Finalize(void);

/*
 * The version of the library as text, for instance "v3.1.0".  Belongs to the
 * library: do not change or free it.  Any time, even before SCR_Init.
 */
char* SCR_Get_version(void);

/*
 * Get or set a parameter.  Before SCR_Init: "NAME=VALUE" sets it for this run,
 * "NAME=" takes that back, and the result is NULL.  Any time: "NAME" asks, and
 * the result is its value, which the program has to free(), or NULL if it has
 * none.  Settings of the environment and of
 * the user's configuration file go before those of the program.  Collective.
 */
const char* SCR_Config(const char* config);

/* The same, with the text formatted as by printf. */
const char* SCR_Configf(const char* format, ...)
#ifdef __GNUC__
    __attribute__((format(printf, 1, 2)))
#endif
    ;

/* ------------------------------------------------------------ any phase */

/*
 * Ask where a file is.  While a dataset is written: takes the name the file is
 * to have in the end, absolute or relative to the current directory, and stores
 * in `file` the path to write it to now; the file then belongs to the dataset
 * and to this rank.  During a restart: stores the path to read it from.  `file`
 * has room for SCR_MAX_FILENAME characters, names no longer than that.  In a
 * restart the name without directories will do if only one of the rank's files has
 * it.  At other times, and when there is an error, `file` is the name as it was
 * given; but before the first Start, a name of the checkpoint that is there to
 * restart from gives the path to read it from, for programs that do not call
 * SCR_Start_restart.  Not collective.
 */
int SCR_Route_file(const char* name, char* file);

/* -------------------------------------------------------------- restart */

/*
 * Is there a checkpoint to restart from?  Sets *flag to 1 and copies its name
 * to `name` (room for SCR_MAX_FILENAME characters; NULL if it does not matter),
 * or sets *flag to 0.  The answer is the same on all ranks.  Collective.
 */
int SCR_Have_restart(int* flag, char* name);

/*
 * Begin to read that checkpoint.  Copies its name to `name` unless that is
 * NULL.  Collective; after SCR_Have_restart has set its flag.
 */
int SCR_Start_restart(char* name);

/*
 * All has been read.  `valid` is 1 on a rank that could read what it needs,
 * else 0.  If one could not, this returns an error on all, the checkpoint is not
 * offered again, and SCR_Have_restart names the one before it, if any.
 * Collective.
 */
int SCR_Complete_restart(int valid);

/* --------------------------------------------------- checkpoints, output */

/*
 * Is it time for a checkpoint?  Sets *flag to 1 if so, else to 0: by the number of
 * times that it has been asked (SCR_CHECKPOINT_INTERVAL), the time since the last
 * (_SECONDS), or what checkpoints take (_OVERHEAD, in percent); where none of
 * these is set, by what they take and how often the job fails (SCR_MTBF_SECONDS,
 * or its last runs); and 1 as long as the job should stop.  To be asked wherever the program could write one; it is
 * free to write without asking.  The answer is the same on all ranks.
 * Collective.
 */
int SCR_Need_checkpoint(int* flag);

/*
 * Begin to write a dataset.  `name` is how the user will see it, or NULL for a
 * name made by the library: a path-like text that is the same on all ranks and not used by another dataset of the
 * prefix directory that is to be kept; `flags` is a combination of SCR_FLAG_*.
 * An older dataset may leave the cache to make room.  Collective.
 */
int SCR_Start_output(const char* name, int flags);

/*
 * All has been written and closed.  `valid` is 1 on a rank that wrote what it
 * had to (which may be nothing), else 0.  If all did, the dataset is protected
 * against the loss of nodes when this returns, and the result is SCR_SUCCESS;
 * otherwise the dataset is dropped and all ranks get an error.  Collective.
 */
int SCR_Complete_output(int valid);

/*
 * SCR_Start_output with SCR_FLAG_CHECKPOINT and a name made by the library, to be
 * completed by SCR_Complete_checkpoint.
 */
int SCR_Start_checkpoint(void);

/* SCR_Complete_output for a dataset begun with SCR_Start_checkpoint, and no other. */
int SCR_Complete_checkpoint(int valid);

/* ------------------------------------------------------------------ other */

/*
 * Should the program stop now?  Sets *flag to 1 if the user has asked for it or
 * the end of the allocation is near, else to 0.  The answer is the same on all
 * ranks.  Best asked right after a checkpoint.  Collective.
 */
int SCR_Should_exit(int* flag);

/*
 * Make the dataset called `name`, which is in the prefix directory or the cache,
 * the one to restart from; checkpoints are numbered on from it.  Newer ones leave
 * the cache, and, if it is to be fetched, older ones too.  A name that is in
 * neither is an error.  Collective; not within a restart or an output.
 */
int SCR_Current(const char* name);

/*
 * Take the dataset called `name` out of the index of the prefix directory and out
 * of the cache, so that it is not offered for a restart.  Its files in the prefix
 * directory stay.  A name that is not there is no error.  Collective; not within
 * a restart or an output.
 */
int SCR_Drop(const char* name);

/*
 * Remove the dataset called `name`, files and directories that become empty
 * included, from the prefix directory and the cache.  A name that is not there is
 * no error.  Collective; not within a restart or an output.
 */
int SCR_Delete(const char* name);

#ifdef __cplusplus
} /* extern "C" */
#endif

#endif /* SCR_H */
