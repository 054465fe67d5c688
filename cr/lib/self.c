/*
 * Programs that save and restore themselves by three functions, and call nothing of SCR: finds
 * the functions, begins the library in MPI_Init and ends it in MPI_Finalize.  What a checkpoint
 * is, is in libscr.so.
 */

#define _GNU_SOURCE

#include "scr_cr.h"

#include "debug.h"
#include "notify.h"
#include "quiet.h"
#include "scr.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct goscr_cr_self self;
static int begun; /* the library was begun for these functions */

/* A function of the program by its name, which begins with a prefix; ISO C knows no such cast. */
static int find(const char *prefix, const char *name, void *function, size_t size)
{
    char whole[GOSCR_CR_PREFIX_SIZE + 20];
    void *found;

    snprintf(whole, sizeof whole, "%s_%s", prefix, name);
    found = dlsym(RTLD_DEFAULT, whole);
    if (found != NULL)
        memcpy(function, &found, size);
    return found != NULL;
}

/* Finds the functions of the program that it has not registered. */
static void find_all(void)
{
    char prefix[GOSCR_CR_PREFIX_SIZE];

    if (goscr_cr_prefix(prefix) != 0)
        return;
    if (self.checkpoint == NULL)
        find(prefix, "checkpoint", &self.checkpoint, sizeof self.checkpoint);
    if (self.go_on == NULL)
        find(prefix, "continue", &self.go_on, sizeof self.go_on);
    if (self.restart == NULL)
        find(prefix, "restart", &self.restart, sizeof self.restart);
}

static int can_use_mpi(void)
{
    int initialized = 0, finalized = 0;

    return MPI_Initialized(&initialized) == MPI_SUCCESS && initialized && MPI_Finalized(&finalized) == MPI_SUCCESS && !finalized;
}

static int begin(void)
{
    if (!begun)
        begun = goscr_cr_begin() == 0;
    return !begun;
}

static void around(int state, const char *call)
{
    /* A checkpoint of a program that calls SCR would not have what is in transit. */
    if (state == GOSCR_CR_PREPARE && goscr_checks && call != NULL && goscr_quiet(MPI_COMM_WORLD, "SCR_CHECK_IN_FLIGHT") == 0)
        goscr_cr_in_flight(call);
    goscr_debug(state);
}

/* Begins if any rank has a function that saves it. */
static void initialized(void)
{
    int has = self.checkpoint != NULL, any = 0, provided = MPI_THREAD_SINGLE;

    PMPI_Query_thread(&provided);
    goscr_quiet_begin(provided == MPI_THREAD_MULTIPLE);
    goscr_checks = goscr_cr_checks();
    goscr_cr_around(around);
    if (PMPI_Allreduce(&has, &any, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD) == MPI_SUCCESS && any && begin() == 0) {
        goscr_cr_restart(&self);
        goscr_quiet_restarted();
        goscr_notify_begin(&self);
    }
}

static int shown = -1; /* the level of threads that the program asked for, if MPI was asked for more; -1: it was not */

/* What a program sees that has asked for less than MPI was asked for. */
static int seen(int provided) { return shown >= 0 && shown < provided ? shown : provided; }

int MPI_Init_thread(int *argc, char ***argv, int required, int *provided)
{
    int code;

    find_all();
    /* For the thread that serves requests; the program does not see that. */
    if (self.checkpoint != NULL && required != MPI_THREAD_MULTIPLE) {
        shown = required;
        required = MPI_THREAD_MULTIPLE;
    }
    code = PMPI_Init_thread(argc, argv, required, provided);
    if (code == MPI_SUCCESS) {
        *provided = seen(*provided);
        initialized();
    }
    return code;
}

int MPI_Query_thread(int *provided)
{
    int code = PMPI_Query_thread(provided);

    if (code == MPI_SUCCESS)
        *provided = seen(*provided);
    return code;
}

int MPI_Init(int *argc, char ***argv)
{
    int provided;

    return MPI_Init_thread(argc, argv, MPI_THREAD_SINGLE, &provided);
}

int MPI_Finalize(void)
{
    int ends = begun;

    goscr_notify_last();
    begun = 0;
    if (ends)
        goscr_cr_end();
    goscr_notify_end();
    goscr_cr_around(NULL);
    goscr_quiet_end();
    return PMPI_Finalize();
}

int SCR_CR_self_register_checkpoint_callback(SCR_CR_self_checkpoint_fn function)
{
    self.checkpoint = function;
    return can_use_mpi() ? begin() : 0;
}

