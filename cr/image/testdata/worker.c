/*
 * A program whose process is saved and restored (image.c). It computes a number from all of its
 * memory, again and again: static, allocated, mapped, on the stack, and in registers of
 * floating point.  A wrong byte anywhere changes the number which it prints at the end.
 *
 *     worker STEPS GATE [STATUS]     stops halfway until the file GATE exists.  Ends with STATUS
 */

#define _GNU_SOURCE

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { SMALL = 3000, LARGE = 1 << 20, DEEP = 20000 };

static uint64_t fixed[SMALL], *allocated[20], *mapped;

static void say(const char *what, unsigned long long n)
{
    char line[80];
    int size = snprintf(line, sizeof line, "%s %llx\n", what, n);

    if (write(1, line, (size_t)size) != size)
        exit(9);
}

static uint64_t mix(uint64_t h, uint64_t *word)
{
    h = (h ^ *word) * 0x9e3779b97f4a7c15u;
    h ^= h >> 29;
    *word += h;
    return h;
}

static uint64_t step(uint64_t h, uint64_t *stack, double *x)
{
    size_t i, k;

    for (i = 0; i < SMALL; i++)
        h = mix(h, &fixed[i]);
    for (k = 0; k < 20; k++)
        for (i = 0; i < SMALL; i += 7)
            h = mix(h, &allocated[k][i]);
    for (i = h % 61; i < LARGE; i += 61)
        h = mix(h, &mapped[i]);
    for (i = 0; i < DEEP; i++)
        h = mix(h, &stack[i]);
    *x = *x * 0.999 + (double)(h % 1000) / 7;
    return h;
}

int main(int argc, char **argv)
{
    volatile double x = 1;
    uint64_t stack[DEEP], h = 1, bits;
    int steps = atoi(argv[1]), n, k;
    double y = 0;

    memset(stack, 1, sizeof stack);
    for (k = 0; k < 20; k++)
        allocated[k] = calloc(SMALL, sizeof **allocated); /* by brk */
    mapped = calloc(LARGE, sizeof *mapped);               /* by mmap */
    say("begins", (unsigned long long)getpid());
    for (n = 1; n <= steps; n++) {
        if (n == steps / 2) {
            say("half", (unsigned long long)n);
            while (access(argv[2], F_OK) != 0)
                usleep(1000);
        }
        y = x;
        h = step(h, stack, &y);
        x = y;
        if (n % 10 == 0) { /* memory changes its place, too */
            free(allocated[n / 10 % 20]);
            allocated[n / 10 % 20] = calloc(SMALL + (size_t)n, sizeof **allocated);
        }
    }
    memcpy(&bits, &y, sizeof bits);
    say("result", (unsigned long long)(h ^ bits));
    return argc > 3 ? atoi(argv[3]) : 0;
}
