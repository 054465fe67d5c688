package prefix

import (
	"cmp"
	"fmt"
	"path/filepath"
	"strconv"

	"github.com/goscr/goscr/hash"
	"github.com/goscr/goscr/internal/redundancy"
	"github.com/goscr/goscr/internal/sys/trust"
	"github.com/goscr/goscr/mpi"
)

// naming finds by which names of files one file is meant: names are compared without the symbolic links in place
// of their directories. It looks at each directory once.
type naming struct {
	root trust.Root
	dirs map[string]string
}

func newNaming(prefix string) *naming { return &naming{trust.Root(prefix), map[string]string{}} }

// of returns the name that a file has without links, relative to the prefix directory.
func (n *naming) of(name string) string {
	name = filepath.Clean(name)
	dir := filepath.Dir(name)
	if dir == "." {
		return name
	}
	real, known := n.dirs[dir]
	if !known {
		real = n.root.Direct(dir)
		n.dirs[dir] = real
	}
	return filepath.Join(real, filepath.Base(name))
}

// all returns the names of a set without links.
func (n *naming) all(names map[string]bool) map[string]bool {
	direct := map[string]bool{}
	for name := range names {
		direct[n.of(name)] = true
	}
	return direct
}

// distinct returns an error if two names of a dataset are of one file: one of the two would be lost. It is
// collective; the error is agreed.
func distinct(c mpi.Comm, prefix string, parts Parts) error {
	n := newNaming(prefix)
	named := map[string]string{} // names by those without links
	var names []string
	var err error
	linked := false
	for _, files := range parts {
		for _, f := range redundancy.Counted(files) {
			name := filepath.Clean(f.Meta.File())
			direct := n.of(name)
			linked = linked || direct != name
			if other, twice := named[direct]; twice && other != name {
				err = oneFile(min(name, other), max(name, other), "")
			}
			named[direct] = name
			names = append(names, direct)
		}
	}
	// Usually there are no links, and nothing has to be compared.
	if !mpi.Any(c, linked) {
		return nil
	}
	lower, e := redundancy.Owners(c, names)
	if e != nil {
		return e
	}
	// A rank that has the file by another name, too, knows both.
	const keyNames = "NAMES"
	send := hash.New()
	for direct, rank := range lower {
		send.At(strconv.Itoa(rank), keyNames, direct).SetValue(keyName, named[direct])
	}
	received, e := hash.Exchange(send, c)
	if e != nil {
		return e
	}
	for rank, h := range received.All() {
		for direct, theirs := range h.Get(keyNames).All() {
			if mine := named[direct]; mine != theirs.Text(keyName) {
				err = cmp.Or(err, oneFile(mine, theirs.Text(keyName), " of rank "+rank))
			}
		}
	}
	return mpi.Agree(c, err)
}

func oneFile(a, b, of string) error {
	return fmt.Errorf("%s and %s%s are two names of one file, by a symbolic link in the prefix directory: a dataset has one name for each file", a, b, of)
}
