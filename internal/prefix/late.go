package prefix

import (
	"fmt"
	"path/filepath"

	"github.com/goscr/goscr/hash"
	"github.com/goscr/goscr/internal/prefix/dataset"
	"github.com/goscr/goscr/internal/prefix/rank2file"
	"github.com/goscr/goscr/internal/redundancy"
	"github.com/goscr/goscr/internal/sys/trust"
	"github.com/goscr/goscr/mpi"
)

// A dataset is late if it is completed after a newer one that has its name, or files of the
// same names: its flush has failed once, it was scavenged, or it was still being copied.
// It is then given what it would have if both had been completed in their order: those of its
// files that no newer dataset owns. It is recorded as replaced, with a list of these files.

// later is what newer datasets own of a late one.
type later struct {
	by    string          // the newest of them; "" if the dataset is not late
	names map[string]bool // those of the caller's names that they own, without links
}

// after returns the datasets newer than d that own paths, or whose flush has only to be
// finished, so that they are about to.
func (x *Index) after(d dataset.Dataset) (list []Entry) {
	for _, e := range x.own() {
		if e.ID > d.ID() && (e.owns() || e.Placing > 0) && !e.moved() {
			list = append(list, e)
		}
	}
	return list
}

// later finds out whether the dataset is late. It is collective; the result is agreed.
func (c *completion) later() (l later, err error) {
	p, d := c.p, c.d
	l.names = map[string]bool{}
	newer, err := p.owners(dataset.AnyHistory, func(x *Index) ([]Entry, error) { return x.after(d), nil })
	if err != nil {
		return l, err
	}
	names := c.parts.names(c.direct)
	for _, o := range newer {
		m, err := p.match(o.origin, c.direct, names)
		if lost, e := isDamage(p.Comm, err); e != nil {
			return l, e
		} else if lost {
			p.Log.Info("dataset %d: its list of files cannot be compared with that of dataset %d: %v", o.ID, d.ID(), err)
			continue
		}
		if l.by == "" && (m.common > 0 || o.Name == d.Name()) {
			l.by = o.Name
		}
		for name := range m.found {
			l.names[name] = true
		}
	}
	return l, nil
}

// names returns the names of all files of the parts, without links.
func (p Parts) names(n *naming) map[string]bool {
	names := map[string]bool{}
	for _, files := range p {
		for _, f := range files {
			names[n.of(f.Meta.File())] = true
		}
	}
	return names
}

// without returns the parts without the files of some names, and those files.
func (p Parts) without(n *naming, names map[string]bool) (rest Parts, files []redundancy.File) {
	rest = Parts{}
	for rank, all := range p {
		rest[rank] = nil
		for _, f := range all {
			if names[n.of(f.Meta.File())] {
				files = append(files, f)
			} else {
				rest[rank] = append(rest[rank], f)
			}
		}
	}
	return rest, files
}

// aside returns the files with the temporary paths that a flush gives them.
func (p Parts) aside(prefix string, id int) Parts {
	list := Parts{}
	for rank, files := range p {
		for _, f := range files {
			path := Aside(filepath.Join(prefix, f.Meta.File()), id, ByFlush)
			list[rank] = append(list[rank], redundancy.File{Path: path, Meta: f.Meta, Below: trust.Root(prefix)})
		}
	}
	return list
}

// keep writes the list of the files that are left to a late dataset, and returns how it is
// recorded. It is collective; the result is agreed.
func (c *completion) keep(by string) (*Replaced, error) {
	p, d := c.p, c.d
	left := mpi.AllreduceOne(p.Comm, c.parts.files(), mpi.Sum)
	r := &Replaced{By: by, Left: left}
	p.Log.Info("dataset %d (%s): %s, which is newer, has its name or files of the same names, and keeps them; %d of %d files are left to it",
		d.ID(), d.Name(), by, left, d.Files())
	if left == 0 {
		return r, nil
	}
	r.List = listName(1)
	dir := filepath.Join(Dir(p.Dir, d.ID()), r.List)
	if err := mpi.OnRoot(p.Comm, func() error { return hash.MakeDirs(dir) }); err != nil {
		return nil, err
	}
	items, _ := c.parts.items(c.bare)
	if err := rank2file.Write(p.Comm, dir, c.ranks, items); err != nil {
		return nil, fmt.Errorf("list of the files left to dataset %d: %w", d.ID(), err)
	}
	return r, nil
}

// outdated reports whether all files of the dataset belong to newer ones, and records that.
// Then nothing of it has to be copied. It is collective; the result is agreed.
func (c *completion) outdated() (bool, error) {
	p, d, all := c.p, c.d, c.parts
	l, err := c.later()
	if err != nil || l.by == "" {
		return false, err
	}
	c.parts, _ = all.without(c.direct, l.names)
	if mpi.Any(p.Comm, c.parts.files() > 0) {
		return false, nil
	}
	r, err := c.keep(l.by)
	if err != nil {
		return false, err
	}
	if err := all.aside(p.Dir, d.ID()).discard(p); err != nil { // of an interrupted flush
		return false, err
	}
	return true, mpi.OnRoot(p.Comm, func() error {
		return conclude(p.Dir, Found{Dataset: d, Owns: true, Replaced: r}, p.at)
	})
}
