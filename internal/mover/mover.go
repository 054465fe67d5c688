// Package mover copies files of datasets from the cache to the prefix directory while
// the program goes on: an asynchronous flush, between prefix.StartFlush and
// prefix.FinishFlush.
//
// There are two who can do that, and they mean the same. Threads is a thread of the
// process for each rank, and ends with it. Daemon is scr_transfer, one process on
// each node, which goes on when the program has died. Neither knows of MPI: what
// one rank has to copy is a Load, and only that rank asks how far its Load is.
//
//	load.go     what one rank has of a dataset, and how it is copied
//	threads.go  … by a thread of the process
//	daemon.go   … by scr_transfer, as the process sees it
//	file.go     the transfer file, by which the two talk
//	serve.go    … as scr_transfer sees it
//
// Whoever copies gives a file its name in the prefix directory once all of it is on
// the medium, and writes the list of the rank (prefix.Part) once all its files are.
// So a copy that is cut short harms nothing that is there, and one that was complete
// when the program died is as good as if it had been told of it: the next run, or
// scr_index --build, completes the dataset from the lists.
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

// grace is how long who has had nothing to copy rests before: as a rule until all
// processes have left the call in which they handed their loads over, and do not need
// the processors any more for what they do there. For tests it can be changed.
var grace = 50 * time.Millisecond

// Mover starts copies.
type Mover interface {
	// Start takes a load over. All processes of a node start theirs before any of them
	// calls Begin; until then nothing is copied, unless scr_transfer is at work already.
	Start(l *Load) (Transfer, error)
}

// Transfer is a load under way.
type Transfer interface {
	// Begin has the copy begin. It is called once. That it could not is an error of
	// Wait, too.
	Begin() error
	// Ended reports whether nothing more will be copied. It returns at once.
	Ended() bool
	// Wait returns when nothing more will be copied, with an error if not all was.
	Wait() error
	// Files are the files of a transfer that has succeeded, where they are now.
	Files() ([]redundancy.File, error)
	// Stop ends the transfer, wherever it is, and deletes what has arrived. When it
	// returns nothing is copied any more.
	Stop() error
}
