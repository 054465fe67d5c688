package lock

import (
	"errors"
	"fmt"
	"os"
	"sync/atomic"
	"time"
)

// Patience determines how a process waits for others.
type Patience struct {
	// Limit is how long it waits for a process that shows no sign of life.
	Limit time.Duration
	// Tell is called with messages about the process that it waits for.
	Tell func(line string)
}

// notice returns the time after which a message tells which process is awaited.
func (p *Patience) notice() time.Duration {
	return max(min(5*time.Second, p.Limit/12), time.Millisecond)
}

var patience atomic.Pointer[Patience]

// SetPatience sets how this process waits from now on. All waits are subject to the same
// limit, SCR_WAIT_SECONDS. Before SetPatience is called the limit is a minute, and messages
// are written to stderr.
func SetPatience(p Patience) { patience.Store(&p) }

func current() *Patience {
	if p := patience.Load(); p != nil {
		return p
	}
	return &Patience{Limit: time.Minute, Tell: func(line string) { fmt.Fprintf(os.Stderr, "SCR: %s\n", line) }}
}

// ErrTimeout is wrapped by the errors of waits that have reached their limit.
var ErrTimeout = errors.New("no sign of life")

// Waiting is a wait for the process that holds a lock.
type Waiting struct {
	Path string // of the lock file
	To   string // what that process is to do, for messages, as in "release it"

	Limit time.Duration // if it is shorter than that of all waits; 0: that one counts

	begun  bool
	last   time.Time     // when Pause was called last
	nap    time.Duration // how long it slept then
	waited time.Duration // since the last sign of life
	total  time.Duration // since the first call of Pause
	told   time.Duration // total at the time of the last message; 0 if there was none
	looked time.Duration // total at the time of the last look for a sign of life
	life   string        // the last sign of life
}

// Pause sleeps for a short time. After a long wait it sends a message about the process
// that is awaited, and returns an error if that process has shown no sign of life for the
// limit.
//
// Only time during which this process could run counts: a process that was stopped, or got
// no processor, could not have seen a sign of life.
func (w *Waiting) Pause() error {
	const least, most, slow = 200 * time.Microsecond, 100 * time.Millisecond, time.Second
	now := time.Now()
	if w.begun {
		passed := min(now.Sub(w.last), 2*w.nap+slow)
		w.waited += passed
		w.total += passed
	}
	p := *current()
	if w.Limit > 0 {
		p.Limit = min(p.Limit, w.Limit)
	}
	if every := p.notice(); w.total >= w.looked+every/2 {
		w.looked = w.total
		who, stopped, life := holder(w.Path)
		if life != w.life {
			w.life, w.waited = life, 0
		}
		if w.total >= every && (w.told == 0 || w.total >= w.told+p.Limit) {
			w.told = w.total
			p.Tell(fmt.Sprintf("waiting for %s%s to %s (%s), until it has shown no sign of life for %v", who, stopped, w.To, w.Path, p.Limit))
		}
		if w.waited >= p.Limit {
			return fmt.Errorf("waited for %s%s to %s (%s): %w for %v; end it if it hangs, or raise SCR_WAIT_SECONDS", who, stopped, w.To, w.Path, ErrTimeout, p.Limit)
		}
	}
	w.begun, w.last = true, now
	w.nap = max(least, min(w.total/64, most))
	time.Sleep(w.nap)
	return nil
}

// Until calls done repeatedly until it returns true or an error, or until the holder of the
// lock at path has shown no sign of life for the limit. to is as in Waiting.
func Until(path, to string, done func() (bool, error)) error {
	w := Waiting{Path: path, To: to}
	for {
		if ok, err := done(); ok || err != nil {
			return err
		}
		if err := w.Pause(); err != nil {
			return err
		}
	}
}

// Wait waits until no other process holds a lock, and takes it as Exclusive.
func Wait(path string) (l *Lock, err error) {
	err = Until(path, "release its lock", func() (bool, error) {
		l, err = Try(path, Exclusive)
		return l != nil, err
	})
	return l, err
}
