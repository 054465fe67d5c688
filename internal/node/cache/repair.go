package cache

import (
	"errors"
	"fmt"

	"github.com/goscr/goscr/internal/lifecycle/life"
	"github.com/goscr/goscr/internal/observe/report"
	"github.com/goscr/goscr/internal/redundancy"
	"github.com/goscr/goscr/mpi"
)

// damage is the degree to which a rank has lost its files of a dataset.
type damage int64

const (
	none    damage = iota
	exposed        // only its redundancy file is lost
	lost           // files of the program are lost
)

// errRefused says that a dataset would be whole if there were room for its files.
var errRefused = errors.New("files that are whole on another node could not be stored on this one")

// repairer verifies the files of a dataset, and rebuilds lost and corrupt ones.
type repairer struct {
	*parts
	node mpi.Comm
}

// repair checks every file of a dataset and rebuilds lost and corrupt files. refused is whether this node had no room for files of
// the caller that are whole on another node. It checks the
// files that it reads to rebuild others in the same pass. If one of these is corrupt, it
// counts as lost and repair begins again, until all files are right or a set has lost more
// than its scheme tolerates.
//
// A set that has all files of the program makes its redundancy again, however much of that
// is lost, and does not change the files. As long as the set tolerates the loss of more members, those
// that have lost nothing keep what they have: the job may be killed, and a node lost, before the
// repair ends. It is collective.
func (r *repairer) repair(c *Cached, refused bool) (files []redundancy.File, outcome string, err error) {
	id, me := c.ID(), r.me()
	mine := r.damage(c)
	for {
		var set setDamage
		files = r.files(id, me)
		own, made := redundancy.Split(files)
		if mpi.Any(r.world, mine != none) {
			set = damageOf(c.Desc.Set, mine)
			if err := r.checkBearable(c, set, mine, refused); err != nil {
				return nil, "", err
			}
			var err error
			switch mine {
			case exposed:
				err = r.dropRedundancy(id, made)
				files = own
			case lost: // make room: all my files are rebuilt, including those not lost
				err = r.delete(id, me, files...)
			}
			if err := mpi.Agree(r.world, err); err != nil {
				return nil, "", err
			}
		}
		after, err := (&attempt{r, c, set, mine, files}).run()
		found := mine != lost && errors.As(err, new(*redundancy.CorruptError)) // in the caller's file
		kept, _ := redundancy.Split(after)
		counts := []int64{one(mine == lost), one(mine == exposed), one(found), one(err != nil), one(unchecked(kept)), one(c.bare)}
		r.world.Allreduce(counts, mpi.Sum)
		switch {
		case counts[2] > 0: // repeat the attempt
			switch {
			case found && mine == exposed: // all that was read are files of the program
				mine = lost
			case found:
				mine = r.foundDamage(own)
			}
		case counts[3] > 0:
			if counts[5] > 0 && c.Protected() && !c.Postponed() {
				r.happened(c, life.RedundancyLost)
			}
			return nil, "", mpi.Agree(r.world, err)
		default:
			switch mine {
			case exposed:
				if !c.bare {
					r.log.Local("dataset %d: made my redundancy again", id)
				}
			case lost:
				r.log.Local("dataset %d: rebuilt my %s", id, describeFiles(after))
			}
			r.happened(c, life.Restored, life.Facts{Exposed: counts[5] > 0, Unchecked: counts[4] > 0})
			if counts[0] > 0 {
				r.log.WarnJob("dataset %d (%s): files of %d of %d ranks were lost or damaged, and are rebuilt", id, c.Name(), counts[0], r.world.Size())
			}
			return after, describeRepair(counts[0], counts[1], counts[4], r.world.Size()), nil
		}
	}
}

// damage returns the caller's damage to a dataset, as far as it is known without reading
// the files.
func (p *parts) damage(c *Cached) damage {
	switch id, me := c.ID(), p.me(); {
	case p.maps.Whole(id, me):
		return none
	case p.maps.CheckData(id, me, c.made()) == nil:
		return exposed
	}
	return lost
}

// foundDamage returns the caller's damage after one of its files has turned out to be
// corrupt. It reads the files of the program again, because the error may name the wrong
// file if the header of a redundancy file is corrupt.
func (r *repairer) foundDamage(own []redundancy.File) damage {
	if redundancy.Verify(own, r.piece) == nil {
		return exposed
	}
	return lost
}

