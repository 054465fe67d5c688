package cache

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/goscr/goscr/internal/node/meta"
	"github.com/goscr/goscr/internal/observe/report"
	"github.com/goscr/goscr/internal/prefix/dataset"
	"github.com/goscr/goscr/internal/redundancy"
	"github.com/goscr/goscr/internal/redundancy/reddesc"
	"github.com/goscr/goscr/mpi"
	"github.com/goscr/goscr/mpi/local"
	"github.com/goscr/goscr/test/sample"
)

// scripted is a scheme that tolerates two losses and returns what a test has prepared.
type scripted struct {
	redundancy.Single
	rank    int
	script  func(rank, attempt int, lost []int) error
	path    string // of the rank's file
	attempt int
	log     *attempts
}

// attempts are the members that were lost in each attempt.
type attempts struct {
	mu   sync.Mutex
	lost map[int]string
}

func (s *scripted) Failures(int) int                 { return 2 }
func (s *scripted) Tolerates(_ int, lost []int) bool { return len(lost) <= 2 }

func (s *scripted) Verify(j *redundancy.Job, files []redundancy.File) error {
	_, err := s.Recover(j, files, nil)
	return err
}

func (s *scripted) Recover(_ *redundancy.Job, files []redundancy.File, lost []int) ([]redundancy.File, error) {
	s.log.mu.Lock()
	s.log.lost[s.attempt] = fmt.Sprint(lost)
	s.log.mu.Unlock()
	s.attempt++
	err := s.script(s.rank, s.attempt-1, lost)
	if errors.Is(err, redundancy.ErrCorrupt) {
		err = errors.Join(err, os.WriteFile(s.path, []byte("54321"), 0o600))
	}
	return files, err
}

// openCache opens a cache on a node of the rank's own.
func openCache(world mpi.Comm, dir string) (*Cache, error) {
	node := world.Split(world.Rank(), 0)
	base := filepath.Join(dir, fmt.Sprint(world.Rank()))
	return Open(Config{
		World: world, Node: node, NodeRanks: []int{world.Rank()}, Control: Base{Dir: filepath.Join(base, "control")}, User: "u", JobID: "1", Prefix: "/prefix",
		Stores: []*reddesc.Store{{Name: "store", Base: filepath.Join(base, "cache"), Comm: node}},
		Piece:  64, Distribute: true, Log: &report.Logger{Rank: world.Rank(), Node: fmt.Sprint("node", world.Rank())},
	}, "test", nil)
}

