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
	"path/filepath"
	"strconv"
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
const (
	fileName = "request.scr"

	keyLast       = "LAST"
	keyCheckpoint = "CHECKPOINT"
	keyState      = "STATE"
	keySince      = "SINCE"
	keyJob        = "JOB"
	keyBy         = "BY"
	keyTerm       = "TERM"
	keyStop       = "STOP"
	keyAttach     = "ATTACH"
	keyDataset    = "DATASET"
	keyName       = "NAME"
	keySize       = "SIZE"
	keyReason     = "REASON"
	keyContinue   = "CONTINUE"
)

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
	Term   bool // flush the checkpoint, then end the program
	Stop   bool // then stop all ranks
	Attach bool // then have them wait for debuggers, or, if they cannot, stop them
}

// Stops reports whether the ranks do not go on after the checkpoint.
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
	State   State
	Since   time.Time // when it came into the state
	Job     string    // the job that is asked, "" for any
	Askers  []string  // the commands that wait for it
	Wish    Wish      // what any of them wants
	Dataset int       // id of the checkpoint, 0 as long as it has none
	Name    string    // ... its name
	Size    int64     // ... its bytes, 0 as long as that is not known
	Reason  string    // why the request has failed
}

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

func decode(id int, h *hash.Hash) Request {
	r := Request{ID: id, State: State(h.Text(keyState)), Job: h.Text(keyJob), Name: h.Text(keyName), Reason: h.Text(keyReason)}
	if since, ok := h.Int(keySince); ok {
		r.Since = time.UnixMicro(since)
	}
	dataset, _ := h.Int(keyDataset)
	r.Dataset = int(dataset)
	r.Size, _ = h.Int(keySize)
	for asker, wish := range h.Get(keyBy).All() {
		r.Askers = append(r.Askers, asker)
		r.Wish.Term = r.Wish.Term || wish.Text(keyTerm) == "1"
		r.Wish.Stop = r.Wish.Stop || wish.Text(keyStop) == "1"
		r.Wish.Attach = r.Wish.Attach || wish.Text(keyAttach) == "1"
	}
	return r
}

// requests returns the requests of a file, oldest first.
func requests(h *hash.Hash) (list []Request) {
	for _, id := range h.Get(keyCheckpoint).Ints() {
		list = append(list, decode(id, h.GetKVInt(keyCheckpoint, id)))
	}
	return list
}

// enter sets the state of a request.
func enter(h *hash.Hash, id int, state State) *hash.Hash {
	e := h.At(keyCheckpoint, strconv.Itoa(id))
	e.SetValue(keyState, string(state))
	e.SetInt(keySince, time.Now().UnixMicro())
	return e
}
