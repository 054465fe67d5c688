package prefix

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/goscr/goscr/internal/redundancy"
	"github.com/goscr/goscr/mpi"
	"github.com/goscr/goscr/mpi/local"
)

// recorded returns how the index has a dataset as replaced.
func (s *site) recorded(step int) string {
	s.t.Helper()
	x, err := ReadIndex(s.dir)
	must(s.t, err)
	e := x.ByID(step)
	if e.Replaced == nil {
		return fmt.Sprintf("complete %v, placing %d", e.Complete, e.Placing)
	}
	return fmt.Sprintf("by %s, left %d", e.Replaced.By, e.Replaced.Left)
}

// An older dataset that is flushed after a newer one takes none of its files, and is
// recorded as replaced; nothing of it is copied.
func TestLate_SameNames(t *testing.T) {
	forAll(t, func(t *testing.T, s *site) {
		must(t, s.flush(2, 3, same))
		for range 2 {
			must(t, s.flush(1, 3, same))
			if got := fmt.Sprint(s.complete(3, same)); got != "[2]" {
				t.Errorf("complete: %s", got)
			}
			if got := s.recorded(1); got != "by ckpt.2, left 0" {
				t.Error(got)
			}
		}
		if left := s.asides(); len(left) > 0 {
			t.Errorf("left: %q", left)
		}
		must(t, s.run(3, func(p *Prefix) error { return p.Delete(called("ckpt.1")) }))
		if got := fmt.Sprint(s.complete(3, same), ids(t, s.dir)); got != "[2] [2]" {
			t.Errorf("complete, and in the directory: %s", got)
		}
		x, err := ReadIndex(s.dir)
		if must(t, err); x.Current() != "ckpt.2" {
			t.Errorf("current is %q", x.Current())
		}
	})
}

// The files that no newer dataset has are copied, and belong to the older one.
func TestLate_SomeFiles(t *testing.T) {
	forAll(t, func(t *testing.T, s *site) {
		must(t, s.flush(2, 3, some))
		must(t, s.flush(3, 3, some))
		for range 2 {
			must(t, s.flush(1, 3, some))
			if got := s.recorded(1); got != "by ckpt.3, left 3" {
				t.Error(got)
			}
			own := func(step, rank int) []string { return some(step, rank)[1:] }
			if err := errors.Join(s.wrong(1, 3, own), s.wrong(2, 3, own), s.wrong(3, 3, some)); err != nil {
				t.Error(err)
			}
		}
		if left := s.asides(); len(left) > 0 {
			t.Errorf("left: %q", left)
		}
		must(t, s.run(2, func(p *Prefix) error { return p.Delete(called("ckpt.1")) }))
		if found, _ := filepath.Glob(filepath.Join(s.dir, "field/1.*")); len(found) > 0 {
			t.Errorf("left: %q", found)
		}
		if err := s.wrong(3, 3, some); err != nil {
			t.Error(err)
		}
	})
}

// A dataset in the middle takes from the older one what the newer one does not have.
func TestLate_InTheMiddle(t *testing.T) {
	of := func(step, rank int) (list []string) {
		for _, name := range map[int][]string{1: {"a", "b"}, 2: {"a", "b", "d"}, 3: {"b", "c"}}[step] {
			list = append(list, fmt.Sprint(name, ".", rank))
		}
		return list
	}
	s := newSite(t)
	for _, step := range []int{1, 3, 2} {
		must(t, s.flush(step, 2, of))
	}
	if got := s.recorded(1) + "; " + s.recorded(2) + "; " + s.recorded(3); got != "by ckpt.2, left 0; by ckpt.3, left 4; complete true, placing 0" {
		t.Error(got)
	}
	own := func(_, rank int) []string { return []string{fmt.Sprint("a.", rank), fmt.Sprint("d.", rank)} }
	if err := errors.Join(s.wrong(2, 2, own), s.wrong(3, 2, of)); err != nil {
		t.Error(err)
	}
}

// A newer dataset of the same name stays in the index, and what is left to the older one goes
// with it, also when a further one has the name.
func TestLate_SameDatasetName(t *testing.T) {
	s := newSite(t)
	s.name = func(int) string { return "restart" }
	for _, step := range []int{2, 1, 3} {
		must(t, s.flush(step, 2, some))
		x, err := ReadIndex(s.dir)
		must(t, err)
		if e, ok := x.Find("restart"); !ok || e.ID != max(step, 2) || !e.Complete || !e.Current {
			t.Errorf("after %d: %+v", step, e)
		}
	}
	if got := s.recorded(1) + "; " + s.recorded(2); got != "by restart, left 2; by restart, left 2" {
		t.Error(got)
	}
	must(t, s.run(2, func(p *Prefix) error { return p.Delete(called("restart")) }))
	if got := left(t, s.dir); strings.Contains(got, "field") || strings.Contains(got, "log") || len(ids(t, s.dir)) > 0 {
		t.Error(got)
	}
}

