package cache

import (
	"errors"
	"fmt"

	"github.com/goscr/goscr/internal/redundancy"
	"github.com/goscr/goscr/mpi"
)

// repair checks every file of a dataset and rebuilds what is lost or corrupt.
// It checks files that it reads to rebuild others in the same pass. A corrupt one
// counts as lost, and repair begins again, until all files are right or a set has lost
// more than its scheme bears. It is collective.
func (k *Cache) repair(c *Cached) (files []redundancy.File, outcome string, err error) {
	id, me := c.ID(), k.World.Rank()
	outcome = "as it was in the cache"
	lost := !k.parts.maps.Whole(id, me)
	if !lost {
		files = k.Files(id)
	}
	for {
		members, err := lostMembers(c.Desc.Set, lost)
		if err != nil {
			return nil, "", err
		}
		if err := k.checkBearable(c, members, lost); err != nil {
			return nil, "", err
		}
		if lost { // the rest of my files makes room for all of them
			err = k.parts.delete(id, me, k.Files(id)...)
		}
		if err := mpi.Agree(k.World, err); err != nil {
			return nil, "", err
		}
		after, err := k.attempt(c, files, members)
		found := !lost && errors.As(err, new(*redundancy.CorruptError)) // false for another member's file
		counts := []int64{one(lost), one(found), one(err != nil)}
		if err := k.World.Allreduce(counts, mpi.Sum); err != nil {
			return nil, "", err
		}
		switch {
		case counts[1] > 0: // repeat the attempt
			lost = lost || found
		case counts[2] > 0:
			return nil, "", mpi.Agree(k.World, err)
		default:
			if lost {
				k.Log.Local("dataset %d: rebuilt my %s", id, describeFiles(after))
			}
			if counts[0] > 0 {
				outcome = fmt.Sprintf("rebuilt from redundancy, %d of %d ranks had lost files", counts[0], k.World.Size())
			}
			return after, outcome, nil
		}
	}
}

// lostMembers returns the members of a set that have lost files. It is collective
// over the set.
func lostMembers(set *redundancy.Set, lost bool) ([]int, error) {
	flags := make([]int64, set.Size())
	flags[set.Me()] = one(lost)
	if err := set.Comm.Allreduce(flags, mpi.Sum); err != nil {
		return nil, err
	}
	var members []int
	for m, flag := range flags {
		if flag != 0 {
			members = append(members, m)
		}
	}
	return members, nil
}

// checkBearable is an error on all ranks if some set has lost more members than
// its scheme bears. It is collective.
func (k *Cache) checkBearable(c *Cached, members []int, lost bool) error {
	set, scheme := c.Desc.Set, c.Desc.Scheme
	var err error
	if !scheme.Bears(set.Size(), members) {
		err = fmt.Errorf("%d of the %d members of set %d have lost files, %s tolerates the loss of %d",
			len(members), set.Size(), set.ID, scheme.Name(), scheme.Failures(set.Size()))
	}
	err = mpi.Agree(k.World, err)
	if err == nil {
		return nil
	}
	who, e := losses(k.World, k.Node, lost)
	if e != nil {
		return e
	}
	var refused error
	if c.refused {
		refused = errors.New("files that are whole on another node could not be stored on this one")
	}
	if refused = mpi.Agree(k.World, refused); refused != nil {
		return refused // a later run may have room for them
	}
	return fmt.Errorf("%w: %s have lost files; %w", redundancy.ErrUnrecoverable, who, err)
}

// attempt verifies the caller's files, or rebuilds those of the members that have lost
// theirs. It returns the caller's files, and reports a corrupt one to the user. It is
// collective over the set.
func (k *Cache) attempt(c *Cached, files []redundancy.File, members []int) ([]redundancy.File, error) {
	var err error
	if len(members) == 0 {
		err = c.Desc.Scheme.Verify(k.job(c), files)
	} else {
		files, err = c.Desc.Scheme.Recover(k.job(c), files, members)
	}
	if corrupt := new(redundancy.CorruptError); errors.As(err, &corrupt) {
		k.Log.Warn("dataset %d: %v", c.ID(), corrupt)
	}
	return files, err
}

func describeFiles(files []redundancy.File) string {
	own, made := redundancy.Split(files)
	var bytes int64
	for _, f := range files {
		bytes += f.Meta.Size()
	}
	return fmt.Sprintf("%d files and %d of redundancy, %d bytes", len(own), len(made), bytes)
}
