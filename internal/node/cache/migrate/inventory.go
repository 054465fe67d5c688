package migrate

import (
	"cmp"
	"errors"
	"slices"
	"strings"

	"github.com/goscr/goscr/internal/node/meta"
)

// whole returns the files of a rank that have all their bytes.
func (m *Migration) whole(rank int) fileList {
	var whole fileList
	for _, f := range m.Files(rank) {
		if f.Meta.Check(f.Path) == nil {
			whole = append(whole, f)
		}
	}
	return whole
}

// offers are what ranks have told each other before files move.
type offers struct {
	to   []int           // owners of files here, in the order of the rounds in which the caller can send them
	made map[int]message // to the caller, by rank
}

// offer tells the owner of every part which of its files are whole here, unless that has been done.
// It is collective.
func (m *Migration) offer() (*offers, error) {
	if m.offers != nil {
		return m.offers, nil
	}
	var ranks []int
	send := map[int]message{}
	for _, rank := range m.Maps.Ranks(m.ID) {
		if rank >= m.World.Size() {
			continue
		}
		files, _ := m.Maps.Expected(m.ID, rank)
		o := message{Files: files}
		for _, f := range m.whole(rank) {
			o.Names = append(o.Names, f.Meta.Label())
		}
		if err := m.Maps.Check(m.ID, rank); err != nil && !m.told {
			m.reportIncomplete(rank, err)
		}
		if o.Files >= 0 || len(o.Names) > 0 {
			send[rank] = o
			ranks = append(ranks, rank)
		}
	}
	m.told = true
	// Begin with the ranks above my own, so that the ranks of a node with many parts
	// do not offer them in the same order.
	above, _ := slices.BinarySearch(ranks, m.World.Rank())
	ranks = append(ranks[above:], ranks[:above]...)
	for round, rank := range ranks {
		o := send[rank]
		o.Round = round
		send[rank] = o
	}
	made, err := exchange(m.World, send)
	if err != nil {
		return nil, err
	}
	m.offers = &offers{ranks, made}
	return m.offers, nil
}

// reportIncomplete logs the reason why a part is not whole here. It is a warning if a file
// is missing or has another size. It is only a detail if the part was never completed or protected, for
// example because the job was killed, or if the node has only a description, as it does for
// a rank on another node that is now lost.
func (m *Migration) reportIncomplete(rank int, why error) {
	tell := m.Log.Warn
	unprotected := errors.Is(why, meta.ErrIncomplete) && m.Maps.CheckData(m.ID, rank, m.Made) == nil
	if files, _ := m.Maps.Expected(m.ID, rank); files < 0 || unprotected || !m.Maps.Dataset(m.ID, rank).Complete() {
		tell = m.Log.Detail
	}
	tell("dataset %d: not all files of rank %d are here: %v", m.ID, rank, why)
}

// Missing reports whether some of the caller's files are whole on no node. It is
// collective.
func (m *Migration) Missing() (bool, error) {
	offers, err := m.offer()
	if err != nil {
		return false, err
	}
	own := m.takeInventory(offers.made)
	return own.failed && !own.known, nil
}

// inventory is the state of the files of a part, on its owner.
type inventory struct {
	files   int             // number of files of the part, -1 if no rank knows it
	offered map[int]message // by rank; without the ranks that were asked
	known   bool            // the part needs no files of other ranks
	failed  bool            // some files did not arrive
}

// takeInventory evaluates the offers. If a file of the program is offered by no rank, the
// inventory has failed, and no file is moved.
func (m *Migration) takeInventory(offered map[int]message) *inventory {
	me := m.World.Rank()
	v := &inventory{files: -1, offered: offered}
	// If only redundancy is missing and no rank has it, the filemap can stay as it is.
	v.known = m.Maps.Whole(m.ID, me) || m.Maps.CheckData(m.ID, me, m.Made) == nil && !v.elsewhere(me)
	names := map[string]bool{}
	for _, o := range offered {
		v.files = max(v.files, o.Files)
		for _, name := range o.Names {
			names[name] = true
		}
	}
	v.failed = !m.all(v, names)
	return v
}

// elsewhere reports whether another rank has a file that the owner does not have.
func (v *inventory) elsewhere(owner int) bool {
	here := map[string]bool{}
	for _, name := range v.offered[owner].Names {
		here[name] = true
	}
	for _, o := range v.offered {
		if slices.ContainsFunc(o.Names, func(name string) bool { return !here[name] }) {
			return true
		}
	}
	return false
}

// all reports whether names has all files of a part. Redundancy may be missing, since it is
// made again.
func (m *Migration) all(v *inventory, names map[string]bool) bool {
	own := 0
	for name := range names {
		if !redundant(name) {
			own++
		}
	}
	return v.files >= 0 && (len(names) == v.files || own == v.files-m.Made)
}

// redundant reports whether a name is that of a redundancy file: programs have no files in
// goscr's own directory.
func redundant(name string) bool { return strings.HasPrefix(name, ".scr/") }

// choice is a rank, the files to request from it, and the round in which it sends
// them. The rank is -1 if there is nothing to request.
type choice struct {
	source, round int
	names         []string
}

// sender returns the rank that sends files to the caller in a round, -1 if none does.
func (c choice) sender(round int) int {
	if round == c.round {
		return c.source
	}
	return -1
}

// next returns the owner's next request. If there is none, either the part is complete or
// some files did not arrive.
func (m *Migration) next(v *inventory) (choice, error) {
	nothing := choice{source: -1}
	if v.failed || v.known {
		return nothing, nil
	}
	have, err := m.keepWhole()
	if err != nil {
		v.failed = true
		return nothing, err
	}
	if c := v.choose(m.World.Rank(), have); c.source >= 0 {
		delete(v.offered, c.source) // each rank is asked once
		return c, nil
	}
	if !m.all(v, have) { // an arrived file is gone again
		v.failed = true
		return nothing, nil
	}
	v.known = true
	m.Maps.SetExpected(m.ID, m.World.Rank(), v.files, m.World.Size())
	return nothing, m.Maps.Fold() // before the senders remove their entries
}

// keepWhole returns the names of the caller's files that are whole, and deletes the
// others.
func (m *Migration) keepWhole() (map[string]bool, error) {
	have := map[string]bool{}
	for _, f := range m.Files(m.World.Rank()) {
		if f.Meta.Check(f.Path) == nil {
			have[f.Meta.Label()] = true
		} else if err := m.Delete(m.World.Rank(), f); err != nil {
			return nil, err
		}
	}
	return have, nil
}

// choose returns a request to the rank that has offered most of the missing files. If
// several have offered as many, it chooses the one that can send them first.
func (v *inventory) choose(me int, have map[string]bool) choice {
	best := choice{source: -1}
	for rank, o := range v.offered {
		missing := slices.DeleteFunc(slices.Clone(o.Names), func(name string) bool { return have[name] })
		better := cmp.Or(len(best.names)-len(missing), o.Round-best.round, rank-best.source) < 0
		if rank != me && len(missing) > 0 && better {
			best = choice{rank, o.Round, missing}
		}
	}
	return best
}