// setDamage is the damage of a set.
type setDamage struct {
	members []int // those that have lost files or redundancy
	lost    int   // how many of them have lost files of the program
}

// encode reports whether encoding again repairs the set: it has all files of the program.
func (d setDamage) encode() bool { return len(d.members) > 0 && d.lost == 0 }

// damageOf returns the damage of a set, of which the caller has mine. It is collective over the set.
func damageOf(set *redundancy.Set, mine damage) (d setDamage) {
	all := make([]int64, set.Size())
	all[set.Me()] = int64(mine)
	set.Comm.Allreduce(all, mpi.Sum)
	for m, of := range all {
		if damage(of) != none {
			d.members = append(d.members, m)
		}
		if damage(of) == lost {
			d.lost++
		}
	}
	return d
}

// checkBearable returns an error on all ranks if some set has lost more members than its
// scheme tolerates: errRefused if there would be enough but for the lack of room. It is collective.
func (r *repairer) checkBearable(c *Cached, found setDamage, mine damage, noRoom bool) error {
	set, scheme := c.Desc.Set, c.Desc.Scheme
	var err error
	if !found.encode() && !scheme.Tolerates(set.Size(), found.members) {
		what := "files"
		if found.lost < len(found.members) {
			what = "files or redundancy"
		}
		err = fmt.Errorf("%d of the %d members of set %d have lost %s, %s tolerates the loss of %d",
			len(found.members), set.Size(), set.ID, what, scheme.Name(), scheme.Failures(set.Size()))
	}
	err = mpi.Agree(r.world, err)
	if err == nil {
		return nil
	}
	who := losses(r.world, r.node, mine == lost)
	bare := mpi.AllreduceOne(r.world, int(one(mine == exposed)), mpi.Sum)
	more := ""
	if bare > 0 {
		more = fmt.Sprintf(", and %d of the others have no redundancy: it is lost, or was not complete yet", bare)
	}
	var refused error
	if noRoom {
		refused = errRefused
	}
	if refused = mpi.Agree(r.world, refused); refused != nil {
		return refused // a later run may have room for them
	}
	return fmt.Errorf("%w: %s have lost files%s; %w", redundancy.ErrUnrecoverable, who, more, err)
}

// attempt is an attempt to repair a dataset, for a member of a set.
type attempt struct {
	r     *repairer
	c     *Cached
	set   setDamage
	mine  damage
	files []redundancy.File // the caller's
}

// run verifies the caller's files, or makes the redundancy of the set again, or rebuilds
// the files of the members that have lost theirs. It returns the caller's files, and
// warns the user if one of them is corrupt. It is collective over the set.
func (a *attempt) run() (files []redundancy.File, err error) {
	files = a.files
	switch {
	case len(a.set.members) == 0:
		err = a.c.Desc.Scheme.Verify(a.r.job(a.c), files)
	case a.set.encode():
		files, err = a.makeRedundancy()
	default:
		files, err = a.recover()
	}
	if corrupt := new(redundancy.CorruptError); errors.As(err, &corrupt) {
		a.r.log.Warn("dataset %d: %v", a.c.ID(), corrupt)
	}
	return files, err
}

// recover rebuilds what the members of a set have lost: all files, or only the redundancy. It is
// collective over the set.
func (a *attempt) recover() ([]redundancy.File, error) {
	j := a.r.job(a.c)
	j.Whole = a.mine == exposed
	return a.c.Desc.Scheme.Recover(j, a.files, a.set.members)
}

// makeRedundancy makes the redundancy that members of a set have lost, all of which have the files
// of the program. If the others have enough, they keep theirs. It is collective over the set.
func (a *attempt) makeRedundancy() ([]redundancy.File, error) {
	set := a.c.Desc.Set
	if !a.c.Desc.Scheme.Tolerates(set.Size(), a.set.members) {
		return a.encodeAgain()
	}
	after, err := a.recover()
	corrupt, useless := errors.Is(err, redundancy.ErrCorrupt), errors.Is(err, redundancy.ErrUnrecoverable)
	failed := []int64{one(corrupt), one(useless), one(err != nil && a.mine == none)}
	set.Comm.Allreduce(failed, mpi.Sum)
	switch {
	case failed[0] > 0:
		return a.files, err
	case failed[1] > 0: // the redundancy of the others does not fit together
		return a.encodeAgain()
	case a.mine == none:
		if err != nil {
			a.r.log.Warn("dataset %d: the redundancy that other ranks have lost cannot be made again: %v", a.c.ID(), err)
		}
		return a.files, nil
	case failed[2] > 0 && err == nil:
		err = errors.New("another rank could not read what it is computed from")
	}
	return a.made(after, err)
}

