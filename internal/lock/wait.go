package lock

import (
	"errors"
	"fmt"
	"os"
	"sync/atomic"
	"time"
)

// Patience is how a process waits for others.
type Patience struct {
	// Limit is how long it waits for a process that shows no sign of life.
	Limit time.Duration
	// Tell gets the lines that say for whom it waits.
	Tell func(line string)
}

// notice is the time after which a line says for whom the process waits.
func (p *Patience) notice() time.Duration {
	return max(min(5*time.Second, p.Limit/12), time.Millisecond)
}

var patience atomic.Pointer[Patience]

// SetPatience sets how all waits of the process are done from now on: as SCR_WAIT_SECONDS
// says, whatever is waited for. Before it is called the limit is a minute, and lines are
// written on stderr.
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
	To   string // what that process is to do, as in "release it"

	begun  bool
	last   time.Time     // when Pause was called last
	nap    time.Duration // how long it slept then
	waited time.Duration // since the last sign of life
	total  time.Duration
	told   time.Duration // of total, when it was said last for whom; 0: not yet
	looked time.Duration // of total, when a sign of life was looked for last
	life   string
}

// Pause sleeps for a short time. A line says for whom, if the wait has taken long, and
// when the holder of the lock has shown no sign of life for the limit it is an error.
//
// Time counts only as far as this process has run: one that was stopped, or got no
// processor, has not waited.
func (w *Waiting) Pause() error {
	const least, most, slow = 200 * time.Microsecond, 100 * time.Millisecond, time.Second
	now := time.Now()
	if w.begun {
		passed := min(now.Sub(w.last), 2*w.nap+slow)
		w.waited += passed
		w.total += passed
	}
	p := current()
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

// Until returns when done is true or has an error, or the holder of the lock at path,
// which is waited for, has shown no sign of life for the limit. to is as in Waiting.
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

// Wait takes an Exclusive lock as soon as no other process holds it.
func Wait(path string) (l *Lock, err error) {
	err = Until(path, "release its lock", func() (bool, error) {
		l, err = Try(path, Exclusive)
		return l != nil, err
	})
	return l, err
}
