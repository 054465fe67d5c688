package cache

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/goscr/goscr/internal/lifecycle/life"
	"github.com/goscr/goscr/internal/node/filemap"
	"github.com/goscr/goscr/internal/node/meta"
	"github.com/goscr/goscr/internal/observe/report"
	"github.com/goscr/goscr/internal/redundancy"
	"github.com/goscr/goscr/mpi"
)

// parts holds the caller's files of datasets: its own, and on a restart those of some
// ranks that now run on other nodes. A file is entered in the filemap on disk before it is
// made, and the entry is removed after the file, so that no file is ever without an entry.
type parts struct {
	world   mpi.Comm
	places  *places
	maps    *filemap.Store
	log     *report.Logger
	dirs    map[string]bool // directories that are known to exist
	piece   int             // bytes that are read, sent and written at a time
	checks  bool            // files get checksums also where nothing else needs their bytes
	newest  int             // the highest id in the filemaps of all ranks when they were opened, -1 if they were empty
	highest int             // highest id of all datasets that the caller has seen
}

// happened records an event of a dataset. An impossible one is a bug: it warns, and the run continues.
func (p *parts) happened(c *Cached, e life.Event, facts ...life.Facts) {
	var f life.Facts
	if len(facts) > 0 {
		f = facts[0]
	}
	next, err := c.State.After(e, f)
	if err != nil {
		p.log.WarnJobOnce("dataset %d (%s): %v; the run continues", c.ID(), c.Name(), err)
		Bug(err)
	}
	c.State = next
}

// leaves records that a dataset is none of this run's any more, unless that is recorded already.
func (p *parts) leaves(c *Cached) {
	if !c.Gone() {
		p.happened(c, life.Left)
	}
}

// Bug is called with the error of an event that package life does not have in its table. Tests change it.
var Bug = func(error) {}

// me is the caller's rank in the job.
func (p *parts) me() int { return p.world.Rank() }

// files returns a rank's files of a dataset, redundancy included, sorted by path.
func (p *parts) files(id, rank int) []redundancy.File {
	var files []redundancy.File
	for _, path := range p.maps.Files(id, rank) {
		files = append(files, redundancy.File{Path: path, Meta: p.maps.Meta(id, rank, path)})
	}
	return files
}

// add enters a file of the caller, makes its directory, and returns its path. Entering a
// file again is no error.
func (p *parts) add(id int, md meta.Meta) (string, error) {
	file := md.File()
	if file == "" {
		return "", fmt.Errorf("%q does not lead below the directory of the dataset", md.Label())
	}
	path := filepath.Join(p.places.dir(id), file)
	if p.maps.Meta(id, p.me(), path).IsZero() {
		if err := p.maps.AddFile(id, p.me(), path, md); err != nil {
			return "", err
		}
	}
	if dir := filepath.Dir(path); !p.dirs[dir] {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return "", err
		}
		p.dirs[dir] = true
	}
	return path, nil
}

// register enters a file that is about to be made.
func (p *parts) register(id int, f redundancy.File) error {
	md := f.Meta.Clone()
	md.SetComplete(false) // until it is whole
	return p.maps.AddFile(id, p.me(), f.Path, md)
}

// size returns the bytes that the files of a dataset take for which the caller has entries.
func (p *parts) size(id int) (bytes int64) {
	for _, rank := range p.maps.Ranks(id) {
		for _, path := range p.maps.Files(id, rank) {
			bytes += takes(path, max(p.maps.Meta(id, rank, path).Size(), 0))
		}
	}
	return bytes
}

// takes returns how many bytes a file of some size takes: less than its size if it has holes.
func takes(path string, size int64) int64 {
	const unit = 512 // of st_blocks
	var st unix.Stat_t
	if unix.Lstat(path, &st) != nil || st.Blocks == 0 { // some file systems do not say
		return size
	}
	return min(size, st.Blocks*unit)
}

// makeDir makes the directory of a dataset.
func (p *parts) makeDir(id int) error {
	dir := p.places.dir(id)
	p.dirs[dir] = true
	if p.places.node.Rank() != 0 {
		return nil
	}
	if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return nil
}

// remake writes the caller's filemap again, and makes the directories of datasets, if they were removed.
func (p *parts) remake(list []*Cached) error {
	clear(p.dirs)
	err := p.maps.Remake()
	for _, c := range list {
		err = cmp.Or(err, p.makeDir(c.ID()))
	}
	return err
}

// makeOwnDir makes a directory in that of a dataset, for files of the caller that are entered
// after they are made. If the job dies before, they are deleted with the dataset's directory.
func (p *parts) makeOwnDir(id int, below string) (string, error) {
	if !filepath.IsLocal(below) {
		return "", fmt.Errorf("%q does not lead below the directory of the dataset", below)
	}
	dir := filepath.Join(p.places.dir(id), below)
	entered := slices.ContainsFunc(p.maps.Files(id, p.me()), func(path string) bool { return strings.HasPrefix(path, dir+"/") })
	if !entered {
		if err := RemoveTree(dir); err != nil {
			return "", err
		}
	}
	p.dirs[dir] = true
	return dir, os.MkdirAll(dir, 0o700)
}

