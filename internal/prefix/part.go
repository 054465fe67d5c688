package prefix

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/goscr/goscr/hash"
	"github.com/goscr/goscr/internal/node/meta"
	"github.com/goscr/goscr/internal/prefix/dataset"
	"github.com/goscr/goscr/internal/prefix/rank2file"
	"github.com/goscr/goscr/internal/prefix/transfer"
	"github.com/goscr/goscr/internal/redundancy"
	"github.com/goscr/goscr/internal/sys/trust"
)

// A rank's list has its files that are in the prefix directory, with their paths
// relative to that, which can be moved (SCR Developer Guide, "Scavenge"). It is
// written by a process that copies without the other ranks, in the background or
// after the last run, when the rank's files are on their medium. They have temporary
// names then. The list of rank 2 is 2.scrfilemap in the directory that goscr keeps for
// the dataset:
//
//	DSET / <id> / RANK / <r>
//	RANK / <r> / DSET / <id> / DSETDESC / …
//	                           RANKS = n                       size of the job; not in SCR 3.1
//	                           FILES = n
//	                           FILE  / <path> / META / …
//	                                            ASIDE = name   temporary, beside the path; ours
const (
	partExtension = ".scrfilemap"

	keyFiles = "FILES"
	keyMeta  = "META"
	keyAside = "ASIDE"
	keyDesc  = "DSETDESC" // also of flush.scr
)

// Part is the list of one rank's files in the prefix directory. Ranks is the size of
// the job.
type Part struct {
	Rank, Ranks int
	Dataset     dataset.Dataset
	// Files have the paths under which they are in the prefix directory, as the list
	// says: temporary ones. When a flush is being finished some have their own names
	// already; Find says where they are.
	Files []redundancy.File
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
		to, aside := f.Path, f.Meta.Type() == meta.Full && isAside(prefixDir, f)
		if aside {
			to = filepath.Join(prefixDir, f.Meta.File())
		}
		rel, err := filepath.Rel(prefixDir, to)
		if err != nil {
			return err
		}
		e := entry.At(keyFile, rel)
		e.Set(keyMeta, f.Meta.Hash())
		if aside {
			e.SetValue(keyAside, filepath.Base(f.Path))
		}
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
		f := redundancy.File{Path: filepath.Join(prefixDir, name), Meta: meta.FromHash(fields.Get(keyMeta)), Below: trust.Root(prefixDir)}
		if f.Meta.Type() == meta.Full {
			if err := CheckName(name); err != nil {
				return nil, fmt.Errorf("lists %w", err)
			}
			if filepath.Clean(f.Meta.File()) != name {
				return nil, fmt.Errorf("lists %q with the description of %q", name, f.Meta.Label())
			}
			if aside := fields.Text(keyAside); aside != "" {
				if aside != filepath.Base(aside) || !strings.HasPrefix(aside, asideOf(p.Dataset.ID())) {
					return nil, fmt.Errorf("lists %q under the temporary name %q", name, aside)
				}
				f.Path = filepath.Join(filepath.Dir(f.Path), aside)
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

// Find finds out under which names the files of the program are, and checks that they
// are those of the list. A file that has its own name was renamed by a flush that was
// interrupted then, or SCR 3.1 has copied it there: it is read, since a
// file of another dataset may have the same name, size and time.
func (p *Part) Find(prefixDir string) error {
	for i, f := range p.Files {
		if f.Meta.Type() != meta.Full {
			continue // whether it is usable shows when it is used
		}
		found, err := find(prefixDir, f)
		if err != nil {
			return err
		}
		p.Files[i] = found
	}
	return nil
}

// find is Find for one file. One that is counted with another rank is on that rank's list.
func find(prefixDir string, f redundancy.File) (redundancy.File, error) {
	below := trust.Root(prefixDir)
	if f.Meta.Shared() {
		f.Path = filepath.Join(prefixDir, f.Meta.File())
		return f, nil
	}
	if isAside(prefixDir, f) {
		if _, err := below.Lstat(f.Path); !errors.Is(err, fs.ErrNotExist) {
			return f, f.Meta.CheckStored(below, f.Path)
		}
		f.Path = filepath.Join(prefixDir, f.Meta.File())
	}
	if err := f.Meta.CheckStored(below, f.Path); err != nil {
		return f, err
	}
	_, err := reader(prefixDir).Verify(f.Path, f.Meta)
	return f, err
}

// reader returns a Copier that reads files in a prefix directory.
func reader(prefixDir string) *transfer.Copier {
	c := transfer.NewCopier(1 << 20)
	c.Below = trust.Root(prefixDir)
	return c
}

// PartsOf returns the ranks of which a dataset has a list in the prefix directory.
func PartsOf(prefixDir string, id int) ([]int, error) {
	return RanksOf(prefixDir, id, "", partExtension)
}

// RanksOf returns the ranks of which the directory of a dataset has a file whose name is the rank between two texts.
func RanksOf(prefixDir string, id int, before, after string) ([]int, error) {
	entries, err := trust.Root(prefixDir).ReadDir(Dir(prefixDir, id))
	if err != nil {
		return nil, err
	}
	var ranks []int
	for _, e := range entries {
		text := strings.TrimSuffix(strings.TrimPrefix(e.Name(), before), after)
		if rank, err := strconv.Atoi(text); err == nil && rank >= 0 && before+strconv.Itoa(rank)+after == e.Name() {
			ranks = append(ranks, rank)
		}
	}
	return ranks, nil
}

// RemovePart removes the list of a rank, if there is one.
func RemovePart(prefixDir string, id, rank int) error {
	err := trust.Root(prefixDir).Remove(partPath(prefixDir, id, rank))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}
