// Package scavenge brings datasets from the caches of nodes to the prefix
// directory when no job is running any more: the last thing done in an
// allocation (spec 002; spec 000 §8, §11.10).
//
// It is done in two steps, by commands that know nothing of MPI. On every node
// that is left, Copy copies what its ranks have of a dataset, and what redundancy
// they keep for others, and writes a list of it for each rank. Then, anywhere,
// Build reads the lists; rebuilds the files of ranks of which there is none; and
// enters the dataset in the index.
//
//	part.go     the list of one rank, on disk
//	copy.go     from a node to the prefix directory
//	scan.go     what has come there, and what is missing
//	rebuild.go  sets of ranks some of whose files are missing
//	build.go    from the lists to a dataset that can be used
//
// Whatever is killed can be run again, and whatever is run again does no harm: a
// file of the program gets its name once all of it is on the medium, a rank its
// list once all its files have come, and the dataset is usable once all ranks
// have theirs.
package scavenge

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"

	"github.com/goscr/goscr/hash"
	"github.com/goscr/goscr/internal/dataset"
	"github.com/goscr/goscr/internal/prefix"
	"github.com/goscr/goscr/internal/redundancy"
	"github.com/goscr/goscr/meta"
)

// A rank filemap lists the files of one rank that have come, with their paths
// relative to the prefix directory, which can be moved (spec 002). That of rank
// 2 is 2.scrfilemap in the directory that goscr keeps for the dataset:
//
//	DSET / <id> / RANK / <r>
//	RANK / <r> / DSET / <id> / DSETDESC / …
//	                           RANKS = n                       size of the job; ours
//	                           FILES = n
//	                           FILE  / <path> / META / …
const (
	extension = ".scrfilemap"

	keyRank    = "RANK"
	keyRanks   = "RANKS"
	keyDataset = "DSET"
	keyDesc    = "DSETDESC"
	keyFiles   = "FILES"
	keyFile    = "FILE"
	keyMeta    = "META"

	maxRanks = 1 << 31
)

// part is what has come of one rank's files.
type part struct {
	rank, ranks int
	dataset     dataset.Dataset
	files       []redundancy.File // with their paths in the prefix directory
}

func partPath(dir string, rank int) string { return filepath.Join(dir, strconv.Itoa(rank)+extension) }

// enter writes a rank's list once its files, which are on their medium, have their
// names there too.
func (p *part) enter(dir, prefixDir string) error {
	synced := map[string]bool{}
	for _, f := range p.files {
		for d := filepath.Dir(f.Path); !synced[d]; d = filepath.Dir(d) { // some may be new
			if err := hash.SyncDir(d); err != nil && !errors.Is(err, fs.ErrPermission) { // may be searched, not read
				return err
			}
			synced[d] = true
			if d == prefixDir || d == "/" {
				break
			}
		}
	}
	return p.write(dir, prefixDir)
}

// write replaces a rank's list in the directory of its dataset.
func (p *part) write(dir, prefixDir string) error {
	h := hash.New()
	rank, id := strconv.Itoa(p.rank), strconv.Itoa(p.dataset.ID())
	h.At(keyDataset, id, keyRank, rank)
	entry := h.At(keyRank, rank, keyDataset, id)
	entry.Set(keyDesc, p.dataset.Hash)
	entry.SetInt(keyRanks, int64(p.ranks))
	entry.SetInt(keyFiles, int64(len(p.files)))
	for _, f := range p.files {
		rel, err := filepath.Rel(prefixDir, f.Path)
		if err != nil {
			return err
		}
		entry.At(keyFile, rel).Set(keyMeta, f.Meta.Hash)
	}
	return hash.WriteShared(partPath(dir, p.rank), h)
}

// readPart reads the list of a rank. All that is in it has been checked, except
// the files.
func readPart(prefixDir string, id, rank int) (*part, error) {
	dir := prefix.Dir(prefixDir, id)
	path := partPath(dir, rank)
	h, err := hash.ReadFile(path)
	if err != nil {
		return nil, err
	}
	p, err := parsePart(h.Get(keyRank, strconv.Itoa(rank), keyDataset, strconv.Itoa(id)), prefixDir, dir)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	p.rank = rank
	if p.dataset.ID() != id || rank >= p.ranks {
		return nil, fmt.Errorf("%s: is of dataset %d, of rank %d of %d", path, p.dataset.ID(), rank, p.ranks)
	}
	return p, nil
}

func parsePart(h *hash.Hash, prefixDir, dir string) (*part, error) {
	if h == nil {
		return nil, fmt.Errorf("lists nothing of its rank and dataset")
	}
	p := &part{dataset: dataset.Dataset{Hash: h.Get(keyDesc)}}
	ranks, ok := h.Int(keyRanks)
	for _, f := range h.Get(keyFile).All() { // as in lists of others' making
		if ok {
			break
		}
		ranks, ok = f.Get(keyMeta).Int(keyRanks)
	}
	if !ok || ranks < 1 || ranks > maxRanks {
		return nil, fmt.Errorf("of a job of %q ranks", h.Text(keyRanks))
	}
	p.ranks = int(ranks)
	if err := dataset.CheckName(p.dataset.Name()); err != nil {
		return nil, err
	}
	if n, ok := h.Int(keyFiles); !ok || n != int64(h.Get(keyFile).Size()) {
		return nil, fmt.Errorf("%q files are said to be in it, %d are", h.Text(keyFiles), h.Get(keyFile).Size())
	}
	for name, fields := range h.Get(keyFile).All() {
		f := redundancy.File{Path: filepath.Join(prefixDir, name), Meta: meta.Meta{Hash: fields.Get(keyMeta)}}
		if f.Meta.Type() == meta.Full {
			if err := prefix.CheckName(name); err != nil {
				return nil, fmt.Errorf("lists %w", err)
			}
		} else if filepath.Dir(f.Path) != filepath.Clean(dir) || !isRedundancy(filepath.Base(name)) {
			return nil, fmt.Errorf("lists %q, which is no redundancy file of the dataset", name)
		}
		if f.Meta.Size() < 0 {
			return nil, fmt.Errorf("lists %q without its size", name)
		}
		p.files = append(p.files, f)
	}
	return p, nil
}

// redundancyName is how redundancy files are called: the member, counted from 1,
// the size of the set, the lowest rank in it, and the scheme.
var redundancyName = regexp.MustCompile(`^([0-9]{1,9})_of_([0-9]{1,9})_in_([0-9]{1,9})\.(xor|partner|rs)$`)

func isRedundancy(name string) bool { return redundancyName.MatchString(name) }

// parts returns the ranks that have a list in the directory of a dataset.
func parts(dir string) ([]int, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	var ranks []int
	for _, e := range entries {
		if text, ok := strings.CutSuffix(e.Name(), extension); ok {
			if rank, err := strconv.Atoi(text); err == nil && rank >= 0 && strconv.Itoa(rank) == text {
				ranks = append(ranks, rank)
			}
		}
	}
	return ranks, nil
}
