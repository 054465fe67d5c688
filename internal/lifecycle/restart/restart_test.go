package restart_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/goscr/goscr/internal/lifecycle/background"
	"github.com/goscr/goscr/internal/lifecycle/flush"
	"github.com/goscr/goscr/internal/lifecycle/mover"
	"github.com/goscr/goscr/internal/lifecycle/protect"
	"github.com/goscr/goscr/internal/lifecycle/restart"
	"github.com/goscr/goscr/internal/node/cache"
	"github.com/goscr/goscr/internal/node/meta"
	"github.com/goscr/goscr/internal/observe/report"
	"github.com/goscr/goscr/internal/prefix"
	"github.com/goscr/goscr/internal/prefix/dataset"
	"github.com/goscr/goscr/internal/redundancy/reddesc"
	"github.com/goscr/goscr/mpi"
	"github.com/goscr/goscr/mpi/local"
)

const ranks = 3 // each on a node of its own

// rig is a cache, a flusher and a restart without a session around them.
type rig struct {
	comm    mpi.Comm
	cache   *cache.Cache
	prefix  *prefix.Prefix
	flusher *flush.Flusher
	restart *restart.Restart
	desc    *reddesc.Descriptor
	stop    bool // the job should
	next    int
}

// said collects what all ranks say.
type said struct {
	mu sync.Mutex
	b  strings.Builder
}

func (s *said) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

// run calls f on all ranks of a job that works in root. with changes the configurations.
func run(t *testing.T, root string, with func(*flush.Config, *restart.Config), f func(r *rig) error) string {
	t.Helper()
	out := &said{}
	_, err := local.Run(ranks, local.Options{}, func(comm mpi.Comm) error {
		r, err := newRig(comm, root, out, with)
		if err != nil {
			return err
		}
		defer r.cache.Close()
		defer r.flusher.Background.Drain()
		return f(r)
	})
	if err != nil {
		t.Fatalf("%v\n%s", err, out.b.String())
	}
	return out.b.String()
}

func newRig(comm mpi.Comm, root string, out *said, with func(*flush.Config, *restart.Config)) (*rig, error) {
	node := fmt.Sprintf("node%d", comm.Rank())
	log := &report.Logger{Out: out, Rank: comm.Rank(), Node: node, Debug: 1}
	r := &rig{comm: comm, prefix: &prefix.Prefix{Comm: comm, Dir: filepath.Join(root, "prefix"), Buffer: 1 << 16, Log: log}}
	if err := mpi.OnRoot(comm, func() error { return os.MkdirAll(filepath.Join(r.prefix.Dir, prefix.Metadata), 0o777) }); err != nil {
		return nil, err
	}
	groups := reddesc.NewGroups(comm, node)
	store, err := reddesc.NewStore(groups, "store", filepath.Join(root, node), 2, "", "", true)
	if err != nil {
		return nil, err
	}
	if r.desc, _, err = reddesc.Create(groups, reddesc.Params{Interval: 1, Store: "store", Group: reddesc.Node, Type: "XOR", SetSize: 8}); err != nil {
		return nil, err
	}
	own, err := groups.Comm(reddesc.Node)
	if err != nil {
		return nil, err
	}
	r.cache, err = cache.Open(cache.Config{World: comm, Node: own, NodeRanks: groups.NodeRanks(), Stores: []*reddesc.Store{store}, Control: cache.Base{Dir: filepath.Join(root, node, "cntl")},
		User: "user", JobID: "job", Prefix: r.prefix.Dir, Piece: 1 << 16, Distribute: true, Log: log}, "test", nil)
	if err != nil {
		return nil, err
	}
	protector := protect.New(protect.Config{World: comm, Node: own, Cache: r.cache, Queue: &background.Queue{}, Log: log})
	fc := flush.Config{World: comm, Node: own, Cache: r.cache, Protector: protector, Prefix: r.prefix, Log: log,
		Kind:     func(string) mover.Kind { return mover.ByThread },
		Stopping: func() bool { return mpi.Any(comm, r.stop) }, Taken: func(error) {},
		SizeName: func(string) string { return "SIZE" }}
	rc := restart.Config{World: comm, Cache: r.cache, Prefix: r.prefix, Log: log, Fetch: true,
		Protect: func(dataset.Dataset) (*reddesc.Descriptor, *reddesc.Store) { return r.desc, store }}
	if with != nil {
		with(&fc, &rc)
	}
	r.flusher = flush.Open(fc)
	rc.Room = flush.NewRoom(r.flusher)
	r.restart = restart.New(rc)
	r.cache.Recovery.Rebuild()
	condemned := restart.NewCondemned(r.restart)
	if comm.Rank() == 0 {
		err = condemned.Find(r.restart)
	}
	if err := mpi.AgreeMax(comm, err, condemned.Marks); err != nil {
		return r, err
	}
	return r, r.restart.PassOver(condemned)
}

