package transfer

import (
	"errors"
	"runtime"
	"time"

	"golang.org/x/sys/unix"

	"github.com/goscr/goscr/mpi"
)

// Limits bound what a copy takes of a node. 0 is no limit.
type Limits struct {
	Bandwidth float64 // bytes a second
	CPU       float64 // seconds of a processor a second
}

// Part returns the limits of a process that has a fraction of the work on the node.
func (l Limits) Part(of float64) Limits { return Limits{l.Bandwidth * of, l.CPU * of} }

// Share returns the limits of a process that has so many bytes of the work on its node, whose
// processes are the ranks of node: so all end at about the same time. It is collective over node,
// and costs one reduction if there are limits.
func (l Limits) Share(node mpi.Comm, bytes int64) Limits {
	if l == (Limits{}) {
		return l
	}
	total := mpi.AllreduceOne(node, bytes, mpi.Sum)
	return l.Part(float64(bytes) / float64(max(total, 1)))
}

// ErrStopped is the error of a copy that was told to stop.
var ErrStopped = errors.New("the copy was stopped")

// Pace keeps a copy to limits: after each piece it waits for as long as the piece has
// to take.
type Pace struct {
	Limits
	// Used is the processor time of the thread or process that copies, so far.
	Used func() time.Duration
	// Wait waits, perhaps not at all. Its error, which it may return before the time
	// is over, ends the copy.
	Wait func(time.Duration) error

	due  time.Time     // earliest end of the copy so far
	used time.Duration // processor time that due includes
	now  func() time.Time
}

// credit is the time for which a copy that was slower than its limits, as when a disk
// was busy, may exceed them afterwards.
const credit = time.Second

// burst is the shortest wait: waking up costs processor time, too, in threads whose
// time is not counted.
const burst = 50 * time.Millisecond

// Spent records copied bytes, and returns when the next may be copied, or with an error
// if the copy is to end.
func (p *Pace) Spent(bytes int) error { return p.spend(bytes, burst) }

// Rest waits, at the end of a copy, until it has taken as long as it has to.
func (p *Pace) Rest() error { return p.spend(0, 0) }

func (p *Pace) spend(bytes int, worth time.Duration) error {
	if p.Bandwidth <= 0 && p.CPU <= 0 {
		return p.Wait(0)
	}
	now := time.Now()
	if p.now != nil {
		now = p.now()
	}
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
	wait := p.due.Sub(now)
	if wait < worth {
		wait = 0
	}
	return p.Wait(wait)
}

// Begin begins the work: processor time used before is not counted.
func (p *Pace) Begin() {
	if p.CPU > 0 {
		p.used = p.Used()
	}
}

// Change sets other limits, from now on.
func (p *Pace) Change(l Limits) {
	if l != p.Limits {
		p.Limits, p.due = l, time.Time{}
		p.Begin()
	}
}

func seconds(s float64) time.Duration {
	const most = 1e9 // so that a limit of next to nothing does not run over
	return time.Duration(min(s, most) * float64(time.Second))
}

// UntilStopped is a Wait that ends when a channel is closed.
func UntilStopped(stop <-chan struct{}) func(time.Duration) error {
	return func(d time.Duration) error {
		select {
		case <-stop:
			return ErrStopped
		default:
		}
		if d <= 0 {
			return nil
		}
		t := time.NewTimer(d)
		defer t.Stop()
		select {
		case <-t.C:
			return nil
		case <-stop:
			return ErrStopped
		}
	}
}

// niceness is added to the nice value of a thread that copies: if it shares a processor
// with a thread of the program it gets a tenth of it.
const niceness = 10

// LowerPriority lowers the priority of the calling thread, to which the goroutine has
// to be locked, below the program's threads. It cannot be undone.
func LowerPriority() {
	const most = 19
	raw, err := unix.Getpriority(unix.PRIO_PROCESS, 0) // 20 less the niceness
	if err == nil {
		_ = unix.Setpriority(unix.PRIO_PROCESS, 0, min(20-raw+niceness, most)) // without it the copy still works
	}
}

// BehindProgram locks the calling goroutine to its thread and lowers the priority of that.
func BehindProgram() {
	runtime.LockOSThread()
	LowerPriority()
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