int SCR_CR_self_register_continue_callback(SCR_CR_self_continue_fn function)
{
    self.go_on = function;
    return can_use_mpi() ? begin() : 0;
}

int SCR_CR_self_register_restart_callback(SCR_CR_self_restart_fn function)
{
    int failed;

    self.restart = function;
    if (!can_use_mpi())
        return 0;
    if (begin())
        return 1;
    failed = function != NULL && goscr_cr_restart(&self);
    goscr_quiet_restarted();
    goscr_notify_begin(&self);
    return failed;
}

/* An error that no other function of the library has said. */
static int wrong(const char *call, const char *why)
{
    fprintf(stderr, "SCR: %s: %s\n", call, why);
    return 1;
}

static int rest(void) { return goscr_quiet(MPI_COMM_WORLD, "SCR_CR_Checkpoint"); }
static int note_unseen(void) { return goscr_snapshot("SCR_CR_Checkpoint", 0); }

/* `before`: what brings the messages to rest; NULL: they are. */
static int checkpoint(int (*before)(void), char **handle, int *seq)
{
    struct goscr_cr_self called = self;
    char reference[SCR_MAX_FILENAME] = "";
    int number = 0, failed;

    called.before = before;
    called.after = note_unseen;
    called.complete = goscr_snapshot_done;
    failed = goscr_cr_checkpoint(&called, goscr_quiet_ready(self.checkpoint != NULL), reference, &number);

    if (failed)
        return failed;
    if (seq != NULL)
        *seq = number;
    if (handle != NULL) {
        *handle = malloc(strlen(reference) + 1);
        if (*handle == NULL)
            return 1;
        strcpy(*handle, reference);
    }
    return SCR_CR_SUCCESS;
}

int SCR_CR_Checkpoint(char **handle, int *seq, MPI_Info info)
{
    (void)info;
    if (goscr_quiet_region)
        return wrong("SCR_CR_Checkpoint", "between SCR_CR_Quiesce_start and SCR_CR_Quiesce_end; call SCR_CR_Quiesce_checkpoint there");
    if (!can_use_mpi())
        return wrong("SCR_CR_Checkpoint", "MPI cannot be used");
    return checkpoint(rest, handle, seq);
}

int SCR_CR_Restart(char *handle, int seq, MPI_Info info)
{
    (void)info;
    return goscr_cr_restart_from(handle, seq);
}

/* The ranks of a communicator in MPI_COMM_WORLD; NULL: there is no memory. */
static int *world_ranks(MPI_Comm comm, int *n)
{
    MPI_Group group, world;
    int *own, *all, i;

    PMPI_Comm_group(comm, &group);
    PMPI_Comm_group(MPI_COMM_WORLD, &world);
    PMPI_Group_size(group, n);
    own = malloc(sizeof *own * (size_t)*n);
    all = malloc(sizeof *all * (size_t)*n);
    for (i = 0; own != NULL && i < *n; i++)
        own[i] = i;
    if (own != NULL && all != NULL)
        PMPI_Group_translate_ranks(group, *n, own, world, all);
    free(own);
    PMPI_Group_free(&group);
    PMPI_Group_free(&world);
    return all;
}

/* Where a rank is to go: to a node by its name, or else to that of rank `near`, unless that is less than 0. */
struct destination {
    int near, off; /* off its node, to a spare one */
    char host[MPI_MAX_PROCESSOR_NAME];
};

/* Asks scr_run for the ranks of a communicator, on its first rank. */
static int migrate(MPI_Comm comm, const struct destination *to)
{
    const char **hosts;
    int n = 0, i, off = 0, named = 0, failed = 1, *near, *ranks = world_ranks(comm, &n);

    hosts = malloc(sizeof *hosts * (size_t)n);
    near = malloc(sizeof *near * (size_t)n);
    if (ranks != NULL && hosts != NULL && near != NULL) {
        for (i = 0; i < n; i++) {
            hosts[i] = to[i].off ? "" : to[i].host;
            near[i] = to[i].off ? -1 : to[i].near;
            off = off || to[i].off;
            named = named || hosts[i][0] != '\0' || near[i] >= 0;
        }
        if (off && named)
            failed = wrong("SCR_CR_Migrate", "some ranks name a node, and others are to go off theirs (CR_OFF_NODE); ask for these in another call");
        else
            failed = goscr_cr_migrate(ranks, hosts, near, n);
    }
    free(hosts);
    free(near);
    free(ranks);
    return failed;
}

