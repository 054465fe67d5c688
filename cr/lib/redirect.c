/*
 * Open MPI's library for Fortran calls PMPI_Send and the like, and so does that of MPICH in a part of
 * module mpi_f08.  What a program in Fortran sends and receives would be neither counted nor served, and
 * not even MPI_Init would be seen.  This changes the addresses that these libraries have for PMPI's
 * functions into those of this library's.
 */

#define _GNU_SOURCE

#include "quiet.h"

#include <dlfcn.h>
#include <elf.h>
#include <link.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#if defined(__x86_64__)
enum { BY_CALL = R_X86_64_JUMP_SLOT, BY_TABLE = R_X86_64_GLOB_DAT };
#define TYPE_OF ELF64_R_TYPE
#define SYMBOL_OF ELF64_R_SYM
#elif defined(__aarch64__)
enum { BY_CALL = R_AARCH64_JUMP_SLOT, BY_TABLE = R_AARCH64_GLOB_DAT };
#define TYPE_OF ELF64_R_TYPE
#define SYMBOL_OF ELF64_R_SYM
#endif

/* Whether an MPI has its calls for Fortran in this file. */
static int is_for_fortran(const char *path)
{
    static const char *const names[] = {"libmpi_mpifh", "libmpi_usempi", "libmpichfort", "libmpifort"};
    const char *file = strrchr(path, '/');
    size_t i;

    file = file != NULL ? file + 1 : path;
    for (i = 0; i < sizeof names / sizeof *names; i++)
        if (strncmp(file, names[i], strlen(names[i])) == 0)
            return 1;
    return 0;
}

#ifdef TYPE_OF

/* This library's function of a name; NULL: it has none. */
static void *own(void *library, const void *base, const char *name)
{
    Dl_info info;
    void *found = dlsym(library, name); /* also in the libraries that it needs */

    return found != NULL && dladdr(found, &info) != 0 && info.dli_fbase == base ? found : NULL;
}

struct search {
    void *library; /* this one */
    const void *base;
    int changed, failed;
};

/* Whether the loader has made the page of an address read-only, which it does with whole pages. */
static int is_protected(const struct dl_phdr_info *object, uintptr_t place, uintptr_t page)
{
    int i;

    for (i = 0; i < object->dlpi_phnum; i++) {
        const ElfW(Phdr) *p = &object->dlpi_phdr[i];
        uintptr_t first = object->dlpi_addr + p->p_vaddr;

        if (p->p_type == PT_GNU_RELRO && place >= first && place < ((first + p->p_memsz) & ~page))
            return 1;
    }
    return 0;
}

/* Directs what is in a table of relocations. */
static void direct(struct search *s, const struct dl_phdr_info *object, const ElfW(Rela) *r, size_t bytes, const ElfW(Sym) *symbols, const char *names)
{
    const ElfW(Rela) *end = r + bytes / sizeof *r;
    const uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE) - 1;
    const char *name;
    void **place, *function;
    int protected;

    for (; r < end; r++) {
        name = names + symbols[SYMBOL_OF(r->r_info)].st_name;
        if ((TYPE_OF(r->r_info) != BY_CALL && TYPE_OF(r->r_info) != BY_TABLE) || strncmp(name, "PMPI_", 5) != 0)
            continue;
        function = own(s->library, s->base, name + 1);
        place = (void **)(object->dlpi_addr + r->r_offset);
        if (function == NULL || *place == function)
            continue;
        protected = is_protected(object, (uintptr_t)place, page);
        if (protected && mprotect((void *)((uintptr_t)place & ~page), page + 1, PROT_READ | PROT_WRITE) != 0) {
            s->failed = 1;
            continue;
        }
        *place = function;
        s->changed = 1;
        if (protected)
            mprotect((void *)((uintptr_t)place & ~page), page + 1, PROT_READ);
    }
}

enum { MOST_OBJECTS = 16 };

struct objects {
    struct dl_phdr_info list[MOST_OBJECTS];
    int n, more; /* more: there are some that have no place */
};

/*
 * Takes note of a library of Fortran's.  The loader has one lock for this and another for dlsym, and
 * dlopen in another thread takes both in the other order.
 */
static int look_at(struct dl_phdr_info *object, size_t size, void *objects)
{
    struct objects *o = objects;

    (void)size;
    if (!is_for_fortran(object->dlpi_name))
        return 0;
    if (o->n == MOST_OBJECTS)
        o->more = 1;
    else
        o->list[o->n++] = *object;
    return 0;
}

static void direct_all(struct search *s, const struct dl_phdr_info *object)
{
    const ElfW(Dyn) *d = NULL;
    const ElfW(Sym) *symbols = NULL;
    const char *names = NULL;
    const ElfW(Rela) *calls = NULL, *others = NULL;
    size_t of_calls = 0, of_others = 0;
    int i;

    for (i = 0; i < object->dlpi_phnum; i++)
        if (object->dlpi_phdr[i].p_type == PT_DYNAMIC)
            d = (const ElfW(Dyn) *)(object->dlpi_addr + object->dlpi_phdr[i].p_vaddr);
    for (; d != NULL && d->d_tag != DT_NULL; d++)
        switch (d->d_tag) {
        case DT_SYMTAB:
            symbols = (const ElfW(Sym) *)d->d_un.d_ptr;
            break;
        case DT_STRTAB:
            names = (const char *)d->d_un.d_ptr;
            break;
        case DT_JMPREL:
            calls = (const ElfW(Rela) *)d->d_un.d_ptr;
            break;
        case DT_PLTRELSZ:
            of_calls = d->d_un.d_val;
            break;
        case DT_RELA:
            others = (const ElfW(Rela) *)d->d_un.d_ptr;
            break;
        case DT_RELASZ:
            of_others = d->d_un.d_val;
            break;
        }
    if (symbols == NULL || names == NULL) {
        s->failed = 1;
        return;
    }
    if (calls != NULL)
        direct(s, object, calls, of_calls, symbols, names);
    if (others != NULL)
        direct(s, object, others, of_others, symbols, names);
}

int goscr_redirect(void)
{
    struct search s = {NULL, NULL, 0, 0};
    struct objects objects;
    Dl_info info;
    int i;

    if (dladdr((void *)&goscr_entries, &info) == 0 || (s.library = dlopen(info.dli_fname, RTLD_NOW | RTLD_NOLOAD)) == NULL) {
        goscr_unknown = "the library does not find itself among those that are loaded";
        return 0;
    }
    s.base = info.dli_fbase;
    objects.n = objects.more = 0;
    dl_iterate_phdr(look_at, &objects);
    for (i = 0; i < objects.n; i++)
        direct_all(&s, &objects.list[i]);
    dlclose(s.library);
    if (s.failed || objects.more)
        goscr_unknown = "calls of Fortran cannot be directed to this library";
    return s.changed;
}

#else

static int look_at(struct dl_phdr_info *object, size_t size, void *found)
{
    (void)size;
    if (is_for_fortran(object->dlpi_name))
        *(int *)found = 1;
    return 0;
}

int goscr_redirect(void)
{
    int found = 0;

    dl_iterate_phdr(look_at, &found);
    if (found)
        goscr_unknown = "messages of Fortran are not counted on this kind of processor";
    return 0;
}

#endif

/* Before the program calls anything. */
__attribute__((constructor)) static void begin(void) { goscr_redirect(); }
