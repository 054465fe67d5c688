// Package background does work of a process while the program continues: it protects datasets and
// copies them to the prefix directory. All of it is in one queue, keeps to the same limits, has
// threads of a lower priority than the program's, and is cancelled and waited for in the same way.
package background

import (
	"sync"
	"time"

	"github.com/goscr/goscr/internal/observe/report"
	"github.com/goscr/goscr/internal/prefix/transfer"
)

// Delay is how long an idle queue waits before it begins with a task. Usually all processes have
// then left the call in which they began theirs, so that the work does not take processor time
// from that call. Tests change it.
var Delay = 50 * time.Millisecond

// Queue has the tasks of a process. One thread works at a time: a task waits for the one of its
// kind that was added before it. A task that is urgent, for which other ranks would wait, does
// not wait for others: these pause while it is under way. The zero value is empty.
type Queue struct {
	mu    sync.Mutex
	last  map[bool]*Task // by Task.urgent
	calm  chan struct{}  // closed when no urgent task is under way; nil if there is none
	haste int            // urgent tasks that are under way
}

// Task is work in a queue.
type Task struct {
	queue  *Queue
	urgent bool
	limits transfer.Limits
	work   func(p *transfer.Pace) error
	stop   func() // ends a wait of work that is not one of its pace; may be nil
	before *Task
	begun  bool

	hurry  chan struct{} // closed when the caller waits, so that the task need not be delayed
	cancel chan struct{} // closed to end the task
	done   chan struct{} // closed when the task has ended; err and took are set before
	once   sync.Once     // of closing hurry
	ends   sync.Once     // of closing cancel
	err    error
	took   time.Duration
}

// Add adds a task that copies. work calls the methods of its pace after each piece, and ends with
// the error that they return.
func (q *Queue) Add(limits transfer.Limits, work func(p *transfer.Pace) error) *Task {
	return q.add(&Task{limits: limits, work: work})
}

// AddUrgent adds a task for which copies pause. stop, unless nil, makes work return when the task
// is cancelled, and may be called before and after it. Without stop other processes would wait for this
// one's part of the work: if the task was begun, work is called even if it is cancelled before, and has to end
// soon once its pace returns an error.
func (q *Queue) AddUrgent(limits transfer.Limits, work func(p *transfer.Pace) error, stop func()) *Task {
	return q.add(&Task{limits: limits, work: work, stop: stop, urgent: true})
}

func (q *Queue) add(t *Task) *Task {
	t.queue, t.hurry, t.cancel, t.done = q, make(chan struct{}), make(chan struct{}), make(chan struct{})
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.last == nil {
		q.last = map[bool]*Task{}
	}
	t.before, q.last[t.urgent] = q.last[t.urgent], t
	return t
}

// Begin begins a task. It is called once.
func (t *Task) Begin() {
	before := t.before
	t.begun, t.before = true, nil
	if t.urgent {
		t.queue.pause()
	}
	go t.run(before)
}

// pause makes other tasks pause until resume is called as often.
func (q *Queue) pause() {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.haste++; q.haste == 1 {
		q.calm = make(chan struct{})
	}
}

func (q *Queue) resume() {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.haste--; q.haste == 0 {
		close(q.calm)
		q.calm = nil
	}
}

func (t *Task) run(before *Task) {
	defer close(t.done)
	if t.urgent {
		defer t.queue.resume()
	}
	defer report.Recover(&t.err)
	awaited := t.urgent && t.stop == nil // by other processes
	if t.err = t.waitTurn(before); t.err != nil && !awaited {
		return
	}
	// The goroutine does not unlock the thread, so that the thread, whose priority is
	// lowered, ends with it.
	start := time.Now()
	defer func() { t.took = time.Since(start) }()
	transfer.BehindProgram()
	pace := &transfer.Pace{Limits: t.limits, Used: transfer.ThreadTime, Wait: t.wait}
	if t.err = pace.Wait(0); t.err == nil || awaited {
		pace.Begin()
		t.err = t.work(pace)
	}
}

// wait is the Wait of the pace of a task.
func (t *Task) wait(d time.Duration) error {
	err := transfer.UntilStopped(t.cancel)(d)
	for err == nil && !t.urgent {
		t.queue.mu.Lock()
		calm := t.queue.calm
		t.queue.mu.Unlock()
		if calm == nil {
			break
		}
		select {
		case <-calm:
		case <-t.cancel:
			err = transfer.ErrStopped
		}
	}
	return err
}

// waitTurn waits until the task before this one has ended. If there is none, it waits for
// Delay, unless the caller waits for the task.
func (t *Task) waitTurn(before *Task) error {
	if before != nil && !before.Ended() {
		select {
		case <-before.done:
			return nil
		case <-t.cancel:
			return transfer.ErrStopped
		}
	}
	end := time.NewTimer(Delay)
	defer end.Stop()
	select {
	case <-end.C:
	case <-t.hurry:
	case <-t.cancel:
		return transfer.ErrStopped
	}
	return nil
}

// Ended reports whether the task has ended, with or without success. It returns at once.
func (t *Task) Ended() bool {
	select {
	case <-t.done:
		return true
	default:
		return false
	}
}

// Wait waits until the task, which was begun or cancelled, has ended, and returns its error.
func (t *Task) Wait() error {
	t.once.Do(func() { close(t.hurry) })
	<-t.done
	return t.err
}

// Took returns how long the thread has worked for the task, which has ended.
func (t *Task) Took() time.Duration { return t.took }

// Cancel ends the task. When it returns the task has ended.
func (t *Task) Cancel() {
	t.ends.Do(func() {
		close(t.cancel)
		if t.stop != nil {
			t.stop()
		}
		if !t.begun {
			t.begun, t.err = true, transfer.ErrStopped
			close(t.done)
		}
	})
	<-t.done
}
