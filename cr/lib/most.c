/*
 * Compares lists of counts that all ranks have, without any rank holding the lists of all.
 *
 * Each count has an id. The ranks are the corners of a hypercube. In each dimension a rank sends those of its
 * counts to its neighbour whose ids belong to the neighbour's half, and keeps of equal ids the largest count. After the
 * last dimension each id is on one rank, which has the largest count of all. The answers go back the same way.
 * A rank above the largest power of two has its list represented by the rank that many below it.
 */

#define _GNU_SOURCE

#include "quiet.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

enum { DIMENSIONS = 31, TAG = 77 };

struct list {
    struct begun *at;
    int n;
};

static int compare_ids(const void *a, const void *b)
{
    int64_t x = ((const struct begun *)a)->space, y = ((const struct begun *)b)->space;

    return (x > y) - (x < y);
}

/* Sorts a list by ids, and keeps the largest count of each. */
static void unify(struct list *l)
{
    int i, n = 0;

    if (l->n > 1)
        qsort(l->at, (size_t)l->n, sizeof *l->at, compare_ids);
    for (i = 0; i < l->n; i++)
        if (n == 0 || l->at[n - 1].space != l->at[i].space)
            l->at[n++] = l->at[i];
        else if (l->at[n - 1].n < l->at[i].n)
            l->at[n - 1].n = l->at[i].n;
    l->n = n;
}

/* Adds counts to a unified list.  Returns 0, or 1 without memory. */
static int add(struct list *l, const struct list *more)
{
    struct begun *at;

    if (more->n == 0)
        return 0;
    if (more->n > INT_MAX / (int)sizeof *at - l->n)
        return 1;
    at = realloc(l->at, sizeof *at * (size_t)(l->n + more->n));
    if (at == NULL)
        return 1;
    memcpy(at + l->n, more->at, sizeof *at * (size_t)more->n);
    l->at = at;
    l->n += more->n;
    unify(l);
    return 0;
}

/* Sets the counts of a list to those that a unified list has for the same ids. */
static void answer(struct list *asked, const struct list *known)
{
    const struct begun *found;
    int i;

    for (i = 0; i < asked->n; i++) {
        found = known->n > 0 ? bsearch(&asked->at[i], known->at, (size_t)known->n, sizeof *known->at, compare_ids) : NULL;
        if (found != NULL)
            asked->at[i].n = found->n;
    }
}

/* Which half of a dimension an id belongs to. */
static int half(int64_t id, int dimension)
{
    return (int)(((uint64_t)id * UINT64_C(0x9e3779b97f4a7c15)) >> (63 - dimension)) & 1;
}

/* Moves the counts of the other half from one list to another.  Returns 0, or 1 without memory. */
static int divide(struct list *l, int dimension, int own, struct list *others)
{
    int i, n = 0;

    others->n = 0;
    others->at = malloc(sizeof *others->at * (size_t)l->n + 1);
    if (others->at == NULL)
        return 1;
    for (i = 0; i < l->n; i++)
        if (half(l->at[i].space, dimension) == own)
            l->at[n++] = l->at[i];
        else
            others->at[others->n++] = l->at[i];
    l->n = n;
    return 0;
}

/*
 * Exchanges lists with a rank.  `in` has no memory before.  A rank that has failed takes part, with nothing; the other
 * fails with it, and so do all in the end.
 */
static void exchange(MPI_Comm over, int peer, const struct list *out, struct list *in, int *failed)
{
    int mine = *failed ? -1 : out->n, theirs = -1, can, both = 0;

    in->n = 0;
    in->at = NULL;
    if (goscr_exchange(&mine, 1, &theirs, 1, MPI_INT, peer, TAG, over) != MPI_SUCCESS)
        theirs = -1;
    if (theirs >= 0 && theirs <= INT_MAX / (int)sizeof *in->at)
        in->at = malloc(sizeof *in->at * (size_t)theirs + 1);
    can = mine >= 0 && in->at != NULL;
    if (goscr_exchange(&can, 1, &both, 1, MPI_INT, peer, TAG, over) != MPI_SUCCESS)
        both = 0;
    both = both && can;
    if (both)
        in->n = theirs;
    if (!both || goscr_exchange(out->at, mine * (int)sizeof *in->at, in->at, theirs * (int)sizeof *in->at, MPI_BYTE, peer, TAG, over) != MPI_SUCCESS) {
        in->n = 0;
        *failed = 1;
    }
}

/* The part of a rank below the largest power of two. */
static void compare(MPI_Comm over, int rank, int dimensions, struct list *has, int *failed)
{
    struct list sent[DIMENSIONS], got[DIMENSIONS], back;
    int k;

    memset(sent, 0, sizeof sent);
    memset(got, 0, sizeof got);
    for (k = 0; k < dimensions; k++) {
        *failed = *failed || divide(has, k, rank >> k & 1, &sent[k]);
        exchange(over, rank ^ 1 << k, &sent[k], &got[k], failed);
        *failed = *failed || add(has, &got[k]);
    }
    for (k = dimensions - 1; k >= 0; k--) {
        answer(&got[k], has);
        exchange(over, rank ^ 1 << k, &got[k], &back, failed);
        *failed = *failed || add(has, &back);
        free(back.at);
    }
    for (k = 0; k < dimensions; k++) {
        free(sent[k].at);
        free(got[k].at);
    }
}

int goscr_most(MPI_Comm over, struct begun *own, int *n)
{
    struct list has = {NULL, 0}, list = {own, own != NULL ? *n : 0}, upper = {NULL, 0}, back = {NULL, 0};
    int rank = goscr_rank, size = goscr_size, dimensions = 0, failed = own == NULL, any = 1;

    while (dimensions < DIMENSIONS - 1 && size >> (dimensions + 1) > 0)
        dimensions++;
    unify(&list);
    *n = list.n;
    if (rank >> dimensions == 0) {
        if (rank + (1 << dimensions) < size)
            exchange(over, rank + (1 << dimensions), &has, &upper, &failed);
        failed = failed || add(&has, &list) || add(&has, &upper);
        compare(over, rank, dimensions, &has, &failed);
        answer(&list, &has);
        if (rank + (1 << dimensions) < size) {
            answer(&upper, &has);
            exchange(over, rank + (1 << dimensions), &upper, &back, &failed);
        }
    } else {
        exchange(over, rank - (1 << dimensions), &list, &upper, &failed);
        exchange(over, rank - (1 << dimensions), &upper, &back, &failed);
        answer(&list, &back);
    }
    free(has.at);
    free(upper.at);
    free(back.at);
    return goscr_allreduce(&failed, &any, 1, MPI_INT, MPI_MAX, over) != MPI_SUCCESS || any;
}
