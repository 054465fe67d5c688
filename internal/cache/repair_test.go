package cache

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/goscr/goscr/internal/dataset"
	"github.com/goscr/goscr/internal/meta"
	"github.com/goscr/goscr/internal/reddesc"
	"github.com/goscr/goscr/internal/redundancy"
	"github.com/goscr/goscr/internal/report"
	"github.com/goscr/goscr/mpi"
	"github.com/goscr/goscr/mpi/local"
)

// scripted is a scheme that bears two losses and returns what a test has prepared.
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

func (s *scripted) Failures(int) int             { return 2 }
func (s *scripted) Bears(_ int, lost []int) bool { return len(lost) <= 2 }

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
	node, err := world.Split(world.Rank(), 0)
	if err != nil {
		return nil, err
	}
	base := filepath.Join(dir, fmt.Sprint(world.Rank()))
	return Open(Config{
		World: world, Node: node, NodeRanks: []int{world.Rank()}, Control: Base{Dir: filepath.Join(base, "control")}, User: "u", JobID: "1", Prefix: "/prefix",
		Stores: []*reddesc.Store{{Name: "store", Base: filepath.Join(base, "cache"), Comm: node}},
		Piece:  64, Distribute: true, Log: &report.Logger{Rank: world.Rank(), Node: fmt.Sprint("node", world.Rank())},
	})
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
			set, err := redundancy.NewSet(world, world.Rank())
			if err != nil {
				return err
			}
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
			_, outcome, err := k.repair(d)
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
