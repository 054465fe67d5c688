// Package filemap records which files of which rank and dataset are in the cache of
// this node.
//
// The map of a process is a hash:
//
//	RANK / <rank> / DSET / <id>
//	        FILES    = number of files the rank's part of the dataset has
//	        RANKS    = size of the job that wrote it
//	        FILE     / <absolute path> / META / …
//	        DATADESC / …      the dataset, COMPLETE once all ranks have it whole
//	                   PREFIX = prefix directory of the job that wrote it
//	                   CACHE  = directory in which the rank has the directory of the dataset
//	                   WORLD  = 1                  all ranks share this directory
//	        REDDESC  / …      the redundancy descriptor it is protected with
//	DSET / <id> / RANK / <rank>          the same, looked up by dataset
//
// A file is entered, on disk, before it is made, and its entry is removed after the
// file. So every file in the cache has an entry, and an entry may have no file
// (journal.go).
package filemap

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"

	"github.com/goscr/goscr/hash"
	"github.com/goscr/goscr/internal/node/meta"
	"github.com/goscr/goscr/internal/prefix/dataset"
)

const (
	keyRank    = "RANK"
	keyDataset = "DSET"
	keyFile    = "FILE"
	keyFiles   = "FILES"
	keyRanks   = "RANKS"
	keyMeta    = "META"
	keyDesc    = "DATADESC"
	keyReddesc = "REDDESC"
)

// Map lists files. The zero value is an empty map.
type Map struct{ h hash.Hash }

// FromHash returns a map with the contents of h. Entries that name a file by
// anything but an absolute path are dropped.
func FromHash(h *hash.Hash) *Map {
	m := &Map{}
	for rank, ofRank := range h.Get(keyRank).All() {
		for id, part := range ofRank.Get(keyDataset).All() {
			r, err1 := strconv.Atoi(rank)
			d, err2 := strconv.Atoi(id)
			if err1 != nil || err2 != nil || r < 0 || d < 0 {
				continue
			}
			clean := part.Clone()
			for path := range part.Get(keyFile).All() {
				if !filepath.IsAbs(path) {
					clean.Get(keyFile).Unset(path)
				}
			}
			m.part(d, r).Merge(clean)
		}
	}
	return m
}

// Hash returns the contents of the map, not a copy.
func (m *Map) Hash() *hash.Hash { return &m.h }

// part returns the hash of a rank's part of a dataset and makes it if need be.
func (m *Map) part(id, rank int) *hash.Hash {
	i, r := strconv.Itoa(id), strconv.Itoa(rank)
	m.h.At(keyDataset, i, keyRank, r)
	return m.h.At(keyRank, r, keyDataset, i)
}

func (m *Map) find(id, rank int) *hash.Hash {
	return m.h.Get(keyRank, strconv.Itoa(rank), keyDataset, strconv.Itoa(id))
}

// Merge enters all that is in other. Where both describe a rank's dataset, the description
// counts that is complete: a rank that keeps the redundancy descriptor of another one has
// an incomplete description of its dataset, and both ranks may be on one node.
func (m *Map) Merge(other *Map) {
	type part struct{ id, rank int }
	chosen := map[part]Description{}
	for _, id := range other.Datasets() {
		for _, rank := range other.Ranks(id) {
			mine, theirs := m.Dataset(id, rank), other.Dataset(id, rank)
			switch {
			case mine.IsZero() || theirs.IsZero():
			case mine.Complete() && (!theirs.Complete() || mine.Created().After(theirs.Created())):
				chosen[part{id, rank}] = mine
			default:
				chosen[part{id, rank}] = theirs
			}
		}
	}
	m.h.Merge(&other.h)
	for p, d := range chosen {
		m.SetDataset(p.id, p.rank, d)
	}
}

// Datasets returns the ids of all datasets, lowest first.
func (m *Map) Datasets() []int { return m.h.Get(keyDataset).Ints() }

// Ranks returns the ranks that have an entry for a dataset, lowest first.
func (m *Map) Ranks(id int) []int {
	return m.h.Get(keyDataset, strconv.Itoa(id), keyRank).Ints()
}

// AllRanks returns the ranks that have an entry for any dataset, lowest first.
func (m *Map) AllRanks() []int { return m.h.Get(keyRank).Ints() }

// AddFile enters a file with its description.
func (m *Map) AddFile(id, rank int, path string, md meta.Meta) {
	m.part(id, rank).At(keyFile, path).Set(keyMeta, md.Hash())
}

// RemoveFile removes the entry of a file.
func (m *Map) RemoveFile(id, rank int, path string) { m.find(id, rank).UnsetKV(keyFile, path) }

// Files returns the paths of a rank's files of a dataset, sorted.
func (m *Map) Files(id, rank int) []string { return m.find(id, rank).Get(keyFile).Keys() }

// Meta returns the description of a file, the zero one if there is none.
func (m *Map) Meta(id, rank int, path string) meta.Meta {
	return meta.FromHash(m.find(id, rank).Get(keyFile, path, keyMeta))
}

// SetExpected records how many files the rank's part has, redundancy included,
// and the size of the job.
func (m *Map) SetExpected(id, rank, files, jobSize int) {
	p := m.part(id, rank)
	p.SetInt(keyFiles, int64(files))
	p.SetInt(keyRanks, int64(jobSize))
}

