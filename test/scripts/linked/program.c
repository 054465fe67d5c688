/*
 * A program for SCR 3.1 in C and C++, which makes each call of its interface.  It is run
 * twice: the second run restarts.  Rank 0 prints "restarted N", and "end" if all was as it
 * should be on all ranks.  With -DPART it is a part of a program in Fortran, whose main program
 * calls job.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <mpi.h>
#include "scr.h"

static int rank;

static void expect(int good, const char* what)
{
    int all;

    MPI_Allreduce(&good, &all, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
    if (!all) {
        if (rank == 0)
            fprintf(stderr, "not as expected: %s\n", what);
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
}

static void file_of(const char* dataset, char* path)
{
    char name[64];

    sprintf(name, "%s/rank_%d", dataset, rank);
    expect(SCR_Route_file(name, path) == SCR_SUCCESS, "SCR_Route_file");
}

static int put(const char* dataset)
{
    char path[SCR_MAX_FILENAME];
    FILE* f;

    file_of(dataset, path);
    f = fopen(path, "w");
    return f != NULL && fprintf(f, "%s %d", dataset, rank) > 0 && fclose(f) == 0;
}

static int get(const char* dataset)
{
    char path[SCR_MAX_FILENAME], text[64] = "", want[64];
    FILE* f;

    file_of(dataset, path);
    sprintf(want, "%s %d", dataset, rank);
    f = fopen(path, "r");
    return f != NULL && fgets(text, sizeof text, f) != NULL && fclose(f) == 0 && strcmp(text, want) == 0;
}

static void output(const char* name, int flags)
{
    expect(SCR_Start_output(name, flags) == SCR_SUCCESS, "SCR_Start_output");
    expect(SCR_Complete_output(put(name)) == SCR_SUCCESS, "SCR_Complete_output");
}

void job_(void)
{
    char name[SCR_MAX_FILENAME] = "", started[SCR_MAX_FILENAME] = "";
    const char* value;
    int flag = -1, run = 1;

    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    expect(strcmp(SCR_Get_version(), SCR_VERSION) == 0, "SCR_Get_version");
    expect(SCR_Config("SCR_CHECKPOINT_INTERVAL=2") == NULL, "SCR_Config, to set");
    expect(SCR_Configf("SCR_CHECKPOINT_SECONDS=%d", 77) == NULL, "SCR_Configf, to set");
    value = SCR_Configf("%s", "SCR_CHECKPOINT_SECONDS");
    expect(value != NULL && strcmp(value, "77") == 0, "SCR_Configf, to ask");
    free((char*)value);
    expect(SCR_Init() == SCR_SUCCESS, "SCR_Init");
    expect(SCR_Have_restart(&flag, name) == SCR_SUCCESS, "SCR_Have_restart");
    if (flag) {
        expect(SCR_Start_restart(started) == SCR_SUCCESS && strcmp(started, name) == 0, "SCR_Start_restart");
        expect(SCR_Complete_restart(get(name)) == SCR_SUCCESS, "SCR_Complete_restart");
        run = 2;
        if (rank == 0)
            printf("restarted %s\n", name);
    }
    expect(SCR_Need_checkpoint(&flag) == SCR_SUCCESS && !flag, "SCR_Need_checkpoint");
    expect(SCR_Need_checkpoint(&flag) == SCR_SUCCESS && flag, "SCR_Need_checkpoint, the second time");
    expect(SCR_Start_checkpoint() == SCR_SUCCESS, "SCR_Start_checkpoint");
    expect(SCR_Complete_checkpoint(put("unnamed")) == SCR_SUCCESS, "SCR_Complete_checkpoint");
    if (run == 2) {
        expect(SCR_Current("first") == SCR_SUCCESS, "SCR_Current");
        expect(SCR_Drop("first") == SCR_SUCCESS, "SCR_Drop");
        expect(SCR_Delete("both") == SCR_SUCCESS, "SCR_Delete");
    } else {
        output("first", SCR_FLAG_CHECKPOINT | SCR_FLAG_OUTPUT);
        output("output", SCR_FLAG_OUTPUT);
    }
    output(run == 1 ? "both" : "last", SCR_FLAG_CHECKPOINT | SCR_FLAG_OUTPUT);
    expect(SCR_Should_exit(&flag) == SCR_SUCCESS && !flag, "SCR_Should_exit");
    expect(SCR_Finalize() == SCR_SUCCESS, "SCR_Finalize");
    if (rank == 0)
        printf("end\n");
}

#ifndef PART
int main(int argc, char** argv)
{
    MPI_Init(&argc, &argv);
    job_();
    MPI_Finalize();
    return 0;
}
#endif
