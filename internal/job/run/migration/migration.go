// Package migration is how scr_migrate asks scr_run to move ranks to other nodes while the
// job runs, and how scr_run answers. It has one file, migrate.scr in the prefix directory,
// that both change under its lock. Callers are cmd/scr, internal/job/run, and internal/session, for programs
// that ask, and for rank 0 of a run that a migration has started.
package migration

import (
	"errors"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/goscr/goscr/hash"
	"github.com/goscr/goscr/internal/job/run/recovery"
)

// A program may ask as well, also to be started again from another checkpoint.
//
// migrate.scr has the last request and its answer:
//
//	ID     = <id>
//	STATE  = <state>        see State
//	TEXT   = <text>         why it has failed, or what it has cost
//	TOOK   = <µs>           the sum of the times in TEXT
//	INIT   = <µs>           how long SCR_Init has taken in the run on the new nodes; it has returned
//	OFF    = <nodes>        separated by commas
//	ONTO   = <nodes>
//	RANKS  = <ranks>
//	PREDICTED = 1           the nodes in OFF are predicted to fail
//	WITHIN    = <µs>        ... after this time; without it that is not known
//	ASSURANCE = <percent>   ... with this probability
//	RESTART = <name>        instead: end the run, and begin the next from this checkpoint
const fileName = "migrate.scr"

// State is how far a request is.
type State string

// The states, in this order.
const (
	Requested  State = "REQUESTED"  // scr_migrate has entered it
	Checkpoint State = "CHECKPOINT" // scr_run waits for the checkpoint that it has asked for
	Moving     State = "MOVING"     // the run has ended, and files are copied to other nodes
	Restarting State = "RESTARTING" // the program is started again
	Done       State = "DONE"
	Failed     State = "FAILED"
)

// Over reports whether nothing more happens to the request.
func (s State) Over() bool { return s == Done || s == Failed }

// Request is a request for a migration.
type Request struct {
	ID    int           `hash:"ID"`
	State State         `hash:"STATE"`
	Text  string        `hash:"TEXT,omitempty"` // why it has failed, or what it has cost
	Took  time.Duration `hash:"TOOK,omitempty"` // the sum of the times in Text; 0: it has not succeeded
	Init  time.Duration `hash:"INIT,omitempty"` // how long SCR_Init has taken in the run on the new nodes; 0: it has not returned
	Wish  recovery.Wish
	// Predicted says that the nodes in Wish.Off are predicted to fail. Then scr_run
	// decides what to do.
	Predicted bool          `hash:"PREDICTED,omitempty"`
	Within    time.Duration // after which they are to fail; less than 0: not known
	Assurance float64       // probability, 0 to 1
	Restart   string        `hash:"RESTART,omitempty"` // name of the checkpoint from which the next run is to begin; "": a migration
}

// stored is a request with the fields that have other types in the file.
type stored struct {
	Request
	Off     string         `hash:"OFF,omitempty"`
	Onto    string         `hash:"ONTO,omitempty"`
	Ranks   string         `hash:"RANKS,omitempty"`
	Within  *time.Duration `hash:"WITHIN"`
	Percent *int64         `hash:"ASSURANCE"`
}

// Path is the path of the file in a prefix directory.
func Path(prefix string) string { return filepath.Join(prefix, ".scr", fileName) }

// Begin makes a request fail that an earlier scr_run has not finished.
func Begin(prefix string) error {
	r, err := Read(prefix)
	if err != nil || r.ID == 0 || r.State.Over() {
		return err
	}
	return Answer(prefix, r.ID, Failed, "scr_run was ended")
}

// ErrBusy is the error of Ask if another migration is under way.
var ErrBusy = errors.New("another migration is under way")

// Ask enters a request and returns its id.
func Ask(prefix string, r Request) (id int, err error) {
	err = hash.Update(Path(prefix), func(h *hash.Hash) error {
		old := decode(h)
		if old.ID > 0 && !old.State.Over() {
			return ErrBusy
		}
		id = old.ID + 1
		r.ID, r.State = id, Requested
		h.UnsetAll()
		h.SetFields(r.stored())
		return nil
	})
	return id, err
}

// Read returns the last request; its ID is 0 if there is none.
func Read(prefix string) (Request, error) {
	h, err := hash.ReadOrNew(Path(prefix))
	if err != nil {
		return Request{}, err
	}
	return decode(h), nil
}

// Answer records the state of a request, unless another one has replaced it.
func Answer(prefix string, id int, state State, text string) error {
	return change(prefix, func(r *Request) {
		if r.ID == id {
			r.State, r.Text = state, text
		}
	})
}

// Finish records that a request has been carried out: what it has cost, and the sum of the
// times in that text.
func Finish(prefix string, id int, text string, took time.Duration) error {
	return change(prefix, func(r *Request) {
		if r.ID == id {
			r.State, r.Text, r.Took = Done, text, took
		}
	})
}

// Ready records that SCR_Init has returned in a new run, after took, if a migration waits for
// that. Rank 0 of each run calls it.
func Ready(prefix string, took time.Duration) error {
	if r, err := Read(prefix); err != nil || r.State != Restarting {
		return err
	}
	return change(prefix, func(r *Request) {
		if r.State == Restarting {
			r.Init = max(took, time.Microsecond)
		}
	})
}

// TakeBack makes a request fail whose checkpoint has not been asked for. It returns false
// if it is too late.
func TakeBack(prefix string, id int) (done bool, err error) {
	err = change(prefix, func(r *Request) {
		done = r.ID != id || r.State == Requested || r.State.Over()
		if r.ID == id && r.State == Requested {
			r.State, r.Text = Failed, "taken back"
		}
	})
	return done, err
}

// change changes the last request, if there is one; but not its wish.
func change(prefix string, do func(r *Request)) error {
	return hash.Update(Path(prefix), func(h *hash.Hash) error {
		r := decode(h)
		if do(&r); r.ID != 0 {
			h.SetFields(r)
		}
		return nil
	})
}

func (r Request) stored() stored {
	s := stored{Request: r, Off: strings.Join(r.Wish.Off, ","), Onto: strings.Join(r.Wish.Onto, ","), Ranks: join(r.Wish.Ranks)}
	if r.Predicted {
		percent := int64(r.Assurance*100 + 0.5)
		s.Percent = &percent
		if r.Within >= 0 {
			s.Within = &r.Within
		}
	}
	return s
}

func decode(h *hash.Hash) Request {
	s := hash.As[stored](h)
	r := s.Request
	r.Wish = recovery.Wish{Off: list(s.Off), Onto: list(s.Onto)}
	for _, text := range list(s.Ranks) {
		n, err := strconv.Atoi(text)
		if err != nil {
			n = -1 // no job has it, so the request fails
		}
		r.Wish.Ranks = append(r.Wish.Ranks, n)
	}
	if r.Within = -1; s.Within != nil {
		r.Within = *s.Within
	}
	if s.Percent != nil {
		r.Assurance = float64(*s.Percent) / 100
	}
	return r
}

func list(text string) []string {
	if text == "" {
		return nil
	}
	return strings.Split(text, ",")
}

func join(ranks []int) string {
	var words []string
	for _, r := range ranks {
		words = append(words, fmt.Sprint(r))
	}
	return strings.Join(words, ",")
}
