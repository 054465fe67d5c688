package mover

import (
	"time"

	"github.com/goscr/goscr/internal/lifecycle/background"
	"github.com/goscr/goscr/internal/prefix"
	"github.com/goscr/goscr/internal/prefix/dataset"
	"github.com/goscr/goscr/internal/prefix/transfer"
	"github.com/goscr/goscr/internal/redundancy"
)

// Threads copies with a thread of the process, in the order in which the requests were started, on
// the processors to which the program's thread that called it is bound.
type Threads struct {
	// Queue is that of the process.
	Queue *background.Queue
	// Copier makes a copier for a dataset. Each request gets its own when its copy begins.
	Copier func(d dataset.Dataset) *transfer.Copier
}

type threadTransfer struct {
	request *Request
	task    *background.Task
}

// Start queues a request behind those that were started before.
func (t *Threads) Start(r *Request) (Transfer, error) {
	return &threadTransfer{r, t.Queue.Add(r.Limits, func(p *transfer.Pace) error {
		if r.Late != nil {
			r.Late(r.Files)
		}
		return r.copy(t.Copier(r.Dataset), progress{pace: p, meter: r.meter()})
	})}, nil
}

func (x *threadTransfer) Begin() error {
	x.task.Begin()
	return nil
}

func (x *threadTransfer) Ended() bool { return x.task.Ended() }
func (x *threadTransfer) Wait() error { return x.task.Wait() }

// meter returns what records how far the flush is: rank 0 does that for all.
func (r *Request) meter() *prefix.CopyMeter {
	if r.Rank != 0 {
		return nil
	}
	m := prefix.NewCopyMeter(r.Prefix, r.Dataset)
	m.Set(0, r.Bytes())
	return m
}

// Copying returns how long the thread has copied for the request, which has ended.
func (x *threadTransfer) Copying() time.Duration { return x.task.Took() }

func (x *threadTransfer) Files() ([]redundancy.File, error) { return x.request.copiedFiles() }

func (x *threadTransfer) Cancel() error {
	x.task.Cancel()
	return x.request.discard()
}
