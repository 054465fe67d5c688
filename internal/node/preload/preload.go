// Package preload copies files of ranks from a checkpoint in the prefix directory to the
// cache of the node on which it is called, before a job starts that restarts from it. Other
// nodes do the same at the same time, for other ranks. The job finds the checkpoint in its
// cache, like one that an earlier run has left there: ranks that start on other nodes fetch
// their files from where they are, and if files are missing the job fetches the
// checkpoint from the prefix directory.
//
// The copy has no redundancy (SINGLE): the checkpoint is in the prefix directory as well.
package preload

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/goscr/goscr/internal/node/cache"
	"github.com/goscr/goscr/internal/node/filemap"
	"github.com/goscr/goscr/internal/prefix"
	"github.com/goscr/goscr/internal/prefix/transfer"
	"github.com/goscr/goscr/internal/redundancy"
	"github.com/goscr/goscr/internal/redundancy/reddesc"
	"github.com/goscr/goscr/internal/sys/lock"
	"github.com/goscr/goscr/internal/sys/trust"
)

// Node is the node on which this process runs.
type Node struct {
	Prefix  string // the prefix directory
	Control string // control directory of the job
	Cache   string // directory with the datasets of the job
	Base    string // the store to which Cache belongs
	Piece   int    // bytes that are copied at a time
}

// Done is what was copied.
type Done struct {
	Ranks []int // those whose files this node has now
	Bytes int64 // that were copied
}

// Fits returns an error if the program is to read a checkpoint where it is.
func Fits(e prefix.Entry) error {
	switch {
	case !e.Complete:
		return fmt.Errorf("checkpoint %d (%s) is not complete in the prefix directory", e.ID, e.Name)
	case e.Bypass():
		return fmt.Errorf("checkpoint %d (%s) was written to the prefix directory by the program, which reads it there", e.ID, e.Name)
	}
	return nil
}

// Load copies the files of ranks of a dataset that a job with so many ranks has written. What
// is in the cache stays, and is not copied. After an error nothing of what was copied is
// left. It is an error if a process of the job runs on this node.
func (n Node) Load(id int, ranks []int, size int) (done Done, err error) {
	x, err := prefix.ReadIndex(n.Prefix)
	if err != nil {
		return done, err
	}
	e := x.ByID(id)
	if err := Fits(e); err != nil {
		return done, err
	}
	l, err := n.lock()
	if err != nil {
		return done, err
	}
	defer l.Release()
	there, bad, err := filemap.ReadDir(n.Control)
	if err == nil {
		// What the cache has of the dataset is not known.
		err = errors.Join(bad...)
	}
	if err != nil {
		return done, err
	}
	parts := map[int][]redundancy.File{}
	for _, rank := range ranks {
		switch d := there.Dataset(id, rank); {
		case d.IsZero() && len(there.Files(id, rank)) == 0:
			parts[rank] = nil // it may have no files
		case d.Name() != e.Name || !d.Created().Equal(e.Created()) || !there.Whole(id, rank):
			return done, fmt.Errorf("the cache has another dataset %d, or not all of it", id)
		default:
			done.Ranks = append(done.Ranks, rank)
		}
	}
	err = prefix.Walk(n.Prefix, e, func(rank int, files []redundancy.File) error {
		if _, wanted := parts[rank]; wanted {
			parts[rank] = files
		}
		if rank >= size {
			return fmt.Errorf("checkpoint %d (%s) has files of rank %d, and the job has %d ranks", e.ID, e.Name, rank, size)
		}
		if slices.ContainsFunc(files, func(f redundancy.File) bool { return f.Meta.Shared() }) {
			return fmt.Errorf("checkpoint %d (%s): several ranks have one file, which is not copied to the caches of nodes", e.ID, e.Name)
		}
		return nil
	})
	if err != nil || len(parts) == 0 {
		return done, err
	}
	if err := makePrivate(n.Cache); err != nil {
		return done, err
	}
	c := &copies{Node: n, id: id, size: size, copier: transfer.NewCopier(n.Piece)}
	c.copier.Below = trust.Root(n.Prefix)
	c.description = filemap.Description{Dataset: e.Dataset, Prefix: n.Prefix, Dir: n.Cache}
	c.description.SetCompressed(false)
	c.description.SetComplete(true)
	return c.all(parts, done)
}

