/* The interface of SCR 3.1.0 to C and C++, as far as a compiler and a linker need it. */
#ifdef __cplusplus
extern "C" {
#endif
#define SCR_SUCCESS (0)
#define SCR_MAX_FILENAME (1024)
#define SCR_MAJOR_VERSION "3"
#define SCR_MINOR_VERSION "1"
#define SCR_PATCH_VERSION "0"
#define SCR_VERSION "v3.1.0"
#define SCR_FLAG_NONE (0)
#define SCR_FLAG_CHECKPOINT (1 << 0)
#define SCR_FLAG_OUTPUT (1 << 1)
int SCR_Init(void);
int SCR_Finalize(void);
const char* SCR_Config(const char* config_string);
const char* SCR_Configf(const char* format, ...);
int SCR_Should_exit(int* flag);
int SCR_Route_file(const char* name, char* file);
int SCR_Have_restart(int* flag, char* name);
int SCR_Start_restart(char* name);
int SCR_Complete_restart(int valid);
int SCR_Need_checkpoint(int* flag);
int SCR_Start_checkpoint(void);
int SCR_Complete_checkpoint(int valid);
int SCR_Start_output(const char* name, int flags);
int SCR_Complete_output(int valid);
char* SCR_Get_version(void);
int SCR_Current(const char* name);
int SCR_Delete(const char* name);
int SCR_Drop(const char* name);
#ifdef __cplusplus
}
#endif
