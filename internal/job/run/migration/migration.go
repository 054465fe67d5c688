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
const (
	fileName = "migrate.scr"

	keyID        = "ID"
	keyState     = "STATE"
	keyText      = "TEXT"
	keyTook      = "TOOK"
	keyInit      = "INIT"
	keyOff       = "OFF"
	keyOnto      = "ONTO"
	keyRanks     = "RANKS"
	keyPredicted = "PREDICTED"
	keyWithin    = "WITHIN"
	keyAssurance = "ASSURANCE"
	keyRestart   = "RESTART"
)

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
	ID    int
	State State
	Text  string        // why it has failed, or what it has cost
	Took  time.Duration // the sum of the times in Text; 0: it has not succeeded
	Init  time.Duration // how long SCR_Init has taken in the run on the new nodes; 0: it has not returned
	Wish  recovery.Wish
	// Predicted says that the nodes in Wish.Off are predicted to fail. Then scr_run
	// decides what to do.
	Predicted bool
	Within    time.Duration // after which they are to fail; less than 0: not known
	Assurance float64       // probability, 0 to 1
	Restart   string        // name of the checkpoint from which the next run is to begin; "": a migration
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
		h.UnsetAll()
		h.SetInt(keyID, int64(id))
		h.SetValue(keyState, string(Requested))
		for key, text := range map[string]string{keyOff: strings.Join(r.Wish.Off, ","), keyOnto: strings.Join(r.Wish.Onto, ","), keyRanks: join(r.Wish.Ranks)} {
			if text != "" {
				h.SetValue(key, text)
			}
		}
		if r.Restart != "" {
			h.SetValue(keyRestart, r.Restart)
		}
		if r.Predicted {
			h.SetValue(keyPredicted, "1")
			h.SetInt(keyAssurance, int64(r.Assurance*100+0.5))
			if r.Within >= 0 {
				h.SetInt(keyWithin, r.Within.Microseconds())
			}
		}
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
	return hash.Update(Path(prefix), func(h *hash.Hash) error {
		if decode(h).ID != id {
			return nil
		}
		h.SetValue(keyState, string(state))
		h.Unset(keyText)
		if text != "" {
			h.SetValue(keyText, text)
		}
		return nil
	})
}

// Finish records that a request has been carried out: what it has cost, and the sum of the
// times in that text.
func Finish(prefix string, id int, text string, took time.Duration) error {
	return hash.Update(Path(prefix), func(h *hash.Hash) error {
		if decode(h).ID != id {
			return nil
		}
		h.SetValue(keyState, string(Done))
		h.SetValue(keyText, text)
		h.SetInt(keyTook, took.Microseconds())
		return nil
	})
}

// Ready records that SCR_Init has returned in a new run, after took, if a migration waits for
// that. Rank 0 of each run calls it.
func Ready(prefix string, took time.Duration) error {
	if r, err := Read(prefix); err != nil || r.State != Restarting {
		return err
	}
	return hash.Update(Path(prefix), func(h *hash.Hash) error {
		if decode(h).State == Restarting {
			h.SetInt(keyInit, max(took.Microseconds(), 1))
		}
		return nil
	})
}

// TakeBack makes a request fail whose checkpoint has not been asked for. It returns false
// if it is too late.
func TakeBack(prefix string, id int) (done bool, err error) {
	err = hash.Update(Path(prefix), func(h *hash.Hash) error {
		r := decode(h)
		done = r.ID != id || r.State == Requested || r.State.Over()
		if r.ID == id && r.State == Requested {
			h.SetValue(keyState, string(Failed))
			h.SetValue(keyText, "taken back")
		}
		return nil
	})
	return done, err
}

func decode(h *hash.Hash) Request {
	id, _ := h.Int(keyID)
	r := Request{ID: int(id), State: State(h.Text(keyState)), Text: h.Text(keyText), Predicted: h.Text(keyPredicted) == "1", Within: -1}
	r.Wish = recovery.Wish{Off: list(h.Text(keyOff)), Onto: list(h.Text(keyOnto))}
	for _, text := range list(h.Text(keyRanks)) {
		n, err := strconv.Atoi(text)
		if err != nil {
			n = -1 // no job has it, so the request fails
		}
		r.Wish.Ranks = append(r.Wish.Ranks, n)
	}
	if within, ok := h.Int(keyWithin); ok {
		r.Within = time.Duration(within) * time.Microsecond
	}
	took, _ := h.Int(keyTook)
	initTook, _ := h.Int(keyInit)
	r.Took, r.Init = time.Duration(took)*time.Microsecond, time.Duration(initTook)*time.Microsecond
	r.Restart = h.Text(keyRestart)
	percent, _ := h.Int(keyAssurance)
	r.Assurance = float64(percent) / 100
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
