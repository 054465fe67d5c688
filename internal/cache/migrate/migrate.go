// Package migrate moves the files of a dataset to the nodes where the ranks that
// own them now run.
//
// On a restart the ranks of a job may be on other nodes than when their files were
// written. A rank that has whole files of another offers them to it. An owner that
// is offered all files of its part asks one rank after another for what it misses.
// Files go in batches, so that moving takes room for one batch a rank; a batch is
// deleted where it was once its owner has it on disk and in its filemap. So every
// file is on some node at any instant, and a job that is killed meanwhile leaves
// the files of a rank on several nodes, from which the next run collects them in
// the same way.
//
//	migrate.go    the phases of a migration
//	adopt.go      storage that nodes share: files stay, entries move
//	inventory.go  which files are offered, and what the owner still misses
//	transfer.go   one round: files to one rank, and from another
//	messages.go   what ranks tell each other
package migrate

import (
	"cmp"
	"errors"
	"slices"

	"github.com/goscr/goscr/internal/filemap"
	"github.com/goscr/goscr/internal/redundancy"
	"github.com/goscr/goscr/internal/report"
	"github.com/goscr/goscr/mpi"
)

// Migration is what moving the files of one dataset takes, on one rank.
type Migration struct {
	World  mpi.Comm
	Log    *report.Logger
	Piece  int // bytes that are read, sent and written at a time
	Maps   *filemap.Store
	ID     int    // of the dataset
	Dir    string // of the dataset, on this node
	Device string // names the storage that Dir is on if nodes share it, else ""

	// Files returns the files of a rank that are entered in the caller's filemap.
	Files func(rank int) []redundancy.File
	// Delete deletes files of a rank, each before its entry in the filemap.
	Delete func(rank int, files ...redundancy.File) error
	// Forget takes all but the descriptions that are kept for a rank out of the
	// filemap.
	Forget func(rank int)
}

// Run moves all files to their owners. In each round a rank sends to at most one
// other and receives from at most one. Files whose owner does not want them are
// deleted in the end. What does not arrive counts as lost; refused says that the
// caller's files are whole on another node and could not be stored on this one.
// Run is collective; the error is agreed.
func (m *Migration) Run() (refused bool, err error) {
	offers, offered, err := m.offer()
	if err != nil {
		return false, err
	}
	own := m.takeInventory(offered)
	staying := map[int]bool{} // ranks whose files did not arrive
	var failed error          // here, of which the others hear in the end
	for {
		want, e := m.next(own)
		failed = cmp.Or(failed, e)
		wanted, rounds, err := m.ask(want)
		if err != nil {
			return false, err
		}
		if rounds == 0 {
			break
		}
		for round := range rounds {
			to, from := receiver(offers, wanted, round), want.sender(round)
			sent, missed, err := m.transfer(m.named(to, wanted[to].names), to, from)
			if err != nil {
				return false, err
			}
			staying[to] = staying[to] || !sent
			if missed != nil {
				own.failed = true
				refused = refused || !errors.Is(missed, redundancy.ErrCorrupt)
			}
		}
	}
	return refused, mpi.Agree(m.World, cmp.Or(failed, m.clean(staying)))
}

// ask has each rank ask the one that it has chosen. It returns what others
// ask the caller for, and how many rounds it takes to send everything, 0 if nobody
// wants anything. It is collective.
func (m *Migration) ask(want choice) (wanted map[int]message, rounds int, err error) {
	send := map[int]message{}
	last := -1
	if want.source >= 0 {
		send[want.source] = message{names: want.names}
		last = want.round
	}
	wanted, err = exchange(m.World, send)
	if err != nil {
		return nil, 0, err
	}
	last, err = mpi.AllreduceOne(m.World, last, mpi.Max)
	return wanted, last + 1, err
}

// receiver returns the rank to which the caller sends files in a round: of those to
// which it has offered some, the one whose turn it is, or -1 if that wants none.
func receiver(offers []int, wanted map[int]message, round int) int {
	if round < len(offers) {
		if _, wants := wanted[offers[round]]; wants {
			return offers[round]
		}
	}
	return -1
}

// clean deletes the files of other ranks, all but those that stay.
func (m *Migration) clean(staying map[int]bool) error {
	var failed error
	for _, rank := range m.Maps.Ranks(m.ID) {
		if rank == m.World.Rank() || staying[rank] {
			continue
		}
		if m.Device == "" { // else their owner may be using them
			if err := m.Delete(rank, m.Files(rank)...); err != nil { // what is left stays entered
				failed = cmp.Or(failed, err)
				continue
			}
		}
		m.Forget(rank)
	}
	return cmp.Or(failed, m.Maps.Fold())
}

// named returns the files of a rank that have one of the names.
func (m *Migration) named(rank int, names []string) fileList {
	wanted := map[string]bool{}
	for _, name := range names {
		wanted[name] = true
	}
	return slices.DeleteFunc(m.Files(rank), func(f redundancy.File) bool { return !wanted[f.Meta.Label()] })
}
