package cache

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/goscr/goscr/internal/node/filemap"
	"github.com/goscr/goscr/internal/observe/report"
	"github.com/goscr/goscr/internal/sys/lock"
	"github.com/goscr/goscr/internal/sys/probe"
	"github.com/goscr/goscr/mpi"
)

// directories are the directories of the cache on the caller's node. The job holds their lock while it runs.
type directories struct {
	config  Config
	control string // directory that holds the filemaps
	lock    *lock.Lock
	maps    *filemaps
	places  *places
	strays  []stray
}

// newDirectories names the directories, and neither makes nor locks them.
func newDirectories(c Config) *directories {
	name := "scr." + c.JobID
	d := &directories{config: c, control: filepath.Join(c.Control.Dir, c.User, name), places: newPlaces(c.Node, c.Stores, c.User, name)}
	d.maps = &filemaps{node: c.Node, here: c.NodeRanks, dir: d.control, log: c.Log}
	return d
}

// open locks the directories, makes them, and gives the ranks of the node their filemaps. It returns the highest id in the
// filemaps of all ranks, -1 if they are empty. It is collective; the error is agreed.
func (d *directories) open(run probe.Run, locked func(control string) error) (newest int, err error) {
	sharing := newSharing(d.config.World, d.config.Node, d.places.all, d.config.Log, run)
	if d.config.Node.Rank() == 0 {
		defer sharing.remove()
		doubts := d.places.doubts(d.config.User) // before lockControl makes directories
		d.lock, err = lockControl(d.config, d.control, run)
		if err == nil { // until it has the lock, scr_clean may remove them
			err = d.places.makeDirs(d.config.User, filepath.Base(d.control))
		}
		if err == nil {
			for _, line := range doubts {
				d.config.Log.WarnJob("%s", line)
			}
			err = cmp.Or(removeTemporary(d.control, d.config.Log), sharing.put())
		}
		report.Forget(d.control)
	}
	if err := mpi.AgreeSum(d.config.World, err, sharing.counts); err != nil {
		return -1, err
	}
	d.places.nodes = sharing.nodes()
	if d.config.Node.Rank() == 0 {
		err = sharing.look(d.config.Log.Node)
		if err == nil && locked != nil {
			err = locked(d.control)
		}
	} else {
		d.lock, err = joinLock(filepath.Join(d.control, LockFile))
		if errors.Is(err, fs.ErrNotExist) {
			err = fmt.Errorf("node %s has no %s here, which another rank of that node has made: are these ranks on different machines that have the same name? "+
				"SCR_NODE_NAME gives each node a name of its own: %w", d.config.Log.Node, d.control, err)
		}
	}
	all, found, e := d.maps.collect(err, d.places.search)
	if err = cmp.Or(err, e); e == nil { // else it is so on all ranks of the node
		d.places.enter(found)
		err = d.maps.deal(all, err)
	}
	most := append(sharing.seen, d.maps.newest())
	if err := mpi.AgreeMax(d.config.World, err, most); err != nil {
		return -1, err
	}
	sharing.seen = most[:len(sharing.seen)]
	if err := sharing.apply(d.config.Node); err != nil {
		return -1, err
	}
	if d.config.Node.Rank() == 0 {
		d.listStores()
		d.strays = d.places.strays(all)
	}
	d.places.removeOldSpares(d.config.Log)
	d.places.removeAside(d.config.Log)
	return int(most[len(sharing.seen)]), nil
}

// lockControl makes the control directory of a node and locks it. While it waits for the
// lock, scr_clean may remove the directory; then it makes it again.
func lockControl(c Config, control string, run probe.Run) (*lock.Lock, error) {
	for {
		if err := privateDir(c.Control, c.User, filepath.Base(control)); err != nil {
			return nil, err
		}
		l, err := takeLock(filepath.Join(control, LockFile), c.User, c.JobID, string(run)+" ", c.Log.Node)
		if !gone(control) {
			return l, err
		}
		l.Release()
	}
}

// gone reports whether nothing has the name path.
func gone(path string) bool {
	_, err := os.Lstat(path)
	return errors.Is(err, fs.ErrNotExist)
}

// listStores records the job's own stores on this node, for commands that clean up the
// node: they look below SCR_CACHE_BASE without being told, but do not know that nodes share it. What an earlier run has recorded
// stays as long as it is there. It is no error if the list cannot be written.
func (d *directories) listStores() {
	list, err := filemap.ReadStores(d.control)
	if err == nil && d.config.Allocation != d.config.JobID {
		list.Allocation = d.config.Allocation
	}
	for dir := range list.Dirs {
		if _, gone := os.Lstat(dir); gone != nil {
			delete(list.Dirs, dir)
		}
	}
	for i, x := range d.places.all[:len(d.config.Stores)] { // the first is that of SCR_CACHE_BASE
		if x.dir != d.control && (i > 0 || x.store.Shared) {
			list.Dirs[x.dir] = x.store.Shared
		}
	}
	if err == nil {
		err = list.Write(d.control)
	}
	if err != nil && !noRoom(err) {
		d.config.Log.Warn("%v: scr_clean and scr_du may not find the caches of this job", err)
	}
}

// close deletes the spare files of the caller, closes its filemap, and releases the lock. It may be called after open has failed.
func (d *directories) close() error {
	defer d.lock.Release()
	return errors.Join(d.places.dropSpares(d.config.World.Rank()), d.maps.close())
}

// removed reports whether somebody has removed directories of the running job, or the caller's filemap. It is not collective.
func (d *directories) removed() bool {
	return d.lock == nil || d.maps.own.New() || d.config.Node.Rank() == 0 &&
		(gone(filepath.Join(d.control, LockFile)) || slices.ContainsFunc(d.places.all[:len(d.config.Stores)], func(x *place) bool { return gone(x.dir) }))
}

// remake makes again what removed has missed, and the directories of the datasets in list. It is collective; the error is agreed.
func (d *directories) remake(p *parts, list []*Cached) (err error) {
	first, removed := d.config.Node.Rank() == 0, d.removed()
	if first {
		if d.lock == nil || gone(filepath.Join(d.control, LockFile)) {
			d.lock.Release()
			d.lock, err = lockControl(d.config, d.control, "")
		}
		err = cmp.Or(err, d.places.makeDirs(d.config.User, filepath.Base(d.control)))
	}
	if err := mpi.Agree(d.config.World, err); err != nil {
		return err
	}
	if removed {
		d.config.Log.WarnFirst("directories of the running job were removed on node %s, %s or those of its caches: they are made again; does a script clean up there?", d.config.Log.Node, d.control)
	}
	if !first {
		d.lock.Release()
		d.lock, err = joinLock(filepath.Join(d.control, LockFile))
	}
	if err := mpi.Agree(d.config.World, cmp.Or(err, p.remake(list))); err != nil {
		return err
	}
	if first {
		d.listStores()
		if err := d.maps.tidy(); err != nil {
			d.config.Log.Warn("%v", err)
		}
	}
	return nil
}