// A number at which a replaced dataset still has files is not given to another job's.
func TestLate_NumberOfOneWithFiles(t *testing.T) {
	s := newSite(t)
	must(t, s.flush(1, 2, some))
	must(t, s.flush(2, 2, some))
	s.name = func(int) string { return "another" }
	if err := s.flush(1, 2, some); !errors.Is(err, ErrTaken) {
		t.Error(err)
	}
	if got := s.recorded(1); got != "by ckpt.2, left 2" {
		t.Error(got)
	}
}

// Files of the newer dataset were getting their names when its flush was interrupted: it is
// finished later all the same.
func TestLate_WhileTheNewerIsUnfinished(t *testing.T) {
	s := newSite(t)
	must(t, s.flush(1, 3, same)) // so that there is something to take over
	blocked := filepath.Join(s.dir, "sub/1/state")
	var once sync.Once
	s.watch = func(_ mpi.Comm, what string) {
		if what == "index" {
			once.Do(func() { must(t, errors.Join(os.Remove(blocked), os.MkdirAll(filepath.Join(blocked, "x"), 0o700))) })
		}
	}
	if err := s.flush(3, 3, same); err == nil {
		t.Error("flushed")
	}
	s.watch = nil
	must(t, os.RemoveAll(blocked))
	must(t, s.flush(2, 3, same))
	if got := s.recorded(2) + "; " + s.recorded(3); got != "by ckpt.3, left 0; complete false, placing 3" {
		t.Error(got)
	}
	must(t, s.run(2, func(p *Prefix) error { _, err := completeFlushes(p); return err }))
	if got := fmt.Sprint(s.complete(3, same)); got != "[3]" {
		t.Errorf("complete: %s", got)
	}
}

// A command completes an older dataset that was scavenged: the same.
func TestLate_Published(t *testing.T) {
	s := newSite(t)
	must(t, s.flush(2, 2, some))
	brought := map[int][]redundancy.File{}
	for rank := range 2 {
		files, err := s.cached(1, rank, 2, some)
		must(t, err)
		for _, f := range files {
			to := Aside(filepath.Join(s.dir, f.Meta.File()), 1, ByCopy)
			must(t, errors.Join(os.MkdirAll(filepath.Dir(to), 0o700), os.Rename(f.Path, to)))
			brought[rank] = append(brought[rank], redundancy.File{Path: to, Meta: f.Meta})
		}
	}
	must(t, Publish(s.dir, s.described(1, 2, some), 2, func(rank int) []redundancy.File { return brought[rank] }))
	if got := fmt.Sprint(s.complete(2, some), s.recorded(1), s.asides()); got != "[2]by ckpt.2, left 2[]" {
		t.Error(got)
	}
	own := func(step, rank int) []string { return some(step, rank)[1:] }
	if err := s.wrong(1, 2, own); err != nil {
		t.Error(err)
	}
}

// Wherever a job is killed that flushes an older dataset, the newer one is whole, and when
// the flush is repeated all is as if it had not been killed.
func TestLate_Killed(t *testing.T) {
	const ranks, seed = 3, 11
	mixed := func(step, rank int) []string {
		return append(some(step, (rank+step)%ranks), fmt.Sprint("again.", (rank+step)%ranks))
	}
	random := rand.New(rand.NewPCG(seed, 0))
	check := func(s *site, when string) {
		t.Helper()
		if got := fmt.Sprint(s.complete(ranks, mixed)); got != "[2]" {
			t.Fatalf("%s, and then complete: %s", when, got)
		}
	}
	try := func(kill func(s *site)) (ended bool) {
		s := newSite(t)
		must(t, s.flush(2, ranks, mixed))
		kill(s)
		err := s.flush(1, ranks, mixed)
		s.watch, s.opt.KillAt = nil, 0
		if err != nil && !errors.Is(err, local.ErrKilled) {
			t.Fatal(err)
		}
		check(s, "killed")
		must(t, s.run(1+random.IntN(4), func(p *Prefix) error { _, err := completeFlushes(p); return err }))
		check(s, "killed, and what could be completed was")
		must(t, s.flush(1, ranks, mixed))
		check(s, "flushed again")
		if got := s.recorded(1) + fmt.Sprint(s.asides()); got != "by ckpt.2, left 3[]" {
			t.Fatal(got)
		}
		must(t, s.run(2, func(p *Prefix) error {
			return errors.Join(p.Delete(called("ckpt.1")), p.Delete(called("ckpt.2")))
		}))
		if got := left(t, s.dir); strings.Contains(got, "field") || strings.Contains(got, "again") {
			t.Fatalf("left: %s", got)
		}
		return err == nil
	}
	changes := 0
	for !try(func(s *site) { s.killAt(changes) }) {
		changes++
	}
	if changes < ranks {
		t.Errorf("killed at %d changes only", changes)
	}
	for at := 1 + random.Int64N(40); !try(func(s *site) { s.opt.KillAt = at }); at += 1 + random.Int64N(40) {
		t.Logf("killed at message %d", at)
	}
}
