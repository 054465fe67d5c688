// Package migrate moves the files of a dataset to the nodes where the ranks that
// own them now run.
//
// On a restart the ranks of a job may run on other nodes than when their files were
// written. The part of a rank is its files of the dataset. A rank that finds whole files of
// another on its node offers them to the owner. If the owner is offered all files of its
// part, it requests the missing ones from one rank after another. Files are sent in batches,
// so that migration needs additional space for only one batch per rank; the sender deletes
// a batch once the owner has it on disk and in its filemap. So every file is on some node at
// any instant. If the job is killed meanwhile, the files of a rank are on several nodes, and
// the next run collects them in the same way.
//
//	migrate.go    the phases of a migration
//	adopt.go      storage that nodes share: files stay, entries move
//	inventory.go  which files are offered, and which the owner still misses
//	same.go       files that are on both nodes, since nodes share a directory
//	transfer.go   one round: files to one rank, and from another
//	messages.go   the messages between ranks
package migrate

import (
	"cmp"
	"errors"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/goscr/goscr/internal/node/filemap"
	"github.com/goscr/goscr/internal/observe/report"
	"github.com/goscr/goscr/internal/redundancy"
	"github.com/goscr/goscr/mpi"
)

// Migration migrates the files of one dataset, on one rank.
type Migration struct {
	World  mpi.Comm
	Log    *report.Logger
	Piece  int // bytes that are read, sent and written at a time
	Maps   *filemap.Store
	ID     int    // of the dataset
	Dir    string // of the dataset, on this node
	Device string // identifies the storage of Dir if nodes share it, else ""
	Made   int    // number of redundancy files of a rank

	// Files returns the files of a rank that are entered in the caller's filemap.
	Files func(rank int) []redundancy.File
	// Delete deletes files of a rank, each before its entry in the filemap.
	Delete func(rank int, files ...redundancy.File) error
	// Forget removes a rank from the filemap, except the descriptions kept for it.
	Forget func(rank int)

	told   bool    // it has been logged which files are missing here
	offers *offers // of all ranks, until files move; nil: they are not known
}

// Run moves all files to their owners. In each round a rank sends to at most one other
// and receives from at most one. Files that their owner does not request are deleted
// in the end. Files that do not arrive count as lost. refused reports whether files of
// the caller that are whole on another node could not be stored on this one. Run is
// collective; the error is agreed.
func (m *Migration) Run() (refused bool, err error) {
	offers, err := m.offer()
	if err != nil {
		return false, err
	}
	m.offers = nil
	own := m.takeInventory(offers.made)
	staying := map[int]bool{} // ranks whose files did not arrive
	var failed error          // on this rank; agreed in the end
	for {
		want, e := m.next(own)
		failed = cmp.Or(failed, e)
		left := m.leftovers(staying)
		wanted, rounds, some, err := m.ask(want, len(left) > 0)
		if err == nil && rounds == 0 && some {
			err = m.leave(left)
		}
		if err != nil {
			return false, err
		}
		if rounds == 0 {
			break
		}
		for round := range rounds {
			to, from := receiver(offers.to, wanted, round), want.sender(round)
			sent, missed := m.transfer(m.named(to, wanted[to].Names), to, from)
			staying[to] = staying[to] || !sent
			if missed != nil {
				own.failed = true
				refused = refused || !errors.Is(missed, redundancy.ErrCorrupt)
			}
		}
	}
	return refused, mpi.Agree(m.World, cmp.Or(failed, m.clean(staying)))
}

// ask sends each rank's request to the rank that it has chosen. It returns the requests that
// the caller gets, and the number of rounds needed to send all files. If that is 0, because no
// rank has requested any, some reports whether left is true on any rank. It is collective.
func (m *Migration) ask(want choice, left bool) (wanted map[int]message, rounds int, some bool, err error) {
	send := map[int]message{}
	if want.source >= 0 {
		send[want.source] = message{Names: want.names}
		rounds = want.round + 1
	}
	most := 2 * rounds // the last bit counts only if no rank has more
	if left {
		most++
	}
	most = mpi.AllreduceOne(m.World, most, mpi.Max)
	if most < 2 {
		return nil, 0, most == 1, nil
	}
	wanted, err = exchange(m.World, send)
	return wanted, most / 2, false, err
}

// receiver returns the rank to which the caller sends files in a round: the one at that
// index of its offers, or -1 if that rank has not requested any files.
func receiver(offers []int, wanted map[int]message, round int) int {
	if round < len(offers) {
		if _, wants := wanted[offers[round]]; wants {
			return offers[round]
		}
	}
	return -1
}

// clean deletes the files of other ranks, except the ranks in staying.
func (m *Migration) clean(staying map[int]bool) error {
	for _, rank := range m.Maps.Ranks(m.ID) {
		if rank == m.World.Rank() || staying[rank] {
			continue
		}
		if m.Device == "" { // else their owner may use them
			if err := m.Delete(rank, m.Files(rank)...); err != nil { // files that cannot be deleted stay entered
				m.tellUndeleted(rank, err)
				continue
			}
		}
		m.Forget(rank)
	}
	// If there is no room to write the filemap, entries of deleted files stay, without harm.
	err := m.Maps.Fold()
	if errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT) {
		err = nil
	}
	return err
}

// named returns the files of a rank that have one of the names.
func (m *Migration) named(rank int, names []string) fileList {
	wanted := map[string]bool{}
	for _, name := range names {
		wanted[name] = true
	}
	return slices.DeleteFunc(m.Files(rank), func(f redundancy.File) bool { return !wanted[f.Meta.Label()] })
}
