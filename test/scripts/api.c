/*
 * api - a program that uses the C interface correctly and wrongly
 *
 *     api PART [MISTAKE]    one of the functions below; one run each
 *
 * Prints "ok NAME" and "not ok NAME" on rank 0.  A check succeeds if it does so on all
 * ranks.  The library's messages on stderr go to files of the current directory,
 * err.PART.RANK, so that their lines can be counted.
 */

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <locale.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <mpi.h>
#include <scr.h>

static int rank, ranks, err = -1;
static long seen; /* bytes of this rank's file of messages that were read */
static int steps;

/* -------------------------------------------------------------------- checks */

static int everywhere(int yes)
{
    int all;

    MPI_Allreduce(&yes, &all, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
    return all;
}

static void check(const char *name, int yes)
{
    yes = everywhere(yes);
    if (rank == 0)
        printf("%s %s\n", yes ? "ok" : "not ok", name);
}

/* The messages on this rank since the last call: returns the number of lines, and the text. */
static char said[65536];

static int new_lines(void)
{
    struct stat st;
    int lines = 0;
    ssize_t n, i;

    said[0] = '\0';
    if (fstat(err, &st) != 0 || st.st_size <= seen)
        return 0;
    n = pread(err, said, sizeof said - 1, seen);
    seen = (long)st.st_size;
    said[n > 0 ? n : 0] = '\0';
    for (i = 0; i < n; i++)
        lines += said[i] == '\n';
    return lines;
}

/* Reads the messages of all calls so far. */
static void quiet(void)
{
    MPI_Barrier(MPI_COMM_WORLD);
    new_lines();
    MPI_Barrier(MPI_COMM_WORLD);
}

/* Checks a misuse: the call fails on all ranks, and one rank prints one line. */
static void refused(const char *name, const char *call, int rc)
{
    int lines, total, failed, good;
    char twice[128];

    snprintf(twice, sizeof twice, "%s: %s ", call, call);
    MPI_Barrier(MPI_COMM_WORLD);
    lines = new_lines();
    MPI_Allreduce(&lines, &total, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    failed = everywhere(rc != SCR_SUCCESS);
    good = everywhere(lines == 0 || (strncmp(said, "SCR: rank ", 10) == 0 && strstr(said, call) != NULL && strstr(said, twice) == NULL &&
        strchr(said, '{') == NULL)); /* marks a function that has to get its name in C */
    if (rank == 0) {
        printf("%s %s is refused\n", failed ? "ok" : "not ok", name);
        printf("%s ... with one line\n", total == 1 && good ? "ok" : "not ok");
    }
    if (total != 1 || !good)
        printf("  rank %d, %d of %d lines: %s%s", rank, lines, total, said, said[0] ? "" : "\n");
    fflush(stdout);
    MPI_Barrier(MPI_COMM_WORLD);
}

/* Checks a mistake of one rank in a call that is not collective. */
static void refused_here(const char *name, const char *call, int mine, int rc)
{
    refused(name, call, mine ? rc : 1);
}

static int put(const char *path)
{
    FILE *f = fopen(path, "w");

    if (f == NULL)
        return 0;
    fprintf(f, "rank %d step %d\n", rank, steps);
    return fclose(f) == 0;
}

static int good_checkpoint(void)
{
    char name[64], path[SCR_MAX_FILENAME];
    int ok;

    steps++;
    snprintf(name, sizeof name, "step.%d", steps);
    if (SCR_Start_output(name, SCR_FLAG_CHECKPOINT) != SCR_SUCCESS)
        return 0;
    snprintf(name, sizeof name, "step.%d/rank_%d", steps, rank);
    ok = SCR_Route_file(name, path) == SCR_SUCCESS && put(path);
    return SCR_Complete_output(ok) == SCR_SUCCESS && ok;
}

/* Reads the newest checkpoint in the run that has written it. */
static int reads_back(void)
{
    char name[64], path[SCR_MAX_FILENAME], want[64], got[64] = "";
    int flag, ok;
    FILE *f;

    snprintf(name, sizeof name, "step.%d", steps);
    if (SCR_Have_restart(&flag, path) != SCR_SUCCESS || !flag || strcmp(path, name) != 0 || SCR_Start_restart(path) != SCR_SUCCESS)
        return 0;
    snprintf(name, sizeof name, "step.%d/rank_%d", steps, rank);
    snprintf(want, sizeof want, "rank %d step %d\n", rank, steps);
    ok = SCR_Route_file(name, path) == SCR_SUCCESS && strcmp(path, name) != 0 && (f = fopen(path, "r")) != NULL;
    if (ok) {
        ok = fgets(got, sizeof got, f) != NULL && strcmp(got, want) == 0;
        fclose(f);
    }
    return SCR_Complete_restart(ok) == SCR_SUCCESS && ok;
}

static void goes_on(void)
{
    check("... the next checkpoint is made", good_checkpoint());
    quiet();
}

static int begin(const char *name) { return SCR_Start_output(name, SCR_FLAG_CHECKPOINT) == SCR_SUCCESS; }

/* --------------------------------------------------------------------- parts */

static void before_init(void)
{
    char path[SCR_MAX_FILENAME];
    int flag;

    refused("SCR_Finalize before SCR_Init", "SCR_Finalize", SCR_Finalize());
    refused("SCR_Have_restart before SCR_Init", "SCR_Have_restart", SCR_Have_restart(&flag, path));
    refused("SCR_Start_restart before SCR_Init", "SCR_Start_restart", SCR_Start_restart(path));
    refused("SCR_Complete_restart before SCR_Init", "SCR_Complete_restart", SCR_Complete_restart(1));
    refused("SCR_Need_checkpoint before SCR_Init", "SCR_Need_checkpoint", SCR_Need_checkpoint(&flag));
    refused("SCR_Should_exit before SCR_Init", "SCR_Should_exit", SCR_Should_exit(&flag));
    refused("SCR_Start_output before SCR_Init", "SCR_Start_output", SCR_Start_output("a", 1));
    refused("SCR_Complete_output before SCR_Init", "SCR_Complete_output", SCR_Complete_output(1));
    refused("SCR_Start_checkpoint before SCR_Init", "SCR_Start_checkpoint", SCR_Start_checkpoint());
    refused("SCR_Complete_checkpoint before SCR_Init", "SCR_Complete_checkpoint", SCR_Complete_checkpoint(1));
    refused("SCR_Current before SCR_Init", "SCR_Current", SCR_Current("a"));
    refused("SCR_Drop before SCR_Init", "SCR_Drop", SCR_Drop("a"));
    refused("SCR_Delete before SCR_Init", "SCR_Delete", SCR_Delete("a"));
    refused("SCR_Route_file before SCR_Init without a name", "SCR_Route_file", rank == 0 ? SCR_Route_file(NULL, path) : 1);
    check("SCR_Route_file before SCR_Init copies the name", SCR_Route_file("a", path) == SCR_SUCCESS && strcmp(path, "a") == 0);
}

static void misuse(void)
{
    char path[SCR_MAX_FILENAME], name[SCR_MAX_FILENAME + 64], longname[SCR_MAX_FILENAME + 8];
    int last = ranks - 1, mine, flag, lines;

    memset(longname, 'n', sizeof longname - 1);
    longname[sizeof longname - 1] = '\0';
    mine = rank == last;

    before_init();
    check("SCR_Init", SCR_Init() == SCR_SUCCESS);
    quiet();
    refused("a second SCR_Init", "SCR_Init", SCR_Init());
    goes_on();

    /* wrong state */
    refused("SCR_Complete_output without a start", "SCR_Complete_output", SCR_Complete_output(1));
    goes_on();
    refused("SCR_Complete_restart without a start", "SCR_Complete_restart", SCR_Complete_restart(1));
    refused("SCR_Start_restart without a checkpoint on offer", "SCR_Start_restart", SCR_Start_restart(path));
    goes_on();
    check("begin", begin("x"));
    refused("SCR_Start_output in an output", "SCR_Start_output", SCR_Start_output("y", 1));
    refused("SCR_Start_checkpoint in an output", "SCR_Start_checkpoint", SCR_Start_checkpoint());
    refused("SCR_Have_restart in an output", "SCR_Have_restart", SCR_Have_restart(&flag, path));
    refused("SCR_Complete_checkpoint of an output", "SCR_Complete_checkpoint", SCR_Complete_checkpoint(1));
    refused("SCR_Current in an output", "SCR_Current", SCR_Current("x"));
    refused("SCR_Drop in an output", "SCR_Drop", SCR_Drop("x"));
    refused("SCR_Delete in an output", "SCR_Delete", SCR_Delete("x"));
    check("... and the output can be completed", SCR_Complete_output(1) == SCR_SUCCESS);
    goes_on();
    check("SCR_Start_checkpoint", SCR_Start_checkpoint() == SCR_SUCCESS);
    refused("SCR_Complete_output of a checkpoint", "SCR_Complete_checkpoint", SCR_Complete_output(1));
    check("... and it can be completed", SCR_Complete_checkpoint(1) == SCR_SUCCESS);
    goes_on();

    /* NULL */
    refused("flag NULL in SCR_Need_checkpoint", "SCR_Need_checkpoint", SCR_Need_checkpoint(NULL));
    refused("flag NULL on one rank in SCR_Need_checkpoint", "SCR_Need_checkpoint", SCR_Need_checkpoint(mine ? NULL : &flag));
    refused("flag NULL on one rank in SCR_Should_exit", "SCR_Should_exit", SCR_Should_exit(mine ? NULL : &flag));
    refused("flag NULL on one rank in SCR_Have_restart", "SCR_Have_restart", SCR_Have_restart(mine ? NULL : &flag, NULL));
    refused("name NULL on one rank in SCR_Current", "SCR_Current", SCR_Current(mine ? NULL : "a"));
    refused("name NULL in SCR_Drop", "SCR_Drop", SCR_Drop(NULL));
    refused("name NULL on one rank in SCR_Delete", "SCR_Delete", SCR_Delete(mine ? NULL : "a"));
    goes_on();
    check("begin", begin("null"));
    refused_here("name NULL in SCR_Route_file", "SCR_Route_file", mine, mine ? SCR_Route_file(NULL, path) : 0);
    refused("... and the output, completed as valid", "SCR_Complete_output", SCR_Complete_output(1));
    goes_on();
    check("begin", begin("null"));
    refused_here("buffer NULL in SCR_Route_file", "SCR_Route_file", mine, mine ? SCR_Route_file("null/a", NULL) : 0);
    refused("... and the output, completed as valid", "SCR_Complete_output", SCR_Complete_output(1));
    goes_on();

    /* names of datasets */
    refused("a name of SCR_MAX_FILENAME", "SCR_Start_output", SCR_Start_output(longname, 1));
    refused("... on one rank", "SCR_Start_output", SCR_Start_output(mine ? longname : "a", 1));
    refused("another name on one rank", "SCR_Start_output", SCR_Start_output(mine ? "b" : "a", 1));
    refused("no name on one rank", "SCR_Start_output", SCR_Start_output(mine ? NULL : "a", 1));
    refused("other flags on one rank", "SCR_Start_output", SCR_Start_output("a", mine ? 3 : 1));
    refused("an unknown flag on one rank", "SCR_Start_output", SCR_Start_output("a", mine ? 1 << 10 : 1));
    refused("an unknown flag", "SCR_Start_output", SCR_Start_output("a", 1 | 1 << 10));
    refused("negative flags", "SCR_Start_output", SCR_Start_output("a", -1));
    refused("a line end in a name", "SCR_Start_output", SCR_Start_output("a\nb", 1));
    refused("an escape on one rank", "SCR_Start_output", SCR_Start_output(mine ? "a\033[2Jb" : "a", 1));
    lines = SCR_Current("never.written");
    check("a name that SCR_Current does not find is no error", lines == SCR_SUCCESS);
    lines = new_lines();
    check("... and one line says that there is no such dataset", rank == 0 ? lines == 1 && strstr(said, "never.written") != NULL : lines == 0);
    refused("another name on one rank", "SCR_Drop", SCR_Drop(mine ? "a" : "b"));
    goes_on();

    /* names of files */
    {
        const char *const bad[] = {"/etc/outside", "../outside", "a/../../outside", "/", ".", "", ".scr/index.scr", longname};
        const char *const what[] = {"outside the prefix directory", "../", "../ further down", "/", "the prefix directory itself",
                                    "empty", "in .scr", "of SCR_MAX_FILENAME"};
        size_t i;

        for (i = 0; i < sizeof bad / sizeof *bad; i++) {
            check("begin", begin("files"));
            snprintf(name, sizeof name, "a file name that is %s", what[i]);
            strcpy(path, "what was there");
            refused_here(name, "SCR_Route_file", mine, mine ? SCR_Route_file(bad[i], path) : 0);
            check("... and stays, as much of it as fits", !mine || (strncmp(path, bad[i], SCR_MAX_FILENAME - 1) == 0 && strlen(path) < SCR_MAX_FILENAME &&
                  strlen(path) == strnlen(bad[i], SCR_MAX_FILENAME - 1)));
            refused("... and the output, completed as valid", "SCR_Complete_output", SCR_Complete_output(1));
        }
        check("begin", begin("files"));
        {
            static char same[2 * SCR_MAX_FILENAME];

            memset(same, 's', sizeof same - 1);
            refused_here("a name that is too long, in the buffer for the path", "SCR_Route_file", mine, mine ? SCR_Route_file(same, same) : 0);
            check("... stays whole", strlen(same) == sizeof same - 1 && strspn(same, "s") == sizeof same - 1);
        }
        refused("... and the output, completed as valid", "SCR_Complete_output", SCR_Complete_output(1));
        goes_on();
    }
    /* The name is short enough, but its path in the cache is not. */
    check("begin", begin("files"));
    memset(name, 'n', 1000);
    for (flag = 0; flag < 1000; flag += 100)
        name[flag] = '/';
    name[0] = 'n';
    name[1000] = '\0';
    refused_here("a file whose path in the cache is too long", "SCR_Route_file", mine, mine ? SCR_Route_file(name, path) : 0);
    refused("... and the output, completed as valid", "SCR_Complete_output", SCR_Complete_output(1));
    goes_on();

    check("begin", begin("same"));
    check("one file on two ranks", rank > 1 || (SCR_Route_file("same/file", path) == SCR_SUCCESS && put(path)));
    quiet();
    refused("one file written by two ranks", "SCR_Complete_output", SCR_Complete_output(1));
    goes_on();

    check("begin", begin("absent"));
    check("a file routed", !mine || SCR_Route_file("absent/file", path) == SCR_SUCCESS);
    quiet();
    refused("a file routed but never written", "SCR_Complete_output", SCR_Complete_output(1));
    goes_on();

    check("begin", begin("directory"));
    check("a directory", !mine || (SCR_Route_file("directory/file", path) == SCR_SUCCESS && mkdir(path, 0700) == 0));
    quiet();
    refused("a directory in place of a file", "SCR_Complete_output", SCR_Complete_output(1));
    goes_on();

    check("begin", begin("link"));
    check("a link", !mine || (SCR_Route_file("link/file", path) == SCR_SUCCESS && symlink("/etc/passwd", path) == 0));
    quiet();
    refused("a symbolic link in place of a file", "SCR_Complete_output", SCR_Complete_output(1));
    goes_on();

    check("begin", begin("invalid"));
    refused("an output that one rank says is not valid", "SCR_Complete_output", SCR_Complete_output(!mine));
    goes_on();

    refused("SCR_Config of a setting after SCR_Init", "SCR_Config", SCR_Config("SCR_DEBUG=1") == NULL);
    goes_on();

    check("what SCR_Complete_output has just completed is read in the same run", reads_back());
    goes_on();
    check("... as often as the program likes", reads_back() && reads_back());
    quiet();

    check("SCR_Finalize", SCR_Finalize() == SCR_SUCCESS);
    quiet();
    before_init(); /* as after SCR_Finalize */
    check("... SCR_Route_file gives the name as it was", SCR_Route_file("a/b", path) == SCR_SUCCESS && strcmp(path, "a/b") == 0);
    quiet();
    check("SCR_Init once more", SCR_Init() == SCR_SUCCESS);
    check("... finds the newest checkpoint", SCR_Have_restart(&flag, path) == SCR_SUCCESS && flag == 1);
    snprintf(name, sizeof name, "step.%d", steps);
    check("... by its name", strcmp(path, name) == 0);
    check("... and starts", SCR_Start_restart(path) == SCR_SUCCESS);
    quiet();
    refused("SCR_Start_output in a restart", "SCR_Start_output", SCR_Start_output("y", 1));
    snprintf(name, sizeof name, "step.%d/other", steps);
    refused_here("a file that is not there", "SCR_Route_file", mine, mine ? SCR_Route_file(name, path) : 0);
    refused("a restart that one rank could not do", "SCR_Complete_restart", SCR_Complete_restart(!mine));
    check("... the one before is offered", SCR_Have_restart(&flag, path) == SCR_SUCCESS && flag == 1);
    snprintf(name, sizeof name, "step.%d", steps - 1);
    check("... by its name", strcmp(path, name) == 0);
    check("... it starts", SCR_Start_restart(NULL) == SCR_SUCCESS);
    check("... and is good", SCR_Complete_restart(1) == SCR_SUCCESS);
    goes_on();
    check("SCR_Finalize", SCR_Finalize() == SCR_SUCCESS);
}

static int gives(const char *query, const char *expected)
{
    const char *value = SCR_Config(query);
    int same = expected == NULL ? value == NULL : value != NULL && strcmp(value, expected) == 0;

    if (!same)
        printf("  %s is %s\n", query, value ? value : "NULL");
    free((void *)value); /* the program has to free it */
    return same;
}

static void answers(const char *when, const char *const (*list)[2])
{
    char name[256];

    for (; (*list)[0] != NULL; list++) {
        snprintf(name, sizeof name, "%s: %s", when, (*list)[0]);
        check(name, gives((*list)[0], (*list)[1]));
    }
}

/* Checks that a query has several values: one line says so, on one rank. */
static void ambiguous(const char *query)
{
    quiet();
    refused(query, "is ambiguous", SCR_Config(query) == NULL);
}

/* Run with SCR_COPY_TYPE=XOR and X=x/y in the environment. */
static void config(void)
{
    static const char *const before[][2] = {{"SCR_COPY_TYPE", "XOR"}, {"SCR_FLUSH", NULL}, {"SCR_JOB_ID", NULL}, {"MY_OWN", NULL},
        {"X", "x/y"}, {"", NULL}, {"   ", NULL}, {0}};
    static const char *const set[][2] = {{"SCR_FLUSH=7", NULL}, {"SCR_FLUSH", "7"}, {"SCR_FLUSH=", NULL}, {"SCR_FLUSH", NULL},
        {"MY_OWN = a=b#c\"d\"", NULL}, {"MY_OWN", "a=b#c\"d\""}, {"my_own", NULL}, {"MY_OWN=$X/${X}$NOTHING", NULL}, {"MY_OWN", "x/y/x/y"},
        {"SCR_COPY_TYPE=SINGLE", NULL}, {"SCR_COPY_TYPE", "XOR"}, {"SCR_GROUP=node", NULL}, {"SCR_GROUP", "node"},
        {"SCR_GROUP =", NULL}, {"SCR_GROUP", NULL},
        {"CKPT=0 TYPE=XOR INTERVAL=2", NULL}, {"CKPT=0 TYPE", "XOR"}, {"CKPT", "0"}, {"CKPT=1 TYPE", NULL}, {"CKPT=0 BYPASS=1", NULL},
        {"CKPT=0 TYPE", "XOR"}, {"CKPT = 0 BYPASS", "1"}, {"CKPT=1 TYPE=RS", NULL}, {"CKPT=1 TYPE", "RS"}, {"CKPT=0 TYPE", "XOR"}, {0}};
    static const char *const after[][2] = {{"SCR_COPY_TYPE", "XOR"}, {"SCR_CHECKPOINT_INTERVAL", "3"}, {"SCR_FLUSH", NULL},
        {"MY_OWN", "x/y/x/y"}, {"CKPT=1 TYPE", "RS"}, {"X", "x/y"}, {"NOBODYS", NULL}, {"", NULL}, {0}};
    char path[SCR_MAX_FILENAME];
    const char *value;
    int i, flag, yes = 1;

    check("SCR_Get_version", strcmp(SCR_Get_version(), "v3.1.0") == 0);
    check("the parts of the version are texts", strcmp("v" SCR_MAJOR_VERSION "." SCR_MINOR_VERSION "." SCR_PATCH_VERSION, SCR_VERSION) == 0);
    check("SCR_Config of NULL gives NULL", SCR_Config(NULL) == NULL);
    answers("before SCR_Init", before);
    answers("setting", set);
    check("... without a word", new_lines() == 0);
    ambiguous("CKPT");
    check("SCR_Configf", SCR_Configf("SCR_%s=%d", "CHECKPOINT_INTERVAL", 3) == NULL && gives("SCR_CHECKPOINT_INTERVAL", "3"));
    check("SCR_Configf asks", (value = SCR_Configf("SCR_%s", "CHECKPOINT_INTERVAL")) != NULL && strcmp(value, "3") == 0);
    free((void *)value);
    check("SCR_Configf of NULL gives NULL", SCR_Configf(NULL) == NULL);
    quiet();
    refused("two words without =", "SCR_Config", SCR_Config("SCR_FLUSH SCR_FETCH") == NULL);
    refused("a value with a blank", "SCR_Config", SCR_Config("SCR_JOB_NAME=a b c") == NULL);
    refused("a query behind a setting", "SCR_Config", SCR_Config("CKPT=0 TYPE=XOR INTERVAL") == NULL);
    refused("no name", "SCR_Config", SCR_Config("=1") == NULL);
    check("... of which nothing is set", gives("SCR_FLUSH", NULL) && gives("SCR_JOB_NAME", NULL));
    check("SCR_Init", SCR_Init() == SCR_SUCCESS);
    quiet();
    answers("after SCR_Init", after);
    check("... without a word", new_lines() == 0);
    ambiguous("CKPT");
    refused("setting after SCR_Init", "before SCR_Init", SCR_Config("SCR_FLUSH=1") == NULL);
    refused("unsetting after SCR_Init", "before SCR_Init", SCR_Config("SCR_CHECKPOINT_INTERVAL=") == NULL);
    check("... changes nothing", gives("SCR_CHECKPOINT_INTERVAL", "3") && gives("SCR_FLUSH", NULL));
    for (i = 1; i <= 9; i++)
        yes = yes && SCR_Need_checkpoint(&flag) == SCR_SUCCESS && flag == (i % 3 == 0);
    check("SCR_Need_checkpoint with SCR_CHECKPOINT_INTERVAL=3", yes);
    check("SCR_Should_exit says no", SCR_Should_exit(&flag) == SCR_SUCCESS && flag == 0);
    check("SCR_Have_restart finds nothing", SCR_Have_restart(&flag, path) == SCR_SUCCESS && flag == 0);
    check("SCR_Start_checkpoint", SCR_Start_checkpoint() == SCR_SUCCESS);
    check("... SCR_Config in it", gives("SCR_CHECKPOINT_INTERVAL", "3"));
    snprintf(path, sizeof path, "plain.%d", rank);
    check("SCR_Route_file into the same buffer", SCR_Route_file(path, path) == SCR_SUCCESS && put(path));
    check("SCR_Complete_checkpoint", SCR_Complete_checkpoint(1) == SCR_SUCCESS);
    check("SCR_Finalize", SCR_Finalize() == SCR_SUCCESS);
    answers("after SCR_Finalize", after);
    check("... a setting for the next SCR_Init", SCR_Config("SCR_CHECKPOINT_INTERVAL=2") == NULL && gives("SCR_CHECKPOINT_INTERVAL", "2"));
}

/* Makes a file of text on rank 0, for all ranks. */
static void make(const char *path, const char *text)
{
    FILE *f;

    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 0 && (f = fopen(path, "w")) != NULL) {
        fputs(text, f);
        fclose(f);
    }
    MPI_Barrier(MPI_COMM_WORLD);
}

/* Run with SCR_FLUSH=4 and SCR_SET_SIZE=$N in the environment, N=16, and without SCR_PREFIX. */
static void files(void)
{
    static const char *const here[][2] = {{"SCR_FLUSH", "4"}, {"SCR_SET_SIZE", "16"}, {"SCR_DEBUG", "0"}, {"SCR_JOB_NAME", "\"heat"},
        {"SCR_CLUSTER_NAME", "a b#c=d"}, {"SCR_FETCH", "1"}, {"MINE", "16/16"}, {"SCR_MPI_BUF_SIZE", NULL}, {"STORE=/tmp/none COUNT", "3"},
        {"STORE=/tmp/other COUNT", "5"}, {"STORE=/tmp/none Count", NULL}, {"GROUPS=h1 POWER", "Psu"}, {"GROUPS", "h1"}, {"CKPT=0 TYPE", "xor"},
        {"CKPT=1 TYPE", "single"}, {"CKPT=1 INTERVAL", "2"}, {"SCR_PREFIX", NULL}, {0}};
    static const char *const gone[][2] = {{"SCR_FLUSH", "4"}, {"SCR_DEBUG", NULL}, {"GROUPS", NULL}, {0}};
    static const char *const other[][2] = {{"SCR_PREFIX", "sub"}, {"SCR_DEBUG", "1"}, {"SCR_JOB_NAME", NULL}, {0}};

    make(".scrconf", "# a comment\n\n  scr_flush = 5   # another\nScr_Debug\t=\t0\nSCR_JOB_NAME=\"heat\nSCR_CLUSTER_NAME=a\\ b#c=d\nMINE=$N/${N}\n"
        "SCR_MPI_BUF_SIZE=$NOT_SET\nSTORE=/tmp/none COUNT=3\nGROUPS=h1 Power=Psu\nCKPT=0 TYPE=xor\nCKPT=1 TYPE=single INTERVAL=2\n"
        "SCR_FETCH=1\r\nSTORE=/tmp/other COUNT=5 GROUP=NODE");
    check("SCR_Config after which the file is asked for", SCR_Config("SCR_DEBUG=2") == NULL && SCR_Config("CKPT=7 TYPE=RS") == NULL);
    answers("the user's file", here);
    ambiguous("STORE");
    ambiguous("CKPT");
    quiet();
    check("another file, which is missing", SCR_Config("SCR_CONF_FILE=none") == NULL);
    check("... and what the program has set", gives("SCR_DEBUG", "2") && gives("CKPT", "7") && gives("GROUPS", NULL));
    check("... or has not", SCR_Config("SCR_DEBUG=") == NULL && SCR_Config("CKPT=") == NULL);
    answers("no file", gone);
    check("no other file", SCR_Config("SCR_CONF_FILE=") == NULL);
    answers("the first one again", here);
    ambiguous("STORE");
    if (rank == 0)
        mkdir("sub", 0700);
    make("sub/.scrconf", "SCR_DEBUG=1\n");
    check("another prefix directory", SCR_Config("SCR_PREFIX=sub") == NULL);
    answers("the file there", other);
    setenv("SCR_PREFIX", ".", 1);
    check("the environment decides where it is", gives("SCR_PREFIX", ".") && gives("SCR_JOB_NAME", "\"heat"));
    unsetenv("SCR_PREFIX");
    check("... at that moment", gives("SCR_DEBUG", "1"));
    check("the first prefix directory", SCR_Config("SCR_PREFIX=") == NULL);
    quiet();
    check("SCR_Init", SCR_Init() == SCR_SUCCESS);
    answers("after SCR_Init", here);
    check("SCR_Finalize", SCR_Finalize() == SCR_SUCCESS);
    make(".scrconf", "SCR_FLUSH=1\nSCR_DEBUG\n");
    quiet();
    refused("a query with a bad file", ".scrconf:2: ", SCR_Config("SCR_DEBUG") == NULL);
    refused("SCR_Init with a bad file", ".scrconf:2: ", SCR_Init());
}

/* Ranks that set different things. */
static void differ(void)
{
    check("what one rank sets differently gives NULL", SCR_Config(rank == 1 ? "SCR_FLUSH=3" : "SCR_FLUSH=2") == NULL);
    quiet();
    refused("then SCR_Init", "SCR_FLUSH=3", SCR_Init());
    check("what another does not set", SCR_Config("SCR_FLUSH=2") == NULL && (rank == 2 || SCR_Config("SCR_DEBUG=0") == NULL));
    quiet();
    refused("then SCR_Init", "SCR_DEBUG=0", SCR_Init());
    check("when all have set the same, SCR_Init succeeds", SCR_Config("SCR_DEBUG=0") == NULL && SCR_Init() == SCR_SUCCESS);
    check("SCR_Finalize", SCR_Finalize() == SCR_SUCCESS);
}

/*
 * Run with SCR_ABORT_ON_ERROR=1 and the name of a mistake.  The job has ended when this
 * returns, or has gone on.
 */
static const char *mistake;

static int is_mistake(const char *name) { return strcmp(mistake, name) == 0; }

static void aborts(void)
{
    char path[SCR_MAX_FILENAME];
    int flag = 0, rc = 0;

    if (is_mistake("before_init"))
        rc = SCR_Should_exit(&flag);
    else if (is_mistake("bad_setting"))
        rc = SCR_Config("A B") == NULL;
    else if (is_mistake("by_config"))
        rc = SCR_Config("SCR_ABORT_ON_ERROR=1") != NULL || SCR_Complete_output(1);
    else if (is_mistake("differ"))
        rc = SCR_Config(rank == 1 ? "SCR_FLUSH=3" : "SCR_FLUSH=2") != NULL || SCR_Init();
    else if (is_mistake("init_fails") || is_mistake("disabled"))
        rc = SCR_Init();
    else if (is_mistake("late"))
        rc = SCR_Init() || MPI_Finalize() || SCR_Finalize();
    else if (SCR_Init() != SCR_SUCCESS)
        return;
    else if (is_mistake("second_init"))
        rc = SCR_Init();
    else if (is_mistake("set_late"))
        rc = SCR_Config("SCR_FLUSH=1") == NULL;
    else if (is_mistake("ambiguous"))
        rc = SCR_Config("CKPT") == NULL;
    else if (is_mistake("no_start"))
        rc = SCR_Complete_output(1);
    else if (is_mistake("names"))
        rc = SCR_Start_output(rank == 1 ? "a" : "b", SCR_FLAG_CHECKPOINT);
    else if (is_mistake("not_offered"))
        rc = SCR_Start_restart(path);
    else if (is_mistake("open"))
        rc = SCR_Start_output("a", SCR_FLAG_CHECKPOINT) || SCR_Finalize();
    else if (is_mistake("outside"))
        rc = SCR_Start_output("a", SCR_FLAG_CHECKPOINT) || SCR_Route_file("/outside", path);
    else if (is_mistake("shared"))
        rc = SCR_Start_output("a", SCR_FLAG_CHECKPOINT) || SCR_Route_file("a", path) || !put(path) || SCR_Complete_output(1);
    else if (is_mistake("invalid"))
        rc = SCR_Start_output("a", SCR_FLAG_CHECKPOINT) == SCR_SUCCESS && SCR_Complete_output(rank != 1) && good_checkpoint();
    else if (is_mistake("unread"))
        rc = good_checkpoint() && SCR_Finalize() == SCR_SUCCESS && SCR_Init() == SCR_SUCCESS && SCR_Start_restart(path) == SCR_SUCCESS &&
            SCR_Route_file("other", path) && SCR_Complete_restart(rank != 1) && good_checkpoint();
    else if (is_mistake("null"))
        rc = SCR_Should_exit(rank == 1 ? NULL : &flag) && SCR_Route_file(NULL, path) && SCR_Route_file("", path);
    else if (is_mistake("unknown"))
        rc = SCR_Current("nothing") == SCR_SUCCESS;
    if (rc != SCR_SUCCESS && rank == 0)
        printf("the program has gone on\n");
}

/* A program forgets the last Complete; then another finds the datasets that are left. */
static void forgotten(void)
{
    check("SCR_Init", SCR_Init() == SCR_SUCCESS);
    check("a checkpoint", good_checkpoint());
    check("begin", begin("forgotten"));
    quiet();
    refused("SCR_Finalize in an output", "SCR_Complete_output", SCR_Finalize());
    check("... has flushed the checkpoint before", access("step.1/rank_0", F_OK) == 0);
    check("... and not what was open", access("forgotten", F_OK) != 0);
    check("... and ended the library: SCR_Init can be called again", SCR_Init() == SCR_SUCCESS);
    check("... which starts a restart", SCR_Start_restart(NULL) == SCR_SUCCESS);
    quiet();
    refused("SCR_Finalize in a restart", "SCR_Complete_restart", SCR_Finalize());
}

/* MPI aborts a job that calls it after MPI_Finalize. */
static void late(void)
{
    int flag, asked, ended, lines;

    check("SCR_Init", SCR_Init() == SCR_SUCCESS);
    check("a checkpoint", good_checkpoint());
    quiet();
    MPI_Finalize();
    asked = SCR_Have_restart(&flag, NULL);
    ended = SCR_Finalize();
    lines = new_lines();
    if (rank == 0)
        printf("%s calls after MPI_Finalize fail, and rank 0 says what should have been (%d lines)\n",
            asked != SCR_SUCCESS && ended != SCR_SUCCESS && lines == 2 &&
            strstr(said, "SCR_Finalize has to come before it") != NULL ? "ok" : "not ok", lines);
}

/* Run with SCR_COPY_TYPE=TAPE. */
static void init_fails(void)
{
    char path[SCR_MAX_FILENAME];
    int flag = 7;

    refused("SCR_Init with a bad parameter", "SCR_COPY_TYPE", SCR_Init());
    refused("the first call after it", "SCR_Init has failed", SCR_Start_output("a", 1));
    check("every other fails too", SCR_Have_restart(&flag, path) && SCR_Start_restart(path) && SCR_Complete_restart(1) &&
        SCR_Need_checkpoint(&flag) && SCR_Should_exit(&flag) && SCR_Complete_output(1) && SCR_Start_checkpoint() &&
        SCR_Complete_checkpoint(1) && SCR_Current("a") && SCR_Drop("a") && SCR_Delete("a") && SCR_Finalize());
    check("... SCR_Route_file too, and gives the name as it was",
        SCR_Route_file("dir/name", path) != SCR_SUCCESS && strcmp(path, "dir/name") == 0);
    check("... without a word more", new_lines() == 0);
    unsetenv("SCR_COPY_TYPE");
    check("when the parameter is right, SCR_Init succeeds", SCR_Init() == SCR_SUCCESS);
    check("... and a checkpoint can be made", good_checkpoint());
    check("SCR_Finalize", SCR_Finalize() == SCR_SUCCESS);
}

/* Run with SCR_CHECKPOINT_INTERVALL=3 and SCR_X=1. */
static void unknown(void)
{
    int lines;

    check("SCR_Init", SCR_Init() == SCR_SUCCESS);
    MPI_Barrier(MPI_COMM_WORLD);
    lines = new_lines();
    check("one rank says so, a line each", lines == (rank == 0 ? 2 : 0));
    check("... of a misspelt parameter", rank != 0 || strstr(said, "did you mean SCR_CHECKPOINT_INTERVAL?") != NULL);
    check("... and of an unknown one", rank != 0 || strstr(said, "unknown parameter SCR_X") != NULL);
    check("SCR_Finalize", SCR_Finalize() == SCR_SUCCESS);
}

/* Two jobs in one world, each with half of the ranks.  A call fails in the second and
 * succeeds in the first. */
static void halves(void)
{
    int half = rank % 2, in_half, flag, i;
    char path[SCR_MAX_FILENAME], name[64];
    MPI_Comm part;

    MPI_Comm_split(MPI_COMM_WORLD, half, -rank, &part);
    MPI_Comm_rank(part, &in_half);
    snprintf(path, sizeof path, "half.%d", half);
    mkdir(path, 0700);
    SCR_Configf("SCR_PREFIX=$PWD/half.%d", half);
    SCR_Configf("SCR_JOB_ID=half.%d", half);
    check("SCR_Init_comm", SCR_Init_comm(part) == SCR_SUCCESS);
    for (i = 0; i <= half; i++) {
        int ok;

        snprintf(name, sizeof name, "of.%d.%d", half, i);
        ok = SCR_Start_output(name, SCR_FLAG_CHECKPOINT) == SCR_SUCCESS;
        snprintf(name, sizeof name, "half.%d/of.%d/rank_%d", half, i, in_half);
        ok = ok && SCR_Route_file(name, path) == SCR_SUCCESS && put(path);
        check("a checkpoint of each, and another of one", SCR_Complete_output(ok) == SCR_SUCCESS && ok);
        if (half == 0)
            check("a checkpoint of each, and another of one", 1);
    }
    if (half == 1)
        i = SCR_Start_output(in_half == 0 ? "x" : "y", 1) != SCR_SUCCESS;
    else
        i = SCR_Should_exit(&flag) == SCR_SUCCESS && flag == 0;
    check("an error in one job is none in the other", i);
    MPI_Comm_free(&part);
    check("the program may free its communicator", SCR_Need_checkpoint(&flag) == SCR_SUCCESS);
    check("SCR_Finalize", SCR_Finalize() == SCR_SUCCESS);
    MPI_Comm_split(MPI_COMM_WORLD, half, rank, &part); /* in another order */
    check("SCR_Init_comm again", SCR_Init_comm(part) == SCR_SUCCESS);
    MPI_Comm_rank(part, &in_half);
    snprintf(name, sizeof name, "of.%d.%d", half, half);
    check("... each has its own newest checkpoint", SCR_Have_restart(&flag, path) == SCR_SUCCESS && flag == 1 && strcmp(path, name) == 0);
    check("... and starts", SCR_Start_restart(NULL) == SCR_SUCCESS);
    snprintf(name, sizeof name, "half.%d/of.%d/rank_%d", half, half, in_half);
    check("... with a rank's own file, of its number in the job", SCR_Route_file(name, path) == SCR_SUCCESS && access(path, R_OK) == 0);
    check("... and is good", SCR_Complete_restart(1) == SCR_SUCCESS);
    check("SCR_Finalize", SCR_Finalize() == SCR_SUCCESS);
    check("SCR_Init_comm of no communicator is refused", SCR_Init_comm(MPI_COMM_NULL) != SCR_SUCCESS);
}

/* Run with SCR_ENABLE=0. */
static void disabled(void)
{
    char path[SCR_MAX_FILENAME];
    int flag = 7;

    refused("SCR_Init with SCR_ENABLE=0", "SCR_Init", SCR_Init());
    check("then every call fails", SCR_Have_restart(&flag, path) && SCR_Start_restart(path) && SCR_Complete_restart(1) &&
        SCR_Need_checkpoint(&flag) && SCR_Should_exit(&flag) && SCR_Start_output("a", 1) && SCR_Complete_output(1) &&
        SCR_Start_checkpoint() && SCR_Complete_checkpoint(1) && SCR_Current("a") && SCR_Drop("a") && SCR_Delete("a"));
    check("... SCR_Route_file too, and gives the name as it was",
        SCR_Route_file("dir/name", path) != SCR_SUCCESS && strcmp(path, "dir/name") == 0);
    check("... and SCR_Finalize", SCR_Finalize() != SCR_SUCCESS);
    check("SCR_Get_error says why on all ranks", strncmp(SCR_Get_error(), "SCR_Finalize: ", 14) == 0);
    check("SCR_Get_version needs no SCR_Init", strcmp(SCR_Get_version(), "v3.1.0") == 0);
    check("SCR_Config gives NULL", gives("SCR_ENABLE", NULL) && gives("SCR_ENABLE=1", NULL) && gives("A B", NULL));
    check("... without a word more", new_lines() == 0);
    check("nothing was made", access(".scr", F_OK) != 0);
}

static int offered(const char *expected)
{
    char name[SCR_MAX_FILENAME] = "";
    int flag;

    if (SCR_Have_restart(&flag, name) != SCR_SUCCESS)
        return 0;
    if (expected == NULL ? flag != 0 : flag != 1 || strcmp(name, expected) != 0) {
        if (rank == 0)
            printf("  offered: %s\n", flag ? name : "nothing");
        return 0;
    }
    return 1;
}

/* Run with SCR_FLUSH=1, and then, each on empty caches, current, drop, delete
 * and nothing. */
static void produce(void)
{
    check("SCR_Init", SCR_Init() == SCR_SUCCESS);
    check("checkpoints", good_checkpoint() && good_checkpoint() && good_checkpoint() && good_checkpoint());
    check("SCR_Finalize", SCR_Finalize() == SCR_SUCCESS);
}

static void current(void)
{
    check("SCR_Init", SCR_Init() == SCR_SUCCESS);
    check("SCR_Current of an older one", SCR_Current("step.2") == SCR_SUCCESS);
    check("... which is then offered", offered("step.2"));
    check("... and read", SCR_Start_restart(NULL) == SCR_SUCCESS && SCR_Complete_restart(1) == SCR_SUCCESS);
    check("SCR_Finalize", SCR_Finalize() == SCR_SUCCESS);
}

static void drop(void)
{
    check("SCR_Init", SCR_Init() == SCR_SUCCESS);
    check("SCR_Drop", SCR_Drop("step.4") == SCR_SUCCESS && SCR_Drop("step.2") == SCR_SUCCESS);
    check("... leaves the files", access("step.4/rank_0", F_OK) == 0);
    check("... an older one is offered, since the program had chosen step.2", offered("step.1"));
    check("SCR_Drop of what is not there", SCR_Drop("step.4") == SCR_SUCCESS);
    check("SCR_Finalize", SCR_Finalize() == SCR_SUCCESS);
}

static void delete_(void)
{
    check("SCR_Init", SCR_Init() == SCR_SUCCESS);
    check("SCR_Delete", SCR_Delete("step.3") == SCR_SUCCESS);
    check("... takes files and directory", access("step.3", F_OK) != 0);
    check("... another is offered", offered("step.1"));
    check("SCR_Delete of that, now in the cache", SCR_Delete("step.1") == SCR_SUCCESS);
    check("... none is left", offered(NULL));
    check("SCR_Finalize", SCR_Finalize() == SCR_SUCCESS);
}

/* The halt file asks the job to stop after two more checkpoints, or at once. */
static void halt(void)
{
    int flag;

    check("SCR_Init", SCR_Init() == SCR_SUCCESS);
    check("not yet", SCR_Should_exit(&flag) == SCR_SUCCESS && flag == 0);
    check("a checkpoint", good_checkpoint());
    check("not yet", SCR_Should_exit(&flag) == SCR_SUCCESS && flag == 0);
    check("a checkpoint", good_checkpoint());
    check("now", SCR_Should_exit(&flag) == SCR_SUCCESS && flag == 1);
    check("SCR_Need_checkpoint says yes as well", SCR_Need_checkpoint(&flag) == SCR_SUCCESS && flag == 1);
    check("SCR_Finalize", SCR_Finalize() == SCR_SUCCESS);
}

static void halt_at_once(void)
{
    int flag;

    check("SCR_Init", SCR_Init() == SCR_SUCCESS);
    check("at once", SCR_Should_exit(&flag) == SCR_SUCCESS && flag == 1);
    check("SCR_Finalize", SCR_Finalize() == SCR_SUCCESS);
}

/* Run with SCR_HALT_SECONDS=100 and SCR_END_TIME 50 seconds from now. */
static void ends_soon(void)
{
    int flag;

    check("SCR_Init", SCR_Init() == SCR_SUCCESS);
    check("SCR_Should_exit says yes", SCR_Should_exit(&flag) == SCR_SUCCESS && flag == 1);
    check("SCR_Need_checkpoint says yes as well", SCR_Need_checkpoint(&flag) == SCR_SUCCESS && flag == 1);
    check("a checkpoint", good_checkpoint());
    check("... is flushed at once", access("step.1/rank_0", F_OK) == 0);
    check("SCR_Finalize", SCR_Finalize() == SCR_SUCCESS);
}

static void at_exit(void)
{
    int finalized = 0;

    MPI_Finalized(&finalized);
    if (rank == 0)
        printf("%s the program's exit handlers run after MPI_Finalize\n", finalized ? "ok" : "not ok");
}

/* Run with SCR_HALT_EXIT=1 and a halt file that allows one more checkpoint. */
static void exits(void)
{
    int flag;

    atexit(at_exit);
    check("SCR_Init", SCR_Init() == SCR_SUCCESS);
    check("not yet", SCR_Should_exit(&flag) == SCR_SUCCESS && flag == 0);
    if (rank == 0)
        printf("end of exits\n");
    good_checkpoint();
    printf("not ok the job ends in SCR_Complete_output\n");
}

/* ... and the same once more. */
static void exits_at_once(void)
{
    atexit(at_exit);
    if (rank == 0)
        printf("end of exits_at_once\n");
    SCR_Init();
    printf("not ok the job ends in SCR_Init\n");
}

/* ------------------------------------------------- what is the program's own */

static void handler(int sig) { (void)sig; }

struct surroundings {
    struct sigaction signals[65];
    sigset_t mask;
    mode_t umask;
    char cwd[1024], locale[256];
    int stdout_flags, threads, descriptors;
};

static int entries(const char *dir)
{
    DIR *d = opendir(dir);
    int n = 0;

    while (d != NULL && readdir(d) != NULL)
        n++;
    if (d != NULL)
        closedir(d);
    return n;
}

static void look(struct surroundings *s)
{
    int i;

    memset(s, 0, sizeof *s);
    for (i = 1; i < 65; i++)
        sigaction(i, NULL, &s->signals[i]);
    sigprocmask(SIG_SETMASK, NULL, &s->mask);
    s->umask = umask(0);
    umask(s->umask);
    if (getcwd(s->cwd, sizeof s->cwd) == NULL)
        s->cwd[0] = '\0';
    snprintf(s->locale, sizeof s->locale, "%s", setlocale(LC_ALL, NULL));
    s->stdout_flags = fcntl(1, F_GETFL);
    s->threads = entries("/proc/self/task");
    s->descriptors = entries("/proc/self/fd");
}

static int same_signal(const struct sigaction *a, const struct sigaction *b)
{
    return a->sa_handler == b->sa_handler && a->sa_flags == b->sa_flags && memcmp(&a->sa_mask, &b->sa_mask, 8) == 0;
}

static void signals_differ(const char *when, const struct surroundings *a, const struct surroundings *b)
{
    int i;

    for (i = 1; i < 65 && rank == 0; i++)
        if (!same_signal(&a->signals[i], &b->signals[i]))
            printf("  %s: signal %d (%s): handler %p flags %#x, was %p flags %#x\n", when, i, strsignal(i),
                (void *)(size_t)b->signals[i].sa_handler, (unsigned)b->signals[i].sa_flags,
                (void *)(size_t)a->signals[i].sa_handler, (unsigned)a->signals[i].sa_flags);
}

static struct surroundings at_start;

static void list_at_start(void)
{
    int i;

    for (i = 1; i < 65 && rank == 0; i++)
        if (at_start.signals[i].sa_handler != SIG_DFL && at_start.signals[i].sa_handler != SIG_IGN)
            printf("  when main begins: signal %d (%s) has a handler, flags %#x\n", i, strsignal(i),
                (unsigned)at_start.signals[i].sa_flags);
}

static void respect(void)
{
    static const int caught[] = {SIGINT, SIGTERM, SIGCHLD, SIGUSR1, SIGSEGV, SIGHUP, SIGALRM, SIGFPE, SIGPIPE};
    struct surroundings before, after;
    struct sigaction action;
    size_t i;
    int ok, fd[2];

    list_at_start();
    memset(&action, 0, sizeof action);
    action.sa_handler = handler;
    for (i = 0; i < sizeof caught / sizeof *caught; i++)
        sigaction(caught[i], &action, NULL);
    umask(027);
    setlocale(LC_ALL, "C.UTF-8");
    look(&before);
    ok = SCR_Init() == SCR_SUCCESS && good_checkpoint() && good_checkpoint() && SCR_Finalize() == SCR_SUCCESS;
    check("a job with handlers of its own", ok);
    look(&after);
    for (i = 1, ok = 1; i < 65; i++)
        ok = ok && same_signal(&before.signals[i], &after.signals[i]);
    signals_differ("after SCR_Finalize", &before, &after);
    check("signals are handled as before", ok);
    check("signal mask", memcmp(&before.mask, &after.mask, 8) == 0);
    check("umask", before.umask == after.umask);
    check("working directory", strcmp(before.cwd, after.cwd) == 0);
    check("locale", strcmp(before.locale, after.locale) == 0);
    check("flags of stdout", before.stdout_flags == after.stdout_flags);
    /* Go's two descriptors for epoll stay open. */
    check("no descriptor is left open", after.descriptors <= before.descriptors + 2);
    if (rank == 0)
        printf("  threads: %d before, %d after; descriptors: %d before, %d after\n", before.threads, after.threads,
            before.descriptors, after.descriptors);
    raise(SIGUSR1);
    raise(SIGCHLD);
    raise(SIGSEGV);
    check("the program's handlers run", 1);
    ok = pipe(fd) == 0 && close(fd[0]) == 0 && write(fd[1], "x", 1) == -1 && errno == EPIPE;
    check("also that of SIGPIPE", ok);
}

/* A program without handlers of its own must die by SIGPIPE, as without the library. */
static void die_of_pipe(void)
{
    int fd[2];

    if (SCR_Init() != SCR_SUCCESS || SCR_Finalize() != SCR_SUCCESS)
        return;
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 0 && pipe(fd) == 0) {
        close(fd[0]);
        if (write(fd[1], "x", 1) < 0) {
            printf("write says: %s\n", strerror(errno));
            fflush(stdout);
        }
    }
    MPI_Barrier(MPI_COMM_WORLD);
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        void (*run)(void);
    } parts[] = {{"misuse", misuse}, {"config", config}, {"files", files}, {"differ", differ}, {"aborts", aborts}, {"disabled", disabled}, {"produce", produce},
        {"current", current}, {"drop", drop}, {"delete", delete_}, {"halt", halt}, {"halt_at_once", halt_at_once},
        {"forgotten", forgotten}, {"late", late},
        {"init_fails", init_fails}, {"unknown", unknown}, {"halves", halves}, {"ends_soon", ends_soon}, {"exits", exits},
        {"exits_at_once", exits_at_once},
        {"respect", respect}, {"die_of_pipe", die_of_pipe}};
    char name[64];
    size_t i;
    int ended;

    look(&at_start);
    setvbuf(stdout, NULL, _IOLBF, 0);
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    mistake = argc > 2 ? argv[2] : "";
    for (i = 0; argc > 1 && i < sizeof parts / sizeof *parts; i++) {
        if (strcmp(parts[i].name, argv[1]) != 0)
            continue;
        snprintf(name, sizeof name, "err.%s.%d", argv[1], rank);
        err = open(name, O_RDWR | O_CREAT | O_TRUNC | O_APPEND, 0600);
        if (err < 0 || dup2(err, 2) < 0)
            return 1;
        parts[i].run();
        if (rank == 0)
            printf("end of %s\n", argv[1]);
        MPI_Finalized(&ended);
        if (!ended)
            MPI_Finalize();
        return 0;
    }
    MPI_Finalize();
    return 2;
}
