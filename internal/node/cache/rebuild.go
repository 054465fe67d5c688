package cache

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	"github.com/goscr/goscr/internal/node/cache/migrate"
	"github.com/goscr/goscr/internal/node/filemap"
	"github.com/goscr/goscr/internal/observe/eventlog"
	"github.com/goscr/goscr/internal/observe/eventlog/phases"
	"github.com/goscr/goscr/internal/prefix/dataset"
	"github.com/goscr/goscr/internal/redundancy"
	"github.com/goscr/goscr/internal/redundancy/reddesc"
	"github.com/goscr/goscr/mpi"
)

// Rebuild makes the newest checkpoint of each series in the cache usable again: it migrates files to the
// nodes where their ranks now run, and rebuilds lost and corrupt files. If that checkpoint cannot be
// restored, it tries older ones, newest first. Outputs are restored, too, since they have to be
// flushed. The files of older checkpoints stay as they are until Restore is called: as a rule they
// leave the cache without having been needed. Rebuild leaves datasets unused of which these nodes
// have too little. current are the descriptors of this run: a dataset that was protected in the same sets uses these. It is
// collective.
func (k *Cache) Rebuild(current ...*reddesc.Descriptor) {
	k.descs.current = current
	k.parts.confine()
	k.parts.distrust(cmp.Or(k.Booted, filemap.Booted()))
	k.parts.each(k.rebuildDataset)
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
func (k *Cache) rebuildDataset(id int) {
	k.highest = max(k.highest, id)
	found, err := k.descs.find(id)
	d, ranks := found.Description, found.ranks
	if err == nil && d.Prefix != "" && d.Prefix != k.Prefix {
		if !mpi.Any(k.World, k.World.Rank() == 0 && filemap.SamePrefix(d.Prefix, k.Prefix)) {
			k.leaveUnused(unused{id: id, other: &d})
			return
		}
	}
	if !k.Distribute {
		k.Log.Info("dataset %d in the cache is not used, as SCR_DISTRIBUTE=0 says; %s", id, untilOwn)
		k.leaveUnused(unused{id: id})
		return
	}
	if err == nil && found.mixed {
		ranks, err = k.parts.jobSize(id, k.descs.dropOthers(d))
	}
	if ranks >= 0 && ranks != k.World.Size() {
		if err == nil && d.World {
			k.recallAll(d)
		}
		k.leaveForeign(id, Foreign{d.Dataset, ranks}, err)
		return
	}
	c := &Cached{Dataset: d.Dataset}
	if err == nil && k.NewestCheckpoint(d.Series()) != nil && d.Flags().Has(dataset.Checkpoint) && !d.Flags().Has(dataset.Output) {
		if err = k.postpone(c, d); err == nil {
			return
		}
	}
	k.take(id, c, d, err)
}

// postpone adds a dataset to the list, and leaves its files as they are. It returns an error if
// these nodes have too little of it. It is collective; the error is agreed.
func (k *Cache) postpone(c *Cached, d filemap.Description) error {
	_, damaged, err := k.find(c, d, true)
	if err != nil {
		c.free()
		return err
	}
	c.damaged = damaged
	c.postponed = &d
	k.insert(c)
	k.Log.Info("dataset %d (%s): older than the checkpoint that is used; its files stay as they are, and are checked and rebuilt if they are needed", c.ID(), c.Name())
	return nil
}

// Restore makes a dataset of the list usable that Rebuild has postponed. If it cannot be restored it is
// not in the list afterwards. It is collective.
func (k *Cache) Restore(c *Cached) {
	if c.postponed == nil {
		return
	}
	d := *c.postponed
	c.postponed = nil
	k.list = slices.DeleteFunc(k.list, func(other *Cached) bool { return other == c })
	c.free()
	k.take(c.ID(), c, d, nil)
}

// take makes a dataset usable unless err is not nil, which says why that is not possible. Then it
// leaves or deletes it as rebuildDataset says.
func (k *Cache) take(id int, c *Cached, d filemap.Description, err error) {
	start := time.Now()
	var outcome string
	k.Events.Add(eventlog.Record{Type: eventlog.RebuildStart, Dataset: id, Name: d.Name()})
	if err == nil {
		outcome, err = k.restoreOrYield(c, d)
	}
	k.reportRebuilt(id, d, start, outcome, err)
	switch {
	case err == nil:
		return
	case errors.Is(err, errUnfinished):
		k.Log.WarnJob("%s in the cache is deleted: %v; %s", labelled(id, d), err, another)
		k.Delete(id)
		return
	case errors.Is(err, redundancy.ErrUnrecoverable):
		k.Log.WarnJob("%s in the cache is passed over: %v; if its files are on other nodes, a run on those may use it: %s; %s", labelled(id, d), err, untilOwn, another)
		k.leaveUnused(unused{Dataset: d.Dataset, id: id, passed: true})
		return
	}
	k.Log.WarnJob("%s in the cache cannot be used now: %v; %s", labelled(id, d), err, untilOwn)
	k.leaveUnused(unused{Dataset: d.Dataset, id: id})
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
func (k *Cache) restoreOrYield(c *Cached, d filemap.Description) (outcome string, err error) {
	for {
		c.refused, c.bare = false, false // of an attempt before
		if outcome, err = k.restore(c, d); err == nil {
			return outcome, nil
		}
		c.free()
		if !k.Yield(err) {
			return "", err
		}
	}
}

// leaveForeign leaves a dataset in the cache that a job of another size has
// written. err is nil if the dataset can be flushed, else the reason why it cannot.
func (k *Cache) leaveForeign(id int, f Foreign, err error) {
	if err == nil {
		k.foreign = append(k.foreign, f)
	} else {
		k.Log.WarnJob("dataset %d in the cache, which %d ranks have written, cannot be used: %v; %s", id, f.Ranks, err, untilOwn)
	}
	k.leaveUnused(unused{Dataset: f.Dataset, id: id, otherSize: true})
}

// reportRebuilt reports the result of a rebuild to the user and to the log of the
// job.
func (k *Cache) reportRebuilt(id int, d filemap.Description, start time.Time, outcome string, err error) {
	r := eventlog.Record{Type: eventlog.RebuildSuccess, Dataset: id, Name: d.Name(), Note: outcome, Start: start, Seconds: eventlog.Since(start)}
	if err != nil {
		r.Type, r.Note = eventlog.RebuildFail, err.Error()
	} else {
		k.Log.Info("dataset %d (%s): %s, ready in %.3f s", id, d.Name(), outcome, time.Since(start).Seconds())
	}
	k.Events.Add(r)
}

// find gives all ranks the descriptions of a dataset, and decides where its files are to be. If these nodes have too
// little of the dataset, find returns an error on all ranks. damaged reports whether files of some rank are on no node; if look
// is true, also whether the redundancy of some rank is. It is collective.
func (k *Cache) find(c *Cached, d filemap.Description, look bool) (m *migrate.Migration, damaged bool, err error) {
	if d.World {
		if err := k.recall(d); err != nil {
			return nil, false, err
		}
	}
	if c.Desc, err = k.descs.descriptor(c.ID(), k.Node, k.migration(c).Missing); err != nil {
		return nil, false, err
	}
	c.restored = true
	m = k.migration(c) // now that it is known how many redundancy files there are
	missing, err := m.Missing()
	if err != nil {
		return nil, false, err
	}
	// The largest of all ranks: 1 if files are missing, and if it is damaged, and the number of its store.
	most := []int64{one(missing), one(missing || look && k.damage(c) == exposed), int64(storeNumber(k.Stores, c.Desc.Store))}
	k.World.Allreduce(most, mpi.Max)
	if most[0] > 0 {
		if err = k.checkPresent(c, missing); err != nil {
			return nil, false, err
		}
	}
	k.locate(c, int(most[2]))
	// locate has decided where they are to be.
	m.Dir, m.Device = k.places.dir(c.ID()), k.places.device(c.ID())
	return m, most[1] > 0, nil
}

// restore makes a dataset usable again: it gives all ranks the descriptions, migrates
// files to their owners, and rebuilds lost ones. outcome describes the repair, for messages.
func (k *Cache) restore(c *Cached, d filemap.Description) (outcome string, err error) {
	id := c.ID()
	m, _, err := k.find(c, d, false)
	if err != nil {
		return "", err
	}
	made := os.MkdirAll(m.Dir, 0o700)
	// Record the descriptions before the ranks that had copies of them delete these.
	known := k.descs.known(id)
	if err = k.descs.record(c); known && noRoom(err) {
		err = nil // the caller has its own; the copies for its neighbours are not essential
	}
	if err := mpi.Agree(k.World, cmp.Or(made, err)); err != nil {
		return "", err
	}
	if c.store.Shared || d.World {
		if err := m.Adopt(); err != nil {
			return "", err
		}
	}
	start := time.Now()
	if c.refused, err = m.Run(); err != nil {
		return "", err
	}
	moved := time.Now()
	files, outcome, err := k.repair(c)
	if err != nil {
		return "", err
	}
	k.Phases.Log(c.Dataset, phases.Took(eventlog.Distribute, start, moved.Sub(start)), phases.Took(eventlog.Rebuild, moved, time.Since(moved)))
	if m.Device != "" {
		err = restoreMetadata(files)
	}
	if err := mpi.Agree(k.World, err); err != nil {
		return "", err
	}
	return outcome, k.usable(c, files)
}

// checkPresent returns an error on all ranks if the nodes have too little of a dataset. missing is whether some of the
// caller's files are on no node. Files are not moved then: a later run on other nodes must find them where they are. It is
// collective.
func (k *Cache) checkPresent(c *Cached, missing bool) error {
	state := none
	if missing {
		state = lost
	}
	return k.checkBearable(c, damageOf(c.Desc.Set, state), state)
}

// migration returns the migration of the files of a dataset.
func (k *Cache) migration(c *Cached) *migrate.Migration {
	id := c.ID()
	return &migrate.Migration{
		World: k.World, Log: k.Log, Piece: k.Piece, Maps: k.parts.maps, Made: c.made(),
		ID: id, Dir: k.places.dir(id), Device: k.places.device(id),
		Files:  func(rank int) []redundancy.File { return k.parts.files(id, rank) },
		Delete: func(rank int, files ...redundancy.File) error { return k.parts.delete(id, rank, files...) },
		Forget: func(rank int) { k.descs.forget(c, rank) },
	}
}

// locate decides in which directory the caller's files of a restored dataset are to be. If
// the node has some of the dataset, it is where those are; else the store that the
// descriptor names, if this run has it, or else the first store. number is the highest number that the store has on any rank.
func (k *Cache) locate(c *Cached, number int) {
	c.store = k.Stores[number]
	if k.places.of[c.ID()] == nil {
		k.places.put(c.ID(), c.store)
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
func (k *Cache) Repair(c *Cached) error {
	files, outcome, err := k.repair(c)
	if err == nil {
		k.Log.Info("dataset %d (%s): %s", c.ID(), c.Name(), outcome)
		for _, f := range files {
			k.parts.maps.Map.AddFile(c.ID(), k.parts.me(), f.Path, f.Meta)
		}
		return mpi.Agree(k.World, k.parts.maps.Fold())
	}
	if errors.Is(err, redundancy.ErrUnrecoverable) {
		return k.abandon(c, nil, err)
	}
	return err
}
