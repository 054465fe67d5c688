/* The gate at which ranks wait for a debugger. */

#ifndef GOSCR_DEBUG_H
#define GOSCR_DEBUG_H

/* Around each checkpoint, and after a restart; `state` as in inside.h. */
void goscr_debug(int state);

/* The process waits at the gate: nothing of the program is to be called. */
extern volatile int goscr_debug_waits;

int MPIR_checkpoint_debugger_detach(void);
void MPIR_checkpoint_debugger_breakpoint(void);
void MPIR_checkpoint_debugger_waitpoint(void);
void MPIR_checkpoint_debugger_signal_handler(int number);
void MPIR_checkpoint_debugger_crs_hook(int state);

#endif