// makeRoom makes room for one more dataset in the store.
func (r *rig) makeRoom() error {
	leaving, err := r.restart.Room.Leaving(r.cache.Config.Stores[0], "", cache.SizeUnknown)
	if err != nil {
		return err
	}
	r.restart.Room.Evict(leaving)
	return nil
}

// write completes a dataset in the cache, of one file a rank.
func (r *rig) write(flags dataset.Flags) (*cache.Cached, error) {
	c, err := r.create(flags, "")
	if c == nil {
		return nil, err
	}
	return c, r.cache.Complete(c, err)
}

// create makes room for a dataset, begins it, and writes the caller's file of it, which ends with a text. It returns nil if the
// dataset is not begun.
func (r *rig) create(flags dataset.Flags, end string) (*cache.Cached, error) {
	if err := r.makeRoom(); err != nil {
		return nil, err
	}
	r.next++
	name := fmt.Sprintf("step.%d", r.next)
	c, err := r.cache.Create(dataset.New(r.next, name, flags, r.next, dataset.Owner{}, time.Unix(int64(r.next), 0)), r.desc)
	if err != nil {
		return nil, err
	}
	path, err := r.cache.Add(c, meta.New(fmt.Sprintf("%s/rank_%d", name, r.comm.Rank()), meta.Full, ranks))
	if err == nil {
		err = os.WriteFile(path, []byte(fmt.Sprint(name, r.comm.Rank())+end), 0o600)
	}
	return c, err
}

