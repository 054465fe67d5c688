/* How each function of the interface calls Go. */

#ifndef GOSCR_CALL_H
#define GOSCR_CALL_H

#include "signals.h"

/* Prints why goscr_enter has failed, for a call of the interface.  Returns 1, the call's result. */
int goscr_refuse(const char *call, int why);

/* Ends the job as SCR 3.1 does, on the thread that has called. */
void goscr_end_job(void);

/* What SCR_Get_error returns, with its end. */
enum { GOSCR_REASON_SIZE = 4096 };

/* Set by Go with SCR_HALT_EXIT=1: the session has ended, and the job must end here. */
extern int goscr_halted;
void goscr_halt(void);

/* What libscr_cr.so has to do around a dataset or a restart; see inside.h. */
void goscr_around(int state, const char *call);

/* Waits until this thread may make a collective call, and says that it has made it; see inside.h. */
void goscr_turn(int begins);

/* Calls `work`, a function in Go, and returns its result.  turn: it is collective. */
#define GO_CALL(length, turn, call, work) \
    do {                          \
        int code;                 \
        if (turn)                 \
            goscr_turn(1);        \
        code = goscr_enter(length); \
        if (!code) {              \
            code = (work);        \
            goscr_leave();        \
        } else                    \
            code = goscr_refuse(call, code); \
        if (turn)                 \
            goscr_turn(0);        \
        if (code == GOSCR_ABORT)  \
            goscr_end_job();      \
        if (goscr_halted)         \
            goscr_halt();         \
        return code;              \
    } while (0)
#define CALL(call, work) GO_CALL(GOSCR_LONG, 1, call, work)
/* For functions that are not collective. Signals wait for those that are GOSCR_BRIEF. */
#define OF(length, call, work) GO_CALL(length, 0, call, work)

#endif
