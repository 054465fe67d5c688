package prefix

import (
	"fmt"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/goscr/goscr/hash"
	"github.com/goscr/goscr/internal/redundancy"
	"github.com/goscr/goscr/meta"
	"github.com/goscr/goscr/mpi"
)

// rank2file maps ranks to files. It is a tree of hash files, of which no rank
// reads or writes more than about 1 MB (formats.md §3). A leaf is
//
//	rank2file.0.<w>   RANKS = n  LEVEL = 0  RANK / <r> / FILE / <path below the prefix> …
//
// where rank w writes the entries of the ranks from itself up to the next
// writer. The nodes above hold, in place of files, the writers of the level
// below, and the root has no suffix:
//
//	rank2file         RANKS = n  LEVEL = l  RANK / <w> / FILE = .<l-1>.<w>  OFFSET = 0
const (
	rank2file = "rank2file"

	keyRanks  = "RANKS"
	keyLevel  = "LEVEL"
	keyRank   = "RANK"
	keyFile   = "FILE"
	keyOffset = "OFFSET"
	keySize   = "SIZE"
	keyCRC    = "CRC"
)

// segment is how many packed bytes a writer gathers before the next rank
// becomes one.
var segment int64 = 1 << 20

// maxLevels bounds the depth of a tree that is read. Five levels of 1 MB
// segments hold more ranks than there are.
const maxLevels = 8

// RanksError says that a dataset was written by a job of another size. There
// is nothing wrong with it: a run of that size can use it.
type RanksError struct {
	Path, Ranks string // where it is said, and what
	Size        int    // of this run
}

func (e *RanksError) Error() string {
	return fmt.Sprintf("%s was written by %s ranks, this run has %d: start again with %s ranks", e.Path, e.Ranks, e.Size, e.Ranks)
}

func suffix(level, rank int) string { return fmt.Sprintf(".%d.%d", level, rank) }

// copyFields copies what is recorded of a file in a leaf.
func copyFields(to, from *hash.Hash) {
	for _, key := range []string{keySize, keyCRC, "MODE", "UID", "GID", "MTIME", "ATIME"} {
		if value, ok := from.Value(key); ok {
			to.SetValue(key, value)
		}
	}
}

// fileEntries is a rank's entry in a leaf. Sizes, checksums and modes are what
// we add; SCR 3.1 does not look at them.
func fileEntries(files []redundancy.File) *hash.Hash {
	h := hash.New()
	for _, f := range files {
		e := h.At(keyFile, f.Meta.File())
		copyFields(e, f.Meta.Hash)
	}
	return h
}

// writeRank2file writes the tree for a dataset whose metadata is in dir. Each
// rank gives its own entry. It is collective; the result is agreed.
func writeRank2file(c mpi.Comm, dir string, entry *hash.Hash) error {
	for level := 0; ; level++ {
		writer, writers, err := writeLevel(c, dir, level, entry)
		if err := mpi.Agree(c, err); err != nil {
			return err
		}
		if level > 0 && writers == 1 {
			return nil
		}
		// Those who wrote on this level are the entries of the next.
		entry = nil
		if writer {
			entry = hash.New()
			entry.SetValue(keyFile, suffix(level, c.Rank()))
			entry.SetInt(keyOffset, 0)
		}
	}
}

// writeLevel gathers the entries of a level at its writers, which write them.
// It returns whether the caller is a writer, and how many there are. A nil
// entry is none.
func writeLevel(c mpi.Comm, dir string, level int, entry *hash.Hash) (writer bool, writers int64, err error) {
	size := int64(0)
	if entry != nil {
		size = int64(entry.PackSize())
	}
	before := []int64{size}
	if err := c.Exscan(before, mpi.Sum); err != nil {
		return false, 0, err
	}
	writer = c.Rank() == 0 || entry != nil && begins(before[0], size)
	count, mine := []int64{0}, []int64{0}
	if writer {
		count[0], mine[0] = 1, int64(c.Rank())
	}
	if err := c.Exscan(mine, mpi.Max); err != nil {
		return false, 0, err
	}
	if writer {
		mine[0] = int64(c.Rank())
	}
	if err := c.Allreduce(count, mpi.Sum); err != nil {
		return false, 0, err
	}
	send := hash.New()
	if entry != nil {
		send.Set(strconv.FormatInt(mine[0], 10), entry)
	}
	entries, err := hash.Exchange(send, c)
	if err != nil || !writer {
		return writer, count[0], err
	}
	node := hash.New()
	node.SetInt(keyRanks, int64(c.Size()))
	node.SetInt(keyLevel, int64(level))
	node.Set(keyRank, entries)
	name := rank2file + suffix(level, c.Rank())
	if level > 0 && count[0] == 1 {
		name = rank2file
	}
	return writer, count[0], hash.WriteShared(filepath.Join(dir, name), node)
}

