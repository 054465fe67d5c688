package mover

import (
	"runtime"
	"sync"
	"time"

	"github.com/goscr/goscr/internal/dataset"
	"github.com/goscr/goscr/internal/prefix"
	"github.com/goscr/goscr/internal/redundancy"
	"github.com/goscr/goscr/internal/report"
	"github.com/goscr/goscr/internal/transfer"
)

// Threads copies with a thread of the process. While there are requests it has one thread,
// which copies them in the order in which they were started, on the processors to which the
// program's thread that called it is bound.
type Threads struct {
	// Copier makes a copier for a dataset. Each request gets its own when its copy begins.
	Copier func(d dataset.Dataset) *transfer.Copier

	last *threadTransfer
}

type threadTransfer struct {
	request *Request
	copier  func(d dataset.Dataset) *transfer.Copier
	before  *threadTransfer
	begun   bool

	hurry  chan struct{} // closed when the caller waits for the copy, which then need not be delayed
	cancel chan struct{} // closed to cancel the copy
	done   chan struct{} // closed when the copy has ended; err is set before
	err    error
	took   time.Duration // set before done is closed
	once   sync.Once
}

// Start queues a request behind those that were started before.
func (t *Threads) Start(r *Request) (Transfer, error) {
	x := &threadTransfer{request: r, copier: t.Copier, before: t.last,
		hurry: make(chan struct{}), cancel: make(chan struct{}), done: make(chan struct{})}
	t.last = x
	return x, nil
}

func (x *threadTransfer) Begin() error {
	before := x.before
	x.begun, x.before = true, nil
	go x.run(before)
	return nil
}

func (x *threadTransfer) run(before *threadTransfer) {
	defer close(x.done)
	defer report.Recover(&x.err)
	if x.err = x.waitTurn(before); x.err != nil {
		return
	}
	// The goroutine does not unlock the thread, so that the thread, whose priority is
	// lowered, ends with it.
	runtime.LockOSThread()
	start := time.Now()
	defer func() { x.took = time.Since(start) }()
	transfer.LowerPriority()
	pace := &transfer.Pace{Limits: x.request.Limits, Used: transfer.ThreadTime, Wait: transfer.UntilStopped(x.cancel)}
	x.err = x.request.copy(x.copier(x.request.Dataset), progress{pace: pace, meter: x.meter()})
}

// meter returns what records how far the flush is: rank 0 does that for all.
func (x *threadTransfer) meter() *prefix.CopyMeter {
	if x.request.Rank != 0 {
		return nil
	}
	m := prefix.NewCopyMeter(x.request.Prefix, x.request.Dataset)
	m.Set(0, x.request.Bytes())
	return m
}

// waitTurn waits until the request before this one has ended. If there is none, it waits for
// delay, unless the caller waits for the copy.
func (x *threadTransfer) waitTurn(before *threadTransfer) error {
	if before != nil && !before.Ended() {
		select {
		case <-before.done:
			return nil
		case <-x.cancel:
			return transfer.ErrStopped
		}
	}
	end := time.NewTimer(delay)
	defer end.Stop()
	select {
	case <-end.C:
	case <-x.hurry:
	case <-x.cancel:
		return transfer.ErrStopped
	}
	return nil
}

func (x *threadTransfer) Ended() bool {
	select {
	case <-x.done:
		return true
	default:
		return false
	}
}

func (x *threadTransfer) Wait() error {
	x.once.Do(func() { close(x.hurry) })
	<-x.done
	return x.err
}

// Copying returns how long the thread has copied for the request, which has ended.
func (x *threadTransfer) Copying() time.Duration { return x.took }

func (x *threadTransfer) Files() ([]redundancy.File, error) { return x.request.copiedFiles() }

func (x *threadTransfer) Cancel() error {
	close(x.cancel)
	if !x.begun {
		x.err = transfer.ErrStopped
		close(x.done)
	}
	<-x.done
	return x.request.discard()
}
