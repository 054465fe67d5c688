/*
 * Stands for the libraries of SCR 3.1 when a program is linked: the same names, and with
 * -DFORTRAN those of libscrf, which has all of libscr, too.  A program must never run with it.
 */
#include <stdlib.h>

#include "scr.h"

int SCR_Init(void) { abort(); }
int SCR_Finalize(void) { abort(); }
const char* SCR_Config(const char* s) { (void)s; abort(); }
const char* SCR_Configf(const char* s, ...) { (void)s; abort(); }
int SCR_Should_exit(int* f) { (void)f; abort(); }
int SCR_Route_file(const char* n, char* f) { (void)n; (void)f; abort(); }
int SCR_Have_restart(int* f, char* n) { (void)f; (void)n; abort(); }
int SCR_Start_restart(char* n) { (void)n; abort(); }
int SCR_Complete_restart(int v) { (void)v; abort(); }
int SCR_Need_checkpoint(int* f) { (void)f; abort(); }
int SCR_Start_checkpoint(void) { abort(); }
int SCR_Complete_checkpoint(int v) { (void)v; abort(); }
int SCR_Start_output(const char* n, int f) { (void)n; (void)f; abort(); }
int SCR_Complete_output(int v) { (void)v; abort(); }
char* SCR_Get_version(void) { abort(); }
int SCR_Current(const char* n) { (void)n; abort(); }
int SCR_Delete(const char* n) { (void)n; abort(); }
int SCR_Drop(const char* n) { (void)n; abort(); }

#ifdef FORTRAN
#define CALL(name) \
    void scr_##name##_(void); \
    void scr_##name##_(void) { abort(); }
CALL(init)
CALL(finalize)
CALL(should_exit)
CALL(config)
CALL(have_restart)
CALL(start_restart)
CALL(complete_restart)
CALL(need_checkpoint)
CALL(start_checkpoint)
CALL(complete_checkpoint)
CALL(start_output)
CALL(complete_output)
CALL(route_file)
CALL(current)
CALL(drop)
CALL(delete)
#endif
