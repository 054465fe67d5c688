// Package reddesc decides which ranks protect each other. A redundancy descriptor has
// the store of a dataset, its scheme, and the failure group whose loss the scheme
// tolerates; on each rank it also has the rank's set.
//
// A descriptor is stored with every dataset, so that a later run protects and
// rebuilds it in the same sets, whatever the nodes of the ranks and the configuration
// are then.
package reddesc

import (
	"cmp"
	"fmt"
	"hash/fnv"
	"slices"
	"strings"

	"github.com/goscr/goscr/internal/redundancy"
	"github.com/goscr/goscr/internal/redundancy/partner"
	"github.com/goscr/goscr/internal/redundancy/rs"
	"github.com/goscr/goscr/internal/redundancy/xor"
	"github.com/goscr/goscr/mpi"
)

// scheme returns the scheme of a name, for a number of losses; 0 is the default of
// the scheme.
func scheme(name string, failures int) (redundancy.Scheme, error) {
	if failures < 0 {
		return nil, fmt.Errorf("SET_FAILURES=%d: must not be negative", failures)
	}
	switch strings.ToUpper(name) {
	case "SINGLE", "LOCAL": // the latter in older versions of SCR
		return redundancy.Single{}, nil
	case "XOR":
		return xor.Scheme(), nil
	case "PARTNER":
		return partner.Scheme(cmp.Or(failures, 1)), nil
	case "RS":
		if failures == 1 {
			return xor.Scheme(), nil // is the same, and simpler
		}
		return rs.Scheme(cmp.Or(failures, 2)), nil
	}
	return nil, fmt.Errorf("there is no redundancy scheme %q; SINGLE, PARTNER, XOR and RS are", name)
}

// Params say how datasets are to be protected. Stored is the record that has the keys.
type Params struct {
	Index    int    `hash:"INDEX"`
	SetBy    string // the parameter that sets it, for messages
	Interval int    `hash:"INTERVAL"`     // used for every checkpoint whose number is a multiple of it
	Store    string `hash:"STORE"`        // name of the store that holds the datasets
	Group    string `hash:"GROUP"`        // name of the failure group
	Type     string `hash:"TYPE"`         // name of the scheme
	SetSize  int    `hash:"SET_SIZE"`     // least number of members of a set
	Failures int    `hash:"SET_FAILURES"` // losses to tolerate in a set, if the scheme leaves a choice; 0 for its default
	Hop      int    `hash:"HOP_DISTANCE"` // least distance of neighbours in a set, in groups; 0 is 1
	Output   bool   // used for datasets that are output
	Bypass   bool   // datasets are written to the prefix directory, and not protected
}

// Descriptor is a redundancy descriptor with the caller's set.
type Descriptor struct {
	Params
	Scheme redundancy.Scheme
	Set    *redundancy.Set

	// Protection says what any of the sets tolerates. In a descriptor that was stored it is what the
	// caller knows: its own set may have another scheme than larger ones.
	Protection Protection

	sets   int  // number of sets
	id     int  // of the caller's
	reused bool // Set is that of another descriptor
}

// IsSingle reports whether name is one of the names of the scheme without redundancy.
func IsSingle(name string) bool {
	s, err := scheme(name, 0)
	return err == nil && s.Name() == redundancy.Single{}.Name()
}

// best returns the scheme that comes closest to the one asked for in a set of n
// members: for fewer losses if the set is too small for all of them, and
// SINGLE for a rank that is alone in its set.
func best(p Params, n int) redundancy.Scheme {
	s, _ := scheme(p.Type, p.Failures) // which Create has checked
	for k := n - 1; k > 0 && s.Failures(n) == 0 && s.Name() != "SINGLE"; k-- {
		s, _ = scheme(p.Type, k)
	}
	if s.Failures(n) == 0 {
		return redundancy.Single{}
	}
	return s
}

