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
	"github.com/goscr/goscr/internal/node/meta"
	"github.com/goscr/goscr/internal/prefix/dataset"
	"github.com/goscr/goscr/internal/prefix/rank2file"
	"github.com/goscr/goscr/internal/sys/trust"
)

// SCR 1.1 made a directory for each checkpoint in the prefix directory, with all files
// of the checkpoint and their list, and an index (SCR Developer's Manual, "Files"):
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
// goscr reads these files and never writes them. As long as a prefix directory has no
// index of goscr, the checkpoints in the index of SCR 1.1 are used. When the index of
// goscr is made, they are entered in it, with DIR = <dir>. SCR 1.1 can have several
// copies of a checkpoint, with one id. Only the best copy is entered, because goscr's
// index has one entry for each id.
const (
	oldIndexVersion   = 1
	oldSummaryVersion = 5
	oldCurrent        = "scr.current"

	keyCkpt     = "CKPT"
	keyDir      = "DIR"
	keyComplete = "COMPLETE"
	keyRanks    = "RANKS"
	keyRank     = "RANK"
	keyNoFetch  = "NOFETCH"
)

// oldIndex is an index of SCR 1.1.
type oldIndex struct {
	found   bool       // there is one
	best    []oldEntry // the best copy of each checkpoint
	others  []Entry    // all other copies
	current string     // directory to restart from first
}

// oldEntry is an entry as it was stored, with keys of the same meaning as in an index of goscr.
type oldEntry struct {
	Entry
	stored stored
}

// readOldIndex reads the index of SCR 1.1. If there is none, found is false, and the
// error is nil.
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
				copies = append(copies, oldEntry{describeOld(id, dir, fields), hash.As[stored](fields)})
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

// better orders copies of a checkpoint for sorting: usable ones before incomplete ones
// before failed ones, and then the newest first.
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

// describeOld returns the entry of a checkpoint in directory dir. fields is its hash in
// an index or a summary of SCR 1.1.
func describeOld(id int, dir string, fields *hash.Hash) Entry {
	d := dataset.NewOld(id, dir)
	d.SetComplete(oldComplete(fields))
	s := hash.As[stored](fields)
	return Entry{Dataset: d, ID: id, Name: dir, Dir: dir, Flushed: s.Flushed, Complete: oldComplete(fields), Failed: s.Failed != nil}
}

// oldComplete reports whether COMPLETE is set: SCR 1.1 writes it with the value 1, or
// without a value.
func oldComplete(h *hash.Hash) bool {
	return h.Has(keyComplete) && (h.Text(keyComplete) == "1" || h.Get(keyComplete).Size() == 0)
}

// oldSummary is the summary of a checkpoint of SCR 1.1, which has the list of files.
type oldSummary struct {
	path, dir string // of the summary; of the checkpoint, relative to the prefix directory
	id        int
	h         *hash.Hash // below CKPT / <id>
}

// oldSummaryPath returns the path of a summary. It is an error if a link that does not count is on the way to it.
func oldSummaryPath(prefix, dir string) (string, error) {
	if err := CheckName(dir); err != nil {
		return "", err
	}
	link := new(trust.LinkError)
	if err := trust.Root(prefix).IsDir(filepath.Join(prefix, dir)); errors.As(err, &link) {
		return "", err
	}
	return filepath.Join(prefix, dir, summaryFile), nil
}

func readOldSummary(prefix, dir string, id int) (*oldSummary, error) {
	if err := CheckName(dir); err != nil {
		return nil, fmt.Errorf("the index names %w", err)
	}
	path, err := oldSummaryPath(prefix, dir)
	if err != nil {
		return nil, err
	}
	h, err := hash.ReadFile(path)
	if err != nil {
		return nil, err
	}
	s := &oldSummary{path, dir, id, h.Get(keyCkpt, strconv.Itoa(id))}
	switch v, _ := h.Int(keyVersion); {
	case v != oldSummaryVersion:
		return nil, fmt.Errorf("%s has version %q, this version of goscr reads version %d", path, h.Text(keyVersion), oldSummaryVersion)
	case s.h == nil:
		return nil, fmt.Errorf("%s is not the summary of checkpoint %d", path, id)
	case !oldComplete(s.h):
		return nil, fmt.Errorf("%s says that the checkpoint is not complete", path)
	}
	return s, nil
}

// ranks returns how many ranks wrote the checkpoint.
func (s *oldSummary) ranks() (int, error) {
	n, ok := s.h.Int(keyRanks)
	if !ok || n < 1 || n > rank2file.MaxRanks {
		return 0, fmt.Errorf("%s says that %q ranks wrote the checkpoint", s.path, s.h.Text(keyRanks))
	}
	return int(n), nil
}

// dataset returns a description of the checkpoint. It checks all ranks and file names of
// the summary.
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

// entry returns a rank's entry in the form that it has in a rank2file.
func (s *oldSummary) entry(rank string) (*hash.Hash, error) {
	entry := hash.New()
	for name, fields := range s.h.Get(keyRank, rank, keyFile).All() {
		if !filepath.IsLocal(name) {
			return nil, fmt.Errorf("%s lists %q, which is not below its directory", s.path, name)
		}
		if fields.Has(keyNoFetch) { // a redundancy file
			continue
		}
		meta.FromHash(fields).CopyContent(meta.FromHash(entry.At(keyFile, filepath.Join(s.dir, name))))
	}
	return entry, nil
}

// items returns the number of ranks and the entries of all of them.
func (s *oldSummary) items() (ranks int, items []rank2file.Item, err error) {
	if _, err := s.dataset(); err != nil { // checks the ranks that are listed
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

// oldSummaries returns the checkpoints that SCR 1.1 has left, whether its index has them
// or not, and an error for each that cannot be read. Copies of one checkpoint are
// ordered by time, the newest last.
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
	// RepairIndex enters them in this order, and a copy replaces another of the same id.
	slices.SortStableFunc(list, func(a, b Found) int { return a.Flushed.Compare(b.Flushed) })
	return list, bad
}

// OldSummary returns the checkpoint that SCR 1.1 has left in dir, which is relative to
// the prefix directory.
func OldSummary(prefix, dir string) (Found, error) {
	path, err := oldSummaryPath(prefix, dir)
	if err != nil {
		return Found{}, err
	}
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
		return Found{}, fmt.Errorf("%s is the summary of %d checkpoints, want 1", path, len(ids))
	}
	s, err := readOldSummary(prefix, dir, ids[0])
	if err != nil {
		return Found{}, err
	}
	d, err := s.dataset()
	return Found{Dataset: d, Complete: true, Flushed: info.ModTime(), Dir: dir}, err
}
