package request

import (
	"crypto/rand"
	"path/filepath"
	"slices"
	"time"

	"github.com/goscr/goscr/hash"
)

// keep is how many requests that are over the file keeps, for commands that still read
// them.
const keep = 16

// NewAsker returns a name for a command, by which it takes a request back.
func NewAsker() string { return rand.Text() }

// Ask enters a request of asker for a checkpoint of job ("" for any), and returns its id.
// If there is a request for the same job whose checkpoint has not begun, Ask joins that:
// several requests at a time are one checkpoint, with what any of them wants.
func Ask(prefix, job, asker string, wish Wish) (id int, err error) {
	if err := hash.MakeDirs(filepath.Dir(Path(prefix))); err != nil {
		return 0, err
	}
	err = update(prefix, func(f *file) {
		list := f.requests()
		for _, r := range list {
			if r.State.Open() && r.Job == job {
				id = r.ID
			}
		}
		if id == 0 {
			id = max(f.Last, highest(list)) + 1
			f.Last = id
			r := &Request{Job: job, Askers: map[string]Wish{}}
			r.enter(Requested)
			f.Checkpoints[id] = r
		}
		f.Checkpoints[id].Askers[asker] = wish
		f.forget(list)
	})
	return id, err
}

func highest(list []*Request) int {
	if len(list) == 0 {
		return 0
	}
	return list[len(list)-1].ID
}

// forget removes the oldest requests that are over, except for a few.
func (f *file) forget(list []*Request) {
	var over []int
	for _, r := range list {
		if r.State.Over() {
			over = append(over, r.ID)
		}
	}
	for _, id := range over[:max(len(over)-keep, 0)] {
		delete(f.Checkpoints, id)
	}
}

// Read returns a request. ok is false if there is none of that id: a run that has begun
// since has forgotten it.
func Read(prefix string, id int) (r Request, ok bool, err error) {
	f, err := read(prefix)
	e := f.Checkpoints[id]
	if err != nil || e == nil {
		return Request{}, false, err
	}
	e.ID = id
	return *e, true, nil
}

// TakeBack removes asker from a request whose checkpoint has not begun, and the request if
// nobody else waits for it. It returns false if it is too late.
func TakeBack(prefix string, id int, asker string) (done bool, err error) {
	err = update(prefix, func(f *file) {
		r := f.Checkpoints[id]
		if done = r == nil || r.State.Open(); r == nil || !done {
			return
		}
		if delete(r.Askers, asker); len(r.Askers) == 0 {
			delete(f.Checkpoints, id)
		}
	})
	return done, err
}

// Refuse records why all requests for a job have failed that are not over: for a process that keeps
// the job from answering. It writes nothing if there are none.
func Refuse(prefix, job, why string) error {
	refused := func(f *file) []*Request {
		return slices.DeleteFunc(f.requests(), func(r *Request) bool { return r.State.Over() || r.Job != "" && r.Job != job })
	}
	f, err := read(prefix)
	if err != nil || len(refused(&f)) == 0 {
		return err
	}
	return update(prefix, func(f *file) {
		for _, r := range refused(f) {
			r.enter(Failed)
			r.Reason = why
		}
	})
}

// AskToContinue enters that a stopped job is to be continued.
func AskToContinue(prefix string) error {
	return update(prefix, func(f *file) { f.Continue = time.Now() })
}

// ToContinue returns when somebody last asked to continue the job; the zero time if nobody
// has.
func ToContinue(prefix string) (time.Time, error) {
	f, err := read(prefix)
	return f.Continue, err
}
