/* What every function of the interface does around its work; see signals.c. */

#ifndef GOSCR_SIGNALS_H
#define GOSCR_SIGNALS_H

/*
 * Begins the work, which is brief or may take long.  0: the thread is within a
 * function of the library already.
 */
enum { GOSCR_BRIEF, GOSCR_LONG };
int goscr_enter(int length);

/* Ends it: the program finds its signals as they were. */
void goscr_leave(void);

/* Puts back what the Go runtime has changed of the process's limits. */
void goscr_limits(void);

#endif
