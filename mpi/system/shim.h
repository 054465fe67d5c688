// The functions of MPI that package system calls, over plain C types, so that Go
// sees no macro of an MPI and no difference between MPIs.
//
// All functions return MPI_SUCCESS or an error code of MPI for
// goscr_error_string. Those that wait do not return before the operation is
// done and buffers may be used again.

#ifndef GOSCR_SHIM_H
#define GOSCR_SHIM_H

#include <mpi.h>
#include <stdint.h>

// A shared library that contains the package does not export these symbols.
#pragma GCC visibility push(hidden)

typedef struct {
    int64_t count;
    int32_t source;
    int32_t tag;
    int32_t flag; // done, or found
} goscr_status;

enum { GOSCR_SUM, GOSCR_MIN, GOSCR_MAX };

void goscr_error_string(int code, char *text, int len);
int goscr_is_truncation(int code);

int goscr_other_mpi(char *name, int n);
int goscr_state(int *initialized, int *finalized);
int goscr_init(void);

int goscr_world(MPI_Comm *dup);
int goscr_dup(const MPI_Comm *comm, MPI_Comm *dup);
int goscr_split(MPI_Comm comm, int color, int key, MPI_Comm *part, int *none);
int goscr_free(MPI_Comm *comm);
int goscr_world_place(int *rank, int *size);
int goscr_place(MPI_Comm comm, int *rank, int *size);

int goscr_send(MPI_Comm comm, const char *buf, int64_t n, int dst, int tag);
int goscr_recv(MPI_Comm comm, char *buf, int64_t n, int src, int tag, goscr_status *status);
int goscr_sendrecv(MPI_Comm comm, const char *out, int64_t nout, int dst, int outtag,
                   char *in, int64_t nin, int src, int intag, goscr_status *status);
int goscr_isend(MPI_Comm comm, const char *buf, int64_t n, int dst, int tag, int synchronous, MPI_Request *request);
int goscr_irecv(MPI_Comm comm, char *buf, int64_t n, int src, int tag, MPI_Request *request);
int goscr_wait(MPI_Request *request, int received, goscr_status *status);
int goscr_test(MPI_Request *request, int received, goscr_status *status);
int goscr_probe(MPI_Comm comm, int src, int tag, goscr_status *status);
int goscr_iprobe(MPI_Comm comm, int src, int tag, goscr_status *status);

int goscr_barrier(MPI_Comm comm);
int goscr_ibarrier(MPI_Comm comm, MPI_Request *request);
int goscr_bcast(MPI_Comm comm, char *buf, int64_t n, int root);
int goscr_allreduce(MPI_Comm comm, int64_t *values, int64_t n, int op);
int goscr_exscan(MPI_Comm comm, int64_t *values, int64_t n, int op);
int goscr_gather(MPI_Comm comm, const char *send, int64_t n, char *recv, int root);

#pragma GCC visibility pop

#endif
