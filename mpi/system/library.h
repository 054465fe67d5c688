/* Which MPI the calls of this library reach. */

#ifndef GOSCR_LIBRARY_H
#define GOSCR_LIBRARY_H

#include <mpi.h>
#include <stdio.h>
#include <string.h>

/*
 * Returns whether they reach another MPI than that of mpi.h, in which handles have other meanings.
 * That happens if the program is linked with another MPI, since the loader finds that first.  name gets
 * the name of the MPI that is called.  MPIs with the same ABI, such as the descendants of MPICH,
 * count as the same.
 */
static inline int is_other_mpi(char *name, int n)
{
    static char version[1 << 16]; /* the other MPI may have a larger limit than the header */
    int length = 0;

    if (PMPI_Get_library_version(version, &length) != MPI_SUCCESS)
        return 0;
    snprintf(name, (size_t)n, "%.*s", (int)strcspn(version, ",\n"), version);
#if defined(OPEN_MPI)
    return strstr(version, "MPICH") != NULL || strstr(version, "Intel(R) MPI") != NULL;
#elif defined(MPICH_VERSION)
    return strstr(version, "Open MPI") != NULL;
#else
    return 0;
#endif
}

#endif
