package life

import (
	"fmt"
	"slices"
)

// Event is what happens to a dataset of the cache.
type Event int

// The events of the files of a dataset in the cache.
const (
	Completed         Event = iota // all ranks have passed valid files, and its redundancy is made
	ProtectionStarted              // all ranks have passed valid files; its redundancy is made while the program continues
	ProtectionEnded                // its redundancy is made and recorded
	ProtectionFailed               // its redundancy could not be made or recorded, or was cancelled
	Kept                           // an earlier run has left it; its files stay as they are
	Restored                       // its files are verified and rebuilt where necessary
	RedundancyLost                 // its redundancy was lost, and could not be made again
	Checked                        // all its files were read, and their checksums are recorded
	Evicted                        // it has left to make room
	Left                           // this run does not use it any more: it is deleted, or stays in the cache as an unused one
)

// The events of its copy in the prefix directory, and of its offer.
const (
	FlushDelayed  Event = iota + Left + 1 // its flush begins when its protection has ended; Left is the last event above
	FlushStarted                          // its files are copied
	FlushEnded                            // it is complete in the prefix directory
	FlushFailed                           // it is not; what was copied is deleted, by this run or the next
	FoundFlushed                          // the prefix directory has it, from an earlier run or as it was fetched
	FoundReplaced                         // it was in the prefix directory, where a run can fetch it no more
	NotOffered                            // this run does not offer it
	OfferedAgain                          // a user has chosen it all the same
	events                                // their number
)

// Facts are agreed by all ranks. The table says which events have them; zero Facts say that a dataset is neither exposed nor unchecked.
type Facts struct {
	Exposed   bool // see State.Exposed
	Unchecked bool // see State.Unchecked
}

// row is the effect of an event. A dataset keeps what a row does not name.
type row struct {
	name   string
	stages []stage  // in which the event can happen
	copies []copied // with which it can happen; nil: all
	change func(*State)
	facts  bool // the state takes the event's facts
}

// usable are the stages of a dataset from which a program could restart.
var usable = []stage{protecting, unprotected, protected, postponed}

// table is all that can happen to a dataset of the cache.
var table = [events]row{
	Completed:         {"completed", []stage{begun}, []copied{nothing}, reach(protected), true},
	ProtectionStarted: {"protection started", []stage{begun}, []copied{nothing}, reach(protecting), true},
	ProtectionEnded:   {"protection ended", []stage{protecting}, nil, reach(protected), true},
	ProtectionFailed:  {"protection failed", []stage{protecting}, nil, reach(unprotected), false},
	Kept:              {"kept", []stage{begun}, []copied{nothing}, reach(postponed), true},
	Restored:          {"restored", []stage{begun, unprotected, protected, postponed}, nil, reach(protected), true},
	RedundancyLost:    {"redundancy lost", []stage{unprotected, protected}, nil, func(s *State) { s.exposed = true }, false},
	Checked:           {"checked", usable, nil, func(s *State) { s.unchecked = false }, false},
	Evicted:           {"evicted", []stage{unprotected, protected, postponed}, []copied{nothing, flushed, replaced}, reach(gone), false},
	Left:              {"left", slices.Concat([]stage{begun}, usable), nil, reach(gone), false},

	FlushDelayed:  {"flush delayed", []stage{protecting}, []copied{nothing}, keep(due), false},
	FlushStarted:  {"flush started", usable, []copied{nothing, due}, keep(flushing), false},
	FlushEnded:    {"flush ended", usable, []copied{flushing}, keep(flushed), false},
	FlushFailed:   {"flush failed", slices.Concat(usable, []stage{gone}), []copied{due, flushing}, keep(nothing), false},
	FoundFlushed:  {"found flushed", usable, []copied{nothing, flushed, replaced}, keep(flushed), false},
	FoundReplaced: {"found replaced", usable, []copied{flushed, replaced}, keep(replaced), false},
	NotOffered:    {"not offered", usable, nil, func(s *State) { s.withheld = true }, false},
	OfferedAgain:  {"offered again", usable, nil, func(s *State) { s.withheld = false }, false},
}

func reach(next stage) func(*State) { return func(s *State) { s.stage = next } }
func keep(next copied) func(*State) { return func(s *State) { s.copy = next } }

func (e Event) String() string { return table[e].name }

// After returns the state after an event. If the table does not have the event in this state, which is a bug, it
// returns an error too; the state is then what the row says all the same, since the event has happened.
func (s State) After(e Event, f Facts) (State, error) {
	row, next := table[e], s
	row.change(&next)
	if row.facts {
		next.exposed, next.unchecked = f.Exposed, f.Unchecked
	}
	if !slices.Contains(row.stages, s.stage) || row.copies != nil && !slices.Contains(row.copies, s.copy) {
		return next, fmt.Errorf("bug: %q happened to a dataset with state %+v", e, s)
	}
	return next, nil
}
