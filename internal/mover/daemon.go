package mover

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"time"

	"github.com/goscr/goscr/hash"
	"github.com/goscr/goscr/internal/compress"
	"github.com/goscr/goscr/internal/dataset"
	"github.com/goscr/goscr/internal/detached"
	"github.com/goscr/goscr/internal/prefix"
	"github.com/goscr/goscr/internal/redundancy"
	"github.com/goscr/goscr/internal/transfer"
)

// Command is the name of the command that copies for the processes of a node.
const Command = "scr_transfer"

// Daemon has scr_transfer copy. One that runs already, as scr_run starts it, is given
// the work; else one is started, which ends when there is no more.
type Daemon struct {
	Control string // directory of the node
	Manner  Manner
	// First is whether this is the process of the node that starts scr_transfer.
	First bool
	// Compression says how files of a dataset are stored; nil: as they are.
	Compression func(d dataset.Dataset) compress.Method
	// Launch starts a process that copies what is in the transfer file; nil is
	// the command.
	Launch func(control string) error

	patience time.Duration // for tests: instead of startTime
}

// maxLaunches is how often scr_transfer is started for a load before it is given up.
const maxLaunches = 3

// startTime is how long one that has been started may not be seen at work.
const startTime = 3 * time.Second

type daemonTransfer struct {
	*Daemon
	load     *Load
	file     watched
	begun    bool
	launches int
	launched time.Time // last, perhaps by another process of the node; zero: is at work, or has been
	ended    bool
	err      error
}

// Start enters a load in the transfer file.
func (d *Daemon) Start(l *Load) (Transfer, error) {
	err := hash.Update(filePath(d.Control), func(h *hash.Hash) error {
		l.enter(h, d.Manner)
		if d.Compression != nil {
			h.At(keyDataset, strconv.Itoa(l.Dataset.ID())).SetValue(keyCompress, d.Compression(l.Dataset).String())
		}
		return nil
	})
	return &daemonTransfer{Daemon: d, load: l, file: watched{path: filePath(d.Control)}, launched: time.Now()}, err
}

// starting is how long to wait for one that has been started.
func (d *Daemon) starting() time.Duration {
	if d.patience > 0 {
		return d.patience
	}
	return startTime
}

// launch starts scr_transfer. If there is one, the other ends at once.
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
		x.launched = time.Time{} // it either sees the load, or gives its lock up before it could
	case x.First:
		x.startOrEnd()
	}
	return x.err
}

// startOrEnd starts scr_transfer for the load, and if that fails ends it.
func (x *daemonTransfer) startOrEnd() {
	if err := x.start(); err != nil {
		x.ended, x.err = true, err
	}
}

// start starts scr_transfer for the load.
func (x *daemonTransfer) start() error {
	x.launches++
	err := x.launch()
	x.launched = time.Now() // it is on its way to take its lock
	return err
}

func (x *daemonTransfer) Ended() bool {
	if x.ended {
		return true
	}
	alive := running(x.Control) // before the file is looked at: it may end in between
	if x.file.changed() {
		h, err := hash.ReadWithLock(x.file.path)
		if err != nil {
			x.ended, x.err = true, err
			return true
		}
		x.ended, x.err = outcome(h, x.load.Dataset.ID(), x.load.Rank)
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
	patiently(x.Ended)
	return x.err
}

// patiently waits until something is so, which another process brings about.
func patiently(so func() bool) {
	const least, most = 2 * time.Millisecond, 200 * time.Millisecond
	for nap := least; !so(); nap = min(nap*3/2, most) {
		time.Sleep(nap)
	}
}

func (x *daemonTransfer) Files() ([]redundancy.File, error) {
	// What was found out of the files while they were copied is in the list.
	part, err := prefix.ReadPart(x.load.Prefix, x.load.Dataset.ID(), x.load.Rank)
	if err != nil {
		return nil, err
	}
	if !prefix.Same(part.Dataset, x.load.Dataset) {
		return nil, fmt.Errorf("the list of files of rank %d is of another dataset", x.load.Rank)
	}
	return part.Files, nil
}

func (x *daemonTransfer) Stop() error {
	err := cancel(x.Control, func(h *hash.Hash) []string { return []string{strconv.Itoa(x.load.Dataset.ID())} })
	x.ended, x.err = true, transfer.ErrStopped
	return errors.Join(err, x.load.discard())
}

// cancel has nothing more copied of some datasets, and returns when nothing is.
func cancel(control string, which func(h *hash.Hash) []string) error {
	var ids []string
	err := hash.Update(filePath(control), func(h *hash.Hash) error {
		for _, id := range which(h) {
			if h.Has(keyDataset, id) {
				ids = append(ids, id)
				h.At(keyCancel, id)
			}
		}
		return nil
	})
	if err != nil || len(ids) == 0 {
		return err
	}
	var failed error
	patiently(func() bool {
		free, err := lock(control)
		if free != nil { // there is nobody who could take them out
			defer free.Close()
			failed = hash.Update(filePath(control), func(h *hash.Hash) error {
				for _, id := range ids {
					remove(h, id)
				}
				return nil
			})
			return true
		}
		if err != nil {
			failed = err
			return true
		}
		h, err := hash.ReadWithLock(filePath(control))
		if err != nil {
			failed = err
			return true
		}
		for _, id := range ids {
			if h.Has(keyCancel, id) {
				return false
			}
		}
		return true
	})
	return failed
}

// Reset stops what is copied on a node on behalf of an earlier run. When it returns
// nothing is.
func Reset(control string) error {
	if _, err := os.Lstat(filePath(control)); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	err := cancel(control, func(h *hash.Hash) []string { return h.Get(keyDataset).Keys() })
	if errors.Is(err, hash.ErrCorrupt) {
		// Whoever copies cannot read it either, and ends.
		patiently(func() bool { return !running(control) })
		return os.Remove(filePath(control))
	}
	if err == nil && !running(control) {
		err = os.Remove(filePath(control))
	}
	return err
}

// Close leaves nothing behind on a node where all has been copied: it returns when
// scr_transfer has ended, unless that waits for the next run.
func Close(control string) error {
	path := filePath(control)
	if _, err := os.Lstat(path); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	stays := false
	patiently(func() bool {
		if !running(control) {
			return true
		}
		h, err := hash.ReadWithLock(path)
		stays = err != nil || h.Has(keyStay)
		return stays
	})
	if stays {
		return nil
	}
	return os.Remove(path)
}

// Forget takes a dataset out of the transfer file of a node, all of which has been
// copied.
func Forget(control string, id int) error {
	return hash.Update(filePath(control), func(h *hash.Hash) error { remove(h, strconv.Itoa(id)); return nil })
}

// Exit has the scr_transfer of a node end, and returns when it has, and so has one
// that waited to take its place. What it was copying is taken up by the next.
func Exit(control string) error {
	var err error
	patiently(func() bool {
		// In this order: who waits takes the lock before it leaves the queue.
		if !awaited(control) && !running(control) {
			return true
		}
		err = hash.Update(filePath(control), func(h *hash.Hash) error {
			if awaited(control) || running(control) { // else it would be for the next
				h.SetValue(keyCommand, commandExit)
			}
			return nil
		})
		return err != nil
	})
	return err
}
