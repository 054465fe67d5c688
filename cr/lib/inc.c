/*
 * The functions of scr_cr.h.  What they do is in libscr.so (cmd/libscr/inside.h).
 */

#include "scr_cr.h"

#include "inside.h"

#include <stddef.h>

/* The callback of an event for which none is registered. */
static int nothing(SCR_CR_INC_callback_event_t event, SCR_CR_INC_callback_state_t state)
{
    (void)event;
    (void)state;
    return 0;
}

/* libscr.so has int in place of the enumerations, whose size it cannot know. */
typedef char same_size[sizeof(SCR_CR_INC_callback_event_t) == sizeof(int) && sizeof(SCR_CR_INC_callback_state_t) == sizeof(int) ? 1 : -1];

int SCR_CR_INC_register_callback(SCR_CR_INC_callback_event_t event, SCR_CR_INC_callback_function function,
                                 SCR_CR_INC_callback_function *previous)
{
    goscr_cr_function before = NULL;
    int failed = goscr_cr_register((int)event, function == nothing ? NULL : (goscr_cr_function)function, &before);

    if (failed)
        return failed;
    if (previous != NULL)
        *previous = before == NULL ? nothing : (SCR_CR_INC_callback_function)before;
    return SCR_CR_SUCCESS;
}

int OMPI_CR_INC_register_callback(SCR_CR_INC_callback_event_t event, SCR_CR_INC_callback_function function,
                                  SCR_CR_INC_callback_function *previous)
{
    return SCR_CR_INC_register_callback(event, function, previous);
}
