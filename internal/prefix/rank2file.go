package prefix

import (
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/goscr/goscr/hash"
	"github.com/goscr/goscr/internal/meta"
	"github.com/goscr/goscr/internal/redundancy"
	"github.com/goscr/goscr/mpi"
)

// rank2file maps ranks to files. It is a tree of hash files, of which no rank
// reads or writes more than about 1 MB. A leaf is
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

// maxRanks is more ranks than any job has.
const maxRanks = 1 << 30

// RanksError says that a dataset was written by a job of another size. There
// is nothing wrong with it: a run of that size can use it.
type RanksError struct {
	Name        string
	Ranks, Size int // of the job that wrote it, and of this run
}

// ErrRanks is what every RanksError is.
var ErrRanks = mpi.NewKind(3, "written by a job of another size")

// Is reports whether target is ErrRanks.
func (e *RanksError) Is(target error) bool { return target == ErrRanks }

func (e *RanksError) Error() string {
	return fmt.Sprintf("%s was written by %d ranks, this run has %d: start again with %d ranks, or with SCR_FETCH_BYPASS=1, "+
		"which lets any rank open any file", e.Name, e.Ranks, e.Size, e.Ranks)
}

func suffix(level, rank int) string { return fmt.Sprintf(".%d.%d", level, rank) }

// Parts are the files of ranks, by rank.
type Parts map[int][]redundancy.File

// Bytes is how many the files have.
func (p Parts) Bytes() (sum int64) {
	for _, files := range p {
		for _, f := range files {
			sum += max(f.Meta.Size(), 0)
		}
	}
	return sum
}

// clone returns the same files with descriptions of their own.
func (p Parts) clone() Parts {
	own := Parts{}
	for rank, files := range p {
		for _, f := range files {
			own[rank] = append(own[rank], redundancy.File{Path: f.Path, Meta: f.Meta.Clone()})
		}
	}
	return own
}

// entries is the leaf entries of the ranks. Sizes, checksums and modes are what we
// add; SCR 3.1 does not look at them.
func (p Parts) entries(bare bool) *hash.Hash {
	all := hash.New()
	for rank, files := range p {
		h := all.At(strconv.Itoa(rank))
		for _, f := range files {
			e := meta.FromHash(h.At(keyFile, f.Meta.File()))
			f.Meta.CopyContent(e)
			if !bare {
				f.Meta.CopyRecord(e)
			}
		}
	}
	return all
}

// compressed counts the files in leaf entries that are not stored as they were
// written.
func compressed(entries *hash.Hash) (n int64) {
	for _, rank := range entries.All() {
		for _, file := range rank.Get(keyFile).All() {
			if _, other := meta.FromHash(file).Stored(); other {
				n++
			}
		}
	}
	return n
}

// owner is the process that handles the entry of a rank of a dataset, where a job
// of size processes handles one of so many ranks: the rank itself if these are the
// same, and in any case the processes in the order of their ranks.
func owner(rank, ranks, size int) int { return rank * size / ranks }

// item is an entry of a level: files of a rank, or a node of the level below.
type item struct {
	rank  int
	entry *hash.Hash
}

// gatherItems sends entries, by rank, to the owners of the ranks and returns those
// of the caller in the order of ranks. It is collective.
func gatherItems(c mpi.Comm, ranks int, entries *hash.Hash) ([]item, error) {
	send := hash.New()
	for _, rank := range entries.Ints() {
		send.At(strconv.Itoa(owner(rank, ranks, c.Size()))).Set(strconv.Itoa(rank), entries.Get(strconv.Itoa(rank)))
	}
	received, err := hash.Exchange(send, c)
	if err != nil {
		return nil, err
	}
	mine, twice := hash.New(), -1
	for _, h := range received.All() {
		for rank, entry := range h.All() {
			if mine.Has(rank) {
				twice, _ = strconv.Atoi(rank)
			}
			mine.Set(rank, entry)
		}
	}
	if twice >= 0 {
		return nil, fmt.Errorf("rank %d is listed twice", twice)
	}
	var items []item
	for _, rank := range mine.Ints() {
		items = append(items, item{rank, mine.Get(strconv.Itoa(rank))})
	}
	return items, nil
}

// writeRank2file writes the tree for a dataset of so many ranks whose metadata is
// in dir. entries are those that the caller has, by rank; each rank's is with one
// process. It is collective; the result is agreed.
func writeRank2file(c mpi.Comm, dir string, ranks int, entries *hash.Hash) error {
	items, err := gatherItems(c, ranks, entries)
	if err := mpi.Agree(c, err); err != nil {
		return err
	}
	for level := 0; ; level++ {
		next, writers, err := writeLevel(c, dir, level, ranks, items)
		if err := mpi.Agree(c, err); err != nil {
			return err
		}
		if level > 0 && writers == 1 {
			return nil
		}
		items = next
	}
}