// Expected returns the numbers that SetExpected recorded, -1 for an unknown one.
func (m *Map) Expected(id, rank int) (files, jobSize int) {
	number := func(key string) int {
		if n, ok := m.find(id, rank).Int(key); ok {
			return int(n)
		}
		return -1
	}
	return number(keyFiles), number(keyRanks)
}

// Description describes a dataset in a rank's entry. These keys are among those of the dataset.
type Description struct {
	dataset.Dataset
	Prefix string `hash:"PREFIX,omitempty"` // prefix directory of the job that wrote it
	Dir    string `hash:"CACHE,omitempty"`  // directory in which the rank has the directory of the dataset
	World  bool   `hash:"WORLD,omitempty"`  // all ranks share Dir
}

// SamePrefix reports whether two paths lead to one prefix directory, as by a link or a bind
// mount.
func SamePrefix(a, b string) bool {
	if a == b {
		return true
	}
	x, err := os.Stat(a)
	if err != nil {
		return false
	}
	y, err := os.Stat(b)
	return err == nil && os.SameFile(x, y)
}

// UnmarshalHash decodes a description; nil is none.
func (d *Description) UnmarshalHash(h *hash.Hash) {
	*d = Description{}
	hash.Unmarshal(h, d)
	own := h.Clone()
	own.SetFields(Description{}) // without these keys
	d.Dataset = dataset.Decode(own)
}

// MarshalHash encodes a description, nil if it is none.
func (d Description) MarshalHash() *hash.Hash {
	if d.IsZero() {
		return nil
	}
	h := d.Encode()
	h.SetFields(d)
	return h
}

// SetDataset records the description of a dataset.
func (m *Map) SetDataset(id, rank int, d Description) { m.part(id, rank).Set(keyDesc, d.MarshalHash()) }

// Dataset returns the description of a dataset, the zero one if there is none.
func (m *Map) Dataset(id, rank int) (d Description) {
	d.UnmarshalHash(m.find(id, rank).Get(keyDesc))
	return d
}

// SetReddesc records the redundancy descriptor of a rank for a dataset, as
// internal/redundancy/reddesc encodes it.
func (m *Map) SetReddesc(id, rank int, desc *hash.Hash) { m.part(id, rank).Set(keyReddesc, desc) }

// Reddesc returns the redundancy descriptor of a rank for a dataset, nil if
// there is none.
func (m *Map) Reddesc(id, rank int) *hash.Hash { return m.find(id, rank).Get(keyReddesc) }

// RemoveFiles removes the entries of a rank's files of a dataset, and their number.
// The descriptions stay.
func (m *Map) RemoveFiles(id, rank int) {
	part := m.find(id, rank)
	for _, key := range []string{keyFile, keyFiles, keyRanks} {
		part.Unset(key)
	}
}

// RemoveRank removes the entry of a rank's part of a dataset.
func (m *Map) RemoveRank(id, rank int) {
	i, r := strconv.Itoa(id), strconv.Itoa(rank)
	unset(&m.h, keyRank, r, keyDataset, i)
	unset(&m.h, keyDataset, i, keyRank, r)
}

// unset removes the last of four keys, and those above it that become empty.
func unset(h *hash.Hash, a, b, c, d string) {
	h.Get(a, b).UnsetKV(c, d)
	if h.Has(a, b) && h.Get(a, b).Size() == 0 {
		h.UnsetKV(a, b)
	}
}

// Extract removes all entries of a rank from the map and returns them.
func (m *Map) Extract(rank int) *Map {
	out := &Map{}
	for _, id := range m.h.Get(keyRank, strconv.Itoa(rank), keyDataset).Ints() {
		out.part(id, rank).Merge(m.find(id, rank))
		m.RemoveRank(id, rank)
	}
	return out
}

// Check returns nil if all files of a rank's part of a dataset are entered as
// complete, and exist with their recorded size; else the error of the first that
// does not.
func (m *Map) Check(id, rank int) error {
	files, _ := m.Expected(id, rank)
	paths := m.Files(id, rank)
	for _, path := range paths {
		if err := m.Meta(id, rank, path).Check(path); err != nil {
			return err
		}
	}
	if files != len(paths) {
		return fmt.Errorf("%d files are entered, %d were expected", len(paths), files)
	}
	return nil
}

// CheckData is Check for the files of the program alone: redundancy files may be missing
// or have another size. made is how many redundancy files belong to the part, -1 if that
// is not known; then all must be entered.
func (m *Map) CheckData(id, rank, made int) error {
	expected, _ := m.Expected(id, rank)
	entered := len(m.Files(id, rank))
	if made >= 0 {
		expected, entered = expected-made, 0
	}
	for _, path := range m.Files(id, rank) {
		md := m.Meta(id, rank, path)
		if md.Type() != meta.Full {
			continue
		}
		if made >= 0 {
			entered++
		}
		if err := md.Check(path); err != nil {
			return err
		}
	}
	if entered != expected {
		return fmt.Errorf("%d files are entered, %d were expected", entered, expected)
	}
	return nil
}

// Whole reports whether Check finds nothing wrong.
func (m *Map) Whole(id, rank int) bool { return m.Check(id, rank) == nil }
