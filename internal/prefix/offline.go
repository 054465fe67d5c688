package prefix

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/goscr/goscr/hash"
	"github.com/goscr/goscr/internal/dataset"
	"github.com/goscr/goscr/internal/redundancy"
)

// Dir is the directory with what goscr itself keeps about a dataset.
func Dir(prefix string, id int) string { return datasetPath(prefix, id, "") }

// CheckName says what is wrong with the name of a file that was read from disk:
// it has to lead to somewhere below the prefix directory that is not goscr's.
func CheckName(name string) error { return checkName(name) }

// Announce enters a dataset in the index as incomplete, before its first byte
// arrives, unless it is there: a dataset of its name, whose files are
// overwritten, is not used any more.
func Announce(prefix string, d dataset.Dataset) error {
	x, err := ReadIndex(prefix)
	if err != nil || x.Has(d) {
		return err
	}
	return UpdateIndex(prefix, func(x *Index) error {
		if x.Has(d) {
			return nil
		}
		if err := x.claim(prefix, d, false); err != nil {
			return err
		}
		// Of an earlier dataset with this number nothing may be left. The lock
		// makes sure that nothing of this one is there yet.
		if err := os.RemoveAll(Dir(prefix, d.ID())); err != nil {
			return err
		}
		x.Add(d, false, time.Now())
		return os.MkdirAll(Dir(prefix, d.ID()), 0o777)
	})
}

// Incomplete records that a dataset, of which something is in the prefix
// directory, cannot be used.
func Incomplete(prefix string, d dataset.Dataset) error {
	return UpdateIndex(prefix, func(x *Index) error {
		if err := x.claim(prefix, d, false); err != nil {
			return err
		}
		if !x.Has(d) {
			x.Add(d, false, time.Now())
		}
		e := x.at(d.ID())
		e.SetValue(keyComplete, "0")
		e.Unset(keyCompressed)
		return nil
	})
}

// Add enters a dataset that is complete in the prefix directory, and does not
// change which one is current.
func Add(prefix string, f Found) error {
	return UpdateIndex(prefix, func(x *Index) error { x.addFound(f); return nil })
}

func (x *Index) addFound(f Found) {
	x.Add(f.Dataset, f.Complete, f.Flushed)
	if dir := f.Text(keyDir); dir != "" {
		x.at(f.ID()).SetValue(keyDir, dir)
	}
}

// Enter enters a dataset that is complete in the prefix directory.
func Enter(prefix string, f Found) error { return conclude(prefix, f.Dataset) }

// Complete reports whether a dataset, and not another of its id, is complete in
// the prefix directory.
func Complete(prefix string, d dataset.Dataset) (bool, error) {
	x, err := ReadIndex(prefix)
	if err != nil {
		return false, err
	}
	return x.Has(d) && x.entry(d.ID()).Complete, nil
}

// Publish records a dataset all of whose files are in the prefix directory: the
// list of files, the summary, and the entry in the index. A checkpoint becomes
// the one to restart from, unless a newer one is.
func Publish(prefix string, d dataset.Dataset, ranks int, files func(rank int) []redundancy.File) error {
	if err := claimed(prefix, d); err != nil {
		return err
	}
	dir := Dir(prefix, d.ID())
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return err
	}
	packed := int64(0)
	err := writeTree(dir, ranks, func(rank int) *hash.Hash {
		entries := Parts{rank: files(rank)}.entries(false)
		packed += compressed(entries)
		return entries.At(strconv.Itoa(rank))
	})
	if err != nil {
		return err
	}
	d = dataset.Dataset{Hash: d.Clone()}
	d.SetCompressed(packed > 0)
	return conclude(prefix, d)
}