// writeLevel gathers the entries of a level at its writers, which write them. A
// rank whose entry crosses into another segment is a writer, and so is rank 0. It
// returns the entries of the next level that the caller has, which are its
// writers, and how many writers there are.
func writeLevel(c mpi.Comm, dir string, level, ranks int, items []item) (next []item, writers int64, err error) {
	size := int64(0)
	for _, it := range items {
		size += int64(it.entry.PackSize())
	}
	before := []int64{size}
	if err := c.Exscan(before, mpi.Sum); err != nil {
		return nil, 0, err
	}
	if c.Rank() == 0 {
		before[0] = 0
		if len(items) == 0 || items[0].rank != 0 { // somebody has to write the root
			items = append([]item{{0, nil}}, items...)
		}
	}
	writes := map[int]bool{}
	last := int64(0) // the newest writer up to and with my own ranks
	at := before[0]
	for _, it := range items {
		packed := int64(0)
		if it.entry != nil {
			packed = int64(it.entry.PackSize())
		}
		if it.rank == 0 || begins(at, packed) {
			writes[it.rank] = true
			last = int64(it.rank)
		}
		at += packed
	}
	writer := []int64{last}
	if err := c.Exscan(writer, mpi.Max); err != nil {
		return nil, 0, err
	}
	count := []int64{int64(len(writes))}
	if err := c.Allreduce(count, mpi.Sum); err != nil {
		return nil, 0, err
	}

	current := writer[0]
	if c.Rank() == 0 {
		current = 0
	}
	send := hash.New() // process -> writer -> rank -> entry
	for _, it := range items {
		if writes[it.rank] {
			current = int64(it.rank)
		}
		if it.entry != nil {
			process := owner(int(current), ranks, c.Size())
			send.At(strconv.Itoa(process), strconv.FormatInt(current, 10)).Set(strconv.Itoa(it.rank), it.entry)
		}
	}
	received, err := hash.Exchange(send, c)
	if err != nil {
		return nil, count[0], err
	}
	nodes := map[int]*hash.Hash{}
	for rank := range writes {
		nodes[rank] = hash.New()
	}
	for _, h := range received.All() {
		for _, rank := range h.Ints() {
			nodes[rank].Merge(h.Get(strconv.Itoa(rank)))
		}
	}
	for _, rank := range slices.Sorted(maps.Keys(nodes)) {
		node := hash.New()
		node.SetInt(keyRanks, int64(ranks))
		node.SetInt(keyLevel, int64(level))
		node.Set(keyRank, nodes[rank])
		name := rank2file + suffix(level, rank)
		if level > 0 && count[0] == 1 {
			name = rank2file
		}
		if e := hash.WriteShared(filepath.Join(dir, name), node); err == nil {
			err = e
		}
		entry := hash.New()
		entry.SetValue(keyFile, suffix(level, rank))
		entry.SetInt(keyOffset, 0)
		next = append(next, item{rank, entry})
	}
	return next, count[0], err
}

// begins reports whether an entry of so many bytes, after so many before it,
// begins a segment.
func begins(before, size int64) bool { return before/segment != (before+size)/segment }

// readRank2file reads the tree whose root is in dir. It returns the number of
// ranks of the dataset, and those of their entries that the caller owns. It is
// collective; the result is agreed.
func readRank2file(c mpi.Comm, dir string) (ranks int, items []item, err error) {
	root := filepath.Join(dir, rank2file)
	var nodes []string // what I have to read on this level
	if c.Rank() == 0 {
		nodes = []string{rank2file}
	}
	shape := []int64{-1, -1} // level and ranks, which rank 0 learns from the root
	for {
		entries := hash.New()
		var err error
		for _, file := range nodes {
			var node *hash.Hash
			if node, err = readNode(filepath.Join(dir, file), shape); err != nil {
				break
			}
			for rank, entry := range node.Get(keyRank).All() {
				if entries.Has(rank) {
					err = fmt.Errorf("%s lists rank %s twice", root, rank)
				}
				entries.Set(rank, entry)
			}
		}
		if err := mpi.Agree(c, err); err != nil {
			return 0, nil, err
		}
		if err := c.Allreduce(shape, mpi.Max); err != nil {
			return 0, nil, err
		}
		items, err := gatherItems(c, int(shape[1]), entries)
		if err != nil {
			err = fmt.Errorf("%s: %w", root, err)
		}
		if err := mpi.Agree(c, err); err != nil {
			return 0, nil, err
		}
		if shape[0] == 0 {
			return int(shape[1]), items, nil
		}
		shape[0]--
		nodes = nil
		for _, it := range items {
			file, e := childOf(dir, it.entry)
			if err == nil {
				err = e
			}
			nodes = append(nodes, file)
		}
		if err := mpi.Agree(c, err); err != nil {
			return 0, nil, err
		}
	}
}

// readNode reads one file of the tree. shape is the level and number of ranks it
// has to have; that of the root is not known, and is entered.
func readNode(path string, shape []int64) (*hash.Hash, error) {
	node, err := hash.ReadFile(path)
	if err != nil {
		return nil, err
	}
	isRoot := shape[0] < 0
	n, ok := node.Int(keyRanks)
	if !ok || n < 1 || n > maxRanks || !isRoot && n != shape[1] {
		return nil, fmt.Errorf("the list of files is inconsistent: %s is of %q ranks", path, node.Text(keyRanks))
	}
	l, ok := node.Int(keyLevel)
	if !ok || l < 0 || l > maxLevels || !isRoot && l != shape[0] {
		return nil, fmt.Errorf("%s has level %q", path, node.Text(keyLevel))
	}
	for _, r := range node.Get(keyRank).Keys() {
		if i, err := strconv.Atoi(r); err != nil || i < 0 || int64(i) >= n || strconv.Itoa(i) != r {
			return nil, fmt.Errorf("%s lists rank %q of %d", path, r, n)
		}
	}
	shape[0], shape[1] = l, n
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
		meta.FromHash(fields).CopyContent(md)
		meta.FromHash(fields).CopyRecord(md)
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
