/* What quietf.F90 calls in C: regions without messages. */

#include <mpi.h>

#include "scr_cr.h"

int begin_rest(void);
int end_rest(void);

int begin_rest(void) { return SCR_CR_Quiesce_start(MPI_COMM_WORLD, MPI_INFO_NULL); }
int end_rest(void) { return SCR_CR_Quiesce_end(MPI_COMM_WORLD, MPI_INFO_NULL); }
