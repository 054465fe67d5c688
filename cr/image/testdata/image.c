/*
 * Saves and restores the process of a program: of one thread, without open files or sockets
 * but 0, 1 and 2, linked statically at fixed addresses, and run by `image run`, so that its memory
 * is at the same addresses each time. Linux on x86-64.
 *
 *     image run PROGRAM...      executes a program so
 *     image dump PID DIR        saves a process, which continues
 *     image end PID DIR         ... and ends
 *     image restore DIR FILE    starts it again, writes its number to FILE, and ends as it does
 *
 * The file DIR/image has registers, the path of the program, and memory that the process could write.
 */

#define _GNU_SOURCE

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/personality.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

struct head {
    char magic[8];
    char program[PATH_MAX];
    char directory[PATH_MAX];
    struct user_regs_struct registers;
    unsigned char vectors[1 << 16]; /* some processors have more than 8 KiB of them (AMX) */
    uint64_t vector_size, areas;
};

struct area {
    uint64_t start, end;
    char kind; /* h: heap, f: of the program's file, s: stack, a: any other */
};

static void fail(const char *what)
{
    fprintf(stderr, "image: %s: %s\n", what, strerror(errno));
    exit(1);
}

static void must(int ok, const char *what)
{
    if (!ok)
        fail(what);
}

static long trace(long request, pid_t pid, void *address, void *data)
{
    long result;

    errno = 0;
    result = ptrace(request, pid, address, data);
    must(result != -1 || errno == 0, "ptrace");
    return result;
}

static void fixed_addresses(void)
{
    int now = personality(0xffffffff);

    must(now != -1 && personality((unsigned long)now | ADDR_NO_RANDOMIZE) != -1, "personality");
}

/* ------------------------------------------------------------------------------ dump */

static void link_of(pid_t pid, const char *what, char *target)
{
    char path[64];
    ssize_t n;

    snprintf(path, sizeof path, "/proc/%d/%s", (int)pid, what);
    n = readlink(path, target, PATH_MAX - 1);
    must(n > 0, path);
    target[n] = '\0';
}

/* An instruction that a signal of ptrace has interrupted is begun again. */
static void begin_again(struct user_regs_struct *r)
{
    long result = (long)r->rax;

    if ((long)r->orig_rax < 0)
        return;
    if (result == -512 || result == -513 || result == -514) { /* ERESTARTSYS, ERESTARTNOINTR, ERESTARTNOHAND */
        r->rax = r->orig_rax;
        r->rip -= 2;
    } else if (result == -516) { /* ERESTART_RESTARTBLOCK: the rest of a sleep is gone */
        r->rax = (unsigned long long)-EINTR;
    }
    r->orig_rax = (unsigned long long)-1;
}

static void copy(int memory, FILE *f, const struct area *a)
{
    static char piece[1 << 16];
    uint64_t at = a->start;

    while (at < a->end) {
        size_t n = a->end - at < sizeof piece ? (size_t)(a->end - at) : sizeof piece;

        must(pread(memory, piece, n, (off_t)at) == (ssize_t)n, "the process's memory");
        must(fwrite(piece, 1, n, f) == n, "the image");
        at += n;
    }
}

static void dump(pid_t pid, const char *dir, int ends)
{
    static struct head h = {.magic = "image 1"};
    struct area areas[200];
    struct iovec vectors = {h.vectors, sizeof h.vectors};
    char path[PATH_MAX + 64], line[PATH_MAX + 200], rights[8], name[PATH_MAX];
    unsigned long start, end;
    FILE *f;
    int memory, status;
    uint64_t i;

    trace(PTRACE_SEIZE, pid, NULL, NULL);
    trace(PTRACE_INTERRUPT, pid, NULL, NULL);
    must(waitpid(pid, &status, __WALL) == pid && WIFSTOPPED(status), "the process does not stop");
    trace(PTRACE_GETREGS, pid, NULL, &h.registers);
    begin_again(&h.registers);
    trace(PTRACE_GETREGSET, pid, (void *)NT_X86_XSTATE, &vectors);
    must(vectors.iov_len < sizeof h.vectors, "too many registers");
    h.vector_size = vectors.iov_len;
    link_of(pid, "exe", h.program);
    link_of(pid, "cwd", h.directory);

    snprintf(path, sizeof path, "/proc/%d/maps", (int)pid);
    must((f = fopen(path, "r")) != NULL, path);
    while (fgets(line, sizeof line, f) != NULL) {
        name[0] = '\0';
        must(sscanf(line, "%lx-%lx %7s %*s %*s %*s %4095s", &start, &end, rights, name) >= 3, "maps");
        if (rights[1] != 'w')
            continue;
        must(h.areas < 200, "too many areas of memory");
        areas[h.areas].start = start;
        areas[h.areas].end = end;
        areas[h.areas].kind = strcmp(name, "[heap]") == 0 ? 'h' : strcmp(name, "[stack]") == 0 ? 's' : end < 0x10000000 ? 'f' : 'a';
        h.areas++;
    }
    fclose(f);

    snprintf(path, sizeof path, "/proc/%d/mem", (int)pid);
    must((memory = open(path, O_RDONLY)) != -1, path);
    snprintf(path, sizeof path, "%s/image", dir);
    must((f = fopen(path, "wx")) != NULL, path);
    must(fwrite(&h, sizeof h, 1, f) == 1, path);
    for (i = 0; i < h.areas; i++) {
        must(fwrite(&areas[i], sizeof areas[i], 1, f) == 1, path);
        copy(memory, f, &areas[i]);
    }
    must(fclose(f) == 0, path);
    close(memory);
    if (!ends) {
        trace(PTRACE_DETACH, pid, NULL, NULL);
        return;
    }
    must(kill(pid, SIGKILL) == 0, "kill");
    while (waitpid(pid, &status, __WALL) == pid && !WIFSIGNALED(status))
        continue;
}

