package mover

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/goscr/goscr/hash"
	"github.com/goscr/goscr/internal/lock"
	"github.com/goscr/goscr/internal/prefix"
	"github.com/goscr/goscr/internal/transfer"
)

// Server is scr_transfer at work.
type Server struct {
	Control string // directory of the node
	// Stay has it wait for more when all is copied, until it is told to end, or Alone
	// says that scr_run, which would tell it, is gone.
	Stay  bool
	Alone func() bool
	// Poll is how often it looks for work while it has none; 0: five times a second.
	Poll time.Duration
	// Warn is told why a request could not be copied.
	Warn func(error)

	lock *lock.Lock
	file watched
}

// Run copies what the transfer file says, until there is no more. If another
// process does so already it returns at once; or, if it is to stay and the other is
// not, it takes its place when that ends.
func (s *Server) Run() error {
	if s.Poll == 0 {
		s.Poll = time.Second / 5
	}
	s.file.path = filePath(s.Control)
	for s.Stay { // until the first run has made it
		if _, err := os.Stat(s.Control); !errors.Is(err, fs.ErrNotExist) {
			break
		}
		if s.Alone() {
			return nil
		}
		time.Sleep(s.Poll)
	}
	if err := s.takeLock(); s.lock == nil {
		return err
	}
	defer s.unlock()
	rest := delay
	for {
		t, err := s.next()
		switch {
		case err != nil:
			return err
		case t.exit:
			return nil
		case t.request == nil:
			time.Sleep(s.Poll)
			rest = delay
		default:
			if err := s.finish(t.request, s.copy(t, rest)); err != nil {
				return err
			}
			rest = 0
		}
	}
}

// takeLock takes the lock, unless another process is at work. If that does not stay,
// since a program that was there first has started it, it is waited for: it ends when
// it has copied all, or with the job step that it belongs to.
func (s *Server) takeLock() (err error) {
	if s.Stay {
		place, err := lock.Try(filepath.Join(s.Control, queueName), lock.Shared)
		if err != nil {
			return err
		}
		defer place.Release()
	}
	for tries := 0; ; tries++ {
		if s.lock, err = lock.Try(lockPath(s.Control), lock.Exclusive); err != nil || s.lock != nil {
			return err
		}
		switch {
		case tries < 5: // a process that cancels something has it for a moment
			time.Sleep(20 * time.Millisecond)
		case !s.Stay || stays(s.Control) || s.Alone():
			return nil
		default:
			time.Sleep(s.Poll)
		}
	}
}

// stays reports whether the scr_transfer of a node waits for more.
func stays(control string) bool {
	h, err := hash.ReadWithLock(filePath(control))
	return err == nil && h.Has(keyStay)
}

func (s *Server) unlock() {
	s.lock.Release()
	s.lock = nil
}

// task is what is to be done next.
type task struct {
	exit    bool
	request *Request        // nil: nothing so far
	copied  map[string]bool // files of it that have been copied
	copier  *transfer.Copier
}

// next finds out what to do next. If the server is to end, the lock is given up
// before anybody else can change the transfer file: a process that enters a request
// later finds no scr_transfer, and a request that was entered before has been seen.
func (s *Server) next() (t task, err error) {
	if idle, err := s.idle(); idle || err != nil {
		return task{exit: err == nil && (!s.Stay || s.Alone())}, err
	}
	err = hash.Update(s.file.path, func(h *hash.Hash) error {
		t = s.choose(h)
		if t.exit {
			s.unlock()
		}
		return nil
	})
	return t, err
}

// idle reports whether the transfer file need not be changed: a server that waits
// does not write as long as there is nothing to say.
func (s *Server) idle() (bool, error) {
	if _, err := os.Lstat(s.file.path); errors.Is(err, fs.ErrNotExist) {
		return true, nil
	}
	if !s.Stay {
		return false, nil
	}
	if !s.file.changed() {
		return true, nil
	}
	h, err := hash.ReadWithLock(s.file.path)
	if err != nil {
		return false, err
	}
	request, _ := next(h)
	return request == nil && !h.Has(keyCancel) && h.Text(keyCommand) != commandExit && h.Has(keyStay), nil
}

