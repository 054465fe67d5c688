#include "scr.h"
#include "scr.h"
#ifdef WITH_MPI
int job(MPI_Comm comm);
int job(MPI_Comm comm) { return SCR_Init_comm(comm); }
#endif
int use(char* name, int* flag);
int use(char* name, int* flag)
{
    return SCR_Init() + SCR_Finalize() + SCR_Have_restart(flag, name) + SCR_Start_restart(name) +
        SCR_Complete_restart(1) + SCR_Need_checkpoint(flag) + SCR_Start_checkpoint() +
        SCR_Complete_checkpoint(1) + SCR_Start_output("a", SCR_FLAG_NONE) +
        SCR_Start_output("b", SCR_FLAG_CHECKPOINT | SCR_FLAG_OUTPUT) + SCR_Complete_output(1) +
        SCR_Route_file("c", name) + SCR_Should_exit(flag) + SCR_Current("d") + SCR_Drop("e") +
        SCR_Delete("f") + (SCR_Config("SCR_DEBUG=1") != 0) + (SCR_Configf("SCR_DEBUG=%d", 1) != 0) +
        (SCR_Get_version() != 0) + (SCR_Get_error() != 0) + SCR_SUCCESS;
}
int sizes[SCR_MAX_FILENAME == 1024 && SCR_SUCCESS == 0 && SCR_FLAG_NONE == 0 &&
          SCR_FLAG_CHECKPOINT == 1 && SCR_FLAG_OUTPUT == 2 ? 1 : -1];