// deleteAll deletes all parts of a dataset, as far as that is possible.
func (p *parts) deleteAll(id int) error {
	var failed error
	for _, rank := range p.maps.Ranks(id) {
		failed = cmp.Or(failed, p.deletePart(id, rank))
	}
	return cmp.Or(failed, p.maps.Fold())
}

// removeDir deletes the rest of the directory of a dataset: directories, and files
// that the program made without Route. What cannot be deleted is set aside.
func (p *parts) removeDir(id int) {
	dir := p.places.dir(id)
	for known := range p.dirs {
		if known == dir || strings.HasPrefix(known, dir+"/") {
			delete(p.dirs, known)
		}
	}
	if left, err := p.places.remove(id); err != nil {
		tellUndeleted(p.log, fmt.Errorf("dataset %d cannot be deleted from the cache: %w", id, err), left)
	}
}

// forget removes all entries of a dataset whose directory is deleted or set aside.
func (p *parts) forget(id int) {
	for _, rank := range p.maps.Ranks(id) {
		p.maps.RemoveRank(id, rank)
	}
	// If the filemap cannot be written, it has entries of files that are gone, which the
	// next run handles as after a kill.
	if err := p.maps.Fold(); err != nil {
		p.log.Warn("that dataset %d is deleted cannot be recorded: %v", id, err)
	}
}

// deletePart deletes a rank's files of a dataset, and then its entry, which is
// on disk after the next Fold.
func (p *parts) deletePart(id, rank int) error {
	err := p.delete(id, rank, p.files(id, rank)...)
	if err == nil {
		p.maps.RemoveRank(id, rank)
	}
	return err
}

// delete deletes files of a rank, each before its entry. Of a file that is counted with
// another rank it removes the entry only.
func (p *parts) delete(id, rank int, files ...redundancy.File) error {
	for _, f := range files {
		if !p.places.inside(f.Path) {
			return fmt.Errorf("filemap names %s, which is in no cache directory", f.Path)
		}
		if f.Meta.Shared() {
			p.maps.RemoveFile(id, rank, f.Path)
			continue
		}
		if err := p.places.clear(f.Path); err != nil && !errors.Is(err, unix.ENOTDIR) {
			return err
		}
		p.maps.RemoveFile(id, rank, f.Path)
	}
	return nil
}

// confine removes entries of files outside the cache directories: goscr did not make these
// files, and must not delete them.
func (p *parts) confine() {
	for _, id := range p.maps.Datasets() {
		for _, rank := range p.maps.Ranks(id) {
			for _, path := range p.maps.Files(id, rank) {
				if !p.places.inside(path) {
					p.log.Warn("filemap names %s, which is in no cache directory; ignored", path)
					p.maps.RemoveFile(id, rank, path)
				}
			}
		}
	}
}

// distrust is Distrust of the filemap.
func (p *parts) distrust(started time.Time) {
	p.maps.Distrust(started, func(id, _ int, path string) {
		p.log.Local("dataset %d: %s is not used: the node has started again since it was written, and it had no checksum yet", id, path)
	})
}

// each calls f with the id of every dataset in the cache of any rank, highest
// first. One reduction finds those among many ids. It is collective.
func (p *parts) each(f func(id int)) {
	const many = 64
	for newest := p.newest; newest >= 0; {
		found := make([]int64, many+1) // 1: a rank has the id that is so much lower than newest; the last: the highest id below these
		found[many] = -1
		for _, id := range p.maps.Datasets() {
			switch lower := newest - id; {
			case lower >= many:
				found[many] = max(found[many], int64(id))
			case lower >= 0:
				found[lower] = 1
			}
		}
		p.world.Allreduce(found, mpi.Max)
		for lower, there := range found[:many] {
			if there == 1 {
				p.highest = max(p.highest, newest-lower)
				f(newest - lower)
			}
		}
		newest = int(found[many])
	}
}

// jobSize returns the number of ranks that wrote a dataset, -1 if no rank knows it, or an error on all
// ranks if failed is not nil on any. It is collective.
func (p *parts) jobSize(id int, failed error) (int, error) {
	most, err := mpi.AgreeMaxOne(p.world, failed, int64(p.written(id)))
	if err != nil {
		return -1, err
	}
	return int(most), nil
}

// written returns the number of ranks that wrote a dataset, -1 if the caller does not know it.
func (p *parts) written(id int) int {
	known := -1
	for _, rank := range p.maps.Ranks(id) {
		_, size := p.maps.Expected(id, rank)
		known = max(known, size)
	}
	return known
}

// job describes a dataset to its scheme.
func (p *parts) job(c *Cached) *redundancy.Job {
	id := c.ID()
	return &redundancy.Job{
		Set: c.Desc.Set, Dataset: c.Dataset, Ranks: p.world.Size(), Dir: p.places.dir(id), Piece: p.piece,
		Register:  func(f redundancy.File) error { return p.register(id, f) },
		Recycle:   p.places.place(id).recycle(p.me()),
		Unchecked: p.leavesUnchecked(id),
	}
}

// leavesUnchecked reports whether Complete takes no checksums of the caller's files of a dataset if there is
// no redundancy to compute from them: to read all bytes once more would take two fifths of the time in which the
// program has written them. In memory that is no risk for a restart, since a power failure leaves nothing there that could be wrong.
func (p *parts) leavesUnchecked(id int) bool {
	return !p.checks && !p.places.world[id] && InMemory(p.places.place(id).dir)
}