// begins reports whether an entry of so many bytes, after so many before it,
// begins a segment.
func begins(before, size int64) bool { return before/segment != (before+size)/segment }

// readRank2file reads the tree whose root is in dir and returns the caller's
// entry, nil if it has none. It is collective; the result is agreed.
func readRank2file(c mpi.Comm, dir string) (*hash.Hash, error) {
	file := "" // what I have to read on this level
	if c.Rank() == 0 {
		file = rank2file
	}
	level := []int64{-1} // of the root, which rank 0 learns from it
	for {
		var node *hash.Hash
		var err error
		if file != "" {
			node, err = readNode(filepath.Join(dir, file), c.Size(), level[0])
			if l, _ := node.Int(keyLevel); level[0] < 0 {
				level[0] = l
			}
		}
		if err := mpi.Agree(c, err); err != nil {
			return nil, err
		}
		if err := c.Allreduce(level, mpi.Max); err != nil {
			return nil, err
		}
		send := node.Get(keyRank)
		if send == nil {
			send = hash.New()
		}
		received, err := hash.Exchange(send, c)
		if err := mpi.Agree(c, err); err != nil {
			return nil, err
		}
		var entry *hash.Hash
		for _, entry = range received.All() {
			break
		}
		if level[0] == 0 {
			if received.Size() > 1 {
				err = fmt.Errorf("%s lists rank %d twice", filepath.Join(dir, rank2file), c.Rank())
			}
			return entry, mpi.Agree(c, err)
		}
		level[0]--
		file = ""
		if entry != nil {
			file, err = childOf(dir, entry)
		}
		if err := mpi.Agree(c, err); err != nil {
			return nil, err
		}
	}
}

// readNode reads one file of the tree. level is -1 for the root.
func readNode(path string, ranks int, level int64) (*hash.Hash, error) {
	node, err := hash.ReadFile(path)
	if err != nil {
		return nil, err
	}
	if n, ok := node.Int(keyRanks); !ok || n != int64(ranks) {
		err := &RanksError{path, node.Text(keyRanks), ranks}
		if !ok || level >= 0 { // the root said otherwise
			return nil, fmt.Errorf("the list of files is inconsistent: %v", err)
		}
		return nil, err
	}
	l, ok := node.Int(keyLevel)
	if !ok || l < 0 || l > maxLevels || (level >= 0 && l != level) {
		return nil, fmt.Errorf("%s has level %q", path, node.Text(keyLevel))
	}
	for _, r := range node.Get(keyRank).Keys() {
		if n, err := strconv.Atoi(r); err != nil || n < 0 || n >= ranks {
			return nil, fmt.Errorf("%s lists rank %q of %d", path, r, ranks)
		}
	}
	return node, nil
}

// childOf is the file that an entry of an inner node refers to.
func childOf(dir string, entry *hash.Hash) (string, error) {
	file := rank2file + entry.Text(keyFile)
	if !strings.HasPrefix(file, rank2file+".") || strings.Contains(file, "/") {
		return "", fmt.Errorf("%s refers to %q", filepath.Join(dir, rank2file), entry.Text(keyFile))
	}
	return file, nil
}

// filesOf makes files of an entry. Their paths are those in the prefix
// directory.
func filesOf(entry *hash.Hash, prefix string, ranks int) ([]redundancy.File, error) {
	var files []redundancy.File
	for name, fields := range entry.Get(keyFile).All() {
		if err := checkName(name); err != nil {
			return nil, fmt.Errorf("the list of files names %w", err)
		}
		md := meta.New(name, meta.Full, ranks)
		md.SetOrigin(name, filepath.Dir(filepath.Join(prefix, name)))
		copyFields(md.Hash, fields)
		files = append(files, redundancy.File{Path: filepath.Join(prefix, name), Meta: md})
	}
	return files, nil
}

// checkName says what is wrong with the name of a file of the program, which
// was read from disk.
func checkName(name string) error {
	if !filepath.IsLocal(name) || filepath.Clean(name) == "." || below(name, Metadata) {
		return fmt.Errorf("%q, which is not a file of the program below the prefix directory", name)
	}
	return nil
}

// below reports whether a relative path is dir or leads below it.
func below(path, dir string) bool {
	path = filepath.Clean(path)
	return path == dir || strings.HasPrefix(path, dir+string(filepath.Separator))
}