func TestRepair(t *testing.T) {
	corrupt := func(rank int) error { return &redundancy.CorruptError{Path: fmt.Sprint(rank), Reason: "test"} }
	other := errors.New("cannot be read now")
	for _, c := range []struct {
		what          string
		gone          []int // ranks whose file is deleted before
		script        func(rank, attempt int, lost []int) error
		attempts      string
		outcome       string // or what the error says
		unrecoverable bool
	}{
		{"well", nil, func(int, int, []int) error { return nil }, "[[]]", "as it was in the cache", false},
		{"lost", []int{1, 3}, func(int, int, []int) error { return nil }, "[[1 3]]", "rebuilt from redundancy, 2 of 4 ranks had lost files", false},
		{"too many", []int{0, 1, 3}, nil, "[]", "3 of 4 ranks (0, 1, 3; now on 3 of the nodes) have lost files", true},
		{"found corrupt, twice", nil, func(rank, attempt int, _ []int) error {
			if rank == 2*attempt && attempt < 2 {
				return corrupt(rank)
			}
			return nil
		}, "[[] [0] [0 2]]", "rebuilt from redundancy, 2 of 4 ranks had lost files", false},
		{"found corrupt, which fails others", []int{1}, func(rank, attempt int, _ []int) error {
			switch {
			case attempt > 0:
				return nil
			case rank == 3:
				return corrupt(rank)
			case rank == 2:
				return redundancy.ErrUnrecoverable
			}
			return other
		}, "[[1] [1 3]]", "rebuilt from redundancy, 2 of 4 ranks had lost files", false},
		{"one rank knows that it is lost", []int{1}, func(rank, _ int, _ []int) error {
			if rank == 3 {
				return fmt.Errorf("%w: test", redundancy.ErrUnrecoverable)
			}
			return nil
		}, "[[1]]", "cannot be rebuilt: test", true},
		{"not now", nil, func(rank, _ int, _ []int) error {
			if rank == 2 {
				return other
			}
			return nil
		}, "[[]]", other.Error(), false},
	} {
		dir, log := t.TempDir(), &attempts{lost: map[int]string{}}
		_, err := local.Run(4, local.Options{}, func(world mpi.Comm) error {
			k, err := openCache(world, dir)
			if err != nil {
				return err
			}
			defer k.Close()
			set := redundancy.NewSet(world, world.Rank())
			scheme := &scripted{rank: world.Rank(), script: c.script, log: log}
			desc := &reddesc.Descriptor{Params: reddesc.Params{Store: "store", Type: "XOR"}, Scheme: scheme, Set: set}
			d, err := k.Create(dataset.New(1, "ckpt", dataset.Checkpoint, 1, dataset.Owner{}, time.Unix(1, 0)), desc)
			if err != nil {
				return err
			}
			path, err := k.Add(d, meta.New(fmt.Sprint("file.", world.Rank()), meta.Full, 4))
			if err != nil {
				return err
			}
			scheme.path = path
			if err := k.Complete(d, os.WriteFile(path, []byte("12345"), 0o600)); err != nil {
				return err
			}
			for _, rank := range c.gone {
				if rank == world.Rank() {
					err = os.Remove(path)
				}
			}
			if err := mpi.Agree(world, err); err != nil {
				return err
			}
			_, outcome, err := k.Recovery.repairer.repair(d, false)
			if err != nil {
				outcome = err.Error()
			}
			if !strings.Contains(outcome, c.outcome) || errors.Is(err, redundancy.ErrUnrecoverable) != c.unrecoverable {
				return fmt.Errorf("%s (unrecoverable: %v)", outcome, errors.Is(err, redundancy.ErrUnrecoverable))
			}
			return nil
		})
		if err != nil {
			t.Errorf("%s: %v", c.what, err)
		}
		var got []string
		for i := range len(log.lost) {
			got = append(got, log.lost[i])
		}
		if fmt.Sprint(got) != c.attempts {
			t.Errorf("%s: attempts without %v, want %s", c.what, got, c.attempts)
		}
	}
}

// repaired is a cache of ranksBehind ranks, each on a node of its own, with one dataset.
type repaired struct {
	behind
	kind     string
	failures int
	scheme   redundancy.Scheme // of the only set
}

// write makes the cache and completes the dataset.
func (r *repaired) write() {
	r.t.Helper()
	if err := os.RemoveAll(r.dir); err != nil {
		r.t.Fatal(err)
	}
	_, err := local.Run(ranksBehind, local.Options{}, func(world mpi.Comm) error {
		groups := reddesc.NewGroups(world, fmt.Sprint("node", world.Rank()))
		desc, _, err := reddesc.Create(groups, reddesc.Params{Interval: 1, Store: "store", Group: reddesc.Node, Type: r.kind, Failures: r.failures, SetSize: ranksBehind})
		if err != nil {
			return err
		}
		if world.Rank() == 0 {
			r.scheme = desc.Scheme
		}
		k, err := openCache(world, r.dir)
		if err != nil {
			return err
		}
		defer k.Close()
		c, err := createWith(k, desc, 1)
		if err != nil {
			return err
		}
		return k.Complete(c, nil)
	})
	if err != nil {
		r.t.Fatal(err)
	}
}

// redundancy returns the path of the redundancy file of a rank.
func (r *repaired) redundancy(rank int) string {
	r.t.Helper()
	found, err := filepath.Glob(filepath.Join(r.dir, fmt.Sprint(rank), "cache/*/*/scr.dataset.1/.scr/*"))
	if err != nil || len(found) != 1 {
		r.t.Fatalf("redundancy of rank %d: %q, %v", rank, found, err)
	}
	return found[0]
}

