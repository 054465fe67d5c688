package mover

import (
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/goscr/goscr/hash"
	"github.com/goscr/goscr/internal/prefix"
	"github.com/goscr/goscr/internal/prefix/dataset"
	"github.com/goscr/goscr/internal/prefix/transfer"
	"github.com/goscr/goscr/internal/redundancy"
	"github.com/goscr/goscr/internal/sys/compress"
	"github.com/goscr/goscr/internal/sys/detached"
)

// Command is the name of the command that copies for the processes of a node.
const Command = "scr_transfer"

// Daemon lets scr_transfer copy. If one runs on the node already, for example because
// scr_run has started it, that gets the requests; else Daemon starts one, which ends when
// there are no more requests.
type Daemon struct {
	Control string // directory of the node
	Manner  Manner
	// First is true for the one process of the node that starts scr_transfer.
	First bool
	// Compression returns how files of a dataset are compressed. If it is nil, they are not.
	Compression func(d dataset.Dataset) compress.Method
	// Launch starts a process that handles the requests in the transfer file. If it is nil,
	// that is the command scr_transfer.
	Launch func(control string) error

	patience time.Duration // for tests: instead of startTime
}

// maxLaunches is how often scr_transfer is started for a request before the request fails.
const maxLaunches = 3

// startTime bounds the time from the start of an scr_transfer until it has its lock. It needs
// milliseconds of processor time, but where a program computes on every core, a process of its
// priority gets a hundredth of one.
const startTime = 20 * time.Second

type daemonTransfer struct {
	*Daemon
	request  *Request
	file     watched
	begun    bool
	launches int
	launched time.Time // when scr_transfer was started, by this or another process; zero once it was seen to run
	ended    bool
	err      error
}

// Start enters a request in the transfer file.
func (d *Daemon) Start(r *Request) (Transfer, error) {
	err := hash.Update(filePath(d.Control), func(h *hash.Hash) error {
		var method *compress.Method
		if d.Compression != nil {
			m := d.Compression(r.Dataset)
			method = &m
		}
		return r.enter(h, d.Manner, method)
	})
	return &daemonTransfer{Daemon: d, request: r, file: watched{path: filePath(d.Control)}, launched: time.Now()}, err
}

// starting returns how long to wait for an scr_transfer that has been started.
func (d *Daemon) starting() time.Duration {
	if d.patience > 0 {
		return d.patience
	}
	return startTime
}

// launch starts scr_transfer. If one runs already, the new one ends at once.
func (d *Daemon) launch() error {
	if d.Launch != nil {
		return d.Launch(d.Control)
	}
	path, err := detached.Find(Command, "SCR_FLUSH_TYPE=PTHREAD")
	if err != nil {
		return err
	}
	return detached.Launch(path, []string{Command, "--detach", "--cntldir", d.Control}, nil)
}

func (x *daemonTransfer) Begin() error {
	x.begun = true
	x.launched = time.Now()
	switch {
	case running(x.Control):
		x.launched = time.Time{} // it sees the request before it releases its lock
	case x.First:
		x.startOrEnd()
	}
	return x.err
}

// startOrEnd starts scr_transfer for the request. If that fails, the request has ended.
func (x *daemonTransfer) startOrEnd() {
	if err := x.start(); err != nil {
		x.ended, x.err = true, err
	}
}

// start starts scr_transfer for the request.
func (x *daemonTransfer) start() error {
	x.launches++
	err := x.launch()
	x.launched = time.Now() // running is false until it has its lock
	return err
}

func (x *daemonTransfer) Ended() bool {
	if x.ended {
		return true
	}
	alive := running(x.Control) // before the file is read: it may end in between
	if x.file.changed() {
		h, err := hash.ReadFile(x.file.path)
		if err != nil {
			x.ended, x.err = true, err
			return true
		}
		x.ended, x.err = outcome(h, x.request.Dataset.ID(), x.request.Rank)
	}
	if alive {
		x.launched = time.Time{}
	}
	if x.ended || alive || !x.begun || time.Since(x.launched) < x.starting() {
		return x.ended
	}
	if x.launches >= maxLaunches {
		x.ended, x.err = true, fmt.Errorf("%s has ended %d times before it had copied all", Command, x.launches)
		return true
	}
	x.startOrEnd()
	return x.ended
}

func (x *daemonTransfer) Wait() error {
	err := await(x.Control, fmt.Sprintf("copy files of dataset %d (it is %s)", x.request.Dataset.ID(), Command), func() (bool, error) { return x.Ended(), nil })
	if err != nil {
		x.ended, x.err = true, err
	}
	return x.err
}

func (x *daemonTransfer) Files() ([]redundancy.File, error) {
	// The copy has recorded the checksums of the files, among others, in the list.
	part, err := prefix.ReadPart(x.request.Prefix, x.request.Dataset.ID(), x.request.Rank)
	if err != nil {
		return nil, err
	}
	if !part.Dataset.Same(x.request.Dataset) {
		return nil, fmt.Errorf("the list of files of rank %d is of another dataset", x.request.Rank)
	}
	return part.Files, nil
}

func (x *daemonTransfer) Cancel() error {
	err := cancel(x.Control, func([]string) []string { return []string{strconv.Itoa(x.request.Dataset.ID())} })
	x.ended, x.err = true, transfer.ErrStopped
	return errors.Join(err, x.request.discard())
}