// writeTree is writeRank2file where one process has the entries of all ranks.
func writeTree(dir string, ranks int, entry func(rank int) *hash.Hash) error {
	type leaf struct {
		rank  int
		entry *hash.Hash
	}
	next := func(yield func(leaf) bool) {
		for r := range ranks {
			if !yield(leaf{r, entry(r)}) {
				return
			}
		}
	}
	for level := 0; ; level++ {
		var writers []leaf
		var node *hash.Hash
		var before int64
		write := func(root bool) error {
			name := rank2file
			if !root {
				name += suffix(level, writers[len(writers)-1].rank)
			}
			return hash.WriteShared(filepath.Join(dir, name), node)
		}
		var err error
		for l := range next {
			size := int64(l.entry.PackSize())
			if node == nil || begins(before, size) {
				if node != nil {
					if err = write(false); err != nil {
						return err
					}
				}
				up := hash.New()
				up.SetValue(keyFile, suffix(level, l.rank))
				up.SetInt(keyOffset, 0)
				writers = append(writers, leaf{l.rank, up})
				node = hash.New()
				node.SetInt(keyRanks, int64(ranks))
				node.SetInt(keyLevel, int64(level))
			}
			before += size
			node.At(keyRank).Set(strconv.Itoa(l.rank), l.entry)
		}
		root := level > 0 && len(writers) == 1
		if err := write(root); err != nil || root {
			return err
		}
		next = func(yield func(leaf) bool) {
			for _, w := range writers {
				if !yield(w) {
					return
				}
			}
		}
	}
}

// Walk calls visit with the files of every rank that has some, with their paths
// in the prefix directory.
func Walk(prefix string, e Entry, visit func(rank int, files []redundancy.File) error) error {
	if e.Dir != "" {
		return walkOld(prefix, e, visit)
	}
	if _, err := readSummary(prefix, e.ID); err != nil {
		return err
	}
	dir := Dir(prefix, e.ID)
	return walkNode(prefix, dir, rank2file, []int64{-1, -1}, visit)
}

