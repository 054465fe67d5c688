package request

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/goscr/goscr/internal/sys/lock"
)

// Answers is rank 0's side of a job: it sees requests, and records their states. Methods
// of a nil Answers do nothing. Its methods return errors of the request file only, after
// which the job continues.
type Answers struct {
	prefix string
	job    Job
	lock   *lock.Lock // nil as long as another job holds it

	seen   version   // of the file when it was read last
	opened time.Time // when the directory was opened last
	now    Request   // what the job works at; ID is 0 if that is nothing
}

// version distinguishes the contents that a file has had: it is replaced, not overwritten.
type version struct {
	inode           uint64
	changed, second int64
}

// fresh is how often the directory is opened: a client of NFS compares what it remembers
// of a directory with the server only then. In between a stat costs no message.
const fresh = time.Second

// take takes the lock of the job, unless another job has it.
func (a *Answers) take() (err error) {
	if a.lock == nil {
		if a.lock, err = lock.Try(LockPath(a.prefix), lock.Exclusive); a.lock != nil {
			a.lock.Describe(a.job.describe())
		}
	}
	return err
}

// First reports whether this job holds the lock: no job that began before it, and answers
// requests, is running.
func (a *Answers) First() bool { return a != nil && a.lock != nil }

// Wanted reports whether a command waits for a checkpoint that has not begun. It costs a
// stat, and now and then the opening of a directory.
func (a *Answers) Wanted() (bool, error) {
	if a == nil {
		return false, nil
	}
	if err := a.look(); err != nil {
		return false, err
	}
	var err error
	if a.now.State == Requested {
		err = a.record(Pending, nil)
	}
	return a.now.State == Pending, err // record finds that the request was refused, or taken back
}

// look reads the file if it has changed.
func (a *Answers) look() error {
	if a.now.ID != 0 && !a.now.State.Open() && !a.now.State.Over() {
		return nil // one at a time
	}
	if now := time.Now(); now.Sub(a.opened) >= fresh {
		a.opened = now
		if d, err := os.Open(filepath.Dir(Path(a.prefix))); err == nil {
			d.Close()
		}
	}
	v, err := stat(Path(a.prefix))
	if err != nil || v == a.seen {
		return err
	}
	a.seen, a.now = v, Request{}
	if err := a.take(); err != nil || a.lock == nil {
		return err
	}
	f, err := read(a.prefix)
	if err != nil {
		return err
	}
	for _, r := range f.requests() {
		if !r.State.Open() {
			continue
		}
		a.now = *r
		if r.Job == "" || r.Job == a.job.ID {
			return nil
		}
		// Only one job answers here, so nobody else would.
		if err := a.fail("the job that runs here is " + a.job.ID); err != nil {
			return err
		}
		a.now = Request{}
	}
	return nil
}

func stat(path string) (version, error) {
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return version{}, nil
	}
	if err != nil {
		return version{}, err
	}
	s := info.Sys().(*syscall.Stat_t)
	return version{s.Ino, s.Ctim.Nano(), s.Mtim.Nano()}, nil
}

// record writes the state of the request that the job works at.
func (a *Answers) record(state State, more func(r *Request)) error {
	err := update(a.prefix, func(f *file) {
		r := f.Checkpoints[a.now.ID]
		if r == nil { // taken back in the meantime
			a.now = Request{}
			return
		}
		if r.ID = a.now.ID; !r.State.Over() { // else by Refuse
			r.enter(state)
			if more != nil {
				more(r)
			}
		}
		a.now = *r
	})
	if err != nil { // what has happened has happened, whether it is recorded or not
		a.now.State = state
	}
	if state.Open() || state.Over() {
		a.seen = version{} // somebody may have entered another one
	}
	return err
}

// Start records that the program begins to write a checkpoint, and returns what the commands
// want besides that wait for it.
func (a *Answers) Start(id int, name string) (wish Wish, err error) {
	if a == nil {
		return Wish{}, nil
	}
	if err := a.look(); err != nil || !a.now.State.Open() {
		return Wish{}, err
	}
	err = a.record(Running, func(r *Request) { r.Dataset, r.Name = id, name })
	if a.now.State.Over() { // by Refuse: its command has reported a failure
		return Wish{}, err
	}
	return a.now.Wish(), err
}

// Writes reports whether dataset id is the answer to a request that is not over.
func (a *Answers) Writes(id int) bool {
	return a != nil && id != 0 && a.now.Dataset == id && !a.now.State.Over()
}

// Dataset returns the id of the dataset that is the answer to a request which is not over,
// 0 if there is none.
func (a *Answers) Dataset() int {
	if a == nil || a.now.State.Over() {
		return 0
	}
	return a.now.Dataset
}

// Stops reports whether all ranks are to stop after the dataset that is the answer to a
// request.
func (a *Answers) Stops() bool { return a.Dataset() != 0 && a.now.Wish().Stops() }

// Reach records that dataset id has come to a state. size is its size in bytes.
func (a *Answers) Reach(id int, state State, size int64) error {
	if !a.Writes(id) || a.now.State == state {
		return nil
	}
	return a.record(state, func(r *Request) { r.Size = size })
}

// Fail records why the request for dataset id has failed.
func (a *Answers) Fail(id int, why string) error {
	if !a.Writes(id) {
		return nil
	}
	return a.fail(why)
}

// Decline records why there is no checkpoint for the request that has been seen last, if none
// has begun for it.
func (a *Answers) Decline(why string) error {
	if a == nil || !a.now.State.Open() {
		return nil
	}
	return a.fail(why)
}

func (a *Answers) fail(why string) error {
	return a.record(Failed, func(r *Request) { r.Reason = why })
}

// End ends the answers of a job. What is still open, or not over, has failed.
func (a *Answers) End(why string) error {
	if a == nil {
		return nil
	}
	defer a.Close()
	if err := a.look(); err != nil || a.now.ID == 0 || a.now.State.Over() {
		return err
	}
	return a.fail(why)
}

// Close releases the lock, as the end of the process does.
func (a *Answers) Close() {
	if a != nil {
		a.lock.Release()
		a.lock = nil
	}
}
