package background

import (
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/goscr/goscr/internal/prefix/transfer"
)

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// copies is a task that says when it has copied a piece, and copies the next when it is told.
type copies struct {
	task     *Task
	next, at chan struct{}
}

func newCopies(q *Queue, pieces int) copies {
	c := copies{next: make(chan struct{}), at: make(chan struct{}, pieces)}
	c.task = q.Add(transfer.Limits{}, func(p *transfer.Pace) error {
		for range pieces {
			<-c.next
			if err := p.Spent(1); err != nil {
				return err
			}
			c.at <- struct{}{}
		}
		return nil
	})
	return c
}

// A copy that has begun pauses until a task that is urgent has ended, which does not wait for it.
func TestQueue_CopiesPause(t *testing.T) {
	q := &Queue{}
	c := newCopies(q, 2)
	c.task.Begin()
	go c.task.Wait()
	c.next <- struct{}{}
	<-c.at
	goOn := make(chan struct{})
	var worked atomic.Bool
	urgent := q.AddUrgent(transfer.Limits{}, func(*transfer.Pace) error { <-goOn; worked.Store(true); return nil }, nil)
	urgent.Begin()
	c.next <- struct{}{}
	// The copy is in Spent, or will be, where only the end of the urgent task lets it continue.
	ended := make(chan bool)
	go func() {
		_ = c.task.Wait()
		ended <- worked.Load()
	}()
	close(goOn)
	if !<-ended {
		t.Error("the copy has gone on")
	}
	must(t, urgent.Wait())
}

// A copy that is added behind an urgent task begins after it.
func TestQueue_UrgentFirst(t *testing.T) {
	q := &Queue{}
	var order []string
	urgent := q.AddUrgent(transfer.Limits{}, func(*transfer.Pace) error { order = append(order, "urgent"); return nil }, nil)
	c := q.Add(transfer.Limits{}, func(*transfer.Pace) error { order = append(order, "copy"); return nil })
	urgent.Begin()
	c.Begin()
	must(t, c.Wait())
	must(t, urgent.Wait())
	if len(order) != 2 || order[0] != "urgent" {
		t.Error(order)
	}
}

func TestTask_Cancel(t *testing.T) {
	q := &Queue{}
	stopped := make(chan struct{})
	urgent := q.AddUrgent(transfer.Limits{}, func(*transfer.Pace) error { <-stopped; return errors.New("stopped") }, func() { close(stopped) })
	paused := newCopies(q, 1)
	never := q.Add(transfer.Limits{}, func(*transfer.Pace) error { return errors.New("it has begun") })
	urgent.Begin()
	paused.task.Begin()
	go urgent.Wait()
	for _, x := range []*Task{paused.task, never, urgent} {
		x.Cancel()
		if !x.Ended() || x.Wait() == nil {
			t.Error("a task that is cancelled has not ended")
		}
	}
	if err := never.Wait(); err != transfer.ErrStopped {
		t.Error(err)
	}
	after := q.Add(transfer.Limits{}, func(*transfer.Pace) error { return nil })
	after.Begin()
	must(t, after.Wait())
}

// Work for which other processes would wait is done even if the task is cancelled before it is its turn. It
// learns from its pace that it was cancelled.
func TestTask_CancelledIsAwaited(t *testing.T) {
	before := Delay
	Delay = time.Hour
	defer func() { Delay = before }()
	q := &Queue{}
	var told error
	awaited := q.AddUrgent(transfer.Limits{}, func(p *transfer.Pace) error { told = p.Spent(1); return told }, nil)
	awaited.Begin()
	awaited.Cancel()
	if told != transfer.ErrStopped {
		t.Errorf("the work was told %v", told)
	}
	never := q.AddUrgent(transfer.Limits{}, func(*transfer.Pace) error { t.Error("it was not begun"); return nil }, nil)
	never.Cancel()
	if err := never.Wait(); err != transfer.ErrStopped {
		t.Error(err)
	}
}

// What a task panics with is its error, and the queue continues.
func TestTask_Panic(t *testing.T) {
	q := &Queue{}
	bad := q.AddUrgent(transfer.Limits{}, func(*transfer.Pace) error { panic("a test") }, nil)
	good := q.Add(transfer.Limits{}, func(*transfer.Pace) error { return nil })
	bad.Begin()
	good.Begin()
	if err := bad.Wait(); err == nil {
		t.Error("no error")
	}
	must(t, good.Wait())
}

// The bytes of a protection count for the limits.
func TestTask_Limits(t *testing.T) {
	q := &Queue{}
	var waits time.Duration
	x := q.AddUrgent(transfer.Limits{Bandwidth: 1e6}, func(p *transfer.Pace) error {
		p.Wait = func(d time.Duration) error { waits += d; return nil }
		return p.Spent(1e6)
	}, nil)
	x.Begin()
	must(t, x.Wait())
	if waits < time.Second*9/10 {
		t.Errorf("waits %v after a second's bytes", waits)
	}
}
