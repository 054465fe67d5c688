#define OMPI_CR_INC_POST_CRS_POST_MPI SCR_CR_INC_POST_CRS_POST_MPI
#define OMPI_CR_INC_POST_CRS_PRE_MPI SCR_CR_INC_POST_CRS_PRE_MPI
#define OMPI_CR_INC_PRE_CRS_POST_MPI SCR_CR_INC_PRE_CRS_POST_MPI
#define OMPI_CR_INC_PRE_CRS_PRE_MPI SCR_CR_INC_PRE_CRS_PRE_MPI
#define OMPI_CR_INC_STATE_CONTINUE SCR_CR_INC_STATE_CONTINUE
#define OMPI_CR_INC_STATE_ERROR SCR_CR_INC_STATE_ERROR
#define OMPI_CR_INC_STATE_PREPARE SCR_CR_INC_STATE_PREPARE
#define OMPI_CR_INC_STATE_RESTART SCR_CR_INC_STATE_RESTART
#define OMPI_CR_INC_callback_event_t SCR_CR_INC_callback_event_t
#define OMPI_CR_INC_callback_function SCR_CR_INC_callback_function
#define OMPI_CR_INC_callback_state_t SCR_CR_INC_callback_state_t
#define OMPI_CR_self_checkpoint_fn SCR_CR_self_checkpoint_fn
#define OMPI_CR_self_continue_fn SCR_CR_self_continue_fn
#define OMPI_CR_self_restart_fn SCR_CR_self_restart_fn
#define OMPI_HAVE_MPI_EXT_CR 1
#define SCR_CR_SUCCESS 0
int OMPI_CR_Checkpoint(char **handle, int *seq, MPI_Info info)
int OMPI_CR_INC_register_callback(SCR_CR_INC_callback_event_t event, SCR_CR_INC_callback_function function, SCR_CR_INC_callback_function *previous)
int OMPI_CR_Migrate(MPI_Comm comm, char *hostname, int rank, MPI_Info info)
int OMPI_CR_Quiesce_checkpoint(MPI_Comm comm, char **handle, int *seq, MPI_Info info)
int OMPI_CR_Quiesce_end(MPI_Comm comm, MPI_Info info)
int OMPI_CR_Quiesce_start(MPI_Comm comm, MPI_Info info)
int OMPI_CR_Restart(char *handle, int seq, MPI_Info info)
int OMPI_CR_self_register_checkpoint_callback(SCR_CR_self_checkpoint_fn fn)
int OMPI_CR_self_register_continue_callback(SCR_CR_self_continue_fn fn)
int OMPI_CR_self_register_restart_callback(SCR_CR_self_restart_fn fn)
int SCR_CR_Checkpoint(char **handle, int *seq, MPI_Info info)
int SCR_CR_INC_register_callback(SCR_CR_INC_callback_event_t event, SCR_CR_INC_callback_function function, SCR_CR_INC_callback_function *previous)
int SCR_CR_Migrate(MPI_Comm comm, char *hostname, int rank, MPI_Info info)
int SCR_CR_Quiesce_checkpoint(MPI_Comm comm, char **handle, int *seq, MPI_Info info)
int SCR_CR_Quiesce_end(MPI_Comm comm, MPI_Info info)
int SCR_CR_Quiesce_start(MPI_Comm comm, MPI_Info info)
int SCR_CR_Restart(char *handle, int seq, MPI_Info info)
int SCR_CR_self_register_checkpoint_callback(SCR_CR_self_checkpoint_fn fn)
int SCR_CR_self_register_continue_callback(SCR_CR_self_continue_fn fn)
int SCR_CR_self_register_restart_callback(SCR_CR_self_restart_fn fn)
typedef enum SCR_CR_INC_callback_event_t
typedef enum SCR_CR_INC_callback_event_t: SCR_CR_INC_POST_CRS_POST_MPI = 3
typedef enum SCR_CR_INC_callback_event_t: SCR_CR_INC_POST_CRS_PRE_MPI = 2
typedef enum SCR_CR_INC_callback_event_t: SCR_CR_INC_PRE_CRS_POST_MPI = 1
typedef enum SCR_CR_INC_callback_event_t: SCR_CR_INC_PRE_CRS_PRE_MPI = 0
typedef enum SCR_CR_INC_callback_state_t
typedef enum SCR_CR_INC_callback_state_t: SCR_CR_INC_STATE_CONTINUE = 1
typedef enum SCR_CR_INC_callback_state_t: SCR_CR_INC_STATE_ERROR = 3
typedef enum SCR_CR_INC_callback_state_t: SCR_CR_INC_STATE_PREPARE = 0
typedef enum SCR_CR_INC_callback_state_t: SCR_CR_INC_STATE_RESTART = 2
typedef int (*SCR_CR_INC_callback_function)(SCR_CR_INC_callback_event_t event, SCR_CR_INC_callback_state_t state)
typedef int (*SCR_CR_self_checkpoint_fn)(char **restart_cmd)
typedef int (*SCR_CR_self_continue_fn)(void)
typedef int (*SCR_CR_self_restart_fn)(void)
