package cache

import (
	"errors"
	"fmt"

	"github.com/goscr/goscr/internal/redundancy"
	"github.com/goscr/goscr/mpi"
)

// repaired is a dataset whose files are all in place.
type repaired struct {
	files   []redundancy.File // of the caller
	outcome string            // which step of the ladder held
}

// repair checks every file of a dataset and rebuilds what is lost or corrupt.
// Files that are read to rebuild others are checked in the same pass; one that
// turns out corrupt counts as lost, and it begins again, until all is well or
// a set has lost more than its scheme bears. It is collective.
func (k *Cache) repair(c *Cached) (repaired, error) {
	id := c.ID()
	r := repaired{outcome: "as it was in the cache"}
	lost := !k.parts.maps.Whole(id, k.parts.me())
	if !lost {
		r.files = k.Files(id)
	}
	for {
		members, err := lostMembers(c.Desc.Set, lost)
		if err != nil {
			return repaired{}, err
		}
		if err := k.checkBearable(c, members, lost); err != nil {
			return repaired{}, err
		}
		if lost { // what is left of my files makes room for all of them
			err = k.parts.deleteFiles(id, k.parts.me())
		}
		if err := mpi.Agree(k.World, err); err != nil {
			return repaired{}, err
		}
		files, err := k.attempt(c, r.files, members)
		found := !lost && errors.As(err, new(*redundancy.CorruptError)) // which another's is not
		counts, e := k.count(lost, found, err != nil)
		if e != nil {
			return repaired{}, e
		}
		if counts.found > 0 { // of this attempt nothing counts; there is another
			if found {
				lost, r.files = true, nil
			}
			continue
		}
		if counts.failed > 0 {
			return repaired{}, mpi.Agree(k.World, err)
		}
		r.files = files
		if lost {
			k.Log.Local("dataset %d: rebuilt my %s", id, describeFiles(files))
		}
		if counts.lost > 0 {
			r.outcome = fmt.Sprintf("rebuilt from redundancy, %d of %d ranks had lost files", counts.lost, k.World.Size())
		}
		return r, nil
	}
}

// lostMembers returns the members of a set that have lost files. It is collective
// over the set.
func lostMembers(set *redundancy.Set, lost bool) ([]int, error) {
	flags := make([]int64, set.Size())
	if lost {
		flags[set.Me()] = 1
	}
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
		err = fmt.Errorf("%d of the %d members of set %d have lost files, %s bears the loss of %d",
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
		return refused // another run may have room for them
	}
	return fmt.Errorf("%w: %s have lost files; %w", redundancy.ErrUnrecoverable, who, err)
}

// attempt verifies the caller's files, or rebuilds those of the members that have
// lost theirs. It returns the caller's files, and tells people of one that is
// corrupt. It is collective over the set.
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

// counts says of how many ranks something holds.
type counts struct {
	lost   int64 // had lost files before the attempt
	found  int64 // have found theirs corrupt in it
	failed int64 // have met an error
}

// count adds the ranks up. It is collective.
func (k *Cache) count(lost, found, failed bool) (counts, error) {
	values := make([]int64, 3)
	for i, holds := range []bool{lost, found, failed} {
		if holds {
			values[i] = 1
		}
	}
	err := k.World.Allreduce(values, mpi.Sum)
	return counts{values[0], values[1], values[2]}, err
}

func describeFiles(files []redundancy.File) string {
	own, made := redundancy.Split(files)
	var bytes int64
	for _, f := range files {
		bytes += f.Meta.Size()
	}
	return fmt.Sprintf("%d files and %d of redundancy, %d bytes", len(own), len(made), bytes)
}
