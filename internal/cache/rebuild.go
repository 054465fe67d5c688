package cache

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/goscr/goscr/internal/dataset"
	"github.com/goscr/goscr/internal/eventlog"
	"github.com/goscr/goscr/internal/redundancy"
	"github.com/goscr/goscr/mpi"
)

// Rebuild makes the datasets that are in the cache usable again, newest first:
// it moves files to the nodes where their ranks now run, and rebuilds what was
// lost or is corrupt. What cannot be made whole is deleted. It is collective.
func (k *Cache) Rebuild() error {
	k.confine()
	return k.each(k.rebuildDataset)
}

// each calls f with the id of every dataset in the cache of any rank, highest
// first. It is collective.
func (k *Cache) each(f func(id int) error) error {
	below := int64(1) << 62
	for {
		next := []int64{-1}
		for _, id := range k.maps.Datasets() {
			if int64(id) < below {
				next[0] = max(next[0], int64(id))
			}
		}
		if err := k.World.Allreduce(next, mpi.Max); err != nil {
			return err
		}
		if next[0] < 0 {
			return nil
		}
		below = next[0]
		if err := f(int(below)); err != nil {
			return err
		}
	}
}

// confine forgets files outside the cache directory, which are none of ours.
func (k *Cache) confine() {
	for _, id := range k.maps.Datasets() {
		for _, rank := range k.maps.Ranks(id) {
			for _, path := range k.maps.Files(id, rank) {
				if !k.inside(path) {
					k.Log.Warn("filemap names %s, which is in no cache directory; ignored", path)
					k.maps.RemoveFile(id, rank, path)
				}
			}
		}
	}
}

// rebuildDataset makes one dataset usable, or deletes it. The error is of
// something that leaves no way to go on.
func (k *Cache) rebuildDataset(id int) error {
	k.highest = max(k.highest, id)
	start := time.Now()
	d, known := k.distributeDataset(id)
	from := d.Place().Prefix
	d.SetPlace(dataset.Place{})
	if known == nil && from != "" && from != k.Prefix {
		if k.me() == 0 {
			k.Log.Warn("dataset %d (%s) in the cache belongs to a job with prefix directory %s, this job's is %s: it is not used "+
				"(give each job its own SCR_JOB_ID); %s", id, d.Name(), from, k.Prefix, untilNext)
		}
		k.unused = append(k.unused, id)
		return nil
	}
	if !k.Distribute {
		k.Log.Info("dataset %d in the cache is not used, as SCR_DISTRIBUTE=0 says; %s", id, untilNext)
		k.unused = append(k.unused, id)
		return nil
	}
	if known == nil {
		known = k.dropOthers(d)
	}
	ranks, err := k.jobSize(id)
	if err != nil {
		return err
	}
	if ranks >= 0 && ranks != k.World.Size() {
		k.unused = append(k.unused, id)
		switch {
		case known == nil:
			k.foreign = append(k.foreign, Foreign{d, ranks})
		case k.me() == 0:
			k.Log.Warn("dataset %d in the cache, which %d ranks have written, cannot be used: %v; %s", id, ranks, known, untilNext)
		}
		return nil
	}
	k.Events.Add(eventlog.Record{Type: "REBUILD_START", Dataset: id, Name: d.Name()})
	c, rung, err := &Cached{Dataset: d}, "", known
	if err == nil {
		rung, err = k.restore(c)
	}
	if err == nil {
		k.Log.Info("dataset %d (%s): %s, ready in %.3f s", id, c.Name(), rung, time.Since(start).Seconds())
		k.Events.Add(eventlog.Record{Type: "REBUILD_SUCCESS", Dataset: id, Name: c.Name(), Note: rung,
			Start: start, Seconds: eventlog.Since(start)})
		return nil
	}
	k.Events.Add(eventlog.Record{Type: "REBUILD_FAIL", Dataset: id, Name: c.Name(), Note: err.Error(),
		Start: start, Seconds: eventlog.Since(start)})
	if e := c.free(); e != nil {
		return e
	}
	var agreed *mpi.AgreedError
	switch {
	case errors.Is(err, redundancy.ErrUnrecoverable):
		if k.me() == 0 {
			k.Log.Warn("dataset %d in the cache is deleted: %v; %s", id, err, olderNext)
		}
		return k.Delete(id)
	case errors.As(err, &agreed):
		// It may be possible another time, as when a disk was full.
		if k.me() == 0 {
			k.Log.Warn("dataset %d in the cache cannot be used now: %v; %s", id, err, untilNext)
		}
		k.unused = append(k.unused, id)
		return nil
	default:
		return err // MPI itself has failed
	}
}

