package prefix

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/goscr/goscr/hash"
	"github.com/goscr/goscr/internal/dataset"
	"github.com/goscr/goscr/internal/descriptors"
	"github.com/goscr/goscr/internal/meta"
	"github.com/goscr/goscr/internal/prefix/rank2file"
	"github.com/goscr/goscr/internal/redundancy"
)

// A rank's list has its files that are in the prefix directory, with their paths
// relative to that, which can be moved (SCR Developer Guide, "Scavenge"). It is
// written by a process that copies without the other ranks, in the background or
// after the last run, when the rank's files are on their medium. The list of rank 2
// is 2.scrfilemap in the directory that goscr keeps for the dataset:
//
//	DSET / <id> / RANK / <r>
//	RANK / <r> / DSET / <id> / DSETDESC / …
//	                           RANKS = n                       size of the job; ours
//	                           FILES = n
//	                           FILE  / <path> / META / …
const (
	partExtension = ".scrfilemap"

	keyFiles = "FILES"
	keyMeta  = "META"
	keyDesc  = "DSETDESC" // also of flush.scr
)

// Part is one rank's files in the prefix directory.
type Part struct {
	Rank, Ranks int
	Dataset     dataset.Dataset
	Files       []redundancy.File // with their paths in the prefix directory
}

func partPath(prefixDir string, id, rank int) string {
	return filepath.Join(Dir(prefixDir, id), strconv.Itoa(rank)+partExtension)
}

// Enter writes a rank's list once its files, which are on their medium, have their
// names there too.
func (p *Part) Enter(prefixDir string) error {
	if err := syncNames(prefixDir, p.Files); err != nil {
		return err
	}
	return p.Write(prefixDir)
}

// Write replaces a rank's list.
func (p *Part) Write(prefixDir string) error {
	h := hash.New()
	rank, id := strconv.Itoa(p.Rank), strconv.Itoa(p.Dataset.ID())
	h.At(keyDset, id, keyRank, rank)
	entry := h.At(keyRank, rank, keyDset, id)
	entry.Set(keyDesc, p.Dataset.Encode())
	entry.SetInt(keyRanks, int64(p.Ranks))
	entry.SetInt(keyFiles, int64(len(p.Files)))
	for _, f := range p.Files {
		rel, err := filepath.Rel(prefixDir, f.Path)
		if err != nil {
			return err
		}
		entry.At(keyFile, rel).Set(keyMeta, f.Meta.Hash())
	}
	return hash.WriteShared(partPath(prefixDir, p.Dataset.ID(), p.Rank), h)
}

// ReadPart reads the list of a rank. All that is in it has been checked, except
// the files.
func ReadPart(prefixDir string, id, rank int) (*Part, error) {
	path := partPath(prefixDir, id, rank)
	h, err := hash.ReadFile(path)
	if err != nil {
		return nil, err
	}
	p, err := parsePart(h.Get(keyRank, strconv.Itoa(rank), keyDset, strconv.Itoa(id)), prefixDir, Dir(prefixDir, id))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	p.Rank = rank
	if p.Dataset.ID() != id || rank >= p.Ranks {
		return nil, fmt.Errorf("%s: is of dataset %d, of rank %d of %d", path, p.Dataset.ID(), rank, p.Ranks)
	}
	return p, nil
}

func parsePart(h *hash.Hash, prefixDir, dir string) (*Part, error) {
	if h == nil {
		return nil, fmt.Errorf("lists nothing of its rank and dataset")
	}
	p := &Part{Dataset: dataset.Decode(h.Get(keyDesc))}
	ranks, ok := h.Int(keyRanks)
	for _, f := range h.Get(keyFile).All() { // as in lists of others' making
		if ok {
			break
		}
		ranks, ok = f.Get(keyMeta).Int(keyRanks)
	}
	if !ok || ranks < 1 || ranks > rank2file.MaxRanks {
		return nil, fmt.Errorf("of a job of %q ranks", h.Text(keyRanks))
	}
	p.Ranks = int(ranks)
	if err := dataset.CheckName(p.Dataset.Name()); err != nil {
		return nil, err
	}
	if n, ok := h.Int(keyFiles); !ok || n != int64(h.Get(keyFile).Size()) {
		return nil, fmt.Errorf("%q files are said to be in it, %d are", h.Text(keyFiles), h.Get(keyFile).Size())
	}
	for name, fields := range h.Get(keyFile).All() {
		f := redundancy.File{Path: filepath.Join(prefixDir, name), Meta: meta.FromHash(fields.Get(keyMeta))}
		if f.Meta.Type() == meta.Full {
			if err := CheckName(name); err != nil {
				return nil, fmt.Errorf("lists %w", err)
			}
		} else if filepath.Dir(f.Path) != filepath.Clean(dir) || !IsRedundancy(filepath.Base(name)) {
			return nil, fmt.Errorf("lists %q, which is no redundancy file of the dataset", name)
		}
		if f.Meta.Size() < 0 {
			return nil, fmt.Errorf("lists %q without its size", name)
		}
		p.Files = append(p.Files, f)
	}
	return p, nil
}

// PartsOf returns the ranks of which a dataset has a list in the prefix directory.
func PartsOf(prefixDir string, id int) ([]int, error) {
	entries, err := descriptors.ReadDir(Dir(prefixDir, id))
	if err != nil {
		return nil, err
	}
	var ranks []int
	for _, e := range entries {
		if text, ok := strings.CutSuffix(e.Name(), partExtension); ok {
			if rank, err := strconv.Atoi(text); err == nil && rank >= 0 && strconv.Itoa(rank) == text {
				ranks = append(ranks, rank)
			}
		}
	}
	return ranks, nil
}

// Same reports whether two descriptions are of one dataset, and not of two that have
// the same number.
func Same(a, b dataset.Dataset) bool { return a.Same(b) }

// RemovePart removes the list of a rank, if there is one.
func RemovePart(prefixDir string, id, rank int) error {
	err := os.Remove(partPath(prefixDir, id, rank))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}
