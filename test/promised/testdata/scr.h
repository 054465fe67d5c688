#define SCR_FLAG_CHECKPOINT 1
#define SCR_FLAG_NONE 0
#define SCR_FLAG_OUTPUT 2
#define SCR_MAJOR_VERSION "3"
#define SCR_MAX_FILENAME 1024
#define SCR_MINOR_VERSION "1"
#define SCR_PATCH_VERSION "0"
#define SCR_SUCCESS 0
#define SCR_VERSION "v3.1.0"
char* SCR_Get_version(void)
const char* SCR_Config(const char* config)
const char* SCR_Configf(const char* format, ...) __attribute__((format(printf, 1, 2)))
const char* SCR_Get_error(void)
int SCR_Complete_checkpoint(int valid)
int SCR_Complete_output(int valid)
int SCR_Complete_restart(int valid)
int SCR_Current(const char* name)
int SCR_Delete(const char* name)
int SCR_Drop(const char* name)
int SCR_Finalize(void)
int SCR_Have_restart(int* flag, char* name)
int SCR_Init(void)
int SCR_Init_comm(MPI_Comm comm)
int SCR_Need_checkpoint(int* flag)
int SCR_Recover(MPI_Comm repaired)
int SCR_Route_file(const char* name, char* file)
int SCR_Should_exit(int* flag)
int SCR_Start_checkpoint(void)
int SCR_Start_output(const char* name, int flags)
int SCR_Start_restart(char* name)
