package scavenge

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/goscr/goscr/internal/prefix"
	"github.com/goscr/goscr/internal/prefix/dataset"
	"github.com/goscr/goscr/internal/redundancy"
	"github.com/goscr/goscr/internal/sys/trust"
)

// scan lists the copied files of a dataset in the prefix directory, like the scan hash of
// SCR Developer Guide, "Scavenge".
type scan struct {
	prefix  string
	id      int
	dir     string // metadata of the dataset
	dataset dataset.Dataset
	ranks   int                  // size of the job
	parts   map[int]*prefix.Part // the lists of the ranks whose files are all there
	bad     []error              // errors about the lists and files of other ranks
	sets    []set
	scr31   bool // scavenged by SCR 3.1
}

// set is the redundancy files of one set of ranks.
type set struct {
	name  string // the part of the file name that all members have in common
	kind  string // xor, partner, rs
	paths []string
}

// read reads the lists of all ranks, and checks which of their files and which
// redundancy files are there. It does not read these files.
func read(prefixDir string, id int) (*scan, error) {
	s := &scan{prefix: prefixDir, id: id, dir: prefix.Dir(prefixDir, id), parts: map[int]*prefix.Part{}}
	all, err := s.lists()
	if err != nil {
		return nil, err
	}
	x, err := prefix.ReadIndex(prefixDir)
	if err != nil {
		return nil, err
	}
	s.choose(all, x)
	for _, p := range all {
		if err := s.inspect(p); err != nil {
			s.bad = append(s.bad, fmt.Errorf("rank %d: %w", p.Rank, err))
		}
	}
	return s, s.findSets()
}

// lists returns the lists of the ranks, which scr_copy of goscr or of SCR 3.1 has written.
func (s *scan) lists() (all []*prefix.Part, err error) {
	ranks, err := prefix.PartsOf(s.prefix, s.id)
	if err == nil && len(ranks) == 0 {
		all, s.bad, err = readSCR(s.prefix, s.id)
		s.scr31 = len(all) > 0 || len(s.bad) > 0
	}
	for _, rank := range ranks {
		p, err := prefix.ReadPart(s.prefix, s.id, rank)
		if err != nil {
			s.bad = append(s.bad, err)
			continue
		}
		all = append(all, p)
	}
	switch {
	case err != nil || len(all) > 0:
		return all, err
	case len(s.bad) > 0:
		return nil, fmt.Errorf("dataset %d: no list of files can be read: %w", s.id, s.bad[0])
	}
	return nil, fmt.Errorf("nothing of dataset %d has been scavenged to %s: run scr_copy on the nodes of the job first", s.id, s.prefix)
}

// choose decides which dataset to build, if there are lists of several with the same id: the
// one in the index, or the newest if none of them is in the index. The index counts first
// because an earlier dataset may have a later time, if the clock was ahead then.
func (s *scan) choose(all []*prefix.Part, x *prefix.Index) {
	for _, p := range all {
		if x.Has(p.Dataset) {
			s.dataset, s.ranks = p.Dataset, p.Ranks
			return
		}
	}
	newest := slices.MaxFunc(all, func(a, b *prefix.Part) int { return a.Dataset.Created().Compare(b.Dataset.Created()) })
	s.dataset, s.ranks = newest.Dataset, newest.Ranks
}

// inspect enters a rank if all its files are there.
func (s *scan) inspect(p *prefix.Part) error {
	if !p.Dataset.Same(s.dataset) || p.Ranks != s.ranks {
		return fmt.Errorf("its list is of another dataset: %s of %v, by %d ranks", p.Dataset.Name(), p.Dataset.Created(), p.Ranks)
	}
	if err := p.Find(s.prefix); err != nil {
		return err
	}
	s.parts[p.Rank] = p
	return nil
}

func (s *scan) whole(rank int) bool { return s.parts[rank] != nil }

// missing returns the number of ranks whose files are not all there.
func (s *scan) missing() int { return s.ranks - len(s.parts) }

// missingRanks returns the numbers of the first of them, for messages.
func (s *scan) missingRanks() string {
	const most = 10
	var names []string
	for r := 0; r < s.ranks && len(names) <= most; r++ {
		if !s.whole(r) {
			names = append(names, fmt.Sprint(r))
		}
	}
	if len(names) > most {
		names[most] = "…"
	}
	return strings.Join(names, ", ")
}

// findSets groups the redundancy files that are there.
func (s *scan) findSets() error {
	entries, err := trust.Root(s.prefix).ReadDir(s.dir)
	if err != nil {
		return err
	}
	index := map[string]int{}
	for _, e := range entries {
		fields := prefix.RedundancyName().FindStringSubmatch(e.Name())
		if fields == nil {
			continue
		}
		_, name, _ := strings.Cut(e.Name(), "_")
		i, ok := index[name]
		if !ok {
			i = len(s.sets)
			index[name] = i
			s.sets = append(s.sets, set{name: name, kind: fields[4]})
		}
		s.sets[i].paths = append(s.sets[i].paths, filepath.Join(s.dir, e.Name()))
	}
	return nil
}

// own returns the files of a rank that the program wrote.
func (s *scan) own(rank int) []redundancy.File {
	p := s.parts[rank]
	if p == nil {
		return nil
	}
	own, _ := redundancy.Split(p.Files)
	return own
}

// Find returns the id of the newest dataset called name that has been scavenged, 0 if there
// is none.
func Find(prefixDir, name string) (int, error) {
	ids, err := prefix.IDs(prefixDir)
	if err != nil {
		return 0, err
	}
	slices.Reverse(ids)
	for _, id := range ids {
		ranks, err := prefix.PartsOf(prefixDir, id)
		if err != nil {
			continue
		}
		for _, rank := range ranks {
			if p, err := prefix.ReadPart(prefixDir, id, rank); err == nil && p.Dataset.Name() == name {
				return id, nil
			}
		}
	}
	return 0, nil
}