// Check returns the error in the parameters of a descriptor, the same on all ranks.
func Check(g *Groups, p Params) error {
	_, err := scheme(p.Type, p.Failures)
	if err == nil && p.SetSize < 1 {
		err = fmt.Errorf("SET_SIZE=%d: must be at least 1", p.SetSize)
	}
	if err == nil && p.Hop < 0 {
		err = fmt.Errorf("HOP_DISTANCE=%d: must not be negative", p.Hop)
	}
	if err == nil {
		_, err = g.group(p.Group)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", p.SetBy, err)
	}
	return nil
}

// Create makes the sets of a descriptor. It is collective over the groups' world. If
// there are too few groups for the scheme, each set gets the best scheme that its
// size allows, and warning says why.
func Create(g *Groups, p Params) (d *Descriptor, warning string, err error) {
	if p.Bypass {
		p.Type = "SINGLE"
	}
	if err := Check(g, p); err != nil {
		return nil, "", err
	}
	s, _ := scheme(p.Type, p.Failures)
	group, _ := g.group(p.Group)
	size := max(p.SetSize, s.Failures(1<<30)+1) // a smaller set could not tolerate all losses
	if s.Name() == "RS" {
		size = min(size, rs.MaxMembers/2) // a set may get nearly twice as many
	}
	at := divide(g.World, group, size, max(p.Hop, 1))
	if s.Name() == "SINGLE" {
		at = place{sets: g.World.Size(), set: g.World.Rank(), smallest: 1}
	} else if group.Size() == g.World.Size() {
		where, remedy := "in one group "+p.Group, "in more groups"
		if p.Group == Node {
			where, remedy = "on one node", "on more nodes"
		}
		warning = fmt.Sprintf("all ranks run %s: SINGLE replaces %s (%s); run %s, or set SCR_FLUSH=1",
			where, s.Name()+losses(p.Failures), p.SetBy, remedy)
	} else {
		warning = short(p, s, at)
	}
	d = &Descriptor{Params: p, Protection: protection(p, at), sets: at.sets, id: at.set}
	d.Set = at.makeSet(g.World)
	d.Scheme = best(p, d.Set.Size())
	d.Type, d.Failures = d.Scheme.Name(), d.Scheme.Failures(d.Set.Size())
	return d, warning, nil
}

// short describes sets that are too small for the scheme asked for, "" if there are
// none. It is the same on all ranks.
func short(p Params, wanted redundancy.Scheme, at place) string {
	var sets []string
	for _, of := range []struct{ count, members int }{
		{at.sets - at.larger, at.smallest},
		{at.larger, at.smallest + 1},
	} {
		if of.count == 0 || wanted.Failures(of.members) > 0 {
			continue
		}
		scheme := best(p, of.members)
		text := fmt.Sprintf("%d with %d members kept with %s for the loss of %d", of.count, of.members, scheme.Name(), scheme.Failures(of.members))
		if of.members == 1 {
			text = fmt.Sprintf("%d with a single member kept with SINGLE, so that the loss of its node loses what was not flushed "+
				"(no more than half of the ranks may be in one group)", of.count)
		}
		sets = append(sets, text)
	}
	if sets == nil {
		return ""
	}
	return fmt.Sprintf("%s asks for %s%s in groups %s, which are too few or too different in size: of %d sets there are %s",
		p.SetBy, wanted.Name(), losses(p.Failures), p.Group, at.sets, strings.Join(sets, "; "))
}

func losses(k int) string {
	if k == 0 {
		return ""
	}
	return fmt.Sprintf(" for %d losses", k)
}

// makeSet makes the set of a place. It is collective over world.
func (at place) makeSet(world mpi.Comm) *redundancy.Set {
	c := world.Split(at.set, at.member)
	if at.inOrder {
		s := &redundancy.Set{Comm: c, ID: at.set}
		for rank := at.set; rank < world.Size(); rank += at.sets {
			s.Ranks = append(s.Ranks, rank)
		}
		return s
	}
	return redundancy.NewSet(c, world.Rank())
}

