package cache

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/goscr/goscr/internal/lifecycle/life"
	"github.com/goscr/goscr/internal/node/cache/migrate"
	"github.com/goscr/goscr/internal/node/filemap"
	"github.com/goscr/goscr/internal/observe/eventlog"
	"github.com/goscr/goscr/internal/observe/eventlog/phases"
	"github.com/goscr/goscr/internal/prefix/dataset"
	"github.com/goscr/goscr/internal/redundancy"
	"github.com/goscr/goscr/internal/redundancy/reddesc"
	"github.com/goscr/goscr/mpi"
)

// Recovery makes datasets of earlier runs usable again. It decides which it restores now, later or not at all.
type Recovery struct {
	config   Config
	parts    *parts
	descs    *descriptions
	copies   *copies
	repairer *repairer
	usable   *UsableList
	unused   *UnusedList
}

// Rebuild makes the newest checkpoint of each series in the cache usable again: it migrates files to the
// nodes where their ranks now run, and rebuilds lost and corrupt files. If that checkpoint cannot be
// restored, it tries older ones, newest first. Outputs are restored, too, since they have to be
// flushed. The files of older checkpoints stay as they are until Restore is called: as a rule they
// leave the cache without having been needed. Rebuild leaves datasets unused of which these nodes
// have too little. current are the descriptors of this run: a dataset that was protected in the same sets uses these. It is
// collective.
func (r *Recovery) Rebuild(current ...*reddesc.Descriptor) {
	r.descs.current = current
	r.parts.confine()
	r.parts.distrust(cmp.Or(r.config.Booted, filemap.Booted()))
	r.parts.each(r.rebuildDataset)
}

// another informs users how the run continues if a dataset cannot be rebuilt.
const another = "the run continues from another checkpoint, of the cache or the prefix directory, if there is one"

// errUnfinished says that no rank has recorded a dataset as complete.
var errUnfinished = errors.New("it was not completed")

// rebuildDataset restores, leaves or deletes one dataset, according to the first of these
// cases that applies:
//
//   - it belongs to a program with another prefix directory, or SCR_DISTRIBUTE is 0:
//     it is unused;
//   - a job of another size has written it: it is unused, and can be flushed if its
//     description is known;
//   - it is older than a checkpoint of its series that is usable, is a checkpoint and no output, and these nodes
//     have enough of it: it is postponed;
//   - it can be restored: it is usable;
//   - it was not completed: it is deleted;
//   - these nodes have too little of it: it is unused, and nothing of it is moved, since
//     the nodes that the run before had may have the rest;
//   - a later attempt may succeed, as when a disk was full: it is unused.
func (r *Recovery) rebuildDataset(id int) {
	found, err := r.descs.find(id)
	d, ranks := found.Description, found.ranks
	if err == nil && d.Prefix != "" && d.Prefix != r.config.Prefix {
		if !mpi.Any(r.config.World, r.parts.me() == 0 && filemap.SamePrefix(d.Prefix, r.config.Prefix)) {
			r.unused.leave(unused{id: id, other: &d})
			return
		}
	}
	if !r.config.Distribute {
		r.config.Log.Info("dataset %d in the cache is not used, as SCR_DISTRIBUTE=0 says; %s", id, untilOwn)
		r.unused.leave(unused{id: id})
		return
	}
	if err == nil && found.mixed {
		ranks, err = r.parts.jobSize(id, r.descs.dropOthers(d))
	}
	if ranks >= 0 && ranks != r.config.World.Size() {
		if err == nil && d.World {
			r.copies.recallAll(d)
		}
		r.unused.leaveForeign(id, Foreign{d.Dataset, ranks}, err)
		return
	}
	c := &Cached{Dataset: d.Dataset}
	if err == nil && r.usable.NewestCheckpoint(d.Series()) != nil && d.Flags().Has(dataset.Checkpoint) && !d.Flags().Has(dataset.Output) {
		if err = r.postpone(c, d); err == nil {
			return
		}
	}
	r.take(id, c, d, err)
}