/* --------------------------------------------------------------------------- restore */

/* Has the process make a call of the system. */
static long call(pid_t pid, const struct user_regs_struct *at, long number, uint64_t a, uint64_t b, uint64_t c, uint64_t d)
{
    struct user_regs_struct r = *at;
    int status;

    r.rax = (unsigned long long)number;
    r.rdi = a;
    r.rsi = b;
    r.rdx = c;
    r.r10 = d;
    r.r8 = (unsigned long long)-1;
    r.r9 = 0;
    trace(PTRACE_SETREGS, pid, NULL, &r);
    trace(PTRACE_SINGLESTEP, pid, NULL, NULL);
    must(waitpid(pid, &status, 0) == pid && WIFSTOPPED(status), "the new process has ended");
    trace(PTRACE_GETREGS, pid, NULL, &r);
    return (long)r.rax;
}

static void place(pid_t pid, const struct user_regs_struct *at, const struct area *a)
{
    long result = (long)a->start;

    if (a->kind == 'h')
        must(call(pid, at, SYS_brk, a->end, 0, 0, 0) == (long)a->end, "the heap has another place");
    else if (a->kind != 'f')
        result = call(pid, at, SYS_mmap, a->start, a->end - a->start, PROT_READ | PROT_WRITE,
                      MAP_FIXED | MAP_PRIVATE | MAP_ANONYMOUS | (a->kind == 's' ? MAP_GROWSDOWN | MAP_STACK : 0));
    must(result == (long)a->start, "memory has another place");
}

static int restore(const char *dir, const char *number)
{
    static struct head h;
    static char piece[1 << 16];
    struct user_regs_struct at;
    struct area a;
    struct iovec vectors;
    char path[PATH_MAX + 64];
    long text;
    int memory, status;
    FILE *f, *out;
    pid_t pid;
    uint64_t i, n;

    snprintf(path, sizeof path, "%s/image", dir);
    must((f = fopen(path, "r")) != NULL, path);
    must(fread(&h, sizeof h, 1, f) == 1 && strcmp(h.magic, "image 1") == 0, "no image");
    must((pid = fork()) != -1, "fork");
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        fclose(f);
        fixed_addresses();
        must(chdir(h.directory) == 0, h.directory);
        ptrace(PTRACE_TRACEME, 0, NULL, NULL);
        execl(h.program, h.program, (char *)NULL);
        fail(h.program);
    }
    must(waitpid(pid, &status, 0) == pid && WIFSTOPPED(status), "the new process has ended");
    trace(PTRACE_GETREGS, pid, NULL, &at);
    text = trace(PTRACE_PEEKTEXT, pid, (void *)at.rip, NULL);
    trace(PTRACE_POKETEXT, pid, (void *)at.rip, (void *)((text & ~0xffffL) | 0x050f)); /* syscall */
    snprintf(path, sizeof path, "/proc/%d/mem", (int)pid);
    must((memory = open(path, O_RDWR)) != -1, path);
    for (i = 0; i < h.areas; i++) {
        must(fread(&a, sizeof a, 1, f) == 1, "the image ends early");
        place(pid, &at, &a);
        for (; a.start < a.end; a.start += n) {
            n = a.end - a.start < sizeof piece ? a.end - a.start : sizeof piece;
            must(fread(piece, 1, n, f) == n, "the image ends early");
            must(pwrite(memory, piece, n, (off_t)a.start) == (ssize_t)n, "the process's memory");
        }
    }
    fclose(f);
    close(memory);
    trace(PTRACE_POKETEXT, pid, (void *)at.rip, (void *)text);
    vectors.iov_base = h.vectors;
    vectors.iov_len = h.vector_size;
    trace(PTRACE_SETREGSET, pid, (void *)NT_X86_XSTATE, &vectors);
    trace(PTRACE_SETREGS, pid, NULL, &h.registers);
    trace(PTRACE_DETACH, pid, NULL, NULL);
    must((out = fopen(number, "w")) != NULL && fprintf(out, "%d\n", (int)pid) > 0 && fclose(out) == 0, number);
    must(waitpid(pid, &status, 0) == pid, "wait");
    return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

int main(int argc, char **argv)
{
    if (argc >= 3 && strcmp(argv[1], "run") == 0) {
        fixed_addresses();
        execv(argv[2], argv + 2);
        fail(argv[2]);
    }
    if (argc == 4 && strcmp(argv[1], "restore") == 0)
        return restore(argv[2], argv[3]);
    if (argc == 4 && (strcmp(argv[1], "dump") == 0 || strcmp(argv[1], "end") == 0)) {
        dump((pid_t)atoi(argv[2]), argv[3], argv[1][0] == 'e');
        return 0;
    }
    fputs("usage: image run PROGRAM... | dump|end PID DIR | restore DIR FILE\n", stderr);
    return 2;
}
