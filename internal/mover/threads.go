package mover

import (
	"fmt"
	"runtime"
	"runtime/debug"
	"sync"
	"time"

	"github.com/goscr/goscr/internal/dataset"
	"github.com/goscr/goscr/internal/redundancy"
	"github.com/goscr/goscr/internal/transfer"
)

// Threads copies in the process. It has one thread while there are requests, which
// copies them in their order, on the processors of the program's thread that started
// it.
type Threads struct {
	// Copier makes what copies a dataset; a request has one while it is copied.
	Copier func(d dataset.Dataset) *transfer.Copier

	last *threadTransfer
}

type threadTransfer struct {
	request *Request
	copier  func(d dataset.Dataset) *transfer.Copier
	before  *threadTransfer
	begun   bool

	hurry  chan struct{} // closed when the caller waits for it
	cancel chan struct{} // closed to end it
	done   chan struct{} // closed when it has ended, with err set
	err    error
	once   sync.Once
}

// Start puts a request behind those before it.
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
	defer func() {
		if p := recover(); p != nil { // must not end the program
			x.err = fmt.Errorf("internal error: %v; please report it with these lines: %s", p, debug.Stack())
		}
	}()
	if x.err = x.waitTurn(before); x.err != nil {
		return
	}
	// The thread ends with the goroutine, which does not unlock it.
	runtime.LockOSThread()
	transfer.LowerPriority()
	pace := &transfer.Pace{Limits: x.request.Limits, Used: transfer.ThreadTime, Wait: transfer.UntilStopped(x.cancel)}
	x.err = x.request.copy(x.copier(x.request.Dataset), progress{pace: pace})
}

// waitTurn returns when the request is to be copied.
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