// choose decides what to do next, and says so in the hash of the transfer file.
func (s *Server) choose(h *hash.Hash) (t task) {
	for _, id := range h.Get(keyCancel).Keys() {
		remove(h, id)
	}
	command := h.Text(keyCommand)
	request, copied := next(h)
	h.SetValue(keyState, stateStopped)
	h.Unset(keyStay)
	if s.Stay {
		h.SetValue(keyStay, "1")
	}
	switch {
	case command == commandExit:
		h.Unset(keyCommand)
		if request != nil { // for the next
			h.SetValue(keyCommand, commandRun)
		}
		t.exit = true
	case request == nil:
		if h.Has(keyDataset) {
			h.SetValue(keyFlag, keyDone)
		}
		t.exit = !s.Stay || s.Alone()
	case command == commandRun:
		h.SetValue(keyState, stateRunning)
		t = task{request: request, copied: copied, copier: copier(h, request.Dataset.ID())}
	default: // not yet
		t.exit = !s.Stay || s.Alone()
	}
	return t
}

// copy copies a request, after a rest.
func (s *Server) copy(t task, rest time.Duration) error {
	r := t.request
	if r.Dataset.ID() < 1 || r.Ranks < 1 || r.Prefix == "" {
		return errors.New("the transfer file does not say what is to be copied")
	}
	c := &copying{Request: r, file: &s.file, told: time.Now()}
	c.pace = &transfer.Pace{Limits: r.Limits, Used: transfer.ProcessTime, Wait: c.wait}
	if err := c.wait(rest); err != nil {
		return err
	}
	err := r.copy(t.copier, progress{c.pace, t.copied, c.wanted, c.placed})
	if len(c.written) > 0 {
		err = errors.Join(err, c.tell())
	}
	return err
}

// copying is a request while it is copied.
type copying struct {
	*Request
	file    *watched // the transfer file
	pace    *transfer.Pace
	asked   time.Time // when it was found to be wanted
	written []string  // files that were copied, which the transfer file does not say yet
	told    time.Time // when that was changed last
}

// errCancelled is the error of a request that is not to be copied, or that is left to
// the next server.
var errCancelled = fmt.Errorf("%w", transfer.ErrStopped)

// poll looks whether the transfer file says something else than before.
func (c *copying) poll() error {
	if !c.file.changed() {
		return nil
	}
	h, err := hash.ReadWithLock(c.file.path)
	if err != nil {
		return err
	}
	id := strconv.Itoa(c.Dataset.ID())
	if h.Text(keyCommand) == commandExit || h.Has(keyCancel, id) || !h.Has(keyDataset, id) {
		return errCancelled
	}
	c.pace.Change(limits(h))
	return nil
}

// wait waits, until the request is cancelled or the limits are others.
func (c *copying) wait(d time.Duration) error {
	const most = 100 * time.Millisecond // until that is noticed
	before := c.pace.Limits
	for ; ; d -= most {
		if err := c.poll(); err != nil || d <= 0 || c.pace.Limits != before {
			return err
		}
		time.Sleep(min(d, most))
	}
}

// wanted is an error if the dataset is not being flushed any more: a run without this
// node may have gone on, and write files of these names.
func (c *copying) wanted() error {
	if time.Since(c.asked) < time.Second {
		return nil
	}
	c.asked = time.Now()
	on, err := prefix.UnderWay(c.Prefix, c.Dataset)
	if err == nil && !on {
		err = fmt.Errorf("dataset %d (%s) is not wanted in %s any more", c.Dataset.ID(), c.Dataset.Name(), c.Prefix)
	}
	return err
}

// placed notes that a file was copied.
func (c *copying) placed(path string) error {
	c.written = append(c.written, path)
	if time.Since(c.told) < time.Second {
		return nil
	}
	return c.tell()
}

// tell says in the transfer file which files were copied.
func (c *copying) tell() error {
	err := hash.Update(c.file.path, func(h *hash.Hash) error { recordWritten(h, c.written); return nil })
	c.written, c.told = nil, time.Now()
	return err
}

// finish records how a request has ended. One that was cancelled is as it was.
func (s *Server) finish(r *Request, err error) error {
	if errors.Is(err, errCancelled) {
		return nil
	}
	if err != nil && s.Warn != nil {
		s.Warn(fmt.Errorf("dataset %d, rank %d: %w", r.Dataset.ID(), r.Rank, err))
	}
	return hash.Update(s.file.path, func(h *hash.Hash) error { record(h, r, err); return nil })
}
