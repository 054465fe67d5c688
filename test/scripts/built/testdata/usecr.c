#include "scr_cr.h"
#include "scr_cr.h"
static int callback(SCR_CR_INC_callback_event_t event, SCR_CR_INC_callback_state_t state)
{
    return event == SCR_CR_INC_PRE_CRS_PRE_MPI && state == SCR_CR_INC_STATE_ERROR;
}
int use(void);
int use(void)
{
    SCR_CR_INC_callback_function before;
    return SCR_CR_INC_register_callback(SCR_CR_INC_PRE_CRS_POST_MPI, callback, &before) +
        SCR_CR_INC_register_callback(SCR_CR_INC_POST_CRS_PRE_MPI, before, 0) + SCR_CR_SUCCESS;
}
#ifdef OMPI_HAVE_MPI_EXT_CR
static int theirs(OMPI_CR_INC_callback_event_t event, OMPI_CR_INC_callback_state_t state)
{
    return event == OMPI_CR_INC_POST_CRS_POST_MPI && state == OMPI_CR_INC_STATE_PREPARE;
}
int use_theirs(void);
int use_theirs(void)
{
    OMPI_CR_INC_callback_function before;
    return OMPI_CR_INC_register_callback(OMPI_CR_INC_PRE_CRS_PRE_MPI, theirs, &before);
}
int use_checkpoints(char *handle, int seq);
int use_checkpoints(char *handle, int seq)
{
    return OMPI_CR_Quiesce_start(MPI_COMM_WORLD, MPI_INFO_NULL) + OMPI_CR_Quiesce_checkpoint(MPI_COMM_WORLD, &handle, &seq, MPI_INFO_NULL) +
        OMPI_CR_Quiesce_end(MPI_COMM_WORLD, MPI_INFO_NULL) + OMPI_CR_Restart(handle, seq, MPI_INFO_NULL) +
        OMPI_CR_Migrate(MPI_COMM_WORLD, handle, -1, MPI_INFO_NULL);
}
#endif
int values[OMPI_CR_INC_POST_CRS_PRE_MPI == SCR_CR_INC_POST_CRS_PRE_MPI && OMPI_CR_INC_STATE_CONTINUE == SCR_CR_INC_STATE_CONTINUE &&
           OMPI_CR_INC_STATE_RESTART == SCR_CR_INC_STATE_RESTART ? 1 : -1];