// Restore makes a descriptor again, with the sets it had when it was stored. It
// is collective over world; a rank whose descriptor is lost passes nil, and then
// no rank gets one.
func Restore(world mpi.Comm, s *Stored) (*Descriptor, error) {
	var d *Descriptor
	var err error
	switch {
	case s == nil:
		err = fmt.Errorf("its redundancy descriptor is lost")
	case s.Set < 0 || s.Set >= world.Size(): // not every MPI can split by another number
		err = fmt.Errorf("redundancy descriptor with set number %d", s.Set)
	case s.Member < 0 || s.Member >= world.Size():
		err = fmt.Errorf("redundancy descriptor with member number %d", s.Member)
	default:
		d = &Descriptor{Params: s.Params, sets: s.Sets, id: s.Set}
		d.Scheme, err = scheme(d.Type, d.Failures)
	}
	if err := mpi.Agree(world, err); err != nil {
		return nil, err
	}
	d.Protection = s.protection(world.Size())
	d.Set = place{set: s.Set, member: s.Member}.makeSet(world)
	if d.Set.Size() != s.Members || d.Set.Me() != s.Member {
		err = fmt.Errorf("redundancy descriptor says member %d of %d in its set, is member %d of %d",
			s.Member, s.Members, d.Set.Me(), d.Set.Size())
	}
	if e := d.same(); err == nil {
		err = e
	}
	if err := mpi.Agree(world, err); err != nil {
		d.Free()
		return nil, err
	}
	return d, nil
}

// Reuse is Restore if one of current, which are descriptors of this run, has the same sets and scheme on all ranks: then
// the sets need no communicators of their own. It returns nil if none has, or a rank passes nil. It is collective over
// world, and takes one reduction.
func Reuse(world mpi.Comm, s *Stored, current []*Descriptor) *Descriptor {
	if len(current) == 0 { // on all ranks
		return nil
	}
	differs := make([]int64, len(current))
	for i, d := range current {
		if s == nil || *s != d.storedAs(s) {
			differs[i] = 1
		}
	}
	world.Allreduce(differs, mpi.Max)
	i := slices.Index(differs, 0)
	if i < 0 {
		return nil
	}
	return &Descriptor{Params: s.Params, Scheme: current[i].Scheme, Set: current[i].Set, Protection: s.protection(world.Size()), sets: s.Sets, id: s.Set, reused: true}
}

// storedAs returns the descriptor as s would be if it had the same sets and scheme.
func (d *Descriptor) storedAs(s *Stored) Stored {
	own := *d.Stored()
	typ, failures := own.Type, own.Failures
	own.Params, own.Node = s.Params, s.Node
	own.Type, own.Failures = typ, failures
	return own
}

// same checks that the members of the set have the same descriptor. It is collective
// over the set.
func (d *Descriptor) same() error {
	sum := fnv.New32a()
	fmt.Fprintf(sum, "%s %d", d.Scheme.Name(), d.Scheme.Failures(1<<30))
	mine := int64(sum.Sum32())
	values := []int64{mine, -mine}
	d.Set.Comm.Allreduce(values, mpi.Max)
	if values[0] != mine || values[1] != -mine {
		return fmt.Errorf("redundancy descriptor says %s, another member of set %d has another scheme", d.Type, d.Set.ID)
	}
	return nil
}

// Free frees the set's communicator, unless it is that of another descriptor. It is collective over the set.
func (d *Descriptor) Free() {
	if !d.reused {
		d.Set.Comm.Free()
	}
}

// Pick returns the descriptor to use for the checkpoint of a number: of those
// whose interval divides it the one with the largest, and of those that have the
// same one that is not meant for output, if there is one. It is nil if there is
// none.
func Pick(list []*Descriptor, number int) *Descriptor {
	var best *Descriptor
	for _, d := range list {
		if d.Interval < 1 || number%d.Interval != 0 {
			continue
		}
		if best == nil || d.Interval > best.Interval || d.Interval == best.Interval && best.Output && !d.Output {
			best = d
		}
	}
	return best
}

// PickOutput returns the descriptor to use for output, nil if none is meant for it.
func PickOutput(list []*Descriptor) *Descriptor {
	for _, d := range list {
		if d.Output {
			return d
		}
	}
	return nil
}
