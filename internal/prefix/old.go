package prefix

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"

	"github.com/goscr/goscr/hash"
	"github.com/goscr/goscr/internal/dataset"
	"github.com/goscr/goscr/internal/meta"
	"github.com/goscr/goscr/internal/prefix/rank2file"
)

// SCR 1.1 kept a directory for each checkpoint, with all its files and their
// list in it, and the index beside these (SCR Developer's Manual, "Files"):
//
//	index.scr          VERSION = 1
//	                   DIR  / <dir> / CKPT = <id>
//	                   CKPT / <id> / DIR / <dir> / COMPLETE, FLUSHED, FETCHED, FAILED
//	<dir>/summary.scr  VERSION = 5
//	                   CKPT / <id> / COMPLETE
//	                                 RANKS = n
//	                                 RANK / <r> / FILE / <name below dir> / SIZE, CRC, NOFETCH
//	scr.current        symbolic link to the directory to restart from first
//
// It is read, never written: as long as a prefix directory has no index of ours,
// the checkpoints of this one count; when one is begun it takes them over, with
// DIR = <dir> in their entries. Of several with one id it takes the best, since
// ours has room for just one.
const (
	oldIndexVersion   = 1
	oldSummaryVersion = 5
	oldCurrent        = "scr.current"

	keyCkpt    = "CKPT"
	keyRanks   = "RANKS"
	keyRank    = "RANK"
	keyNoFetch = "NOFETCH"
)

// oldIndex is what an index of SCR 1.1 says.
type oldIndex struct {
	found   bool
	best    []oldEntry // one for each id
	others  []Entry    // further copies of these
	current string     // directory to restart from first
}

// oldEntry is an entry with its fields, which have the same meaning in our index.
type oldEntry struct {
	Entry
	fields *hash.Hash
}

// readOldIndex reads the index that SCR 1.1 left, if it left one.
func readOldIndex(prefix string) (x oldIndex, err error) {
	path := filepath.Join(prefix, indexFile)
	h, err := hash.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return x, nil
	}
	if err != nil {
		return x, fmt.Errorf("index of SCR 1.1: %w", err)
	}
	if v, ok := h.Int(keyVersion); !ok || v != oldIndexVersion {
		return x, fmt.Errorf("%s has version %q, this version of goscr reads version %d", path, h.Text(keyVersion), oldIndexVersion)
	}
	x.found = true
	for _, id := range h.Get(keyCkpt).Ints() {
		var copies []oldEntry
		for dir, fields := range h.GetKVInt(keyCkpt, id).Get(keyDir).All() {
			if CheckName(dir) == nil {
				copies = append(copies, oldEntry{describeOld(id, dir, fields), fields})
			}
		}
		slices.SortStableFunc(copies, better)
		for i, e := range copies {
			if i == 0 {
				x.best = append(x.best, e)
			} else {
				x.others = append(x.others, e.Entry)
			}
		}
	}
	if link, err := os.Readlink(filepath.Join(prefix, oldCurrent)); err == nil {
		x.current = filepath.Base(link)
	}
	return x, nil
}

// better orders copies of a checkpoint: usable before others, then newer.
func better(a, b oldEntry) int {
	rank := func(e oldEntry) int {
		switch {
		case e.Failed:
			return 2
		case !e.Complete:
			return 1
		}
		return 0
	}
	return cmp.Or(cmp.Compare(rank(a), rank(b)), -cmp.Compare(a.Flushed, b.Flushed), -cmp.Compare(a.Dir, b.Dir))
}

// describeOld is the entry of a checkpoint with the fields that SCR 1.1 has for it.
func describeOld(id int, dir string, fields *hash.Hash) Entry {
	d := dataset.NewOld(id, dir)
	d.SetComplete(oldComplete(fields))
	return Entry{
		Dataset: d, ID: id, Name: dir, Dir: dir, Flushed: fields.Text(keyFlushed),
		Complete: oldComplete(fields), Failed: fields.Has(keyFailed),
	}
}

