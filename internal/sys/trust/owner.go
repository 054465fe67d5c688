package trust

import (
	"fmt"
	"io/fs"
	"os"
	"os/user"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// Users are the users, besides the caller and root, whose files may make a command run.
type Users map[int]bool

// Parameter is the name of the parameter, of the environment alone, that lists Users.
const Parameter = "SCR_TRUST_USERS"

// ParseUsers parses names and numbers of users, separated by blanks or commas.
func ParseUsers(text string) (Users, error) {
	users := Users{}
	for _, name := range strings.FieldsFunc(text, func(r rune) bool { return r == ',' || r == ' ' || r == '\t' }) {
		id, err := strconv.Atoi(name)
		if err != nil {
			found, e := user.Lookup(name)
			if e != nil {
				return nil, fmt.Errorf("%q is not a user: give the name or the number of a user of this system", name)
			}
			id, err = strconv.Atoi(found.Uid)
		}
		if err != nil || id < 0 {
			return nil, fmt.Errorf("%q is not a user: give the name or the number of a user of this system", name)
		}
		users[id] = true
	}
	return users, nil
}

// ForeignError says that a file does not count, because another user has written it or may have.
type ForeignError struct {
	Path   string
	Reason string
	Accept string // what the caller does to accept the file
}

func (e *ForeignError) Error() string {
	return fmt.Sprintf("%s is ignored: it %s, and could run any command as %s; if you trust it, %s", e.Path, e.Reason, Name(os.Geteuid()), e.Accept)
}

// Check checks that a file may make a command run, or name a path to write: it belongs to the
// caller, to root or to one of the users, and nobody else can write to it. A group may
// if it is the caller's own. The error is a *ForeignError.
func (u Users) Check(path string, info fs.FileInfo) error {
	st, self := info.Sys().(*syscall.Stat_t), os.Geteuid()
	switch owner := int(st.Uid); {
	case u[owner]:
		return nil
	case owner != self && owner != 0:
		return &ForeignError{path, "belongs to " + Name(owner), fmt.Sprintf("set %s=%s", Parameter, login(owner))}
	}
	group := st.Mode&0o020 != 0 && int(st.Gid) != os.Getegid() && st.Gid != 0
	if info.Mode().IsRegular() && (st.Mode&0o002 != 0 || group) {
		return &ForeignError{path, "can be written by other users", "run chmod go-w " + path}
	}
	return nil
}

// login returns the name of a user, or the number of one that has none.
func login(id int) string {
	if found, err := user.LookupId(strconv.Itoa(id)); err == nil {
		return found.Username
	}
	return strconv.Itoa(id)
}

// Name returns the name of a user for messages.
func Name(id int) string {
	if name := login(id); name != strconv.Itoa(id) {
		return fmt.Sprintf("user %s (%d)", name, id)
	}
	return fmt.Sprintf("user %d", id)
}

// Owner returns the owner and the group that root gives to a new file below the directory:
// those of the directory. give is false if the file keeps the owner that it has: if the
// caller is not root, or the directory is root's own, or source, the user that has written the
// original, is root. No other owner is ever set, since any user can write any number to a file.
func (r Root) Owner(source int) (uid, gid int, give bool) {
	var st unix.Stat_t
	if r == "" || os.Geteuid() != 0 || source == 0 || unix.Stat(string(r), &st) != nil || st.Uid == 0 {
		return 0, 0, false
	}
	return int(st.Uid), int(st.Gid), true
}

// OwnerOf returns the owner of a file.
func OwnerOf(info fs.FileInfo) int { return int(info.Sys().(*syscall.Stat_t).Uid) }

// Own reports whether an open file may be written over: it is a regular file of the caller,
// and has no other name, under which it could be any file of the caller.
func Own(info fs.FileInfo) bool {
	st := info.Sys().(*syscall.Stat_t)
	return info.Mode().IsRegular() && st.Nlink <= 1 && int(st.Uid) == os.Geteuid()
}
