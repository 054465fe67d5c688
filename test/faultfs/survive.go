package faultfs

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"

	"golang.org/x/sys/unix"
)

// A power failure leaves what was synced: the data and attributes of a file by an fsync
// of the file, the names in a directory by one of the directory. All else may be there
// or not. These are the ways in which file systems differ:
const (
	nothing    = iota // nothing else
	names             // all names, and no data: files are empty, or as they were
	sizes             // ... and the sizes of files: zeros in place of data
	data              // all data, and no names
	journal           // names as far as the journal was written, and some data
	anything          // any names and any data
	everything        // all names and all data
	howMany           //
)

// sector is how much of a write is on the medium as a whole or not.
const sector = 512

// survivors returns the inodes after the power failed when the first n records had been
// made. The seed chooses the way and what is left to chance.
func (r *recorder) survivors(n int, seed uint64) map[int]*inode {
	random := rand.New(rand.NewPCG(seed, uint64(n)))
	how := int(seed % howMany)
	list := r.records[:min(n, len(r.records))]
	durable := durable(list)
	var loose int // changes of names that are not durable
	for i, x := range list {
		if x.kind <= rename && !durable[i] {
			loose++
		}
	}
	journaled := random.IntN(loose + 1)
	chance := random.Float64()

	nodes := map[int]*inode{}
	for _, from := range []map[int]*inode{r.base, r.born} {
		for id, n := range from {
			own := *n
			own.data, own.names = slices.Clone(n.data), maps.Clone(n.names)
			nodes[id] = &own
		}
	}
	for i, x := range list {
		if x.kind <= rename {
			kept := durable[i]
			if !kept {
				journaled--
				kept = how == names || how == sizes || how == everything || how == journal && journaled >= 0 || how == anything && random.Float64() < chance
			}
			if kept {
				x.rename(nodes)
			}
			continue
		}
		f := nodes[x.file]
		if f == nil || x.kind == settle {
			continue
		}
		switch {
		case durable[i] || how == data || how == everything:
			x.apply(f)
		case how == sizes:
			x.extend(f)
		case how == journal || how == anything:
			if random.Float64() < chance {
				x.applyPart(f, random)
			}
		}
	}
	return nodes
}

// durable says for each record whether it was synced.
func durable(list []record) []bool {
	all := make([]bool, len(list))
	synced := map[int]bool{} // by a later record
	for i, x := range slices.Backward(list) {
		switch {
		case x.kind == settle:
			synced[x.file] = true
		case x.kind == rename:
			all[i] = synced[x.dir] || synced[x.to]
		case x.kind < rename:
			all[i] = synced[x.dir]
		default:
			all[i] = synced[x.file]
		}
	}
	return all
}

// rename changes names.
func (x record) rename(nodes map[int]*inode) {
	at := func(id int) map[string]int {
		if n := nodes[id]; n != nil && n.names != nil {
			return n.names
		}
		return map[string]int{}
	}
	switch x.kind {
	case enter:
		at(x.dir)[x.name] = x.file
	case leave:
		if at(x.dir)[x.name] == x.file {
			delete(at(x.dir), x.name)
		}
	case rename:
		if at(x.dir)[x.name] == x.file {
			delete(at(x.dir), x.name)
		}
		at(x.to)[x.toName] = x.file
	}
}

// apply changes a file.
func (x record) apply(f *inode) {
	x.extend(f)
	switch x.kind {
	case put:
		copy(f.data[x.at:], x.data)
	case resize:
		f.data = f.data[:x.size]
	case change:
		f.mode = f.mode&unix.S_IFMT | x.mode&^unix.S_IFMT
		f.uid, f.gid = x.uid, x.gid
	}
	f.time = x.time
}

// extend makes a file as large as a write or a truncation makes it.
func (x record) extend(f *inode) {
	var size int64
	switch x.kind {
	case put:
		size = x.at + int64(len(x.data))
	case resize:
		size = x.size
	}
	if more := size - int64(len(f.data)); more > 0 {
		f.data = append(f.data, make([]byte, more)...)
	}
}

// applyPart applies some sectors of a write, and all of any other change.
func (x record) applyPart(f *inode, random *rand.Rand) {
	if x.kind != put {
		x.apply(f)
		return
	}
	if random.IntN(2) == 0 {
		x.extend(f)
	}
	for from := int64(0); from < int64(len(x.data)); {
		end := min((x.at+from)/sector*sector+sector-x.at, int64(len(x.data)))
		if random.IntN(2) == 0 {
			part := x
			part.at, part.data = x.at+from, x.data[from:end]
			part.apply(f)
		}
		from = end
	}
}

// store replaces a directory by one with these inodes.
func store(nodes map[int]*inode, dir string) error {
	if err := os.RemoveAll(dir); err != nil {
		return err
	}
	if err := os.Mkdir(dir, 0o700); err != nil {
		return err
	}
	return storeDir(nodes, root, dir, map[int]string{})
}

func storeDir(nodes map[int]*inode, id int, dir string, done map[int]string) error {
	done[id] = dir
	n := nodes[id]
	for _, name := range slices.Sorted(maps.Keys(n.names)) {
		path, id := filepath.Join(dir, name), n.names[name]
		f := nodes[id]
		if f == nil {
			return fmt.Errorf("%s: its inode is not known", path)
		}
		var err error
		switch first, again := done[id]; {
		case again && f.is(unix.S_IFDIR): // it has lost one of two renames
		case again:
			err = os.Link(first, path)
		case f.is(unix.S_IFDIR):
			if err = os.Mkdir(path, 0o700); err == nil {
				err = storeDir(nodes, id, path, done)
			}
		case f.is(unix.S_IFLNK):
			err = os.Symlink(string(f.data), path)
		case f.is(unix.S_IFREG):
			done[id] = path
			err = errors.Join(os.WriteFile(path, f.data, 0o600), f.attributes(path))
		}
		if err != nil {
			return err
		}
	}
	return n.attributes(dir)
}

func (n *inode) attributes(path string) error {
	return errors.Join(os.Chown(path, int(n.uid), int(n.gid)), unix.Chmod(path, n.mode&0o7777), os.Chtimes(path, n.time, n.time))
}
