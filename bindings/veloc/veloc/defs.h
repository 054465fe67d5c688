/* Constants of VELOC's interface, in goscr. */

#ifndef GOSCR_VELOC_DEFS_H
#define GOSCR_VELOC_DEFS_H

#define VELOC_SUCCESS (0)
#define VELOC_FAILURE (-1)

/* Size of a buffer for VELOC_Route_file. */
#define VELOC_MAX_NAME (1024)

/* Which variables a checkpoint has, or a restart reads: all, those of a list of ids, or all others. */
#define VELOC_CKPT_ALL (0)
#define VELOC_CKPT_SOME (1)
#define VELOC_CKPT_REST (2)
#define VELOC_RECOVER_ALL (0)
#define VELOC_RECOVER_SOME (1)
#define VELOC_RECOVER_REST (2)

/* veloc.hpp: an observer is called at the end of each checkpoint. */
#define VELOC_OBSERVE_CKPT_END (0)

#endif