// untilNext says how long an unused dataset stays.
const untilNext = "it stays there until this run begins a checkpoint"

// olderNext says what happens when a dataset cannot be rebuilt.
const olderNext = "the run goes on from an older checkpoint, if the cache has one, or else the prefix directory"

// losses says how many ranks have lost something, on how many nodes, and which.
// It is collective.
func (k *Cache) losses(lost bool) (string, error) {
	flag := func(set bool) []int64 {
		if set {
			return []int64{1}
		}
		return []int64{0}
	}
	onNode := flag(lost)
	if err := k.Node.Allreduce(onNode, mpi.Max); err != nil {
		return "", err
	}
	counts := append(flag(lost), flag(onNode[0] == 1 && k.Node.Rank() == 0)...)
	if err := k.World.Allreduce(counts, mpi.Sum); err != nil {
		return "", err
	}
	const most = 8 // of the ranks, of which there may be very many
	var which []string
	for i := int64(0); i < min(counts[0], most); i++ {
		next := []int64{int64(k.World.Size())}
		if lost {
			next[0] = int64(k.me())
		}
		if err := k.World.Allreduce(next, mpi.Min); err != nil {
			return "", err
		}
		which = append(which, strconv.FormatInt(next[0], 10))
		lost = lost && int64(k.me()) != next[0]
	}
	if counts[0] > most {
		which = append(which, "...")
	}
	return fmt.Sprintf("%d of %d ranks (%s; now on %d of the nodes)", counts[0], k.World.Size(), strings.Join(which, ", "), counts[1]), nil
}

// jobSize returns how many ranks wrote a dataset, -1 if no rank knows.
func (k *Cache) jobSize(id int) (int, error) {
	known := []int64{-1}
	for _, rank := range k.maps.Ranks(id) {
		_, size := k.maps.Expected(id, rank)
		known[0] = max(known[0], int64(size))
	}
	err := k.World.Allreduce(known, mpi.Max)
	return int(known[0]), err
}

// restore brings a dataset back: descriptions first, then files to their
// owners, then what is lost from those who have it. rung says which step of
// the ladder held.
func (k *Cache) restore(c *Cached) (rung string, err error) {
	id := c.ID()
	if c.Desc, err = k.distributeDescriptor(id); err != nil {
		return "", err
	}
	c.restored = true
	if err := k.locate(c); err != nil {
		return "", err
	}
	if err := mpi.Agree(k.World, os.MkdirAll(k.Dir(id), 0o700)); err != nil {
		return "", err
	}
	// Before the descriptions are gone from where they were.
	if err := mpi.Agree(k.World, k.record(c)); err != nil {
		return "", err
	}
	if err := k.adopt(c); err != nil {
		return "", err
	}
	if err := k.distributeFiles(c); err != nil {
		return "", err
	}
	files, rung, err := k.repair(c)
	if err != nil {
		return "", err
	}
	if k.device(id) != "" {
		err = restoreMetadata(files)
	}
	if err := mpi.Agree(k.World, err); err != nil {
		return "", err
	}
	return rung, k.usable(c, files)
}

// restoreMetadata gives files the mode, owner and times again that they had. On
// storage that nodes share, a file that a run was killed over, just rebuilt, has
// an entry on another node that says it is whole, as by its contents it is.
func restoreMetadata(files []redundancy.File) error {
	own, _ := redundancy.Split(files)
	for _, f := range own {
		if err := f.Meta.Restore(f.Path); err != nil {
			return err
		}
	}
	return nil
}

// Repair checks every file of a usable dataset and rebuilds what is corrupt. A
// dataset that cannot be made whole is deleted. It is collective.
func (k *Cache) Repair(c *Cached) error {
	files, rung, err := k.repair(c)
	if err == nil {
		k.Log.Info("dataset %d (%s): %s", c.ID(), c.Name(), rung)
		for _, f := range files {
			k.maps.Map.AddFile(c.ID(), k.me(), f.Path, f.Meta)
		}
		return mpi.Agree(k.World, k.maps.Fold())
	}
	if errors.Is(err, redundancy.ErrUnrecoverable) {
		return k.abandon(c, err)
	}
	return err
}