// postpone adds a dataset to the list, and leaves its files as they are. It returns an error if
// these nodes have too little of it. It is collective; the error is agreed.
func (r *Recovery) postpone(c *Cached, d filemap.Description) error {
	_, damaged, err := r.find(c, d, true)
	if err != nil {
		c.free()
		return err
	}
	c.found = &d
	r.parts.happened(c, life.Kept, life.Facts{Exposed: damaged})
	r.usable.insert(c)
	r.config.Log.Info("dataset %d (%s): older than the checkpoint that is used; its files stay as they are, and are checked and rebuilt if they are needed", c.ID(), c.Name())
	return nil
}

// Restore makes a dataset of the list usable that Rebuild has postponed. If it cannot be restored it is
// not in the list afterwards. It is collective.
func (r *Recovery) Restore(c *Cached) {
	if !c.Postponed() {
		return
	}
	d := *c.found
	c.found = nil
	r.usable.remove(c.ID())
	c.free()
	r.take(c.ID(), c, d, nil)
}

// take makes a dataset usable unless err is not nil, which says why that is not possible. Then it
// leaves or deletes it as rebuildDataset says.
func (r *Recovery) take(id int, c *Cached, d filemap.Description, err error) {
	start := time.Now()
	var outcome string
	r.config.Events.Add(eventlog.Record{Type: eventlog.RebuildStart, Dataset: id, Name: d.Name()})
	if err == nil {
		outcome, err = r.restoreOrYield(c, d)
	}
	r.reportRebuilt(id, d, start, outcome, err)
	if err == nil {
		return
	}
	r.parts.leaves(c)
	switch {
	case errors.Is(err, errUnfinished):
		r.config.Log.WarnJob("%s in the cache is deleted: %v; %s", labelled(id, d), err, another)
		r.usable.Delete(id)
		return
	case errors.Is(err, redundancy.ErrUnrecoverable):
		r.config.Log.WarnJob("%s in the cache is passed over: %v; if its files are on other nodes, a run on those may use it: %s; %s", labelled(id, d), err, untilOwn, another)
		r.unused.leave(unused{Dataset: d.Dataset, id: id, passed: true})
		return
	}
	r.config.Log.WarnJob("%s in the cache cannot be used now: %v; %s", labelled(id, d), err, untilOwn)
	r.unused.leave(unused{Dataset: d.Dataset, id: id})
}

// labelled names a dataset for messages: its description may be lost.
func labelled(id int, d filemap.Description) string {
	if d.Name() == "" {
		return fmt.Sprintf("dataset %d", id)
	}
	return fmt.Sprintf("dataset %d (%s)", id, d.Name())
}

// restoreOrYield makes a dataset usable again. If there is no room for that, it deletes
// newer datasets that cannot be used, and tries again.
func (r *Recovery) restoreOrYield(c *Cached, d filemap.Description) (outcome string, err error) {
	for {
		c.bare = false // of an attempt before
		if outcome, err = r.restore(c, d); err == nil {
			return outcome, nil
		}
		c.free()
		if !r.unused.Yield(err) {
			return "", err
		}
	}
}

// reportRebuilt reports the result of a rebuild to the user and to the log of the
// job.
func (r *Recovery) reportRebuilt(id int, d filemap.Description, start time.Time, outcome string, err error) {
	record := eventlog.Record{Type: eventlog.RebuildSuccess, Dataset: id, Name: d.Name(), Note: outcome, Start: start, Seconds: eventlog.Since(start)}
	if err != nil {
		record.Type, record.Note = eventlog.RebuildFail, err.Error()
	} else {
		r.config.Log.Info("dataset %d (%s): %s, ready in %.3f s", id, d.Name(), outcome, time.Since(start).Seconds())
	}
	r.config.Events.Add(record)
}

