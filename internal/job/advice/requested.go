package advice

import (
	"errors"

	"github.com/goscr/goscr/internal/job/halt"
	"github.com/goscr/goscr/internal/job/request"
	"github.com/goscr/goscr/internal/prefix"
	"github.com/goscr/goscr/internal/prefix/dataset"
)

// Rank 0 answers the requests of commands for a checkpoint (package request). On other
// ranks these methods do nothing, and none of them is collective. An error of the request
// file is only logged, as a warning.

// Answer answers requests from now on, on rank 0.
func (a *Advisor) Answer(requests *request.Answers) { a.requests = requests }

// wanted reports whether a command waits for a checkpoint.
func (a *Advisor) wanted() (yes bool) {
	a.prefix.Note(func() (err error) {
		yes, err = a.requests.Wanted()
		return err
	})
	return yes
}

// Starts records that the program begins to write a checkpoint, and returns what those
// commands want besides that have asked for it.
func (a *Advisor) Starts(id int, name string) (wish request.Wish) {
	a.prefix.Note(func() (err error) {
		wish, err = a.requests.Start(id, name)
		return err
	})
	return wish
}

// Reached records how far dataset d is, if a command has asked for it.
func (a *Advisor) Reached(d dataset.Dataset, state request.State) {
	a.prefix.Note(func() error { return a.requests.Reach(d.ID(), state, d.Size()) })
}

// Failed records that the checkpoint id cannot be completed, if a command has asked for
// it.
func (a *Advisor) Failed(id int, why error) {
	a.prefix.Note(func() error { return a.requests.Fail(id, why.Error()) })
}

// Gone records how the request for a dataset has ended that is not in the cache any more.
func (a *Advisor) Gone(id int) {
	a.prefix.Note(func() error {
		x, err := prefix.ReadIndex(a.prefix.Dir)
		if err != nil {
			return errors.Join(err, a.requests.Fail(id, err.Error()))
		}
		if e := x.ByID(id); e.Complete {
			return a.requests.Reach(id, request.Finished, e.Size())
		}
		return a.requests.Fail(id, "it is neither in the cache any more nor in the prefix directory")
	})
}

// Requested returns the id of the dataset that a command waits for, 0 if there is none.
func (a *Advisor) Requested() int { return a.requests.Dataset() }

// Stops reports whether all ranks are to stop after the checkpoint that a command waits for.
func (a *Advisor) Stops() bool { return a.requests.Stops() }

// Terminate makes the program end, and scr_run not start it again, because a command has
// asked for that.
func (a *Advisor) Terminate() {
	a.prefix.Note(func() error {
		return halt.Change(a.prefix.Dir, map[halt.Field]string{halt.Because: halt.Terminated})
	})
}

// StopAnswering ends the answers to requests: those that are not over have failed.
func (a *Advisor) StopAnswering(why string) {
	a.prefix.Note(func() error { return a.requests.End(why) })
}

// Abandon ends the answers as the end of the process does.
func (a *Advisor) Abandon() { a.requests.Close() }
