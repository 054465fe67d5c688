/* Texts of Fortran and of C, for the subroutines that Fortran programs call. */

#ifndef GOSCR_TEXT_H
#define GOSCR_TEXT_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "scr.h"

/* IERROR of a call that fails here and not in the library. */
#define SCRF_FAILURE 1

/*
 * Copies a Fortran text to a string, which the caller must free. A text that
 * contains a NUL, as programs make them for C, ends there. Returns NULL if there is
 * no memory; the functions of scr.h report an argument that is NULL.
 */
static char* c_text(const char* text, size_t length)
{
    const char* nul = memchr(text, '\0', length);
    char* copy;

    if (nul != NULL) {
        length = (size_t)(nul - text);
    } else {
        while (length > 0 && text[length - 1] == ' ') {
            length--;
        }
    }
    copy = malloc(length + 1);
    if (copy != NULL) {
        memcpy(copy, text, length);
        copy[length] = '\0';
    }
    return copy;
}

/*
 * Stores a string in a Fortran variable. A variable that is too short is filled with
 * blanks, because part of a path could be the path of another file.
 */
static int fortran_text(const char* call, const char* what, const char* value, char* text, size_t length)
{
    static int said; /* each rank prints this once, because a job has many ranks */
    size_t size = strlen(value);

    memset(text, ' ', length);
    if (size > length) {
        if (!said) {
            fprintf(stderr, "SCR: %s: %s has %lu characters, the variable for it only %lu: "
                    "declare it CHARACTER*(SCR_MAX_FILENAME): %s\n",
                    call, what, (unsigned long)size, (unsigned long)length, value);
            said = 1;
        }
        return SCRF_FAILURE;
    }
    memcpy(text, value, size);
    return SCR_SUCCESS;
}

#endif
