// Package life has the state of a dataset in the cache as one value, the table of events that change it, and the
// decision which datasets leave a store to make room for the next one.
//
// Nothing here reads a file, sends a message or waits. All ranks have the same state of each dataset, because they
// apply the same events, whose facts are agreed, in the same order; so they decide in the same way. Packages cache,
// protect, flush, restart and session record events, by Cache.Happened. The state is in memory only: what the next run
// and commands learn of a dataset is in filemaps, flush.scr and the index.
//
//	state.go  State, and what it says
//	event.go  Event: the table of events
//	room.go   Room: what to do next to make room
package life

// State is the state of a dataset in the cache. The zero value is that of a dataset that has just been begun, or that
// an earlier run has left and this run has not looked at.
type State struct {
	stage     stage
	copy      copied
	exposed   bool
	unchecked bool
	withheld  bool
}

// stage is how far a dataset has come in the cache.
type stage int

const (
	begun       stage = iota
	protecting        // complete; its redundancy is made while the program continues
	unprotected       // complete; its redundancy could not be made, or that was cancelled
	protected         // complete and protected as its scheme requires, or as far as a repair could do it (see exposed)
	postponed         // left by an earlier run; this run has not verified and rebuilt its files
	gone              // not used by this run any more
)

// copied is what the prefix directory has of a dataset of the cache.
type copied int

const (
	nothing  copied = iota // nothing, or a part
	due                    // as nothing, and its flush begins when its protection has ended
	flushing               // its flush has begun
	flushed                // all of it
	replaced               // nothing any more that a run can fetch: it is replaced, deleted or failed there
)

func (s stage) String() string {
	return [...]string{"begun", "protecting", "unprotected", "protected", "postponed", "gone"}[s]
}

func (c copied) String() string {
	return [...]string{"nothing", "due", "flushing", "flushed", "replaced"}[c]
}

// Protecting reports whether redundancy of the dataset is made while the program continues.
func (s State) Protecting() bool { return s.stage == protecting }

// Protected reports whether the dataset was protected, by this run or an earlier one. Exposed says whether redundancy is missing.
func (s State) Protected() bool { return s.stage == protected || s.stage == postponed }

// Postponed reports whether this run has not verified and rebuilt the files of a dataset of an earlier run yet.
func (s State) Postponed() bool { return s.stage == postponed }

// Gone reports whether this run does not use the dataset any more: it is deleted, or an unused one.
func (s State) Gone() bool { return s.stage == gone }

// Exposed reports whether the loss of one more node may lose the dataset: some rank has no redundancy file although
// the scheme makes one, or the dataset is postponed and some rank misses files.
func (s State) Exposed() bool { return s.exposed }

// Unchecked reports whether files of the dataset have no checksums, so that only their sizes can be verified.
func (s State) Unchecked() bool { return s.unchecked }

// Withheld reports whether the dataset is usable, but this run does not offer it.
func (s State) Withheld() bool { return s.withheld }

// FlushDue reports whether a flush of the dataset begins when its protection has ended, even if that has failed.
func (s State) FlushDue() bool { return s.copy == due }

// Flushing reports whether a flush of the dataset has begun, or is due.
func (s State) Flushing() bool { return s.copy == due || s.copy == flushing }

// Flushed reports whether the dataset is not to be flushed: the prefix directory has it, or has replaced it.
func (s State) Flushed() bool { return s.copy == flushed || s.copy == replaced }

// Fetchable reports whether the prefix directory has the dataset, so that the next run can fetch it.
func (s State) Fetchable() bool { return s.copy == flushed }
