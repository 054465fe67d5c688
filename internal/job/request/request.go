// Package request is how commands ask a running job for something, and how the job
// answers. It has one file, request.scr in the prefix directory, that both change under
// its lock.
//
//	request.go  the file, and what is in it
//	ask.go      for commands: enter a request, read its state, take it back
//	answer.go   for rank 0 of a job: see a request, record its states
//	stopped.go  which processes of a job have stopped themselves
//
// Callers are internal/session, on rank 0; scr_checkpoint; and internal/job/run, which continues
// jobs that have stopped.
package request

import (
	"errors"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"time"

	"github.com/goscr/goscr/hash"
	"github.com/goscr/goscr/internal/sys/lock"
)

// request.scr:
//
//	LAST = <id>                the highest id of any request
//	CHECKPOINT / <id>
//	    STATE   = <state>      see State
//	    SINCE   = <µs>         since when, in microseconds since 1970
//	    JOB     = <job id>     the job that is asked; without it any
//	    BY / <asker>           one or more commands wait for it
//	        TERM = 1           end the program after the checkpoint is flushed
//	        STOP = 1           stop all ranks after the checkpoint
//	        ATTACH = 1         have them wait for debuggers after it, or else stop them
//	    DATASET = <id>         once the program writes the checkpoint
//	    NAME    = <name>
//	    SIZE    = <bytes>      once it is complete
//	    REASON  = <text>       why it has failed
//	CONTINUE = <µs>            when somebody asked to continue a stopped job
const fileName = "request.scr"

type file struct {
	Last        int              `hash:"LAST,omitempty"`
	Checkpoints map[int]*Request `hash:"CHECKPOINT,omitempty"`
	Continue    time.Time        `hash:"CONTINUE,omitempty"`
}

// State is how far a request is.
type State string

// The states, in this order.
const (
	Requested State = "REQUESTED" // a command has entered it
	Pending   State = "PENDING"   // the program is told to write a checkpoint
	Running   State = "RUNNING"   // the program writes it
	InCache   State = "CACHE"     // it is complete in the cache
	Flushing  State = "FLUSHING"  // it is being copied to the prefix directory
	Finished  State = "FINISHED"  // all that was due is done
	Failed    State = "FAILED"    // Reason says why
)

// Order is the position of a state among all states, from 0 on; -1 if there is no such
// state.
func (s State) Order() int {
	for i, other := range []State{Requested, Pending, Running, InCache, Flushing, Finished, Failed} {
		if s == other {
			return i
		}
	}
	return -1
}

// Open reports whether the program has not begun to write the checkpoint: others can join
// the request, and it can be taken back.
func (s State) Open() bool { return s == Requested || s == Pending }

// Over reports whether nothing more happens to the request.
func (s State) Over() bool { return s == Finished || s == Failed }

// Wish is what is to happen besides the checkpoint.
type Wish struct {
	Term   bool `hash:"TERM,omitempty"`   // flush the checkpoint, then end the program
	Stop   bool `hash:"STOP,omitempty"`   // then stop all ranks
	Attach bool `hash:"ATTACH,omitempty"` // then have them wait for debuggers, or, if they cannot, stop them
}

// Stops reports whether the ranks do not continue after the checkpoint.
func (w Wish) Stops() bool { return w.Stop || w.Attach }

// Byte returns the wish as one byte, for a message.
func (w Wish) Byte() (b byte) {
	if w.Term {
		b |= 1
	}
	if w.Stop {
		b |= 2
	}
	if w.Attach {
		b |= 4
	}
	return b
}

// WishOf returns the wish that Byte has made a byte of.
func WishOf(b byte) Wish { return Wish{Term: b&1 != 0, Stop: b&2 != 0, Attach: b&4 != 0} }

// Request is a request for a checkpoint.
type Request struct {
	ID      int
	State   State           `hash:"STATE"`
	Since   time.Time       `hash:"SINCE,omitempty"`   // when it came into the state
	Job     string          `hash:"JOB,omitempty"`     // the job that is asked, "" for any
	Askers  map[string]Wish `hash:"BY,omitempty"`      // the commands that wait for it, and what each wants
	Dataset int             `hash:"DATASET,omitempty"` // id of the checkpoint, 0 as long as it has none
	Name    string          `hash:"NAME,omitempty"`    // ... its name
	Size    int64           `hash:"SIZE,omitempty"`    // ... its bytes, 0 as long as that is not known
	Reason  string          `hash:"REASON,omitempty"`  // why the request has failed
}

// Wish returns what any of the askers wants.
func (r *Request) Wish() (all Wish) {
	for _, w := range r.Askers {
		all = Wish{all.Term || w.Term, all.Stop || w.Stop, all.Attach || w.Attach}
	}
	return all
}

// enter sets the state of a request.
func (r *Request) enter(state State) { r.State, r.Since = state, time.Now() }

// Path is the path of the request file of a prefix directory.
func Path(prefix string) string { return filepath.Join(prefix, ".scr", fileName) }

// LockPath is the path of the lock that rank 0 of a job holds from Init to Finalize.
func LockPath(prefix string) string { return filepath.Join(prefix, ".scr", "job.lock") }

// LoopPath is the path of the lock that scr_run holds from its first run to its last.
func LoopPath(prefix string) string { return filepath.Join(prefix, ".scr", "run.lock") }

// Alive reports whether a job that answers requests runs in a prefix directory.
func Alive(prefix string) bool { return lock.Held(LockPath(prefix)) }

// Unseen returns an error if the caller, who may be another user than that of the job, cannot see
// whether a job or scr_run runs in a prefix directory.
func Unseen(prefix string) error {
	for _, path := range []string{LockPath(prefix), LoopPath(prefix)} {
		if _, err := lock.Ask(path); errors.Is(err, fs.ErrPermission) {
			return err
		}
	}
	return nil
}

// Restarts reports whether scr_run looks after the prefix directory: if the job has ended,
// another run may follow.
func Restarts(prefix string) bool { return lock.Held(LoopPath(prefix)) }

// requests returns the requests of a file, oldest first.
func (f *file) requests() (list []*Request) {
	for _, id := range slices.Sorted(maps.Keys(f.Checkpoints)) {
		f.Checkpoints[id].ID = id
		list = append(list, f.Checkpoints[id])
	}
	return list
}

// read returns the requests of a prefix directory, and which user has asked to continue.
func read(prefix string) (file, error) {
	h, err := hash.ReadOrNew(Path(prefix))
	return hash.As[file](h), err
}

// update changes the requests of a prefix directory.
func update(prefix string, change func(f *file)) error {
	return hash.UpdateRecord(Path(prefix), func(f *file) error {
		change(f)
		return nil
	})
}
