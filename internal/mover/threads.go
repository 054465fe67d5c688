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

// Threads copies in the process. There is a thread while there is something to copy,
// and never more than one: a load waits for those before it. It has the processors
// of the program's thread that started it.
type Threads struct {
	// Copier makes what copies a dataset; a load has one while it is copied.
	Copier func(d dataset.Dataset) *transfer.Copier

	last *threadTransfer
}

type threadTransfer struct {
	load   *Load
	copier func(d dataset.Dataset) *transfer.Copier
	before *threadTransfer
	begun  bool

	hurry chan struct{} // closed when somebody waits for it
	stop  chan struct{} // closed to end it
	done  chan struct{} // closed when it has ended, with err set
	err   error
	once  sync.Once
}

// Start puts a load behind those before it.
func (t *Threads) Start(l *Load) (Transfer, error) {
	x := &threadTransfer{load: l, copier: t.Copier, before: t.last,
		hurry: make(chan struct{}), stop: make(chan struct{}), done: make(chan struct{})}
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
		if p := recover(); p != nil { // must not take the program with it
			x.err = fmt.Errorf("internal error: %v; please report it with these lines: %s", p, debug.Stack())
		}
	}()
	if x.err = x.rest(before); x.err != nil {
		return
	}
	// The thread ends with the goroutine, which does not unlock it.
	runtime.LockOSThread()
	transfer.StepBack()
	pace := &transfer.Pace{Limits: x.load.Limits, Used: transfer.ThreadTime, Wait: transfer.UntilStopped(x.stop)}
	x.err = x.load.carry(x.copier(x.load.Dataset), pace, nil, func() error { return nil }, func(string) error { return nil })
}

// rest returns when the load is to be copied.
func (x *threadTransfer) rest(before *threadTransfer) error {
	if before != nil && !before.Ended() {
		select {
		case <-before.done:
			return nil
		case <-x.stop:
			return transfer.ErrStopped
		}
	}
	end := time.NewTimer(grace)
	defer end.Stop()
	select {
	case <-end.C:
	case <-x.hurry:
	case <-x.stop:
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

func (x *threadTransfer) Files() ([]redundancy.File, error) {
	var files []redundancy.File
	for _, f := range x.load.Files {
		files = append(files, redundancy.File{Path: x.load.destination(f), Meta: f.Meta})
	}
	return files, nil
}

func (x *threadTransfer) Stop() error {
	close(x.stop)
	if !x.begun {
		x.err = transfer.ErrStopped
		close(x.done)
	}
	<-x.done
	return x.load.discard()
}
