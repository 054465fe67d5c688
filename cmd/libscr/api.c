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
#include "signals.h"

/* Why the last call has failed; a text that is too long is cut. */
static char reason[4096];

void goscr_keep(const char *text) { snprintf(reason, sizeof reason, "%s", text); }

const char *SCR_Get_error(void) { return reason; }

/* Ends the job as SCR 3.1 does, on the thread that has called. */
static void end_job(void)
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
static int refuse(const char *call, int why)
{
    static const char *const reasons[] = {
        [GOSCR_WITHIN] = "called while the thread is in another call of the library, by a handler of a signal or after a "
                         "longjmp out of one; set a flag in the handler, and call outside of it",
        [GOSCR_CHILD] = "called in a child that fork() has made of a process with MPI, and a child cannot use MPI; call in the "
                        "parent, or execute a program in the child",
        [GOSCR_NO_ROOM] = "the address space of the process is limited (ulimit -v), and less than 1.5 GiB of it is left; goscr "
                          "has to reserve that much, although it uses little of it; raise the limit, or limit memory by cgroups"};
    const char *abort;

    tell(call, reasons[why]);
    if (why == GOSCR_NO_ROOM && (abort = getenv("SCR_ABORT_ON_ERROR")) != NULL && atoi(abort) != 0)
        end_job();
    return 1;
}

/* Set by Go with SCR_HALT_EXIT=1: the session has ended, and the job must end here. */
int goscr_halted;

static void halt(void)
{
    MPI_Finalize();
    exit(0);
}

#define OF(length, call, work)    \
    do {                          \
        int code = goscr_enter(length); \
        if (code)                 \
            return refuse(call, code); \
        code = (work);            \
        goscr_leave();            \
        if (code == GOSCR_ABORT)  \
            end_job();            \
        if (goscr_halted)         \
            halt();               \
        return code;              \
    } while (0)
#define CALL(call, work) OF(GOSCR_LONG, call, work)

int SCR_Init(void) { CALL("SCR_Init", go_init(NULL)); }
int SCR_Init_comm(MPI_Comm comm) { CALL("SCR_Init_comm", go_init(&comm)); }
int SCR_Finalize(void) { CALL("SCR_Finalize", go_finalize()); }
int SCR_Route_file(const char *name, char *file) { OF(GOSCR_BRIEF, "SCR_Route_file", go_route_file(name, file)); }
int SCR_Have_restart(int *flag, char *name) { CALL("SCR_Have_restart", go_have_restart(flag, name)); }
int SCR_Start_restart(char *name) { CALL("SCR_Start_restart", go_start_restart(name)); }
int SCR_Complete_restart(int valid) { CALL("SCR_Complete_restart", go_complete_restart(valid)); }
int SCR_Need_checkpoint(int *flag) { CALL("SCR_Need_checkpoint", go_need_checkpoint(flag)); }
int SCR_Start_output(const char *name, int flags) { CALL("SCR_Start_output", go_start_output(name, flags)); }
int SCR_Complete_output(int valid) { CALL("SCR_Complete_output", go_complete_output(valid)); }
int SCR_Start_checkpoint(void) { CALL("SCR_Start_checkpoint", go_start_checkpoint()); }
int SCR_Complete_checkpoint(int valid) { CALL("SCR_Complete_checkpoint", go_complete_checkpoint(valid)); }
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
        refuse("SCR_Config", failed);
        return NULL;
    }
    result = go_config(config, &failed);
    goscr_leave();
    if (failed == GOSCR_ABORT)
        end_job();
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
