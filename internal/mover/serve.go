package mover

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"time"

	"github.com/goscr/goscr/hash"
	"github.com/goscr/goscr/internal/prefix"
	"github.com/goscr/goscr/internal/transfer"
)

// Server is scr_transfer at work.
type Server struct {
	Control string // directory of the node
	// Stay has it wait for more when all is copied, until it is told to end or Alone
	// says that nobody is left who could tell it.
	Stay  bool
	Alone func() bool
	// Poll is how often it looks for work while it has none; 0: five times a second.
	Poll time.Duration
	// Warn is told why a load could not be copied.
	Warn func(error)

	lock    *os.File
	file    watched
	stopped bool // what it copies is not wanted any more
}

// Run copies what the transfer file says, until there is no more. If another
// process does so already it returns at once, or, if it is to stay and the other is
// not, takes its place when that ends.
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
	if err := s.occupy(); s.lock == nil {
		return err
	}
	defer s.unlock()
	rest := grace
	for {
		t, err := s.take()
		switch {
		case err != nil:
			return err
		case t.exit:
			return nil
		case t.load == nil:
			time.Sleep(s.Poll)
			rest = grace
		default:
			if err := s.finish(t.load, s.carry(t, rest)); err != nil {
				return err
			}
			rest = 0
		}
	}
}

// occupy takes the lock, unless another process is at work. One that does not stay,
// as a program starts it that has come first, is waited for: it ends when it has
// copied all, or with the job step that it belongs to.
func (s *Server) occupy() (err error) {
	if s.Stay {
		place, err := queue(s.Control)
		if err != nil {
			return err
		}
		defer place.Close()
	}
	for tries := 0; ; tries++ {
		if s.lock, err = lock(s.Control); err != nil || s.lock != nil {
			return err
		}
		switch {
		case tries < 5: // somebody who cancels something has it for a moment
			time.Sleep(20 * time.Millisecond)
		case !s.Stay || stays(s.Control) || s.Alone():
			return nil
		default:
			time.Sleep(s.Poll)
		}
	}
}

// stays reports whether who copies on a node waits for more.
func stays(control string) bool {
	h, err := hash.ReadWithLock(filePath(control))
	return err == nil && h.Has(keyStay)
}

func (s *Server) unlock() {
	if s.lock != nil {
		s.lock.Close()
		s.lock = nil
	}
}

// task is what is to be done next.
type task struct {
	exit    bool
	load    *Load // nil: nothing so far
	arrived map[string]bool
	copier  *transfer.Copier
}

// take finds out what to do next. If it is to end, the lock is given up before
// anybody else can change the transfer file: who enters a load later finds nobody at
// work, and who has entered one before has been seen.
func (s *Server) take() (t task, err error) {
	if _, err := os.Lstat(s.file.path); errors.Is(err, fs.ErrNotExist) {
		if !s.Stay || s.Alone() {
			return task{exit: true}, nil
		}
		return task{}, nil
	}
	if s.Stay {
		// Whoever waits does not write, as long as there is nothing to say.
		if !s.file.changed() {
			return task{exit: s.Alone()}, nil
		}
		h, err := hash.ReadWithLock(s.file.path)
		if err != nil {
			return task{}, err
		}
		if load, _ := next(h); load == nil && !h.Has(keyCancel) && h.Text(keyCommand) != commandExit && h.Has(keyStay) {
			return task{exit: s.Alone()}, nil
		}
	}
	err = hash.Update(s.file.path, func(h *hash.Hash) error {
		for _, id := range h.Get(keyCancel).Keys() {
			remove(h, id)
		}
		command := h.Text(keyCommand)
		load, arrived := next(h)
		h.SetValue(keyState, stateStopped)
		h.Unset(keyStay)
		if s.Stay {
			h.SetValue(keyStay, "1")
		}
		switch {
		case command == commandExit:
			h.Unset(keyCommand)
			if load != nil { // for the next
				h.SetValue(keyCommand, commandRun)
			}
			t.exit = true
		case load == nil:
			if h.Has(keyDataset) {
				h.SetValue(keyFlag, keyDone)
			}
			t.exit = !s.Stay || s.Alone()
		case command == commandRun:
			h.SetValue(keyState, stateRunning)
			t.load, t.arrived, t.copier = load, arrived, copier(h, load.Dataset.ID())
		default: // not yet
			t.exit = !s.Stay || s.Alone()
		}
		if t.exit {
			s.unlock()
		}
		return nil
	})
	return t, err
}

// carry copies a load, after a rest.
func (s *Server) carry(t task, rest time.Duration) error {
	l, c := t.load, t.copier
	if l.Dataset.ID() < 1 || l.Ranks < 1 || l.Prefix == "" {
		return errors.New("the transfer file does not say what is to be copied")
	}
	s.stopped = false
	asked := time.Time{}
	wanted := func() error {
		if time.Since(asked) < time.Second {
			return nil
		}
		asked = time.Now()
		// A run without this node may have gone on, and write files of these names.
		on, err := prefix.UnderWay(l.Prefix, l.Dataset)
		if err == nil && !on {
			err = fmt.Errorf("dataset %d (%s) is not wanted in %s any more", l.Dataset.ID(), l.Dataset.Name(), l.Prefix)
		}
		return err
	}
	pace := &transfer.Pace{Limits: l.Limits, Used: transfer.ProcessTime}
	look := func() error {
		if !s.file.changed() {
			return nil
		}
		h, err := hash.ReadWithLock(s.file.path)
		if err != nil {
			return err
		}
		id := strconv.Itoa(l.Dataset.ID())
		if h.Text(keyCommand) == commandExit || h.Has(keyCancel, id) || !h.Has(keyDataset, id) {
			s.stopped = true
			return transfer.ErrStopped
		}
		pace.Change(limits(h))
		return nil
	}
	pace.Wait = func(d time.Duration) error {
		const most = 100 * time.Millisecond // until it notices that it is to stop
		before := pace.Limits
		for ; ; d -= most {
			if err := look(); err != nil || d <= 0 || pace.Limits != before {
				return err
			}
			time.Sleep(min(d, most))
		}
	}
	var written []string
	told := time.Now()
	tell := func() error {
		err := hash.Update(s.file.path, func(h *hash.Hash) error { enterWritten(h, written); return nil })
		written, told = nil, time.Now()
		return err
	}
	if err := pace.Wait(rest); err != nil {
		return err
	}
	err := l.carry(c, pace, t.arrived, wanted, func(path string) error {
		written = append(written, path)
		if time.Since(told) < time.Second {
			return nil
		}
		return tell()
	})
	if len(written) > 0 {
		err = errors.Join(err, tell())
	}
	return err
}

// enterWritten records files as copied.
func enterWritten(h *hash.Hash, paths []string) {
	for _, path := range paths {
		if e := h.Get(keyFiles, path); e != nil {
			e.SetValue(keyWritten, e.Text(keySize))
		}
	}
}

// finish records how a load has ended. One that was stopped is as it was.
func (s *Server) finish(l *Load, err error) error {
	if s.stopped {
		return nil
	}
	if err != nil && s.Warn != nil {
		s.Warn(fmt.Errorf("dataset %d, rank %d: %w", l.Dataset.ID(), l.Rank, err))
	}
	return hash.Update(s.file.path, func(h *hash.Hash) error { record(h, l, err); return nil })
}