// made returns the caller's files after its redundancy has been made. If that has failed, the
// dataset is used without.
func (a *attempt) made(after []redundancy.File, err error) ([]redundancy.File, error) {
	a.c.bare = err != nil
	if !a.c.bare {
		return after, nil
	}
	a.r.log.Warn("dataset %d: its redundancy is lost and cannot be made again: %v; the dataset is used, but a lost node would lose it", a.c.ID(), err)
	own, _ := redundancy.Split(a.files)
	_, left := redundancy.Split(a.r.files(a.c.ID(), a.r.me()))
	return own, a.r.dropRedundancy(a.c.ID(), left)
}

// encodeAgain makes the redundancy of a set again, after all its members have verified their
// files: redundancy of corrupt files would be useless, and would overwrite the rest of the
// old redundancy, which may still help to rebuild them. If a redundancy file cannot be
// stored, the dataset is used without it. It is collective over the set.
func (a *attempt) encodeAgain() ([]redundancy.File, error) {
	own, _ := redundancy.Split(a.files)
	err := redundancy.Verify(own, a.r.piece)
	if mpi.Any(a.c.Desc.Set.Comm, err != nil) {
		return a.files, err
	}
	var again []redundancy.File
	for _, f := range own {
		again = append(again, redundancy.File{Path: f.Path, Meta: f.Meta.Clone()})
	}
	made, err := a.c.Desc.Scheme.Encode(a.r.job(a.c), again)
	if errors.Is(err, redundancy.ErrCorrupt) {
		return a.files, fmt.Errorf("was right before: %v", err) // %v: as ErrCorrupt it would be repaired, from contents that have just changed
	}
	for i, f := range own {
		want, known := f.Meta.CRC()
		switch got, _ := again[i].Meta.CRC(); {
		case err != nil:
		case !known: // the job was killed before the dataset was protected
			f.Meta.SetCRC(got)
		case got != want:
			return a.files, fmt.Errorf("%s changes while it is read", f.Path)
		}
	}
	return a.made(append(own, made...), err)
}

// dropRedundancy deletes redundancy files that are of no use. If there is one, as usual, its
// entry stays: the file is made again, and there may be no room to write a filemap.
func (r *repairer) dropRedundancy(id int, made []redundancy.File) error {
	if len(made) == 1 && r.places.inside(made[0].Path) {
		return r.places.clear(made[0].Path)
	}
	return r.delete(id, r.me(), made...)
}

func describeFiles(files []redundancy.File) string {
	own, made := redundancy.Split(files)
	var bytes int64
	for _, f := range files {
		bytes += f.Meta.Size()
	}
	return fmt.Sprintf("%s and %d of redundancy, %d bytes", report.Count(len(own), "file"), len(made), bytes)
}

// describeRepair describes a repair for messages. lost is the number of ranks whose files were
// rebuilt, exposed that of ranks that had lost only redundancy, unchecked that of
// ranks that have files without checksums.
func describeRepair(lost, exposed, unchecked int64, ranks int) string {
	switch {
	case unchecked > 0 && lost == 0 && exposed == 0:
		return "as it was in the cache, by the sizes of its files, which have no checksums yet"
	case lost == 0 && exposed == 0:
		return "as it was in the cache"
	case lost == 0:
		return fmt.Sprintf("redundancy was made again, %d of %d ranks had lost theirs", exposed, ranks)
	}
	more := ""
	if exposed > 0 {
		more = fmt.Sprintf("; redundancy of %s was made again", report.Count(int(exposed), "other"))
	}
	return fmt.Sprintf("rebuilt from redundancy, %d of %d ranks had lost files%s", lost, ranks, more)
}
