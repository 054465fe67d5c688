/*
 * The collective calls of MPI, and those that make communicators.
 *
 * No rank is saved within a blocking one: the others would not know of it.  So these are counted, and ranks that
 * have begun fewer continue until they have begun as many (notify.c).
 */

#define _GNU_SOURCE

#include "wrap.h"

#include <stddef.h>

/* Enters an operation that the program has begun and has to complete. */
static void enter(MPI_Comm comm, MPI_Request r, int is)
{
    struct space *s;

    goscr_quiet_lock();
    s = goscr_space(comm);
    if (s != NULL && goscr_enter_request(r, s, GOSCR_COLLECTIVE | is) != NULL && !is)
        s->begun++;
    goscr_quiet_unlock();
}

#define P(...) __VA_ARGS__

/* PARAMETERS and ARGUMENTS end with a comma, or are empty. */
#define WAITS(name, iname, PARAMETERS, ARGUMENTS)                                                            \
    int MPI_##name(PARAMETERS MPI_Comm comm)                                                                 \
    {                                                                                                        \
        int code;                                                                                            \
                                                                                                             \
        look();                                                                                              \
        REFUSE(comm, "MPI_" #name);                                                                          \
        goscr_goes_in(comm);                                                                                 \
        code = PMPI_##name(ARGUMENTS comm);                                                                  \
        goscr_comes_out();                                                                                   \
        return code;                                                                                         \
    }                                                                                                        \
    int MPI_##iname(PARAMETERS MPI_Comm comm, MPI_Request *r)                                                \
    {                                                                                                        \
        int code;                                                                                            \
                                                                                                             \
        look();                                                                                              \
        REFUSE(comm, "MPI_" #iname);                                                                         \
        code = PMPI_##iname(ARGUMENTS comm, r);                                                              \
        if (code == MPI_SUCCESS)                                                                             \
            enter(comm, *r, 0);                                                                              \
        return code;                                                                                         \
    }

/* Of MPI 4: begun by MPI_Start. */
#define PREPARES(name, PARAMETERS, ARGUMENTS)                                     \
    int MPI_##name(PARAMETERS MPI_Comm comm, MPI_Info info, MPI_Request *r)       \
    {                                                                             \
        int code;                                                                 \
                                                                                  \
        look();                                                                   \
        REFUSE(comm, "MPI_" #name);                                               \
        code = PMPI_##name(ARGUMENTS comm, info, r);                              \
        if (code == MPI_SUCCESS)                                                  \
            enter(comm, *r, GOSCR_PERSISTENT);                                    \
        return code;                                                              \
    }

#define OP(name, iname, p, a) WAITS(name, I##iname, P(p), P(a))
#define COUNT int
#define DISPLACEMENT int
OP(Barrier, barrier, , )
#include "collectives.def"

#if MPI_VERSION >= 4

#undef OP
#define OP(name, iname, p, a) PREPARES(name##_init, P(p), P(a))
OP(Barrier, barrier, , )
#include "collectives.def"

#undef COUNT
#undef DISPLACEMENT
#undef OP
#define OP(name, iname, p, a) WAITS(name##_c, I##iname##_c, P(p), P(a))
#define COUNT MPI_Count
#define DISPLACEMENT MPI_Aint
#include "collectives.def"

#undef OP
#define OP(name, iname, p, a) PREPARES(name##_init_c, P(p), P(a))
#include "collectives.def"

#endif

/* --------------------------------------------------------------- communicators */

#define MAKES(name, parameters, arguments, parent, made, mark) \
    int MPI_##name parameters                                  \
    {                                                          \
        int code;                                              \
                                                               \
        look();                                                \
        REFUSE(parent, "MPI_" #name);                          \
        goscr_goes_in(parent);                                 \
        code = PMPI_##name arguments;                          \
        goscr_comes_out();                                     \
        if (code == MPI_SUCCESS)                               \
            goscr_space_made(parent, *made, mark);             \
        return code;                                           \
    }

MAKES(Comm_dup, (MPI_Comm comm, MPI_Comm *made), (comm, made), comm, made, 0)
MAKES(Comm_dup_with_info, (MPI_Comm comm, MPI_Info info, MPI_Comm *made), (comm, info, made), comm, made, 0)
MAKES(Comm_split, (MPI_Comm comm, int color, int key, MPI_Comm *made), (comm, color, key, made), comm, made, 0)
MAKES(Comm_split_type, (MPI_Comm comm, int type, int key, MPI_Info info, MPI_Comm *made), (comm, type, key, info, made), comm, made, 0)
MAKES(Comm_create, (MPI_Comm comm, MPI_Group group, MPI_Comm *made), (comm, group, made), comm, made, 0)
MAKES(Cart_create, (MPI_Comm comm, int n, const int dims[], const int periods[], int reorder, MPI_Comm *made),
      (comm, n, dims, periods, reorder, made), comm, made, 0)
MAKES(Cart_sub, (MPI_Comm comm, const int remain[], MPI_Comm *made), (comm, remain, made), comm, made, 0)
MAKES(Graph_create, (MPI_Comm comm, int n, const int index[], const int edges[], int reorder, MPI_Comm *made),
      (comm, n, index, edges, reorder, made), comm, made, 0)
MAKES(Dist_graph_create, (MPI_Comm comm, int n, const int sources[], const int degrees[], const int destinations[], const int weights[],
                          MPI_Info info, int reorder, MPI_Comm *made),
      (comm, n, sources, degrees, destinations, weights, info, reorder, made), comm, made, 0)
MAKES(Dist_graph_create_adjacent, (MPI_Comm comm, int in, const int sources[], const int inweights[], int out, const int destinations[],
                                   const int outweights[], MPI_Info info, int reorder, MPI_Comm *made),
      (comm, in, sources, inweights, out, destinations, outweights, info, reorder, made), comm, made, 0)
MAKES(Intercomm_merge, (MPI_Comm comm, int high, MPI_Comm *made), (comm, high, made), comm, made, 0)

/* Of two ways to make one only the tag is the same on all ranks. */
int MPI_Comm_create_group(MPI_Comm comm, MPI_Group group, int tag, MPI_Comm *made)
{
    int code;

    look();
    REFUSE(comm, "MPI_Comm_create_group");
    goscr_goes_in(MPI_COMM_NULL); /* not all ranks of `comm` call */
    code = PMPI_Comm_create_group(comm, group, tag, made);
    goscr_comes_out();
    if (code == MPI_SUCCESS && *made != MPI_COMM_NULL)
        goscr_space_made(MPI_COMM_NULL, *made, tag + 1);
    return code;
}

int MPI_Intercomm_create(MPI_Comm local, int leader, MPI_Comm peer, int remote, int tag, MPI_Comm *made)
{
    int code;

    look();
    REFUSE(local, "MPI_Intercomm_create");
    goscr_goes_in(local);
    code = PMPI_Intercomm_create(local, leader, peer, remote, tag, made);
    goscr_comes_out();
    if (code == MPI_SUCCESS)
        goscr_space_made(MPI_COMM_NULL, *made, -1 - (int64_t)tag);
    return code;
}

/*
 * Enters a communicator that can be used when a request has completed.  Its handle is there before; where
 * MPI has put it may be gone then: Open MPI's library for Fortran copies it at once from its stack.
 */
static void made_later(MPI_Comm comm, MPI_Comm made, MPI_Request r)
{
    struct space *s;
    struct entry *e;

    goscr_quiet_lock();
    s = goscr_space(comm);
    e = s != NULL ? goscr_enter_request(r, s, GOSCR_COLLECTIVE) : NULL;
    if (e != NULL) {
        s->begun++;
        if (goscr_more(e) != NULL) {
            e->more->made = made;
            e->more->made_id = goscr_next_child(s);
        }
    }
    goscr_quiet_unlock();
}

#define MAKES_LATER(name, parameters, arguments) \
    int MPI_##name parameters                    \
    {                                            \
        int code;                                \
                                                 \
        look();                                  \
        REFUSE(comm, "MPI_" #name);              \
        code = PMPI_##name arguments;            \
        if (code == MPI_SUCCESS)                 \
            made_later(comm, *made, *r);         \
        return code;                             \
    }

MAKES_LATER(Comm_idup, (MPI_Comm comm, MPI_Comm *made, MPI_Request *r), (comm, made, r))

#if MPI_VERSION >= 4

MAKES_LATER(Comm_idup_with_info, (MPI_Comm comm, MPI_Info info, MPI_Comm *made, MPI_Request *r), (comm, info, made, r))

/* A number of a text. */
static int64_t number_of(const char *text)
{
    uint64_t h = 5;

    while (text != NULL && *text != '\0')
        h = (h ^ (unsigned char)*text++) * UINT64_C(0x100000001b3);
    return (int64_t)(h >> 1);
}

/* Their ranks have only the text in common. */
#define MAKES_OF_GROUPS(name, parameters, arguments)                            \
    int MPI_##name parameters                                                   \
    {                                                                           \
        int code;                                                               \
                                                                                \
        look();                                                                 \
        REFUSE(MPI_COMM_WORLD, "MPI_" #name);                                   \
        goscr_goes_in(MPI_COMM_NULL);                                           \
        code = PMPI_##name arguments;                                           \
        goscr_comes_out();                                                      \
        if (code == MPI_SUCCESS && *made != MPI_COMM_NULL)                      \
            goscr_space_made(MPI_COMM_NULL, *made, number_of(tag));             \
        return code;                                                            \
    }

MAKES_OF_GROUPS(Comm_create_from_group, (MPI_Group group, const char *tag, MPI_Info info, MPI_Errhandler handler, MPI_Comm *made),
                (group, tag, info, handler, made))
MAKES_OF_GROUPS(Intercomm_create_from_groups,
                (MPI_Group local, int leader, MPI_Group peer, int remote, const char *tag, MPI_Info info, MPI_Errhandler handler, MPI_Comm *made),
                (local, leader, peer, remote, tag, info, handler, made))

#endif

int MPI_Comm_free(MPI_Comm *comm)
{
    int code;

    look();
    goscr_space_freed(*comm);
    goscr_goes_in(MPI_COMM_NULL);
    code = PMPI_Comm_free(comm);
    goscr_comes_out();
    return code;
}

int MPI_Comm_disconnect(MPI_Comm *comm)
{
    int code;

    look();
    goscr_space_freed(*comm);
    goscr_goes_in(MPI_COMM_NULL);
    code = PMPI_Comm_disconnect(comm);
    goscr_comes_out();
    return code;
}
