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

// A rank's list names the files of the rank that are in the prefix directory. Their
// paths are relative to that directory, since it can be moved (SCR Developer Guide,
// "Scavenge"). The list is written when the rank's files are durable, by a process that
// copies them without communicating with other ranks: in the background, or after the
// last run. The list of rank 2 is 2.scrfilemap in the metadata directory of the dataset:
//
//	DSET / <id> / RANK / <r>
//	RANK / <r> / DSET / <id> / DSETDESC / …
//	                           RANKS = n                       size of the job; not in SCR 3.1
//	                           FILES = n
//	                           FILE  / <path> / META / …
const (
	partExtension = ".scrfilemap"

	keyFiles = "FILES"
	keyMeta  = "META"
	keyDesc  = "DSETDESC" // also of flush.scr
)

// Part is the list of one rank's files in the prefix directory. Ranks is the size of
// the job.
type Part struct {
	Rank, Ranks int
	Dataset     dataset.Dataset
	Files       []redundancy.File // with their paths in the prefix directory
}

func partPath(prefixDir string, id, rank int) string {
	return filepath.Join(Dir(prefixDir, id), strconv.Itoa(rank)+partExtension)
}

// Enter makes the names of a rank's files durable, and then writes the rank's list. The
// caller has made the contents of the files durable.
func (p *Part) Enter(prefixDir string) error {
	if err := syncNames(prefixDir, p.Files); err != nil {
		return err
	}
	return p.Write(prefixDir)
}

// Write writes or replaces a rank's list.
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

// ReadPart reads and checks the list of a rank. It does not check that the files exist.
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
		return nil, fmt.Errorf("%s: belongs to dataset %d, rank %d of %d", path, p.Dataset.ID(), rank, p.Ranks)
	}
	return p, nil
}

// parsePart decodes the hash of a rank's list. dir is the metadata directory of the
// dataset, in which redundancy files must be.
func parsePart(h *hash.Hash, prefixDir, dir string) (*Part, error) {
	if h == nil {
		return nil, fmt.Errorf("has no entry for its rank and dataset")
	}
	p := &Part{Dataset: dataset.Decode(h.Get(keyDesc))}
	ranks, ok := h.Int(keyRanks)
	for _, f := range h.Get(keyFile).All() { // a list that goscr did not write may have it with each file only
		if ok {
			break
		}
		ranks, ok = f.Get(keyMeta).Int(keyRanks)
	}
	if !ok || ranks < 1 || ranks > rank2file.MaxRanks {
		return nil, fmt.Errorf("gives %q as the number of ranks of the job", h.Text(keyRanks))
	}
	p.Ranks = int(ranks)
	if err := dataset.CheckName(p.Dataset.Name()); err != nil {
		return nil, err
	}
	if n, ok := h.Int(keyFiles); !ok || n != int64(h.Get(keyFile).Size()) {
		return nil, fmt.Errorf("gives %q as the number of files, and lists %d", h.Text(keyFiles), h.Get(keyFile).Size())
	}
	for name, fields := range h.Get(keyFile).All() {
		f := redundancy.File{Path: filepath.Join(prefixDir, name), Meta: meta.FromHash(fields.Get(keyMeta))}
		if f.Meta.Type() == meta.Full {
			if err := CheckName(name); err != nil {
				return nil, fmt.Errorf("lists %w", err)
			}
		} else if filepath.Dir(f.Path) != filepath.Clean(dir) || !IsRedundancy(filepath.Base(name)) {
			return nil, fmt.Errorf("lists %q, which is not a redundancy file of the dataset", name)
		}
		if f.Meta.Size() < 0 {
			return nil, fmt.Errorf("lists %q without its size", name)
		}
		p.Files = append(p.Files, f)
	}
	return p, nil
}

// PartsOf returns the ranks whose lists are in the metadata directory of a dataset, in
// no particular order. The error is that of os.ReadDir.
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

// RemovePart removes the list of a rank, if there is one.
func RemovePart(prefixDir string, id, rank int) error {
	err := os.Remove(partPath(prefixDir, id, rank))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}
