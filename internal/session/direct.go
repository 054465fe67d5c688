package session

import (
	"maps"
	"os"
	"path/filepath"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/goscr/goscr/internal/node/meta"
	"github.com/goscr/goscr/internal/prefix"
	"github.com/goscr/goscr/internal/prefix/dataset"
	"github.com/goscr/goscr/internal/redundancy"
	"github.com/goscr/goscr/internal/sys/trust"
	"github.com/goscr/goscr/mpi"
)

// direct is a dataset that the program writes directly to the prefix directory. Until it
// is complete, the index lists it as incomplete. Several ranks may write parts of one
// file.
type direct struct {
	dataset.Dataset
	prefix *prefix.Prefix
	files  map[string]redundancy.File // the caller's, by path
	// existing are the names of those at whose paths there was a file when the caller
	// asked for them: an older dataset may own it, or another rank may have made it.
	existing map[string]bool
}

// beginDirect begins such a dataset. It is collective; the result is agreed.
func beginDirect(p *prefix.Prefix, d dataset.Dataset) (*direct, error) {
	d.SetBypass()
	if err := p.Begin(d); err != nil {
		return nil, err
	}
	return &direct{d, p, map[string]redundancy.File{}, map[string]bool{}}, nil
}

// add adds a file to the dataset, makes its directories, and returns its path.
func (d *direct) add(md meta.Meta) (string, error) {
	path := filepath.Join(d.prefix.Dir, md.File())
	if _, ok := d.files[path]; ok {
		return path, nil
	}
	below := trust.Root(d.prefix.Dir)
	if err := below.MkdirAll(filepath.Dir(path), 0o777); err != nil {
		return "", err
	}
	if _, err := below.Lstat(path); err == nil {
		d.existing[filepath.Clean(md.File())] = true
	}
	d.files[path] = redundancy.File{Path: path, Meta: md, Below: below}
	return path, nil
}

// complete makes the dataset complete, once every file is on its medium. failed is why
// the caller's files are not valid, nil if they are. A dataset that is not valid stays
// in the index as incomplete. Its files stay too, because they may be those of an earlier
// dataset. It is collective; the result is agreed.
func (d *direct) complete(failed error) error {
	world := d.prefix.Comm
	// All ranks have called complete when Agree returns, so none writes to a shared file
	// any more.
	if err := mpi.Agree(world, failed); err != nil {
		return err
	}
	files, err := d.sync()
	if err := mpi.Agree(world, err); err != nil {
		return err
	}
	owners, err := redundancy.Owners(world, redundancy.Names(files))
	if err != nil {
		return err
	}
	totals := []int64{0, 0, int64(len(d.existing))} // files and bytes
	for _, f := range files {
		if rank, shared := owners[f.Meta.File()]; shared {
			f.Meta.SetShared(rank)
			continue
		}
		totals[0]++
		totals[1] += f.Meta.Size()
	}
	world.Allreduce(totals, mpi.Sum)
	d.SetTotals(totals[0], totals[1])
	d.SetComplete(true)
	if totals[2] > 0 {
		if err := d.leaveOutNew(files); err != nil {
			return err
		}
	}
	return d.prefix.Commit(d.Dataset, files, d.existing)
}

// leaveOutNew leaves in existing what was there before the first rank asked for it. It is
// collective; the error is agreed.
func (d *direct) leaveOutNew(files []redundancy.File) error {
	var made []string
	for _, f := range files {
		if name := filepath.Clean(f.Meta.File()); !d.existing[name] {
			made = append(made, name)
		}
	}
	others, _, err := redundancy.Common(d.prefix.Comm, slices.Collect(maps.Keys(d.existing)), made)
	for name := range others {
		delete(d.existing, name)
	}
	return err
}

// sync waits until the caller's files are on their medium, and records their
// properties.
func (d *direct) sync() ([]redundancy.File, error) {
	var files []redundancy.File
	for _, path := range slices.Sorted(maps.Keys(d.files)) {
		f := d.files[path]
		if err := f.Record(); err != nil {
			return nil, err
		}
		file, err := f.Below.OpenFile(f.Path, os.O_RDONLY|unix.O_NONBLOCK, 0)
		if err != nil {
			return nil, err
		}
		err = trust.Sync(file)
		if e := file.Close(); err == nil {
			err = e
		}
		if err != nil {
			return nil, err
		}
		f.Meta.SetComplete(true)
		files = append(files, f)
	}
	return files, nil
}
