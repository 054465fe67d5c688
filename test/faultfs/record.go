package faultfs

import (
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// A record is one change of the file system, or a sync, which changes what is durable.
type record struct {
	kind     kind
	file     int       // inode that is changed, or that gets or loses a name
	dir      int       // directory of the name
	name     string    // ... of what is made, removed or renamed
	to       int       // directory of the new name
	toName   string    // of what is renamed
	at, size int64     // of data; the size after truncation
	data     []byte    // written
	mode     uint32    // after the change
	uid, gid uint32    // after the change
	time     time.Time // of modification after the change
}

type kind int

const (
	enter  kind = iota // a name for an inode: create, mkdir, symlink, link
	leave              // unlink, rmdir
	rename             // file, or a directory
	put                // data
	resize             // truncate
	change             // mode, owner or times
	settle             // fsync
)

// inode is a file, directory or link, as the records leave it.
type inode struct {
	mode     uint32 // with its type
	uid, gid uint32
	time     time.Time
	data     []byte // of a file; the target of a link
	names    map[string]int
}

func (n *inode) is(kind uint32) bool { return n.mode&unix.S_IFMT == kind }

const root = 1

// recorder keeps the records of a mount. Its lock is held during each change, so that
// records are in the order of changes.
type recorder struct {
	mu      sync.Mutex
	on      bool
	base    map[int]*inode // when it began
	born    map[int]*inode // inodes made since, as they were then
	number  map[uint64]int // inodes by the numbers in the backing directory, which are used again
	next    int
	records []record
}

// begin takes everything that is there as durable.
func (r *recorder) begin(backing string) error {
	r.on, r.base, r.born, r.number, r.next, r.records = true, map[int]*inode{}, map[int]*inode{}, map[uint64]int{}, root, nil
	return filepath.WalkDir(backing, func(path string, _ fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		st, err := lstat(path)
		if err != nil {
			return err
		}
		id, known := r.number[st.Ino]
		if !known {
			id = r.add(st.Ino)
			n, err := load(path, st)
			if err != nil {
				return err
			}
			r.base[id] = n
		}
		if path == backing {
			return nil
		}
		above, err := lstat(filepath.Dir(path))
		if err == nil {
			r.base[r.number[above.Ino]].names[filepath.Base(path)] = id
		}
		return err
	})
}

func lstat(path string) (st unix.Stat_t, err error) {
	err = unix.Lstat(path, &st)
	return st, err
}

// newInode is an inode without data.
func newInode(st unix.Stat_t) *inode {
	n := &inode{mode: st.Mode, uid: st.Uid, gid: st.Gid, time: time.Unix(st.Mtim.Unix())}
	if n.is(unix.S_IFDIR) {
		n.names = map[string]int{}
	}
	return n
}

// load reads an inode.
func load(path string, st unix.Stat_t) (*inode, error) {
	n := newInode(st)
	var err error
	switch {
	case n.is(unix.S_IFREG):
		n.data, err = os.ReadFile(path)
	case n.is(unix.S_IFLNK):
		var target string
		target, err = os.Readlink(path)
		n.data = []byte(target)
	}
	return n, err
}

// add numbers an inode.
func (r *recorder) add(ino uint64) int {
	id := r.next
	r.next++
	r.number[ino] = id
	return id
}

// made numbers an inode that was made under a path, and keeps what it was then.
func (r *recorder) made(path string) int {
	st, err := lstat(path)
	if err != nil {
		return 0
	}
	id := r.add(st.Ino)
	n, err := load(path, st)
	if err != nil {
		n = newInode(st)
	}
	r.born[id] = n
	return id
}

// of is the number of the inode that has a path.
func (r *recorder) of(path string) int {
	st, err := lstat(path)
	if err != nil {
		return 0
	}
	return r.number[st.Ino]
}

// ofFd is of for an open file.
func (r *recorder) ofFd(fd int) (int, unix.Stat_t) {
	var st unix.Stat_t
	if unix.Fstat(fd, &st) != nil {
		return 0, st
	}
	return r.number[st.Ino], st
}

// keep appends a record.
func (r *recorder) keep(x record) {
	if r.on {
		r.records = append(r.records, x)
	}
}