// walkNode visits what is below a node. shape is the level and number of ranks it
// has to have, or -1 each for the root.
func walkNode(prefix, dir, file string, shape []int64, visit func(int, []redundancy.File) error) error {
	node, err := readNode(filepath.Join(dir, file), shape)
	if err != nil {
		return err
	}
	for _, rank := range node.Get(keyRank).Ints() {
		entry := node.GetKVInt(keyRank, rank)
		if shape[0] == 0 {
			files, err := filesOf(entry, prefix, int(shape[1]))
			if err == nil {
				err = visit(rank, files)
			}
			if err != nil {
				return err
			}
			continue
		}
		name, err := childOf(dir, entry)
		if err == nil {
			err = walkNode(prefix, dir, name, []int64{shape[0] - 1, shape[1]}, visit)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func walkOld(prefix string, e Entry, visit func(int, []redundancy.File) error) error {
	s, err := readOldSummary(prefix, e.Dir, e.ID)
	if err != nil {
		return err
	}
	ranks, err := s.ranks()
	if err != nil {
		return err
	}
	if _, err := s.dataset(); err != nil {
		return err
	}
	for _, rank := range s.h.Get(keyRank).Ints() {
		entry, err := s.entry(strconv.Itoa(rank))
		if err != nil {
			return err
		}
		files, err := filesOf(entry, prefix, ranks)
		if err == nil {
			err = visit(rank, files)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// Found is a dataset that is in the prefix directory whatever the index says.
type Found struct {
	dataset.Dataset
	Complete bool
	Flushed  time.Time // when its summary was written
}

// IDs returns the numbers of all datasets that goscr keeps anything about in the
// prefix directory, lowest first.
func IDs(prefix string) []int {
	entries, _ := os.ReadDir(filepath.Join(prefix, Metadata)) // none is there if it cannot be read
	ids := hash.New()                                         // sorts numbers
	for _, e := range entries {
		if id, ok := strings.CutPrefix(e.Name(), "scr.dataset."); ok {
			ids.Set(id, nil)
		}
	}
	return ids.Ints()
}

// Summaries returns all datasets that have a summary, lowest id first, and what
// is wrong with those that cannot be read.
func Summaries(prefix string) (list []Found, bad []error) {
	for _, id := range IDs(prefix) {
		f, err := Summary(prefix, id)
		switch {
		case errors.Is(err, fs.ErrNotExist): // it has not come to one
		case err != nil:
			bad = append(bad, err)
		default:
			list = append(list, f)
		}
	}
	return list, bad
}

// Summary reads the summary of one dataset.
func Summary(prefix string, id int) (Found, error) {
	path := datasetPath(prefix, id, summaryFile)
	info, err := os.Lstat(path)
	if err != nil {
		return Found{}, err
	}
	h, err := hash.ReadFile(path)
	if err != nil {
		return Found{}, err
	}
	d := dataset.Dataset{Hash: h.Get(keyDset)}
	if d.ID() != id || dataset.CheckName(d.Name()) != nil {
		return Found{}, fmt.Errorf("%s is that of dataset %d, %q", path, d.ID(), d.Name())
	}
	v, _ := h.Int(keyVersion)
	return Found{d, v == summaryVersion && isComplete(h), info.ModTime()}, nil
}

// Repaired is what RepairIndex has done.
type Repaired struct {
	Done  bool    // not, if the index can be read
	Aside string  // where what could not be read is now, "" if there was nothing
	List  []Found // what is in the new index
	Bad   []error // what it could not use
}

// RepairIndex makes a new index from the summaries of the datasets that are
// there, in place of one that cannot be read, which is kept beside it. An index
// that can be read is left alone.
func RepairIndex(prefix string) (Repaired, error) {
	if err := os.MkdirAll(filepath.Join(prefix, Metadata), 0o777); err != nil {
		return Repaired{}, err
	}
	path := metadataPath(prefix, indexFile)
	var r Repaired
	done, kept, err := hash.Mend(path, path+".damaged", func(h *hash.Hash) error {
		r.List, r.Bad = Summaries(prefix)
		x, err := newIndex(h, prefix)
		if err != nil { // that of SCR 1.1 is damaged, too
			old, bad := oldSummaries(prefix)
			r.List, r.Bad = append(r.List, old...), append(append(r.Bad, err), bad...)
			x = &Index{h: h}
		}
		for _, f := range r.List {
			x.addFound(f)
		}
		h.SetInt(keyVersion, indexVersion)
		return nil
	})
	r.Done = done
	if kept {
		r.Aside = path + ".damaged"
	}
	return r, err
}

// oldSummaries returns the checkpoints that SCR 1.1 has left, whatever its index
// says, and what is wrong with those that cannot be read.
func oldSummaries(prefix string) (list []Found, bad []error) {
	entries, err := os.ReadDir(prefix)
	if err != nil {
		return nil, []error{err}
	}
	for _, e := range entries {
		f, err := OldSummary(prefix, e.Name())
		switch {
		case err == nil:
			list = append(list, f)
		case e.IsDir() && e.Name() != Metadata && !errors.Is(err, fs.ErrNotExist):
			bad = append(bad, err)
		}
	}
	// Of several copies of one checkpoint the newest comes last, and stays.
	slices.SortStableFunc(list, func(a, b Found) int { return a.Flushed.Compare(b.Flushed) })
	return list, bad
}

// OldSummary returns the checkpoint that SCR 1.1 has left in a directory below
// the prefix directory.
func OldSummary(prefix, dir string) (Found, error) {
	if err := checkName(dir); err != nil {
		return Found{}, err
	}
	path := filepath.Join(prefix, dir, summaryFile)
	h, err := hash.ReadFile(path)
	if err != nil {
		return Found{}, err
	}
	info, err := os.Lstat(path)
	if err != nil {
		return Found{}, err
	}
	ids := h.Get(keyCkpt).Ints()
	if len(ids) != 1 {
		return Found{}, fmt.Errorf("%s is that of %d checkpoints", path, len(ids))
	}
	s, err := readOldSummary(prefix, dir, ids[0])
	if err != nil {
		return Found{}, err
	}
	d, err := s.dataset()
	return Found{d, true, info.ModTime()}, err
}
