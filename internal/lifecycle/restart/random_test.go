package restart_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/goscr/goscr/internal/lifecycle/flush"
	"github.com/goscr/goscr/internal/lifecycle/life"
	"github.com/goscr/goscr/internal/lifecycle/mover"
	"github.com/goscr/goscr/internal/lifecycle/protect"
	"github.com/goscr/goscr/internal/lifecycle/restart"
	"github.com/goscr/goscr/internal/node/cache"
	"github.com/goscr/goscr/internal/prefix"
	"github.com/goscr/goscr/internal/prefix/dataset"
	"github.com/goscr/goscr/internal/redundancy"
	"github.com/goscr/goscr/mpi"
)

// Three runs of a job do at random what a program and its users can do, while files are corrupted and lost. All ranks have
// the same state of each dataset after each step, it agrees with what runs in the background and with flush.scr, and no event
// is impossible (cache.Bug).
func TestStates_RandomRuns(t *testing.T) {
	seeds := 12
	if testing.Short() {
		seeds = 3
	}
	for seed := range seeds {
		root, next := t.TempDir(), 0
		for part := range 3 {
			run(t, root, func(f *flush.Config, c *restart.Config) {
				f.Policy.Every, f.Async = 1+seed%2, seed%5 != 0
				f.Fetch, c.Fetch = seed%3 != 0, seed%3 != 0
				f.Protector.Async, f.Protector.Carrier = seed%4 != 1, protect.Sockets
				f.Protector.SizeName = f.SizeName
				f.Protector.Done = func(c *cache.Cached, _ time.Time) error {
					f.Prefix.Note(func() error { return prefix.EnterCached(f.Prefix.Dir, flush.Cached(c), time.Now()) })
					return nil
				}
				f.Cache.Config.Stores[0].Count = 2 + seed/2%2
			}, func(r *rig) error {
				r.next = next
				w := walk{r, rand.New(rand.NewPCG(uint64(seed), uint64(part)))}
				if err := w.begin(); err != nil {
					return err
				}
				if part > 0 {
					_ = r.restart.Find(true)
					if w.IntN(3) == 0 && r.restart.Offered() != nil {
						_ = r.restart.Fail(w.IntN(2) == 0)
					}
				}
				var log []string
				for range 25 {
					log = append(log, w.step())
					if err := w.check(); err != nil {
						return fmt.Errorf("seed %d, run %d: %w, after %q", seed, part, err, log)
					}
				}
				if w.IntN(2) == 0 {
					_ = r.flusher.Finish(0)
				}
				r.comm.Barrier()
				if r.comm.Rank() == 0 {
					next = r.next
				}
				return nil
			})
		}
	}
}

// long makes a file longer than a page.
var long = strings.Repeat("x", 5000)

// walk is a rank of such a run. All ranks draw the same numbers.
type walk struct {
	*rig
	*rand.Rand
}

// begin does what a session does at its beginning.
func (w walk) begin() error {
	list := w.cache.List()
	there := make([]int64, len(list))
	err := mpi.OnRoot(w.comm, func() error {
		x, err := prefix.ReadIndex(w.prefix.Dir)
		if err != nil {
			return err
		}
		var cached []prefix.Cached
		for i, c := range list {
			cached = append(cached, flush.Cached(c))
			if x.HasComplete(c.Dataset) {
				there[i] = 1
			}
		}
		return prefix.BeginRun(w.prefix.Dir, cached, 1, time.Now())
	})
	w.comm.Allreduce(there, mpi.Max)
	for i, c := range list {
		if there[i] == 1 {
			w.cache.Happened(c, life.FoundFlushed)
		}
	}
	return err
}

// step does something, and returns what. Errors are results, too: ranks that disagree on them hang, or fail check.
func (w walk) step() string {
	what, rank, other := w.IntN(14), w.IntN(ranks), w.IntN(2) == 0
	mine := rank == w.comm.Rank()
	var c *cache.Cached
	if list := w.cache.List(); len(list) > 0 {
		c = list[w.IntN(len(list))]
	}
	if what < 6 || c == nil {
		return w.write()
	}
	id := c.ID()
	one := func(d dataset.Dataset) bool { return d.ID() == id }
	switch what {
	case 6:
		own, made := redundancy.Split(w.cache.Files(id))
		if mine && other {
			damage(own)
		} else if mine {
			damage(made)
		}
		w.comm.Barrier()
		return fmt.Sprint("damage ", id)
	case 7, 8:
		return fmt.Sprint("flush ", id, w.flusher.Flush(c))
	case 9:
		w.block(mine || other)
		return fmt.Sprint("protection ", w.flusher.WaitForProtection())
	case 10:
		return fmt.Sprint("halt ", id, w.flusher.CancelWhere(one))
	case 11:
		if other {
			return fmt.Sprint("drop ", id, w.flusher.DropWhere(one))
		}
		return fmt.Sprint("pass over ", id, w.flusher.PassOver(c))
	case 12:
		return fmt.Sprint("wait ", w.flusher.WaitAll())
	}
	if own, _ := redundancy.Split(w.cache.Files(id)); mine && len(own) > 0 {
		_ = os.RemoveAll(filepath.Dir(own[0].Path))
	}
	w.comm.Barrier()
	return fmt.Sprint("remake ", id, w.flusher.Remake())
}

