//go:build mpi

/*
 * The functions of scr.h.  Each prepares the thread for Go (signals.c) and calls the
 * function of the same name in main.go.
 */

#include <mpi.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "scr.h"

#include "_cgo_export.h"
#include "call.h"
#include "inside.h"
#include "../../mpi/system/library.h"

/* Why the last call has failed; a text that is too long is cut. */
static char reason[GOSCR_REASON_SIZE];

void goscr_cr_keep(const char *text) { snprintf(reason, sizeof reason, "%s", text); }

const char *SCR_Get_error(void) { return reason; }

void goscr_end_job(void)
{
    int begun = 0, ended = 0;

    if (MPI_Initialized(&begun) == MPI_SUCCESS && begun && MPI_Finalized(&ended) == MPI_SUCCESS && !ended)
        MPI_Abort(MPI_COMM_WORLD, -1);
    exit(EXIT_FAILURE);
}

/* Prints why a call has failed before it could begin in Go. */
static void tell(const char *call, const char *why)
{
    char line[400];
    int n = snprintf(line, sizeof line, "SCR: %s: %s\n", call, why);

    snprintf(reason, sizeof reason, "%s: %s", call, why);
    if (write(STDERR_FILENO, line, (size_t)n) < 0)
        return; /* the message cannot be printed; the call fails all the same */
}

/* Prints why a call cannot begin.  Go cannot do this, since it cannot run. */
int goscr_refuse(const char *call, int why)
{
    static const char *const reasons[] = {
        [GOSCR_WITHIN] = "called while the thread is in another call of the library, by a handler of a signal or after a "
                         "longjmp out of one; set a flag in the handler, and call outside of it",
        [GOSCR_CHILD] = "called in a child that fork() has made of a process with MPI, and a child cannot use MPI; call in the "
                        "parent, or execute a program in the child",
        [GOSCR_NO_ROOM] = "the address space of the process is limited (ulimit -v), and less than 1.5 GiB of it is left; goscr "
                          "has to reserve that much, although it uses little of it; raise the limit, or limit memory by cgroups",
        [GOSCR_NO_MEMORY] = "the process cannot get 96 MiB of memory in 32 mappings, which goscr needs to start; raise ulimit -d or the "
                            "sysctl vm.max_map_count",
        [GOSCR_NO_THREADS] = "the process cannot create the 12 threads that goscr needs to start; raise ulimit -u, or the limit of the job's "
                             "control group (pids.max)",
        [GOSCR_NO_DESCRIPTORS] = "the process cannot open the 8 files that goscr needs to start; raise ulimit -n, or close files"};
    const char *abort;

    tell(call, reasons[why]);
    if (why >= GOSCR_NO_ROOM && (abort = getenv("SCR_ABORT_ON_ERROR")) != NULL && atoi(abort) != 0)
        goscr_end_job();
    return 1;
}

int goscr_halted;

static int (*volatile halts)(void);

void goscr_cr_halts(int (*function)(void)) { halts = function; }

void goscr_halt(void)
{
    int (*function)(void) = halts;

    if (function != NULL && function())
        return;
    goscr_halted = 0; /* MPI_Finalize of libscr_cr.so calls the library */
    MPI_Finalize();
    exit(0);
}

static int in_session;

/*
 * Starts Go on all ranks of SCR_Init, or on none that could wait for another: a process may
 * have reached a limit.  Returns 0, or 1 if it has said why that is not possible.  What is wrong with the call
 * itself is found out later.  Ranks that call SCR_Init_comm do not agree like this: others of the communicator may call
 * SCR_Recover meanwhile.
 */
static int start_all(void)
{
    int mine, any = 0, begun = 0, ended = 0;
    char name[80];

    if (in_session || is_other_mpi(name, sizeof name) || PMPI_Initialized(&begun) != MPI_SUCCESS || !begun ||
        PMPI_Finalized(&ended) != MPI_SUCCESS || ended)
        return 0;
    mine = goscr_enter(GOSCR_LONG); /* starts Go */
    if (mine == 0)
        goscr_leave();
    else if (mine < GOSCR_NO_ROOM) /* no call of MPI is possible here */
        return 0;
    goscr_turn(1);
    if (PMPI_Allreduce(&mine, &any, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD) != MPI_SUCCESS)
        any = 0; /* go_init meets the same error */
    goscr_turn(0);
    if (any == 0)
        return 0;
    if (mine != 0)
        return goscr_refuse("SCR_Init", mine);
    tell("SCR_Init", "the library cannot start on another rank, whose line says why");
    return 1;
}

static int init(void) { CALL("SCR_Init", go_init(NULL)); }
static int init_comm(MPI_Comm comm) { CALL("SCR_Init_comm", go_init(&comm)); }

int SCR_Init(void)
{
    int rc = start_all() ? 1 : init();

    in_session = in_session || rc == SCR_SUCCESS;
    return rc;
}