// find gives all ranks the descriptions of a dataset, and decides where its files are to be. If these nodes have too
// little of the dataset, find returns an error on all ranks. damaged reports whether files of some rank are on no node; if look
// is true, also whether the redundancy of some rank is. It is collective.
func (r *Recovery) find(c *Cached, d filemap.Description, look bool) (m *migrate.Migration, damaged bool, err error) {
	id := c.ID()
	if d.World {
		if err := r.copies.recall(d); err != nil {
			return nil, false, err
		}
	}
	if c.Desc, err = r.descs.descriptor(id, r.config.Node, r.migration(c).Missing); err != nil {
		return nil, false, err
	}
	c.own = true
	m = r.migration(c) // now that it is known how many redundancy files there are
	missing, err := m.Missing()
	if err != nil {
		return nil, false, err
	}
	// The largest of all ranks: 1 if files are missing, and if it is damaged, and the number of its store.
	most := []int64{one(missing), one(missing || look && r.parts.damage(c) == exposed), int64(storeNumber(r.config.Stores, c.Desc.Store))}
	r.config.World.Allreduce(most, mpi.Max)
	if most[0] > 0 {
		// Files are not moved: a later run on other nodes must find them where they are.
		mine := none
		if missing {
			mine = lost
		}
		if err = r.repairer.checkBearable(c, damageOf(c.Desc.Set, mine), mine, false); err != nil {
			return nil, false, err
		}
	}
	// The files are to be where the node has some of the dataset, else in the store that the descriptor names, if this run has it,
	// or else in the first store.
	c.store = r.config.Stores[most[2]]
	if r.parts.places.of[id] == nil {
		r.parts.places.put(id, c.store)
	}
	m.Dir, m.Device = r.parts.places.dir(id), r.parts.places.device(id)
	return m, most[1] > 0, nil
}

// restore makes a dataset usable again: it gives all ranks the descriptions, migrates
// files to their owners, and rebuilds lost ones. outcome describes the repair, for messages.
func (r *Recovery) restore(c *Cached, d filemap.Description) (outcome string, err error) {
	id := c.ID()
	m, _, err := r.find(c, d, false)
	if err != nil {
		return "", err
	}
	made := os.MkdirAll(m.Dir, 0o700)
	// Record the descriptions before the ranks that had copies of them delete these.
	known := r.descs.known(id)
	if err = r.descs.record(c); known && noRoom(err) {
		err = nil // the caller has its own; the copies for its neighbours are not essential
	}
	if err := mpi.Agree(r.config.World, cmp.Or(made, err)); err != nil {
		return "", err
	}
	if c.store.Shared || d.World {
		if err := m.Adopt(); err != nil {
			return "", err
		}
	}
	start := time.Now()
	refused, err := m.Run()
	if err != nil {
		return "", err
	}
	moved := time.Now()
	files, outcome, err := r.repairer.repair(c, refused)
	if err != nil {
		return "", err
	}
	r.config.Phases.Log(c.Dataset, phases.Took(eventlog.Distribute, start, moved.Sub(start)), phases.Took(eventlog.Rebuild, moved, time.Since(moved)))
	if m.Device != "" {
		err = restoreMetadata(files)
	}
	if err := mpi.Agree(r.config.World, err); err != nil {
		return "", err
	}
	return outcome, r.usable.include(c, files)
}

// migration returns the migration of the files of a dataset.
func (r *Recovery) migration(c *Cached) *migrate.Migration {
	id := c.ID()
	return &migrate.Migration{
		World: r.config.World, Log: r.config.Log, Piece: r.config.Piece, Maps: r.parts.maps, Made: c.made(),
		ID: id, Dir: r.parts.places.dir(id), Device: r.parts.places.device(id),
		Files:  func(rank int) []redundancy.File { return r.parts.files(id, rank) },
		Delete: func(rank int, files ...redundancy.File) error { return r.parts.delete(id, rank, files...) },
		Forget: func(rank int) { r.descs.forget(c, rank) },
	}
}

// restoreMetadata restores mode, owner and times of files. On storage that nodes share, a
// run may have been killed between rebuilding the contents of a file and restoring these,
// and an entry on another node may then have the file as whole.
func restoreMetadata(files []redundancy.File) error {
	own, _ := redundancy.Split(files)
	for _, f := range own {
		if err := f.Meta.Restore("", f.Path); err != nil {
			return err
		}
	}
	return nil
}

// Repair checks every file of a usable dataset and rebuilds what is corrupt. A
// dataset that cannot be made whole is deleted. It is collective.
func (r *Recovery) Repair(c *Cached) error {
	files, outcome, err := r.repairer.repair(c, false)
	if err == nil {
		r.config.Log.Info("dataset %d (%s): %s", c.ID(), c.Name(), outcome)
		for _, f := range files {
			r.parts.maps.Map.AddFile(c.ID(), r.parts.me(), f.Path, f.Meta)
		}
		return mpi.Agree(r.config.World, r.parts.maps.Fold())
	}
	if errors.Is(err, redundancy.ErrUnrecoverable) {
		return r.usable.abandon(c, nil, err)
	}
	return err
}