// write writes a dataset, which may be invalid on a rank, and flushes it if that is due.
func (w walk) write() string {
	flags := []dataset.Flags{dataset.Checkpoint, dataset.Checkpoint, dataset.Output, dataset.Checkpoint | dataset.Output}[w.IntN(4)]
	wait, bad := w.IntN(8) == 0, w.IntN(8) == 0
	c, err := w.create(flags, long)
	if c == nil {
		return fmt.Sprint("create: ", err)
	}
	if bad && w.comm.Rank() == 1 {
		err = cache.ErrInvalid
	}
	if err = w.flusher.Complete(c, err, wait); err == nil {
		w.flusher.Contents.Record(c)
		err = w.flusher.Completed(c)
	}
	w.flusher.Background.BeginCopies()
	return fmt.Sprint("write ", w.next, err)
}

// block keeps the protection in the background from writing its file, if mine is true.
func (w walk) block(mine bool) {
	if c := w.flusher.Protector.Dataset(); c != nil && mine {
		_, made := redundancy.Split(w.cache.Files(c.ID()))
		for _, f := range made {
			_ = os.Remove(f.Path)
			_ = os.MkdirAll(filepath.Join(f.Path, "x"), 0o700)
		}
	}
	w.comm.Barrier()
}

// A flush that waits for a protection begins also if that cannot be recorded.
func TestWaitForProtection_NotRecorded(t *testing.T) {
	run(t, t.TempDir(), func(f *flush.Config, _ *restart.Config) {
		f.Policy.Every, f.Async = 1, true
		f.Kind = func(string) mover.Kind { return mover.ByDaemon }
		f.Launch = func(string) error { return errors.New("no daemon") }
		f.Protector.Async, f.Protector.Carrier, f.Protector.SizeName = true, protect.Sockets, f.SizeName
		f.Protector.Done = func(*cache.Cached, time.Time) error { return mpi.Agree(f.World, errors.New("EIO")) }
	}, func(r *rig) error {
		c, err := r.create(dataset.Checkpoint, long)
		if err == nil {
			err = errors.Join(r.flusher.Complete(c, nil, false), r.flusher.Completed(c))
		}
		if err != nil || !c.FlushDue() {
			return fmt.Errorf("flush due: %v, %w", c.FlushDue(), err)
		}
		r.flusher.Background.BeginCopies()
		if err := r.flusher.WaitForProtection(); err == nil || !strings.Contains(err.Error(), "EIO") {
			return fmt.Errorf("no error: %v", err)
		}
		if !c.Protected() || c.FlushDue() || !c.Flushing() {
			return fmt.Errorf("it is %+v", c.State)
		}
		if err := r.flusher.WaitAll(); err != nil || !c.Flushed() { // without the process that copies, the program waits
			return fmt.Errorf("it is %+v: %w", c.State, err)
		}
		return nil
	})
}

func damage(files []redundancy.File) {
	for _, f := range files {
		if text, err := os.ReadFile(f.Path); err == nil && len(text) > 5 {
			text[5] ^= 7
			_ = os.WriteFile(f.Path, text, 0o600)
		}
	}
}

// check compares the states with those of rank 0, and with what is being protected and flushed.
func (w walk) check() error {
	var text string
	flushing := 0
	for _, c := range w.cache.List() {
		text += fmt.Sprintf("%d %+v; ", c.ID(), c.State)
		if c.Protecting() != (c == w.flusher.Protector.Dataset()) {
			return fmt.Errorf("dataset %d: protecting %v", c.ID(), c.Protecting())
		}
		if c.Flushing() {
			flushing++
		}
	}
	if n := w.flusher.Running(); flushing != n {
		return fmt.Errorf("%d are being flushed, and %d have that state", n, flushing)
	}
	if first := string(mpi.BcastBytes(w.comm, []byte(text), 0)); first != text {
		return fmt.Errorf("rank 0 has %s, this one %s", first, text)
	}
	return mpi.OnRoot(w.comm, w.recorded)
}

// recorded compares flush.scr with the states.
func (w walk) recorded() error {
	located, err := prefix.Locations(w.prefix.Dir)
	if err != nil {
		return err
	}
	entries := map[int]prefix.Located{}
	for _, l := range located {
		entries[l.ID] = l
	}
	for _, c := range w.cache.List() {
		l := entries[c.ID()]
		is := map[prefix.Location]bool{
			prefix.InCache: true, prefix.Exposed: c.Exposed() || !c.Protected(),
			prefix.Flushing: c.Flushing() && !c.FlushDue(), prefix.InPrefix: c.Fetchable(),
		}
		for place, want := range is {
			if l.Is(place) != want {
				return fmt.Errorf("flush.scr has %q of dataset %d, whose state is %+v", l.Places, c.ID(), c.State)
			}
		}
		if c.Protected() && !c.Exposed() && l.Protected == "" {
			return fmt.Errorf("flush.scr does not say how dataset %d, %+v, is protected", c.ID(), c.State)
		}
		delete(entries, c.ID())
	}
	for id, l := range entries {
		if l.Is(prefix.InCache) || l.Is(prefix.Flushing) {
			return fmt.Errorf("flush.scr has %q of dataset %d, which is gone", l.Places, id)
		}
	}
	return nil
}
