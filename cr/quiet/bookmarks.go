// Package quiet brings the messages of a program to rest: after a bookmark exchange every
// message that was sent before has been received, by the program or into a buffer, from which
// later receives of the program are served.
//
//	bookmarks.go  how many messages each rank has sent to each other, and what is still missing
//	drained.go    messages that the program has not received yet, in the order in which MPI
//	              matches them
//
// Messages are counted whole: a message counts as sent when the program has begun to send it, and
// as received when a receive has matched it.
package quiet

import (
	"fmt"

	"github.com/goscr/goscr/hash"
	"github.com/goscr/goscr/mpi"
)

// Bookmarks counts the messages between a rank and all others. Sent and Received have an element
// for each rank of the job, which whoever wraps the program's calls of MPI increments.
type Bookmarks struct {
	Sent, Received []uint64

	told, promised []uint64 // what Exchange has sent to and received from each rank
}

// NewBookmarks returns the bookmarks of a job, without messages.
func NewBookmarks(ranks int) *Bookmarks {
	return &Bookmarks{make([]uint64, ranks), make([]uint64, ranks), make([]uint64, ranks), make([]uint64, ranks)}
}

const keySent = "SENT"

// Exchange tells each rank how many messages it has been sent, if that has changed since the last
// exchange. The program must send none until Missing is empty on all ranks. It is collective over
// the ranks of the job, in a message space of its own.
func (b *Bookmarks) Exchange(world mpi.Comm) error {
	send := hash.New()
	for rank, n := range b.Sent {
		if n != b.told[rank] {
			send.At(fmt.Sprint(rank)).SetInt(keySent, int64(n))
			b.told[rank] = n
		}
	}
	received, err := hash.Exchange(send, world)
	if err != nil {
		return err
	}
	for _, rank := range received.Ints() {
		n, ok := received.Get(fmt.Sprint(rank)).Int(keySent)
		if !ok || rank < 0 || rank >= len(b.promised) {
			return fmt.Errorf("a bookmark of rank %d cannot be read", rank)
		}
		b.promised[rank] = uint64(n)
	}
	return nil
}

// Missing returns how many messages of each rank have been sent to the caller and not received,
// without ranks of which none are missing. More messages than were sent are an error: a call of
// MPI is not counted as it should be.
func (b *Bookmarks) Missing() (map[int]uint64, error) {
	missing := map[int]uint64{}
	for rank, n := range b.promised {
		switch got := b.Received[rank]; {
		case got > n:
			return nil, fmt.Errorf("rank %d has sent %d messages, and %d of it have been received", rank, n, got)
		case got < n:
			missing[rank] = n - got
		}
	}
	return missing, nil
}
