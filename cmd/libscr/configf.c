//go:build mpi

/* SCR_Configf, which cannot be written in Go: it takes any number of arguments. */

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "scr.h"

const char* SCR_Configf(const char* format, ...)
{
    va_list args;
    char* text;
    int size;
    const char* result;

    if (format == NULL) {
        return SCR_Config(NULL);
    }
    va_start(args, format);
    size = vsnprintf(NULL, 0, format, args);
    va_end(args);
    text = size < 0 ? NULL : malloc((size_t)size + 1);
    if (text == NULL) {
        return SCR_Config(NULL);
    }
    va_start(args, format);
    vsnprintf(text, (size_t)size + 1, format, args);
    va_end(args);
    result = SCR_Config(text);
    free(text);
    return result;
}
