// Package mover copies files of datasets from the cache to the prefix directory while
// the program continues: an asynchronous flush, between prefix.Flush.Start and
// Finish.
//
// There are two movers with the same results. Threads is a thread of each rank's
// process, and ends with it. Daemon is scr_transfer, one process on each node, which
// continues when the program has died. Neither uses MPI: a Request has the files of one
// rank, and only that rank polls it.
//
//	request.go  the files of one rank, and how they are copied
//	threads.go  ... by a thread of the process
//	daemon.go   ... by scr_transfer, as the process sees it
//	control.go  stopping the scr_transfer of a node, or waiting for it
//	file.go     the transfer file, through which the two communicate
//	serve.go    ... as scr_transfer sees it
//
// Files have temporary names in the prefix directory until the files of all ranks have been
// copied. The list of a rank (prefix.Part) is written once all its files are on their
// medium. So a copy that is interrupted damages no other file, and a copy that was
// complete when the program died is not lost: the next run, or scr_index --build,
// completes the dataset from the lists.
package mover

import "github.com/goscr/goscr/internal/redundancy"

// Kind is a way of flushing, a value of SCR_FLUSH_TYPE.
type Kind string

// The kinds.
const (
	Sync     Kind = "SYNC"    // the ranks copy, while the program waits
	ByThread Kind = "PTHREAD" // Threads copies
	ByDaemon Kind = "DAEMON"  // Daemon copies
)

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
	// Ended reports whether the copy has ended, with or without success. It returns at once.
	Ended() bool
	// Wait waits until the copy has ended. It returns an error if not all files were copied.
	Wait() error
	// Files returns the files of a transfer that has succeeded, with their temporary paths
	// in the prefix directory.
	Files() ([]redundancy.File, error)
	// Cancel ends the transfer, if it has not ended, and deletes the files that were copied.
	// When it returns nothing is being copied any more.
	Cancel() error
}