func (r *rig) checkpoints(n int) error {
	for range n {
		c, err := r.write(dataset.Checkpoint)
		if err == nil {
			err = r.flusher.Completed(c)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// expect is an error unless a checkpoint is offered that has what was written.
func (r *rig) expect(name string) error {
	o := r.restart.Offered()
	switch {
	case o == nil && name == "":
		return nil
	case o == nil:
		return fmt.Errorf("nothing is offered, want %s", name)
	case o.Name() != name:
		return fmt.Errorf("%s is offered, want %q", o.Name(), name)
	}
	below := fmt.Sprintf("%s/rank_%d", name, r.comm.Rank())
	path, err := r.restart.Route(below, below)
	if err != nil {
		return err
	}
	text, err := os.ReadFile(path)
	if err == nil && string(text) != fmt.Sprint(name, r.comm.Rank()) {
		err = fmt.Errorf("%s has %q", path, text)
	}
	return err
}

func every(n int) func(*flush.Config, *restart.Config) {
	return func(f *flush.Config, _ *restart.Config) { f.Policy.Every = n }
}

// The ladder: the newest of the cache, an older one there, one that has to be fetched,
// an older one of these, the beginning. What has failed is not offered again.
func TestFind_DownTheLadder(t *testing.T) {
	root := t.TempDir()
	run(t, root, every(1), func(r *rig) error { return r.checkpoints(4) }) // 3 and 4 stay in the cache
	said := run(t, root, every(1), func(r *rig) error {
		if err := r.restart.Find(false); err != nil {
			return err
		}
		for _, name := range []string{"step.4", "step.3", "step.2", "step.1", ""} {
			if err := r.expect(name); err != nil {
				return err
			}
			if name == "" {
				break
			}
			if err := r.restart.Fail(false); err != nil {
				return err
			}
			if r.restart.Offered() == nil {
				if err := r.restart.Find(true); err != nil {
					return err
				}
			}
		}
		return nil
	})
	if strings.Count(said, "fetch from") != 2 {
		t.Error(said)
	}
	run(t, root, nil, func(r *rig) error { return errors.Join(r.restart.Find(true), r.expect("")) })
}

// Without a node the newest is rebuilt, without two it has to be fetched; where it cannot
// be, there is nothing.
func TestFind_AfterALoss(t *testing.T) {
	for lost, want := range map[int]string{0: "step.3", 1: "step.3", 2: "step.2"} {
		root := t.TempDir()
		run(t, root, every(2), func(r *rig) error { return r.checkpoints(3) })
		for i := range lost {
			if err := os.RemoveAll(filepath.Join(root, fmt.Sprintf("node%d", i))); err != nil {
				t.Fatal(err)
			}
		}
		run(t, root, every(2), func(r *rig) error { return errors.Join(r.restart.Find(true), r.expect(want)) })
	}
}

// A checkpoint that was flushed, and is newer than those in the cache, is fetched: the
// store has lost it. If it cannot be fetched, the one in the cache is used, which stays
// there until then, although the cache has room for one.
func TestFind_NewerInThePrefixDirectory(t *testing.T) {
	for name, test := range map[string]struct {
		change func(x *prefix.Index) error // of the index
		jobID  string
		break3 bool // the files of step.3 are damaged
		want   string
		says   string
	}{
		"newer":                    {want: "step.3", says: "step.3: fetch from"},
		"damaged":                  {break3: true, want: "step.2", says: "step.3 cannot be fetched"},
		"failed":                   {change: func(x *prefix.Index) error { x.MarkFailed(3, "a test", time.Unix(0, 0)); return nil }, want: "step.2", says: "step.2: fetch from"},
		"an older one is current":  {change: func(x *prefix.Index) error { return x.SetCurrent("step.1") }, want: "step.1+1"},
		"the user drops the newer": {change: func(x *prefix.Index) error { x.Remove("step.3"); x.Remove("step.2"); return nil }, want: "step.1+1"},
		"of another job":           {jobID: "other", want: "step.1+1", says: "set SCR_CURRENT=step.3"},
	} {
		t.Run(name, func(t *testing.T) {
			root := t.TempDir()
			single := func(f *flush.Config, c *restart.Config) {
				f.Policy.Every, c.JobID = 1, test.jobID
				f.Cache.Config.Stores[0].Count = 1
			}
			run(t, root, single, func(r *rig) error { return r.checkpoints(1) })
			kept := filepath.Join(root, "kept")
			for i := range ranks {
				node := fmt.Sprintf("node%d", i)
				if err := os.MkdirAll(kept, 0o700); err != nil {
					t.Fatal(err)
				}
				if err := os.CopyFS(filepath.Join(kept, node), os.DirFS(filepath.Join(root, node))); err != nil {
					t.Fatal(err)
				}
			}
			run(t, root, single, func(r *rig) error { r.next = 1; return r.checkpoints(2) })
			for i := range ranks { // as after a node has been replaced by an image of it
				node := fmt.Sprintf("node%d", i)
				if err := errors.Join(os.RemoveAll(filepath.Join(root, node)), os.Rename(filepath.Join(kept, node), filepath.Join(root, node))); err != nil {
					t.Fatal(err)
				}
			}
			if test.change != nil {
				if err := prefix.UpdateIndex(filepath.Join(root, "prefix"), test.change); err != nil {
					t.Fatal(err)
				}
			}
			if test.break3 {
				if err := os.WriteFile(filepath.Join(root, "prefix/step.3/rank_1"), []byte("damaged"), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			want, _, inCache := strings.Cut(test.want, "+")
			said := run(t, root, single, func(r *rig) error {
				if err := errors.Join(r.restart.Find(false), r.expect("step.1"), r.restart.Find(true), r.expect(want)); err != nil {
					return err
				}
				if n := len(r.cache.List()); n != 1 {
					return fmt.Errorf("%d checkpoints are in the cache", n)
				}
				return nil
			})
			if !strings.Contains(said, test.says) || inCache && strings.Contains(said, "fetch from") {
				t.Errorf("want %q:\n%s", test.says, said)
			}
		})
	}
}

// SCR_CURRENT goes before what is newer, which leaves the cache; a name that is unknown
// is told and does not matter.
func TestFind_Named(t *testing.T) {
	root := t.TempDir()
	run(t, root, every(1), func(r *rig) error { return r.checkpoints(3) })
	named := func(name string) func(*flush.Config, *restart.Config) {
		return func(_ *flush.Config, c *restart.Config) { c.Current = restart.Choice{Name: name, By: "SCR_CURRENT"} }
	}
	said := run(t, root, named("step.9"), func(r *rig) error { return errors.Join(r.restart.Find(true), r.expect("step.3")) })
	if !strings.Contains(said, "SCR_CURRENT names step.9") {
		t.Error(said)
	}
	run(t, root, named("step.2"), func(r *rig) error { return errors.Join(r.restart.Find(true), r.expect("step.2")) })
	run(t, root, named("step.1"), func(r *rig) error { return errors.Join(r.restart.Find(true), r.expect("step.1")) })
}

// Of checkpoints each second is flushed, and every output; when the job should stop, all.
func TestCompleted_Due(t *testing.T) {
	run(t, t.TempDir(), every(2), func(r *rig) error {
		if err := r.checkpoints(2); err != nil {
			return err
		}
		if r.cache.Find(1).Flushed() || !r.cache.Find(2).Flushed() {
			return fmt.Errorf("flushed: 1 %v, 2 %v", r.cache.Find(1).Flushed(), r.cache.Find(2).Flushed())
		}
		c, err := r.write(dataset.Output)
		if err == nil {
			err = r.flusher.Completed(c)
		}
		if err != nil || r.cache.Find(3) != nil {
			return fmt.Errorf("the output is in the cache once it is flushed: %v", err)
		}
		r.stop = true
		if err := errors.Join(r.checkpoints(1), r.checkpoints(1)); err != nil || !r.cache.Find(4).Flushed() || !r.cache.Find(5).Flushed() {
			return fmt.Errorf("not flushed although the job stops: %v", err)
		}
		return nil
	})
}

// An output that has not been flushed is, before it makes room; the newest checkpoint
// stays as long as others can go.
func TestMakeRoom(t *testing.T) {
	run(t, t.TempDir(), nil, func(r *rig) error {
		if err := r.checkpoints(1); err != nil {
			return err
		}
		if _, err := r.write(dataset.Output); err != nil { // not told to the flusher
			return err
		}
		if err := r.makeRoom(); err != nil {
			return err
		}
		x, err := prefix.ReadIndex(r.prefix.Dir)
		if err != nil || !x.HasComplete(dataset.New(2, "step.2", dataset.Output, 2, dataset.Owner{}, time.Unix(2, 0))) || r.cache.Find(2) != nil {
			return fmt.Errorf("the output is not in the prefix directory alone: %v", err)
		}
		if r.cache.Find(1) == nil {
			return errors.New("the checkpoint has left for an output that can be flushed")
		}
		return nil
	})
}

// An output that cannot be flushed, and the newest checkpoint: neither leaves, and the next
// dataset cannot begin until the output is flushed or dropped.
func TestMakeRoom_OutputCannotBeFlushed(t *testing.T) {
	root := t.TempDir()
	blocked := filepath.Join(root, "prefix/step.2")
	said := run(t, root, nil, func(r *rig) error {
		if err := r.checkpoints(1); err != nil {
			return err
		}
		if _, err := r.write(dataset.Output); err != nil {
			return err
		}
		if err := mpi.OnRoot(r.comm, func() error { return os.WriteFile(blocked, nil, 0o600) }); err != nil {
			return err // a file in place of the output's directory
		}
		err := r.makeRoom()
		if err == nil || !strings.Contains(err.Error(), "output step.2 cannot leave the cache") {
			return fmt.Errorf("room was made: %v", err)
		}
		if r.cache.Find(1) == nil || r.cache.Find(2) == nil {
			return errors.New("a dataset has left, and no other has come")
		}
		if err := r.flusher.DropWhere(func(d dataset.Dataset) bool { return d.Flags().Has(dataset.Output) }); err != nil {
			return err
		}
		return errors.Join(r.makeRoom(), r.restart.Find(true), r.expect("step.1"))
	})
	if strings.Contains(said, "(step.1) leaves") {
		t.Error(said)
	}
}

// A flush in the background is started, polled and finished; one whose dataset is dropped
// is cancelled; what is left is waited for in the end.
func TestBackground(t *testing.T) {
	async := func(f *flush.Config, _ *restart.Config) { f.Policy.Every, f.Async = 1, true }
	said := run(t, t.TempDir(), async, func(r *rig) error {
		if err := r.checkpoints(1); err != nil {
			return err
		}
		if r.flusher.Running() != 1 || r.cache.Find(1).Flushed() {
			return errors.New("the program has waited")
		}
		for r.flusher.Background.BeginCopies(); r.flusher.Running() > 0; {
			if err := r.flusher.Poll(); err != nil {
				return err
			}
		}
		if err := r.checkpoints(1); err != nil || !r.cache.Find(1).Flushed() {
			return fmt.Errorf("1 is not flushed: %v", err)
		}
		if err := r.flusher.PassOver(r.cache.Find(2)); err != nil || r.flusher.Running() != 0 {
			return fmt.Errorf("2 is not cancelled: %v", err)
		}
		if err := r.checkpoints(1); err != nil {
			return err
		}
		if err := r.flusher.Finish(0); err != nil || !r.cache.Find(3).Flushed() {
			return fmt.Errorf("3 is not flushed: %v", err)
		}
		return nil
	})
	if !strings.Contains(said, "(step.2): its flush is cancelled") {
		t.Error(said)
	}
}

// What an earlier run was about to delete leaves the cache, but not a newer dataset of the same
// number, nor the one that the user names.
func TestPassOver_WhatLeaves(t *testing.T) {
	for current, want := range map[string]string{"": "step.1", "step.2": "step.2"} {
		root := t.TempDir()
		run(t, root, every(0), func(r *rig) error { return r.checkpoints(2) })
		dir := filepath.Join(root, "prefix")
		of := func(id int, created int64) dataset.Dataset {
			return dataset.New(id, fmt.Sprintf("step.%d", id), dataset.Checkpoint, id, dataset.Owner{}, time.Unix(created, 0))
		}
		err := prefix.UpdateIndex(dir, func(x *prefix.Index) error {
			x.Leave("", []dataset.Dataset{of(1, 9), of(2, 2), of(3, 3)})
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		named := func(_ *flush.Config, c *restart.Config) { c.Current = restart.Choice{Name: current, By: "SCR_CURRENT"} }
		run(t, root, named, func(r *rig) error { return errors.Join(r.restart.Find(true), r.expect(want)) })
		if x, err := prefix.ReadIndex(dir); err != nil || x.Leaving("") {
			t.Errorf("still listed: %v", err)
		}
	}
}