int SCR_CR_Migrate(MPI_Comm comm, char *hostname, int near, MPI_Info info)
{
    struct destination own, *all = NULL;
    char off[8] = "";
    int first = 0, n = 0, given = 0, failed = 1;

    if (!can_use_mpi() || comm == MPI_COMM_NULL)
        return wrong("SCR_CR_Migrate", "there is no communicator, or MPI cannot be used");
    memset(&own, 0, sizeof own);
    own.near = near;
    if (info != MPI_INFO_NULL)
        PMPI_Info_get(info, "CR_OFF_NODE", sizeof off - 1, off, &given);
    own.off = given && strcmp(off, "true") == 0;
    if (hostname != NULL)
        snprintf(own.host, sizeof own.host, "%s", hostname); /* a name that is cut is none of the job's nodes */
    PMPI_Comm_rank(comm, &first);
    PMPI_Comm_size(comm, &n);
    if (first == 0)
        all = malloc(sizeof *all * (size_t)n);
    given = first != 0 || all != NULL;
    PMPI_Allreduce(MPI_IN_PLACE, &given, 1, MPI_INT, MPI_MIN, comm);
    if (given)
        PMPI_Gather(&own, (int)sizeof own, MPI_BYTE, all, (int)sizeof own, MPI_BYTE, 0, comm);
    if (given && first == 0)
        failed = migrate(comm, all);
    free(all);
    PMPI_Bcast(&failed, 1, MPI_INT, 0, comm);
    return failed;
}

int SCR_CR_Quiesce_start(MPI_Comm comm, MPI_Info info)
{
    int failed;

    (void)info;
    if (goscr_quiet_region)
        return wrong("SCR_CR_Quiesce_start", "called again before SCR_CR_Quiesce_end");
    if (!can_use_mpi() || comm == MPI_COMM_NULL)
        return wrong("SCR_CR_Quiesce_start", "there is no communicator, or MPI cannot be used");
    if (goscr_notify_runs() && comm != MPI_COMM_WORLD)
        return wrong("SCR_CR_Quiesce_start", "a program whose functions are called when a checkpoint is due can give MPI_COMM_WORLD only");
    failed = goscr_quiet(comm, "SCR_CR_Quiesce_start");
    if (!failed) {
        goscr_quiet_comm = comm;
        goscr_quiet_region = 1;
    }
    return failed;
}

int SCR_CR_Quiesce_checkpoint(MPI_Comm comm, char **handle, int *seq, MPI_Info info)
{
    (void)info;
    if (!goscr_quiet_region || goscr_quiet_comm != MPI_COMM_WORLD || comm != MPI_COMM_WORLD)
        return wrong("SCR_CR_Quiesce_checkpoint", "called without SCR_CR_Quiesce_start of MPI_COMM_WORLD before");
    return checkpoint(NULL, handle, seq);
}

int SCR_CR_Quiesce_end(MPI_Comm comm, MPI_Info info)
{
    (void)info;
    if (!goscr_quiet_region || comm != goscr_quiet_comm)
        return wrong("SCR_CR_Quiesce_end", "called without SCR_CR_Quiesce_start of this communicator before");
    goscr_quiet_region = 0;
    return PMPI_Barrier(comm) != MPI_SUCCESS;
}

int OMPI_CR_self_register_checkpoint_callback(SCR_CR_self_checkpoint_fn function)
{
    return SCR_CR_self_register_checkpoint_callback(function);
}

int OMPI_CR_self_register_continue_callback(SCR_CR_self_continue_fn function)
{
    return SCR_CR_self_register_continue_callback(function);
}

int OMPI_CR_self_register_restart_callback(SCR_CR_self_restart_fn function)
{
    return SCR_CR_self_register_restart_callback(function);
}

int OMPI_CR_Checkpoint(char **handle, int *seq, MPI_Info info) { return SCR_CR_Checkpoint(handle, seq, info); }
int OMPI_CR_Quiesce_start(MPI_Comm comm, MPI_Info info) { return SCR_CR_Quiesce_start(comm, info); }
int OMPI_CR_Quiesce_end(MPI_Comm comm, MPI_Info info) { return SCR_CR_Quiesce_end(comm, info); }

int OMPI_CR_Quiesce_checkpoint(MPI_Comm comm, char **handle, int *seq, MPI_Info info)
{
    return SCR_CR_Quiesce_checkpoint(comm, handle, seq, info);
}

int OMPI_CR_Restart(char *handle, int seq, MPI_Info info) { return SCR_CR_Restart(handle, seq, info); }
int OMPI_CR_Migrate(MPI_Comm comm, char *hostname, int rank, MPI_Info info) { return SCR_CR_Migrate(comm, hostname, rank, info); }
