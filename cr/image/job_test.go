package image

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/goscr/goscr/mpi"
	"github.com/goscr/goscr/mpi/local"
)

// session stands for scr.Session on one rank: its checkpoints are directories below root, named by
// their numbers, of which those that are complete are in kept.
type session struct {
	world mpi.Comm
	root  string
	kept  *[]string // shared by the ranks; the newest is the last
	mu    *sync.Mutex

	needs   []string // answers of NeedCheckpoint, and what happens then: "yes", "no" or "stop"
	dir     string
	spoiled error
	said    []string // by Declined
}

func (s *session) offered() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(*s.kept) == 0 {
		return ""
	}
	return (*s.kept)[len(*s.kept)-1]
}

func (s *session) HaveRestart() (string, bool, error) {
	name := s.offered()
	s.world.Barrier()
	return name, name != "", nil
}

func (s *session) StartRestart() (string, error) {
	s.dir = filepath.Join(s.root, s.offered(), string(rune('0'+s.world.Rank())))
	return s.offered(), nil
}

func (s *session) CompleteRestart(valid bool) error {
	if !mpi.Any(s.world, !valid) {
		return nil
	}
	if s.world.Rank() == 0 {
		s.mu.Lock()
		*s.kept = (*s.kept)[:len(*s.kept)-1]
		s.mu.Unlock()
	}
	s.world.Barrier()
	return errors.New("a rank cannot restart")
}

func (s *session) NeedCheckpoint() (bool, error) {
	return len(s.needs) > 0 && s.needs[0] == "yes", nil
}

func (s *session) StartCheckpoint() error {
	s.spoiled = nil
	s.dir = filepath.Join(s.root, "new", string(rune('0'+s.world.Rank())))
	return os.MkdirAll(s.dir, 0o700)
}

func (s *session) CompleteCheckpoint(bool) error {
	if err := mpi.Agree(s.world, s.spoiled); err != nil {
		return errors.Join(err, os.RemoveAll(s.dir))
	}
	if s.world.Rank() == 0 {
		s.mu.Lock()
		name := string(rune('a' + len(*s.kept)))
		*s.kept = append(*s.kept, name)
		s.mu.Unlock()
		if err := os.Rename(filepath.Join(s.root, "new"), filepath.Join(s.root, name)); err != nil {
			return err
		}
	}
	s.world.Barrier()
	return nil
}

func (s *session) Directory() (string, error) { return s.dir, nil }
func (s *session) Spoil(err error) error      { s.spoiled = err; return nil }
func (s *session) Agree(err error) error      { return mpi.Agree(s.world, err) }
func (s *session) Declined(err error) error   { s.said = append(s.said, err.Error()); return nil }

func (s *session) ShouldExit() (bool, error) {
	stop := len(s.needs) > 0 && s.needs[0] == "stop"
	s.needs = s.needs[min(1, len(s.needs)):]
	return stop, nil
}

// job runs three programs, whose lines are returned with the error of rank 0 and what was declined. Gates are
// opened when all answers have been given, unless the last one is "stop".
func (p *place) job(kept *[]string, root string, needs []string, dump func(rank int) string, status ...string) (list, said []string, first error) {
	p.Helper()
	var mu sync.Mutex
	output := p.captured(func() {
		_, err := local.Run(3, local.Options{}, func(world mpi.Comm) error {
			rank := world.Rank()
			program := p.program(dump(rank), status...)
			scratch := filepath.Join(p.dir, string(rune('0'+rank)))
			if err := os.MkdirAll(scratch, 0o700); err != nil {
				return err
			}
			program.pidFile = filepath.Join(scratch, "process")
			s := &session{world: world, root: root, kept: kept, mu: &mu, needs: slices.Clone(needs)}
			if len(needs) == 0 || needs[len(needs)-1] != "stop" {
				s.needs = append(s.needs, "no")
			}
			j := Job{World: world, Session: &gated{s, p, program, len(*kept) > 0}, Program: program, Pause: time.Millisecond, Grace: time.Minute}
			err := j.Run()
			if program.child != nil && alive(program.pid) {
				p.Errorf("rank %d: its program runs", rank)
			}
			if rank == 0 {
				first, said = err, s.said
			}
			return nil
		})
		p.must(err)
	})
	return results(output()), said, first
}

// gated opens the gate of the programs when no answers are left. It gives the first when they are halfway.
type gated struct {
	*session
	place    *place
	program  *Program
	restored bool
}

// Agree lets the programs come to their end before the ranks agree, if place is late.
func (g *gated) Agree(err error) error {
	if g.place.late && err == nil && strings.Count(g.place.output(), "half ") == 3 {
		g.place.open()
		within(0, func() bool { return !alive(g.program.pid) })
	}
	return g.session.Agree(err)
}

func (g *gated) NeedCheckpoint() (bool, error) {
	for !g.restored && strings.Count(g.place.output(), "half ") < 3 {
		time.Sleep(time.Millisecond) // before, a program may not be the one that can be saved
	}
	if len(g.needs) == 1 && g.needs[0] == "no" && !g.place.late {
		g.place.open()
	}
	return g.session.NeedCheckpoint()
}

// TestJob_FailsAfterTheLook has the programs fail just after all ranks have seen that none has failed.
func TestJob_FailsAfterTheLook(t *testing.T) {
	p := begin(t)
	p.late = true
	var kept []string
	_, _, err := p.job(&kept, t.TempDir(), nil, func(int) string { return "dump" }, "5")
	if err == nil || !strings.Contains(err.Error(), "ended with status 5") {
		t.Fatal(err)
	}
}

func three(line string) []string { return []string{line, line, line} }

func TestJob(t *testing.T) {
	p := begin(t)
	result := p.whole()[2]
	root := t.TempDir()
	var kept []string
	dump := func(int) string { return "dump" }
	reset := func() { p.must(os.RemoveAll(p.gate)) }

	_, _, err := p.job(&kept, root, []string{"yes", "stop"}, dump)
	if err != nil || len(kept) != 1 {
		t.Fatal(err, kept)
	}
	list, _, err := p.job(&kept, root, []string{"yes", "no", "yes"}, dump)
	if err != nil || !slices.Equal(kept, []string{"a", "b", "c"}) || !slices.Contains(list, result) || slices.Contains(list, "begins") {
		t.Fatal(err, kept, list)
	}
	reset()

	// A command that fails on one rank: no checkpoint, and the programs continue.
	kept = nil
	for _, way := range []string{"dump", "end"} {
		list, said, err := p.job(&kept, t.TempDir(), []string{"yes"}, func(rank int) string {
			return []string{way, "exit 3 # %p", way}[rank]
		})
		if err != nil || len(kept) != 0 || len(said) != 1 || !strings.Contains(said[0], "ended with status 3") || !slices.Equal(list[len(list)-3:], three(result)) {
			t.Fatal(way, err, kept, said, list)
		}
		reset()
	}

	kept = []string{"a", "b", "c"}
	// A program that cannot be restored on one rank: the older checkpoint, on all.
	p.must(os.WriteFile(filepath.Join(root, "c", "1", "image"), []byte("no image"), 0o600))
	list, _, err = p.job(&kept, root, nil, dump)
	if err != nil || !slices.Equal(kept, []string{"a", "b"}) || !slices.Equal(list, three(result)) {
		t.Fatal(err, kept, list)
	}
	reset()

	// A program that fails: an error on all, with its status on its rank.
	kept = nil
	_, _, err = p.job(&kept, root, nil, dump, "5")
	if err == nil || !strings.Contains(err.Error(), "ended with status 5") {
		t.Fatal(err)
	}
}
