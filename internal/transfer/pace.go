package transfer

import (
	"errors"
	"time"

	"golang.org/x/sys/unix"
)

// Limits bound what a copy takes of a node. 0 is no limit.
type Limits struct {
	Bandwidth float64 // bytes a second
	CPU       float64 // seconds of a processor a second
}

// Part is the limits of somebody who has so much of the work on the node.
func (l Limits) Part(of float64) Limits { return Limits{l.Bandwidth * of, l.CPU * of} }

// ErrStopped is why a copy that was told to stop is not complete.
var ErrStopped = errors.New("the copy was stopped")

// Pace keeps somebody who copies to limits, by letting him wait after each piece
// for as long as the piece may take.
type Pace struct {
	Limits
	// Used is the processor time of whoever copies, so far.
	Used func() time.Duration
	// Stop ends the wait, and the copy, when it is closed.
	Stop <-chan struct{}

	due  time.Time     // when what was copied may be over
	used time.Duration // up to when that was reckoned
	now  func() time.Time
	wait func(time.Duration, <-chan struct{})
}

// credit is how long a copy may have been slower than its limits, as when a disk was
// busy, and make up for it.
const credit = time.Second

// Spent says that so many bytes were copied, and returns when the next may be: with
// ErrStopped if they shall not be.
func (p *Pace) Spent(bytes int) error {
	if p.now == nil {
		p.now, p.wait = time.Now, sleep
	}
	select {
	case <-p.Stop:
		return ErrStopped
	default:
	}
	if p.Bandwidth <= 0 && p.CPU <= 0 {
		return nil
	}
	now := p.now()
	if p.due.IsZero() {
		p.due = now
	}
	var cost time.Duration
	if p.Bandwidth > 0 {
		cost = seconds(float64(bytes) / p.Bandwidth)
	}
	if p.CPU > 0 {
		used := p.Used()
		cost = max(cost, seconds((used-p.used).Seconds()/p.CPU))
		p.used = used
	}
	if late := now.Add(-credit); p.due.Before(late) {
		p.due = late
	}
	p.due = p.due.Add(cost)
	if wait := p.due.Sub(now); wait > 0 {
		p.wait(wait, p.Stop)
	}
	select {
	case <-p.Stop:
		return ErrStopped
	default:
		return nil
	}
}

// Begin says that the work begins now: what was used before is not counted.
func (p *Pace) Begin() {
	if p.CPU > 0 {
		p.used = p.Used()
	}
}

func seconds(s float64) time.Duration {
	const most = 1e9 // so that a limit of next to nothing does not run over
	return time.Duration(min(s, most) * float64(time.Second))
}

func sleep(d time.Duration, stop <-chan struct{}) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-stop:
	}
}

// ThreadTime is the processor time of the calling thread, to which the goroutine has
// to be locked.
func ThreadTime() time.Duration { return clock(unix.CLOCK_THREAD_CPUTIME_ID) }

// ProcessTime is the processor time of the process.
func ProcessTime() time.Duration { return clock(unix.CLOCK_PROCESS_CPUTIME_ID) }

func clock(id int32) time.Duration {
	var t unix.Timespec
	if unix.ClockGettime(id, &t) != nil {
		return 0
	}
	return time.Duration(t.Nano())
}
