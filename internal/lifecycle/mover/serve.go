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
	"github.com/goscr/goscr/internal/lifecycle/background"
	"github.com/goscr/goscr/internal/prefix"
	"github.com/goscr/goscr/internal/prefix/transfer"
	"github.com/goscr/goscr/internal/sys/lock"
	"github.com/goscr/goscr/internal/sys/trust"
)

// Server is the main loop of scr_transfer.
type Server struct {
	Control string // directory of the node
	// Stay makes it wait for more requests when all files are copied, until a command in the
	// transfer file tells it to end, or Alone reports that scr_run, which would write that
	// command, has ended.
	Stay  bool
	Alone func() bool
	// Poll is the time between two polls for work while it has none; 0: a fifth of a
	// second.
	Poll time.Duration
	// Warn is called with the error of each request that could not be copied.
	Warn func(error)

	lock  *lock.Lock
	file  watched
	meter *prefix.CopyMeter // of the dataset of rank 0 that was copied last
}

// Run copies the files of the requests in the transfer file, until there are no more. If
// another process does so already, Run returns at once; but if this server is to stay and
// the other is not, it waits for the other to end, and takes its place.
func (s *Server) Run() error {
	if s.Poll == 0 {
		s.Poll = time.Second / 5
	}
	s.file.path = filePath(s.Control)
	for s.Stay { // the first run makes the directory
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
	s.lock.KeepAlive()
	if err := s.own(); err != nil {
		return err
	}
	rest := background.Delay
	for {
		t, err := s.next()
		switch {
		case err != nil:
			return err
		case t.exit:
			return nil
		case t.request == nil:
			time.Sleep(s.Poll)
			rest = background.Delay
		default:
			if err := s.finish(t.request, s.copy(t, rest)); err != nil {
				return err
			}
			rest = 0
		}
	}
}

// own checks that the control directory is the caller's: its files name paths that are written.
func (s *Server) own() error {
	info, err := os.Lstat(s.Control)
	if err == nil && trust.OwnerOf(info) != os.Geteuid() {
		err = fmt.Errorf("%s belongs to %s, and its files name paths to write: scr_transfer must run as that user", s.Control, trust.Name(trust.OwnerOf(info)))
	}
	return err
}

// takeLock takes the lock, unless another process copies; s.lock is nil then. A server that
// is to stay waits for one that does not stay, which a program has started: that ends when
// it has copied all files, or with its job step.
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
		case tries < 5: // a process that cancels a copy holds it briefly
			time.Sleep(20 * time.Millisecond)
		case !s.Stay || Stays(s.Control) || s.Alone():
			return nil
		default:
			time.Sleep(s.Poll)
		}
	}
}

// Stays reports whether the scr_transfer of a node waits for more requests when all files are
// copied, until a command ends it.
func Stays(control string) bool {
	h, err := hash.ReadFile(filePath(control))
	return err == nil && h.Has(keyStay)
}

func (s *Server) unlock() {
	s.lock.Release()
	s.lock = nil
}

// task is the next work to do.
type task struct {
	exit    bool
	request *Request        // nil if there is no request at present
	copied  map[string]bool // files of it that have been copied
	copier  *transfer.Copier
	meter   *prefix.CopyMeter // nil: rank 0 runs on another node
}

// next finds the next task. If the server is to end, it releases the lock before
// another process can change the transfer file: a process that enters a request later
// finds no scr_transfer, and a request that was entered before has been seen.
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

// idle reports whether the transfer file need not be changed: a server that waits does
// not write to it needlessly.
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
	h, err := hash.ReadFile(s.file.path)
	if err != nil {
		return false, err
	}
	request, _ := next(h)
	return request == nil && !h.Has(keyCancel) && h.Text(keyCommand) != commandExit && h.Has(keyStay), nil
}

// choose decides the next task, and records it in the hash of the transfer file.
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
		if request != nil { // the next scr_transfer is to copy it
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
		t = task{request: request, copied: copied, copier: copier(h, request.Dataset.ID()), meter: s.meterOf(h, request)}
		t.copier.Stalled = s.Warn
	default: // no process has written the command to copy
		t.exit = !s.Stay || s.Alone()
	}
	return t
}

// meterOf returns what records how far the flush of a request's dataset is, if rank 0 runs on
// this node.
func (s *Server) meterOf(h *hash.Hash, r *Request) *prefix.CopyMeter {
	if partOf(h, r.Dataset.ID(), 0) == nil {
		return nil
	}
	if !s.meter.Of(r.Prefix, r.Dataset) {
		s.meter = prefix.NewCopyMeter(r.Prefix, r.Dataset)
	}
	s.meter.Set(written(h, r.Dataset.ID()))
	return s.meter
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
	err := r.copy(t.copier, progress{c.pace, t.copied, c.wanted, c.done, t.meter})
	if len(c.written) > 0 {
		err = errors.Join(err, c.tell())
	}
	return err
}

// copying is a request that is being copied.
type copying struct {
	*Request
	file    *watched // the transfer file
	pace    *transfer.Pace
	asked   time.Time // when the dataset was last found to be wanted
	written []string  // copied files that are not recorded in the transfer file yet
	told    time.Time // when the transfer file was changed last
}

// errCancelled is the error of a request that is cancelled, or is left to the next server.
var errCancelled = fmt.Errorf("%w", transfer.ErrStopped)

// poll checks whether the transfer file has changed.
func (c *copying) poll() error {
	if !c.file.changed() {
		return nil
	}
	h, err := hash.ReadFile(c.file.path)
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

// wait waits for d, but returns earlier if the request is cancelled or the limits change.
func (c *copying) wait(d time.Duration) error {
	const most = 100 * time.Millisecond // between two polls
	before := c.pace.Limits
	for ; ; d -= most {
		if err := c.poll(); err != nil || d <= 0 || c.pace.Limits != before {
			return err
		}
		time.Sleep(min(d, most))
	}
}

// wanted returns an error if the dataset is no longer being flushed: a new run without this
// node may write files of the same names.
func (c *copying) wanted() error {
	if time.Since(c.asked) < time.Second {
		return nil
	}
	c.asked = time.Now()
	on, err := prefix.UnderWay(c.Prefix, c.Dataset)
	if err == nil && !on {
		err = fmt.Errorf("dataset %d (%s) is not wanted in %s any more", c.Dataset.ID(), c.Dataset.Name(), c.Prefix)
		err = errors.Join(err, c.discard())
	}
	return err
}

// done records that a file was copied.
func (c *copying) done(path string) error {
	c.written = append(c.written, path)
	if time.Since(c.told) < time.Second {
		return nil
	}
	return c.tell()
}

// tell records the copied files in the transfer file.
func (c *copying) tell() error {
	err := hash.Update(c.file.path, func(h *hash.Hash) error { recordWritten(h, c.written); return nil })
	c.written, c.told = nil, time.Now()
	return err
}

// finish records the result of a request, unless it was cancelled.
func (s *Server) finish(r *Request, err error) error {
	if errors.Is(err, errCancelled) {
		return nil
	}
	if err != nil && s.Warn != nil {
		s.Warn(fmt.Errorf("dataset %d, rank %d: %w", r.Dataset.ID(), r.Rank, err))
	}
	return hash.Update(s.file.path, func(h *hash.Hash) error { record(h, r, err); return nil })
}