// oldComplete reads a flag that is there with the value 1, or with none.
func oldComplete(h *hash.Hash) bool {
	return h.Has(keyComplete) && (h.Text(keyComplete) == "1" || h.Get(keyComplete).Size() == 0)
}

// oldSummary is the list of files of a checkpoint of SCR 1.1.
type oldSummary struct {
	path, dir string
	id        int
	h         *hash.Hash // below CKPT, id
}

func readOldSummary(prefix, dir string, id int) (*oldSummary, error) {
	if err := CheckName(dir); err != nil {
		return nil, fmt.Errorf("the index names %w", err)
	}
	path := filepath.Join(prefix, dir, summaryFile)
	h, err := hash.ReadFile(path)
	if err != nil {
		return nil, err
	}
	s := &oldSummary{path, dir, id, h.Get(keyCkpt, strconv.Itoa(id))}
	switch v, _ := h.Int(keyVersion); {
	case v != oldSummaryVersion:
		return nil, fmt.Errorf("%s has version %q, this version of goscr reads version %d", path, h.Text(keyVersion), oldSummaryVersion)
	case s.h == nil:
		return nil, fmt.Errorf("%s is not that of checkpoint %d", path, id)
	case !oldComplete(s.h):
		return nil, fmt.Errorf("%s says that the checkpoint is not complete", path)
	}
	return s, nil
}

// ranks is how many ranks wrote the checkpoint.
func (s *oldSummary) ranks() (int, error) {
	n, ok := s.h.Int(keyRanks)
	if !ok || n < 1 || n > rank2file.MaxRanks {
		return 0, fmt.Errorf("%s says that %q ranks wrote the checkpoint", s.path, s.h.Text(keyRanks))
	}
	return int(n), nil
}

// dataset describes the checkpoint.
func (s *oldSummary) dataset() (dataset.Dataset, error) {
	d := describeOld(s.id, s.dir, s.h).Dataset
	ranks, err := s.ranks()
	if err != nil {
		return d, err
	}
	var files, bytes int64
	for _, rank := range s.h.Get(keyRank).Keys() {
		if n, err := strconv.Atoi(rank); err != nil || n < 0 || n >= ranks {
			return d, fmt.Errorf("%s lists rank %q of %d", s.path, rank, ranks)
		}
		entry, err := s.entry(rank)
		if err != nil {
			return d, err
		}
		for _, fields := range entry.Get(keyFile).All() {
			size, _ := fields.Int(keySize)
			files, bytes = files+1, bytes+max(size, 0)
		}
	}
	d.SetTotals(files, bytes)
	return d, nil
}

// entry is a rank's entry as in a rank2file.
func (s *oldSummary) entry(rank string) (*hash.Hash, error) {
	entry := hash.New()
	for name, fields := range s.h.Get(keyRank, rank, keyFile).All() {
		if !filepath.IsLocal(name) {
			return nil, fmt.Errorf("%s lists %q, which is not below its directory", s.path, name)
		}
		if fields.Has(keyNoFetch) { // redundancy
			continue
		}
		meta.FromHash(fields).CopyContent(meta.FromHash(entry.At(keyFile, filepath.Join(s.dir, name))))
	}
	return entry, nil
}

// items are the entries of all ranks.
func (s *oldSummary) items() (ranks int, items []rank2file.Item, err error) {
	if _, err := s.dataset(); err != nil { // looks at everything
		return 0, nil, err
	}
	ranks, err = s.ranks()
	for _, rank := range s.h.Get(keyRank).Ints() {
		if err == nil {
			var entry *hash.Hash
			entry, err = s.entry(strconv.Itoa(rank))
			items = append(items, rank2file.Item{Rank: rank, Entry: entry})
		}
	}
	return ranks, items, err
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
	if err := CheckName(dir); err != nil {
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
	return Found{Dataset: d, Complete: true, Flushed: info.ModTime(), Dir: dir}, err
}
