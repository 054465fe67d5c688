package tracer

import "golang.org/x/sys/unix"

// The calls of older programs, which newer architectures do not have.
func init() {
	for number, k := range map[int]kind{
		unix.SYS_OPEN:      {"open", -1, []arg{{-1, 0}}, creates(1)},
		unix.SYS_CREAT:     {"creat", -1, []arg{{-1, 0}}, nil},
		unix.SYS_RENAME:    {"rename", -1, []arg{{-1, 0}, {-1, 1}}, nil},
		unix.SYS_RENAMEAT:  {"renameat", -1, []arg{{0, 1}, {2, 3}}, nil},
		unix.SYS_UNLINK:    {"unlink", -1, []arg{{-1, 0}}, nil},
		unix.SYS_MKDIR:     {"mkdir", -1, []arg{{-1, 0}}, nil},
		unix.SYS_RMDIR:     {"rmdir", -1, []arg{{-1, 0}}, nil},
		unix.SYS_MKNOD:     {"mknod", -1, []arg{{-1, 0}}, nil},
		unix.SYS_LINK:      {"link", -1, []arg{{-1, 0}, {-1, 1}}, nil},
		unix.SYS_SYMLINK:   {"symlink", -1, []arg{{-1, 1}}, nil},
		unix.SYS_CHMOD:     {"chmod", -1, []arg{{-1, 0}}, nil},
		unix.SYS_CHOWN:     {"chown", -1, []arg{{-1, 0}}, nil},
		unix.SYS_LCHOWN:    {"lchown", -1, []arg{{-1, 0}}, nil},
		unix.SYS_UTIME:     {"utime", -1, []arg{{-1, 0}}, nil},
		unix.SYS_UTIMES:    {"utimes", -1, []arg{{-1, 0}}, nil},
		unix.SYS_FUTIMESAT: {"futimesat", -1, []arg{{0, 1}}, nil},
	} {
		kinds[number] = k
	}
}