int SCR_Init_comm(MPI_Comm comm)
{
    int rc = init_comm(comm);

    in_session = in_session || rc == SCR_SUCCESS;
    return rc;
}

static int finalize(void)
{
    in_session = 0;
    CALL("SCR_Finalize", go_finalize());
}

static int start_output(const char *name, int flags) { CALL("SCR_Start_output", go_start_output(name, flags)); }
static int complete_output(int valid) { CALL("SCR_Complete_output", go_complete_output(valid)); }
static int start_checkpoint(void) { CALL("SCR_Start_checkpoint", go_start_checkpoint()); }
static int complete_checkpoint(int valid) { CALL("SCR_Complete_checkpoint", go_complete_checkpoint(valid)); }
static int complete_restart(int valid) { CALL("SCR_Complete_restart", go_complete_restart(valid)); }

/*
 * Around checkpoints and restarts, callbacks of the program are called (scr_cr.h).  Those that
 * were prepared for a checkpoint which cannot begin, or is never completed, hear of an error.
 */
static int begun(int prepared, int failed)
{
    if (failed && prepared)
        goscr_cr_notify(GOSCR_CR_ERROR);
    if (failed)
        goscr_around(GOSCR_CR_ERROR, NULL);
    return failed;
}

static int ended(int state, int failed)
{
    if (failed)
        state = GOSCR_CR_ERROR;
    goscr_cr_notify(state);
    goscr_around(state, NULL);
    return failed;
}

int SCR_Start_output(const char *name, int flags)
{
    int prepared;

    goscr_around(GOSCR_CR_PREPARE, "SCR_Start_output");
    prepared = (flags & SCR_FLAG_CHECKPOINT) && goscr_cr_notify(GOSCR_CR_PREPARE);
    return begun(prepared, start_output(name, flags));
}

int SCR_Start_checkpoint(void)
{
    int prepared;

    goscr_around(GOSCR_CR_PREPARE, "SCR_Start_checkpoint");
    prepared = goscr_cr_notify(GOSCR_CR_PREPARE);
    return begun(prepared, start_checkpoint());
}

int SCR_Complete_output(int valid) { return ended(GOSCR_CR_CONTINUE, complete_output(valid)); }
int SCR_Complete_checkpoint(int valid) { return ended(GOSCR_CR_CONTINUE, complete_checkpoint(valid)); }

int SCR_Complete_restart(int valid)
{
    int failed = complete_restart(valid);

    return failed ? failed : ended(GOSCR_CR_RESTART, 0);
}

int SCR_Finalize(void)
{
    int failed = finalize();

    goscr_cr_notify(GOSCR_CR_ERROR);
    return failed;
}

static int recovered(MPI_Comm repaired) { CALL("SCR_Recover", go_recover(&repaired)); }

int SCR_Recover(MPI_Comm repaired)
{
    int failed = recovered(repaired);

    goscr_cr_notify(GOSCR_CR_ERROR); /* nobody if the session continues as it was */
    return failed;
}

int SCR_Route_file(const char *name, char *file) { OF(GOSCR_BRIEF, "SCR_Route_file", go_route_file(name, file)); }
int SCR_Have_restart(int *flag, char *name) { CALL("SCR_Have_restart", go_have_restart(flag, name)); }
int SCR_Start_restart(char *name) { CALL("SCR_Start_restart", go_start_restart(name)); }
int SCR_Need_checkpoint(int *flag) { CALL("SCR_Need_checkpoint", go_need_checkpoint(flag)); }
int SCR_Should_exit(int *flag) { CALL("SCR_Should_exit", go_should_exit(flag)); }
int SCR_Current(const char *name) { CALL("SCR_Current", go_current(name)); }
int SCR_Drop(const char *name) { CALL("SCR_Drop", go_drop(name)); }
int SCR_Delete(const char *name) { CALL("SCR_Delete", go_delete(name)); }

char *SCR_Get_version(void)
{
    static char version[] = SCR_VERSION;

    return version;
}

const char *SCR_Config(const char *config)
{
    const char *result;
    int failed = goscr_enter(GOSCR_BRIEF);

    if (failed) {
        goscr_refuse("SCR_Config", failed);
        return NULL;
    }
    result = go_config(config, &failed);
    goscr_leave();
    if (failed == GOSCR_ABORT)
        goscr_end_job();
    return result;
}

const char *SCR_Configf(const char *format, ...)
{
    va_list args;
    char *text;
    int size;
    const char *result;

    if (format == NULL)
        return SCR_Config(NULL);
    va_start(args, format);
    size = vsnprintf(NULL, 0, format, args);
    va_end(args);
    text = size < 0 ? NULL : malloc((size_t)size + 1);
    if (text == NULL) {
        tell("SCR_Configf", "the text cannot be formatted");
        return NULL;
    }
    va_start(args, format);
    vsnprintf(text, (size_t)size + 1, format, args);
    va_end(args);
    result = SCR_Config(text);
    free(text);
    return result;
}