// lock makes the control directory and takes the lock of the job's processes on this node:
// neither a run nor scr_clean changes the cache while Load does. A run that begins meanwhile
// waits for Load, which may take long, so the lock is kept alive.
func (n Node) lock() (*lock.Lock, error) {
	if err := makePrivate(n.Control); err != nil {
		return nil, err
	}
	path := filepath.Join(n.Control, cache.LockFile)
	l, err := lock.Try(path, lock.Exclusive)
	if err == nil && l == nil {
		err = fmt.Errorf("%s uses the cache of this job (%s)", lock.Holder(path), path)
	}
	l.KeepAlive()
	return l, err
}

// makePrivate makes a directory whose last two elements are the user and the job.
func makePrivate(dir string) error {
	user := filepath.Dir(dir)
	return cache.MakePrivate(filepath.Dir(user), filepath.Base(user), filepath.Base(dir))
}

// copies is what Load is doing.
type copies struct {
	Node
	id, size    int // of the dataset; its number of ranks
	description filemap.Description
	copier      *transfer.Copier
	maps        *filemap.Store
}

// all copies the files of all parts, which it deletes again after an error.
func (c *copies) all(parts map[int][]redundancy.File, done Done) (Done, error) {
	var ranks []int
	for rank := range parts {
		ranks = append(ranks, rank)
	}
	slices.Sort(ranks)
	// The name is in the pattern of filemaps, and is not that of a rank of a node.
	path := filepath.Join(c.Control, fmt.Sprintf("filemap_loaded_%d.scrinfo", ranks[0]))
	var err error
	if c.maps, err = filemap.OpenStore(path); err != nil {
		return done, err
	}
	var made []string
	for _, rank := range ranks {
		var paths []string
		var bytes int64
		paths, bytes, err = c.part(rank, parts[rank])
		made = append(made, paths...)
		if err != nil {
			err = fmt.Errorf("rank %d: %w", rank, err)
			break
		}
		done.Ranks, done.Bytes = append(done.Ranks, rank), done.Bytes+bytes
	}
	if err == nil {
		err = c.maps.Fold()
	}
	if err = errors.Join(err, c.maps.Close()); err == nil {
		slices.Sort(done.Ranks)
		return done, nil
	}
	for _, path := range made {
		err = errors.Join(err, remove(path))
	}
	return Done{}, errors.Join(err, filemap.RemoveStore(path))
}

func remove(path string) error {
	if err := os.Remove(path); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// part copies the files of a rank, each of which is in the filemap before it is made. It
// returns the paths that it has begun, also after an error.
func (c *copies) part(rank int, files []redundancy.File) (made []string, bytes int64, err error) {
	var loaded []redundancy.File
	for _, f := range files {
		if err := prefix.Present(f); err != nil {
			return made, bytes, err
		}
		name := f.Meta.File()
		if name == "" {
			return made, bytes, fmt.Errorf("%q does not lead below the directory of the dataset", f.Meta.Label())
		}
		md := f.Meta.Clone()
		md.SetAsWritten() // files in the cache are not compressed
		md.SetComplete(false)
		to := filepath.Join(cache.DatasetDir(c.Cache, c.id), name)
		if err := c.maps.AddFile(c.id, rank, to, md.Clone()); err != nil {
			return made, bytes, err
		}
		if err := os.MkdirAll(filepath.Dir(to), 0o700); err != nil {
			return made, bytes, err
		}
		made = append(made, to)
		if err := c.copier.Fetch(f.Path, to, f.Meta); err != nil {
			if errors.Is(err, transfer.ErrSame) { // the caller deletes what was made
				made = made[:len(made)-1]
			}
			return made, bytes, err
		}
		loaded = append(loaded, redundancy.File{Path: to, Meta: md})
	}
	for _, f := range loaded {
		if err := c.finish(rank, f); err != nil {
			return made, bytes, err
		}
		bytes += f.Meta.Size()
	}
	c.maps.SetDataset(c.id, rank, c.description)
	c.maps.SetReddesc(c.id, rank, c.descriptor(rank).Hash())
	c.maps.SetExpected(c.id, rank, len(files), c.size)
	return made, bytes, c.maps.Check(c.id, rank)
}

// finish enters a file as complete.
func (c *copies) finish(rank int, f redundancy.File) error {
	if err := f.Record(); err != nil {
		return err
	}
	f.Meta.SetComplete(true)
	return c.maps.AddFile(c.id, rank, f.Path, f.Meta)
}

// descriptor is that of a rank in a set of its own.
func (c *copies) descriptor(rank int) *reddesc.Stored {
	return &reddesc.Stored{Params: reddesc.Params{Interval: 1, Store: c.Base, Group: reddesc.Node, Type: "SINGLE", SetSize: 1},
		Sets: c.size, Set: rank, Members: 1, Member: 0}
}
