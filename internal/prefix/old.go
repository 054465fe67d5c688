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
	"github.com/goscr/goscr/mpi"
)

// SCR 1.1 kept a directory for each checkpoint, with all its files and their
// list in it, and the index beside these (spec 000 §9.1, §9.2):
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
// the checkpoints of this one count; when one is begun it takes them up, with
// DIR = <dir> in their entries. Of several with one id it takes the best, since
// ours has room for just one.
const (
	oldIndexVersion   = 1
	oldSummaryVersion = 5
	oldCurrent        = "scr.current"

	keyDir     = "DIR"
	keyNoFetch = "NOFETCH"
)

// takeOld enters the checkpoints that SCR 1.1 left.
func (x *Index) takeOld(prefix string) error {
	path := filepath.Join(prefix, indexFile)
	h, err := hash.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("index of SCR 1.1: %w", err)
	}
	if v, ok := h.Int(keyVersion); !ok || v != oldIndexVersion {
		return fmt.Errorf("%s has version %q, this version of goscr reads version %d", path, h.Text(keyVersion), oldIndexVersion)
	}
	for _, id := range h.Get(keyCkpt).Ints() {
		var copies []Entry
		for dir, fields := range h.Get(keyCkpt, strconv.Itoa(id), keyDir).All() {
			if checkName(dir) == nil {
				copies = append(copies, oldEntry(id, dir, fields))
			}
		}
		slices.SortStableFunc(copies, better)
		for i, e := range copies {
			if i == 0 {
				x.enterOld(e, h.Get(keyCkpt, strconv.Itoa(id), keyDir, e.Dir))
			} else {
				x.shadow = append(x.shadow, e)
			}
		}
	}
	if link, err := os.Readlink(filepath.Join(prefix, oldCurrent)); err == nil {
		if _, ok := x.Lookup(filepath.Base(link)); ok {
			x.h.SetValue(keyCurrent, filepath.Base(link))
		}
	}
	x.h.SetInt(keyVersion, indexVersion)
	return nil
}

// better orders copies of a checkpoint: usable before others, then newer.
func better(a, b Entry) int {
	rank := func(e Entry) int {
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

func oldEntry(id int, dir string, fields *hash.Hash) Entry {
	d := dataset.Dataset{Hash: hash.New()}
	d.SetInt("ID", int64(id))
	d.SetValue("NAME", dir)
	d.SetInt(keyCkpt, int64(id))
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

func (x *Index) enterOld(e Entry, fields *hash.Hash) {
	x.h.At(keyName, e.Name).SetInt(keyDset, int64(e.ID))
	to := x.at(e.ID)
	to.Set(keyDset, e.Hash)
	to.SetValue(keyDir, e.Dir)
	to.SetValue(keyComplete, map[bool]string{true: "1", false: "0"}[e.Complete])
	for _, key := range []string{keyFlushed, keyFetched, keyFailed} {
		if from := fields.Get(key); from != nil {
			to.Set(key, from.Clone())
		}
	}
}

// oldSummary is the list of files of a checkpoint of SCR 1.1.
type oldSummary struct {
	path, dir string
	id        int
	h         *hash.Hash // below CKPT, id
}

func readOldSummary(prefix, dir string, id int) (*oldSummary, error) {
	if err := checkName(dir); err != nil {
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
	if !ok || n < 1 || n > maxRanks {
		return 0, fmt.Errorf("%s says that %q ranks wrote the checkpoint", s.path, s.h.Text(keyRanks))
	}
	return int(n), nil
}

// dataset describes the checkpoint.
func (s *oldSummary) dataset() (dataset.Dataset, error) {
	d := oldEntry(s.id, s.dir, s.h).Dataset
	d.SetValue(keyDir, s.dir)
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

// old finds the list of files of a checkpoint, if SCR 1.1 wrote it. The list is on
// rank 0. It is collective; the result is agreed.
func (p *Prefix) old(id int) (s *oldSummary, isOld bool, err error) {
	found := []int64{0}
	err = p.onRoot(func() error {
		x, err := ReadIndex(p.Dir)
		if err != nil || x.entry(id).Dir == "" {
			return err
		}
		found[0] = 1
		s, err = readOldSummary(p.Dir, x.entry(id).Dir, id)
		return err
	})
	if err != nil {
		return nil, false, err
	}
	err = p.Comm.Allreduce(found, mpi.Max)
	return s, found[0] == 1, err
}

// deal gives the entries of ranks to those who handle them. s is nil except on
// rank 0. It is collective; the result is agreed.
func (s *oldSummary) deal(c mpi.Comm) (int, []item, error) {
	entries := hash.New()
	size := []int64{0}
	var err error
	if s != nil {
		_, err = s.dataset() // looks at everything
		for _, rank := range s.h.Get(keyRank).Keys() {
			if err == nil {
				var entry *hash.Hash
				entry, err = s.entry(rank)
				entries.Set(rank, entry)
			}
		}
		n, _ := s.ranks()
		size[0] = int64(n)
	}
	if err := mpi.Agree(c, err); err != nil {
		return 0, nil, err
	}
	if err := c.Allreduce(size, mpi.Max); err != nil {
		return 0, nil, err
	}
	items, err := gatherItems(c, int(size[0]), entries)
	return int(size[0]), items, mpi.Agree(c, err)
}
