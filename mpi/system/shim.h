// The functions of MPI that package system calls, over plain C types, so that Go
// sees no macro of an MPI and no difference between MPIs.
//
// All functions return MPI_SUCCESS, an error code of MPI for goscr_error_string, or
// GOSCR_REVOKED. Those that wait do not return before the operation is done and buffers
// may be used again, unless the communicator has been revoked: then MPI may use the buffers
// until the process ends.

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

// The polls of one wait, see pause_polling in shim.c.
typedef struct {
    int polls, bursts;     // polls of this burst, and bursts before it
    int64_t began;         // of this burst
    int64_t worked_before; // processor time of the thread until then
    int64_t idle;        // since when polls have found nothing; 0: they have just found something
    int64_t looked;      // for notices
    long nap;
} goscr_patience;

// The state that a communicator which can be revoked shares, on each rank, with all
// communicators made from it. The rank that revokes it sends a notice to each of the others.
enum { GOSCR_REVOKED = -1, GOSCR_REASON = 480 };
typedef struct {
    MPI_Comm comm; // carries the notices; MPI_COMM_NULL: it has been freed
    int rank, size;
    int revoker;   // -1: it has not been revoked, as far as this rank knows
    int gates;     // number of gates that this rank has entered, see gate in shim.c
    int revokers_gates; // number of gates that the revoker had entered
    int background; // another thread than the program's uses it
    MPI_Request watch; // a receive that only ends if a process dies, where MPI continues after that
    goscr_patience misses; // calls of goscr_test and goscr_iprobe that have found nothing
    char reason[GOSCR_REASON + 1];
} goscr_family;

typedef struct {
    MPI_Comm mpi;
    goscr_family *family; // NULL: it cannot be revoked
} goscr_comm;

void goscr_error_string(int code, char *text, int len);
int goscr_is_truncation(int code);

int goscr_other_mpi(char *name, int n);
int goscr_state(int *initialized, int *finalized);

// goscr_multiple says whether several threads may call MPI at the same time.
int goscr_multiple(int *multiple);
int goscr_init(void);

// goscr_goes_on returns 1, or 0 and stores why not.
int goscr_goes_on(char *why, int n);
int goscr_compare(MPI_Comm before, const MPI_Comm *after, int *lacks, int *rank);

int goscr_world(MPI_Comm *dup);
int goscr_dup(const MPI_Comm *comm, goscr_family *family, MPI_Comm *dup);
int goscr_split(goscr_comm comm, int color, int key, MPI_Comm *part, int *none);
int goscr_free(goscr_comm comm);
int goscr_world_place(int *rank, int *size);

// goscr_alone says whether MPI_Comm_spawn has started this process, and stores the name of its MPI.
int goscr_alone(int *spawned, char *library, int n);
int goscr_place(MPI_Comm comm, int *rank, int *size);

void goscr_found(goscr_family *family, MPI_Comm comm, int rank, int size);
void goscr_revoke(goscr_family *family, const char *reason);
int goscr_revoked(goscr_family *family);

int goscr_send(goscr_comm comm, const char *buf, int64_t n, int dst, int tag);
int goscr_recv(goscr_comm comm, char *buf, int64_t n, int src, int tag, goscr_status *status);
int goscr_sendrecv(goscr_comm comm, const char *out, int64_t nout, int dst, int outtag,
                   char *in, int64_t nin, int src, int intag, goscr_status *status);
int goscr_isend(goscr_comm comm, const char *buf, int64_t n, int dst, int tag, int synchronous, MPI_Request *request);
int goscr_irecv(goscr_comm comm, char *buf, int64_t n, int src, int tag, MPI_Request *request);
int goscr_wait(goscr_family *family, MPI_Request *request, int received, goscr_status *status);
int goscr_test(goscr_family *family, MPI_Request *request, int received, goscr_status *status);
int goscr_probe(goscr_comm comm, int src, int tag, goscr_status *status);
int goscr_iprobe(goscr_comm comm, int src, int tag, goscr_status *status);

int goscr_barrier(goscr_comm comm);
int goscr_ibarrier(goscr_comm comm, MPI_Request *request);
int goscr_bcast(goscr_comm comm, char *buf, int64_t n, int root);
int goscr_allreduce(goscr_comm comm, int64_t *values, int64_t n, int op);
int goscr_exscan(goscr_comm comm, int64_t *values, int64_t n, int op);
int goscr_gather(goscr_comm comm, const char *send, int64_t n, char *recv, int root);

#pragma GCC visibility pop

#endif
