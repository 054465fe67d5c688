// Package inside knows in which order the functions of a program take part in its
// checkpoints, and what their results mean. It calls none of them: a C library does so, on the
// program's thread, and asks this package which is next. So no Go frame is below a function of
// the program, which may end the process, leave by longjmp, or call the library itself.
//
//	inc.go  interlayer notification callbacks: around each checkpoint and restart
//
// Callers are cmd/libscr, for both of its libraries.
package inside

import (
	"fmt"
	"sync"
)

// Event is the place in a checkpoint or restart at which a callback is called.
type Event int

// The events, in the order in which they come. Before a checkpoint the layer of MPI prepares
// itself between the first two, and after it becomes usable again between the last two: in
// those of the middle MPI may not be able to send.
const (
	PreCRSPreMPI Event = iota
	PreCRSPostMPI
	PostCRSPreMPI
	PostCRSPostMPI
	events
)

func (e Event) String() string {
	if e < 0 || e >= events {
		return fmt.Sprintf("event %d", int(e))
	}
	return [...]string{"PRE_CRS_PRE_MPI", "PRE_CRS_POST_MPI", "POST_CRS_PRE_MPI", "POST_CRS_POST_MPI"}[e]
}

// State tells a callback what happens.
type State int

// The states. Prepare comes with the events before a checkpoint, the others with those after
// it: Continue if the checkpoint is complete, Error if there is none, and Restart in a later
// run of the program that has restarted from it.
const (
	Prepare State = iota
	Continue
	Restart
	Error
)

func (s State) String() string {
	if s < Prepare || s > Error {
		return fmt.Sprintf("state %d", int(s))
	}
	return [...]string{"PREPARE", "CONTINUE", "RESTART", "ERROR"}[s]
}

// Function is the address of a function of the program, 0 for none. This package never uses it
// as an address.
type Function uintptr

// Callbacks has the functions that are called around checkpoints, one for each event: whoever
// registers a function gets the one before it, and calls that from it. The zero value has no
// functions. Several goroutines may use it.
type Callbacks struct {
	mu       sync.Mutex
	top      [events]Function
	prepared bool  // functions were called with Prepare, and wait for the outcome
	refused  error // why one of them refuses the checkpoint
}

// Register makes f the function of an event, and returns the one that was it before.
func (c *Callbacks) Register(e Event, f Function) (previous Function, err error) {
	if e < 0 || e >= events {
		return 0, fmt.Errorf("%v is none of those of INC callbacks, which are 0 to %d", e, events-1)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	previous, c.top[e] = c.top[e], f
	return previous, nil
}

// Begin reports whether functions are to be called for a state. If it says so, the caller calls
// those that Next returns. Those that prepare for a checkpoint are called with its outcome
// exactly once, whoever asks; without having been prepared, they hear of restarts only.
func (c *Callbacks) Begin(s State) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch s {
	case Prepare:
		if c.prepared || c.top == [events]Function{} {
			return false
		}
		c.prepared, c.refused = true, nil
		return true
	case Continue, Error:
		before := c.prepared
		c.prepared, c.refused = false, nil
		return before
	case Restart:
		return true
	}
	return false
}

// Next returns the first event of a state at or after a given one that has a function, and the
// function. ok is false if there is none, or if a function has refused the checkpoint.
func (c *Callbacks) Next(s State, at Event) (e Event, f Function, ok bool) {
	first, last := PostCRSPreMPI, PostCRSPostMPI
	if s == Prepare {
		first, last = PreCRSPreMPI, PreCRSPostMPI
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if s == Prepare && c.refused != nil {
		return 0, 0, false
	}
	for e := max(first, at); e <= last; e++ {
		if c.top[e] != 0 {
			return e, c.top[e], true
		}
	}
	return 0, 0, false
}

// Returned takes the result of a function. One that is not 0 is an error: before a checkpoint,
// it refuses the checkpoint; after it nothing can be changed any more.
func (c *Callbacks) Returned(e Event, s State, result int) error {
	if result == 0 {
		return nil
	}
	err := fmt.Errorf("the INC callback of %v returned %d in state %v", e, result, s)
	if s == Prepare {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.refused = err
	}
	return err
}

// Refused returns why a function has refused the checkpoint for which they were prepared, nil
// if none has.
func (c *Callbacks) Refused() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.refused
}
