// Package mover copies files of datasets from the cache to the prefix directory while
// the program goes on: an asynchronous flush, between prefix.StartFlush and
// prefix.FinishFlush.
//
// There are two movers with the same results. Threads is a thread of each rank's
// process, and ends with it. Daemon is scr_transfer, one process on each node, which
// goes on when the program has died. Neither uses MPI: a Request has the files of one
// rank, and only that rank polls it.
//
//	request.go  the files of one rank, and how they are copied
//	threads.go  ... by a thread of the process
//	daemon.go   ... by scr_transfer, as the process sees it
//	control.go  stop the scr_transfer of a node, or wait for it
//	file.go     the transfer file, through which the two communicate
//	serve.go    ... as scr_transfer sees it
//
// Files have temporary names in the prefix directory until those of all ranks are there,
// and the list of the rank (prefix.Part) is written once all its files are on their
// medium. So a copy that is interrupted damages no other file, and a copy that was
// complete when the program died is not lost: the next run, or scr_index --build,
// completes the dataset from the lists.
package mover

import (
	"time"

	"github.com/goscr/goscr/internal/redundancy"
)

// Kind is who copies.
type Kind string

// The kinds, as SCR_FLUSH_TYPE has them.
const (
	Sync     Kind = "SYNC"    // the ranks themselves, and the program waits
	ByThread Kind = "PTHREAD" // Threads
	ByDaemon Kind = "DAEMON"  // Daemon
)

// delay is how long a mover without work waits before it begins with a request: as a
// rule until all processes have left the call in which they made theirs, and do not
// need the processors any more for what they do there. For tests it can be changed.
var delay = 50 * time.Millisecond

// Mover starts copies.
type Mover interface {
	// Start accepts a request. All processes of a node start theirs before any of them
	// calls Begin; until then nothing is copied, unless scr_transfer runs already.
	Start(r *Request) (Transfer, error)
}

// Transfer is a request that was started.
type Transfer interface {
	// Begin begins the copy. It is called once. Wait returns its error, too.
	Begin() error
	// Ended reports whether nothing more will be copied. It returns at once.
	Ended() bool
	// Wait returns when nothing more will be copied, with an error if not all was.
	Wait() error
	// Files are the files of a transfer that has succeeded, where they are now: under
	// temporary names.
	Files() ([]redundancy.File, error)
	// Cancel ends the transfer, if it has not ended, deletes the files that were copied,
	// and returns when nothing is copied any more.
	Cancel() error
}