// damage changes the last bit of the redundancy file of a rank.
func (r *repaired) damage(rank int) {
	r.t.Helper()
	path := r.redundancy(rank)
	data, err := os.ReadFile(path)
	if err != nil {
		r.t.Fatal(err)
	}
	data[len(data)-1] ^= 1
	if err := os.WriteFile(path, data, 0o600); err != nil {
		r.t.Fatal(err)
	}
}

// repair opens the cache in another run, which is killed at a message unless that is 0, and returns the
// number of messages.
func (r *repaired) repair(killAt int64) (messages int64, err error) {
	stats, err := local.Run(ranksBehind, local.Options{KillAt: killAt}, func(world mpi.Comm) error {
		k, err := openCache(world, r.dir)
		if err != nil {
			return err
		}
		defer k.Close()
		k.Recovery.Rebuild()
		return nil
	})
	for _, s := range stats {
		messages += s.Messages
	}
	return messages, err
}

// losses returns the sets of members that a set can lose besides those whose redundancy is damaged,
// without those that are part of another one.
func (r *repaired) losses(damaged []int) (all [][]int) {
	for bits := 1<<ranksBehind - 1; bits > 0; bits-- {
		var lost []int
		for m := range ranksBehind {
			if bits>>m&1 != 0 {
				lost = append(lost, m)
			}
		}
		within := func(other []int) bool {
			return !slices.ContainsFunc(lost, func(m int) bool { return !slices.Contains(other, m) })
		}
		either := slices.Compact(slices.Sorted(slices.Values(slices.Concat(lost, damaged))))
		if r.scheme.Tolerates(ranksBehind, either) && !slices.ContainsFunc(all, within) {
			all = append(all, lost)
		}
	}
	return all
}

// A redundancy file is damaged, and the job is killed while it is made again, at whatever message of
// MPI. The dataset then still tolerates the loss of all members that it tolerated before.
func TestRepair_KilledAtAnyMessage(t *testing.T) {
	for _, of := range []struct {
		kind     string
		failures int
		damaged  []int
	}{
		{"XOR", 0, []int{1}}, {"PARTNER", 1, []int{1}}, {"PARTNER", 1, []int{1, 3}}, {"PARTNER", 2, []int{2}},
		{"RS", 2, []int{1}}, {"RS", 3, []int{2}}, {"RS", 3, []int{0, 3}},
	} {
		t.Run(fmt.Sprint(of.kind, of.failures, of.damaged), func(t *testing.T) {
			t.Parallel()
			r := &repaired{behind{t, filepath.Join(t.TempDir(), "nodes")}, of.kind, of.failures, nil}
			r.write()
			var before []os.FileInfo
			for rank := range ranksBehind {
				info, err := os.Stat(r.redundancy(rank))
				if err != nil {
					t.Fatal(err)
				}
				before = append(before, info)
			}
			for _, rank := range of.damaged {
				r.damage(rank)
			}
			total, err := r.repair(0)
			if err != nil {
				t.Fatal(err)
			}
			for rank, was := range before {
				if slices.Contains(of.damaged, rank) {
					continue
				}
				if is, err := os.Stat(r.redundancy(rank)); err != nil || !is.ModTime().Equal(was.ModTime()) {
					t.Errorf("the redundancy of rank %d was written again: %v", rank, err)
				}
			}
			losses := r.losses(of.damaged)
			var messages []int64
			for at := total; at > 0; at-- {
				messages = append(messages, at)
			}
			for _, at := range sample.Of(t, messages, 5, 25) {
				r.write()
				for _, rank := range of.damaged {
					r.damage(rank)
				}
				if _, err := r.repair(at); !errors.Is(err, local.ErrKilled) {
					t.Fatalf("killed at message %d of %d: %v", at, total, err)
				}
				lost := losses[int(at)%len(losses)]
				for _, rank := range lost {
					r.loseNode(rank)
				}
				if id := r.restart(); id != 1 {
					t.Errorf("killed at message %d of %d, nodes %v lost: nothing is left", at, total, lost)
				}
			}
		})
	}
}