// repair checks every file of a dataset and rebuilds what is lost or corrupt.
// Files that are read to rebuild others are checked in the same pass; one that
// turns out corrupt counts as lost, and it begins again, until all is well or
// a set has lost more than its scheme bears. It is collective.
func (k *Cache) repair(c *Cached) (files []redundancy.File, rung string, err error) {
	id, set, scheme := c.ID(), c.Desc.Set, c.Desc.Scheme
	lost := int64(0)
	if k.maps.Whole(id, k.me()) {
		files = k.Files(id)
	} else {
		lost = 1
	}
	rung = "as it was in the cache"
	for {
		flags := make([]int64, set.Size())
		flags[set.Me()] = lost
		if err := set.Comm.Allreduce(flags, mpi.Sum); err != nil {
			return nil, "", err
		}
		var members []int
		for m, flag := range flags {
			if flag != 0 {
				members = append(members, m)
			}
		}
		if !scheme.Bears(set.Size(), members) {
			err = fmt.Errorf("%d of the %d members of set %d have lost files, %s bears the loss of %d",
				len(members), set.Size(), set.ID, scheme.Name(), scheme.Failures(set.Size()))
		}
		if err := mpi.Agree(k.World, err); err != nil {
			who, e := k.losses(lost != 0)
			if e != nil {
				return nil, "", e
			}
			if there := mpi.Agree(k.World, c.notHere()); there != nil {
				return nil, "", there
			}
			return nil, "", fmt.Errorf("%w: %s have lost files; %w", redundancy.ErrUnrecoverable, who, err)
		}
		if lost != 0 { // what is left of my files makes room for all of them
			err = k.deleteFiles(id, k.me())
		}
		if err := mpi.Agree(k.World, err); err != nil {
			return nil, "", err
		}

		if len(members) == 0 {
			err = scheme.Verify(k.job(c), files)
		} else {
			var back []redundancy.File
			if back, err = scheme.Recover(k.job(c), files, members); err == nil {
				files = back
			}
		}
		found := k.corrupt(id, err)
		// How many are lost, how many turned out to be, and how many know that it is
		// no use to try again.
		counts := []int64{lost, 0, 0}
		if errors.Is(err, redundancy.ErrUnrecoverable) {
			counts[2] = 1
		}
		if found && lost == 0 {
			lost, counts[1] = 1, 1
			files = nil
		}
		if err := k.World.Allreduce(counts, mpi.Sum); err != nil {
			return nil, "", err
		}
		if counts[0] > 0 && counts[1] == 0 {
			rung = fmt.Sprintf("rebuilt from redundancy, %d of %d ranks had lost files", counts[0], k.World.Size())
		}
		if counts[1] > 0 {
			err = nil // of this attempt; there is another
			continue
		}
		if err := mpi.Agree(k.World, err); err != nil {
			if counts[2] > 0 { // which an agreed error tells just one rank
				err = fmt.Errorf("%w: %w", redundancy.ErrUnrecoverable, err)
			}
			return nil, "", err
		}
		if lost != 0 {
			k.Log.Local("dataset %d: rebuilt my %s", id, describe(files))
		}
		return files, rung, nil
	}
}

// notHere is an error if the caller's files are lost only in that they could not
// be stored where it now runs.
func (c *Cached) notHere() error {
	if !c.elsewhere {
		return nil
	}
	return errors.New("files that are whole on another node could not be stored on this one")
}

// corrupt reports whether an error says that a file of the caller is not what
// was written, and tells people.
func (k *Cache) corrupt(id int, err error) bool {
	var c *redundancy.CorruptError
	if !errors.As(err, &c) {
		return false
	}
	k.Log.Warn("dataset %d: %v", id, c)
	return true
}

func describe(files []redundancy.File) string {
	own, made := redundancy.Split(files)
	var bytes int64
	for _, f := range files {
		bytes += f.Meta.Size()
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%d files and %d of redundancy, %d bytes", len(own), len(made), bytes)
	return b.String()
}
