package prefix

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/goscr/goscr/internal/prefix/dataset"
	"github.com/goscr/goscr/internal/redundancy"
	"github.com/goscr/goscr/mpi/local"
	"github.com/goscr/goscr/test/sample"
)

// whole returns the names of the checkpoints in the index, newest first, and fails the test if one has other bytes, by what
// a restart or a command reads, than its step wrote.
func (s *site) whole() (names []string) {
	s.t.Helper()
	x, err := ReadIndex(s.dir)
	must(s.t, err)
	for _, e := range x.own() {
		if !e.Complete {
			continue
		}
		names = append(names, e.Name)
		files := 0
		err := Walk(s.dir, e, func(_ int, list []redundancy.File) error {
			for _, f := range redundancy.Counted(list) {
				got, err := os.ReadFile(f.Path)
				if err != nil || !bytes.Equal(got, data(e.ID, f.Meta.File())) {
					return fmt.Errorf("%s has other bytes than step %d wrote (%v)", f.Path, e.ID, err)
				}
				files++
			}
			return nil
		})
		if err != nil || files != e.Files() {
			s.t.Errorf("dataset %d, %s, with %d of %d files: %v", e.ID, e.Name, files, e.Files(), err)
		}
		if _, err := fetchList(s.t, s.dir, 3, e.ID); err != nil {
			s.t.Errorf("%s cannot be fetched: %v", e.Name, err)
		}
		if v, err := Verify(s.dir, e, nil); err != nil || len(v.Problems) > 0 {
			s.t.Errorf("%s: %v, %v", e.Name, v.Problems, err)
		}
	}
	return names
}

// kept are the directories of retired datasets.
func (s *site) kept() (names []string) {
	dirs, _ := filepath.Glob(filepath.Join(s.dir, Metadata, retiredPrefix+"*"))
	for _, dir := range dirs {
		names = append(names, strings.SplitN(filepath.Base(dir), ".", 3)[1])
	}
	slices.Sort(names)
	return names
}

// rotating is a site whose datasets have two names, and its code two sets of files.
func rotating(t *testing.T) (*site, code) {
	s := newSite(t)
	s.name = func(step int) string { return string("AB"[step%2]) }
	return s, func(step, rank int) []string {
		return []string{fmt.Sprintf("restart.%d.%d", step%2, rank), fmt.Sprintf("sub/%d/state", step%2*10+rank)}
	}
}

func (s *site) wants(want ...string) {
	s.t.Helper()
	if got := s.whole(); fmt.Sprint(got) != fmt.Sprint(want) {
		s.t.Fatalf("there are %v, want %v", got, want)
	}
}

// A dataset does not replace checkpoints of another history. Those of the two that came farthest are kept.
func TestRetired(t *testing.T) {
	for _, bare := range []bool{false, true} {
		t.Run(fmt.Sprint("bare ", bare), func(t *testing.T) {
			s, of := rotating(t)
			s.bare = bare
			flush := func(history int64, steps ...int) {
				t.Helper()
				s.history = history
				for _, step := range steps {
					must(t, s.flush(step, 3, of))
				}
			}
			flush(0, 1, 2)
			flush(11, 3)
			s.wants("B", "A", "B~1")
			flush(11, 4, 5) // 5 replaces 3, which is of its own history
			s.wants("B", "A", "A~2", "B~1")
			if got := fmt.Sprint(s.kept()); got != "[1 2]" {
				t.Error(got)
			}

			// A user goes back.
			must(t, UpdateIndex(s.dir, func(x *Index) error { return x.SetCurrent("A~2") }))
			must(t, s.run(3, func(p *Prefix) error {
				d, ok, err := p.Find(Candidate(0))
				if err == nil && (!ok || d.ID() != 2 || d.Name() != "A" || d.History() != 0) {
					err = fmt.Errorf("candidate: %d %s, %v", d.ID(), d.Name(), ok)
				}
				return errors.Join(err, p.Fetched(d, Choice{}))
			}))
			if x, err := ReadIndex(s.dir); err != nil || x.Current() != "A~2" || x.h.Text(keyCurrent) != "" {
				t.Errorf("current is %q, %v", x.Current(), err)
			}
			flush(0, 6, 7)
			s.wants("B", "A", "B~5", "A~4", "A~2", "B~1")
			flush(11, 8, 9) // the mistake again
			s.wants("B", "A", "B~7", "A~6", "B~5", "A~4", "A~2", "B~1")

			// The limit: a checkpoint that is current stays.
			flush(12, 10)
			s.wants("A", "B", "A~8", "B~7", "A~6", "B~5", "A~4", "A~2", "B~1")
			must(t, UpdateIndex(s.dir, func(x *Index) error { return x.SetCurrent("B~1") }))
			flush(13, 11)
			s.wants("B", "A", "B~9", "A~8", "B~5", "A~4", "B~1")
			if got := fmt.Sprint(s.kept()); got != "[1 4 5 8 9]" {
				t.Error(got)
			}

			// By their names they are deleted, and by no other.
			must(t, s.run(2, func(p *Prefix) error {
				return errors.Join(p.Delete(Meant{Name: "B", Of: 12}), p.Delete(Meant{Name: "A", Of: 12}), p.Delete(called("B~5")))
			}))
			s.wants("B", "B~9", "A~8", "A~4", "B~1")

			// The index can be made from the summaries.
			must(t, os.WriteFile(metadataPath(s.dir, indexFile), []byte("x"), 0o600))
			if r, err := RepairIndex(s.dir); err != nil || !r.Done || len(r.Bad) > 0 {
				t.Errorf("%+v, %v", r, err)
			}
			s.wants("B", "B~9", "A~8", "A~4", "B~1")
			must(t, s.run(2, func(p *Prefix) error { return p.Purge() }))
			if got := left(t, s.dir); strings.Contains(got, "state") || len(s.kept()) > 0 {
				t.Error(got)
			}
		})
	}
	t.Run("who wants it", func(t *testing.T) {
		s, of := rotating(t)
		must(t, s.flush(1, 3, of))
		s.history = dataset.AnyHistory
		must(t, s.flush(3, 3, of))
		s.wants("B")
	})
}

// A retired checkpoint whose list is damaged is deleted, too, when its time comes: its directory has all of its files.
func TestRetired_Damaged(t *testing.T) {
	s, of := rotating(t)
	for history := range 3 {
		s.history = int64(10 + history)
		for step := range 2 {
			must(t, s.flush(2*history+step+1, 3, of))
		}
		if history == 1 {
			must(t, os.WriteFile(filepath.Join(s.dir, ".scr/scr.dataset.1/rank2file"), nil, 0o600))
		}
	}
	s.history = 13
	must(t, s.flush(7, 3, of))
	must(t, s.flush(8, 3, of))
	for _, name := range s.whole() {
		if strings.HasSuffix(name, "~1") || strings.HasSuffix(name, "~2") {
			t.Errorf("%s is kept: %v", name, s.whole())
		}
	}
	if found, err := filepath.Glob(filepath.Join(s.dir, ".scr", retiredPrefix+"1.*")); err != nil || len(found) > 0 {
		t.Error(found, err)
	}
}

// One that cannot be deleted does not stand in the way of a new one.
func TestRetired_Undeletable(t *testing.T) {
	s, of := rotating(t)
	for history := range 3 {
		s.history = int64(10 + history)
		for step := range 2 {
			must(t, s.flush(2*history+step+1, 3, of))
		}
		if history == 1 { // a directory where a file was
			found, err := filepath.Glob(filepath.Join(s.dir, ".scr", retiredPrefix+"1.*", "sub", "*", "*"))
			must(t, err)
			must(t, os.Remove(found[0]))
			must(t, os.MkdirAll(filepath.Join(found[0], "full"), 0o700))
		}
	}
	s.history = 13
	must(t, s.flush(7, 3, of))
}

// An index that gives a retired dataset a directory of SCR 1.1, too, does not make goscr delete that.
func TestRetired_OfNoDirectory(t *testing.T) {
	s, of := rotating(t)
	must(t, s.flush(1, 3, of))
	s.history = 11
	must(t, s.flush(3, 3, of))
	users := filepath.Join(s.dir, "users/file")
	must(t, os.MkdirAll(filepath.Dir(users), 0o700))
	must(t, os.WriteFile(users, []byte("mine"), 0o600))
	must(t, UpdateIndex(s.dir, func(x *Index) error { x.change(1, func(e *stored) { e.Dir = "users" }); return nil }))
	x, err := ReadIndex(s.dir)
	must(t, err)
	err = Discard(s.dir, x.ByID(1))
	if _, gone := os.Lstat(users); gone != nil {
		t.Error(gone, err)
	}
}

// A dataset needs a name in the index, too, even if it has no file of the checkpoint of that name.
func TestRetired_Name(t *testing.T) {
	s := newSite(t)
	s.name = func(int) string { return "A" }
	own := func(step, rank int) []string { return []string{fmt.Sprintf("%d/%d", step, rank)} }
	must(t, s.flush(1, 3, own))
	s.history = 11
	must(t, s.flush(2, 3, own))
	s.wants("A", "A~1")
	must(t, s.flush(3, 3, own)) // of the same history
	s.wants("A", "A~1")
	s.name = func(int) string { return "A~1" } // a name that a program can give
	must(t, s.flush(4, 3, own))
	s.wants("A~1", "A", "A~1~")
}

// The window of SCR_PREFIX_SIZE is of one history. Of the two before it stays what they have left.
func TestRetired_Window(t *testing.T) {
	s := newSite(t)
	own := func(step, rank int) []string { return []string{fmt.Sprintf("%d/%d", step, rank)} }
	window := func(history int64, steps ...int) {
		t.Helper()
		s.history = history
		for _, step := range steps {
			must(t, s.flush(step, 2, own))
			must(t, s.run(2, func(p *Prefix) error { return p.Keep(2) }))
		}
	}
	window(0, 1, 2, 3)
	s.wants("ckpt.3", "ckpt.2")
	window(11, 4, 5, 6)
	s.wants("ckpt.6", "ckpt.5", "ckpt.3", "ckpt.2")
	window(0, 7) // the right one continues
	s.wants("ckpt.7", "ckpt.6", "ckpt.5", "ckpt.3")
	window(11, 8)
	s.wants("ckpt.8", "ckpt.7", "ckpt.6", "ckpt.3")
	window(12, 9)
	s.wants("ckpt.9", "ckpt.8", "ckpt.7", "ckpt.6", "ckpt.3")
	window(13, 10)
	s.wants("ckpt.10", "ckpt.9", "ckpt.8", "ckpt.6")
}

// Wherever a job is killed that retires a checkpoint, this and those before it are whole, and the next job continues.
func TestRetired_Killed(t *testing.T) {
	const ranks = 3
	random := sample.Rand(t)
	begin := func() (*site, code) {
		s, of := rotating(t)
		must(t, s.flush(1, ranks, of))
		must(t, s.flush(2, ranks, of))
		s.history = 11
		return s, of
	}
	check := func(s *site, of code, what string, err error) {
		t.Helper()
		if err != nil && !errors.Is(err, local.ErrKilled) {
			t.Fatal(err)
		}
		if got := s.whole(); !slices.Contains(got, "B") && !slices.Contains(got, "B~1") || !slices.Contains(got, "A") {
			t.Fatalf("%s: %v", what, got)
		}
		if random.IntN(2) == 0 { // the run that continues is of another history
			s.history = 12
		}
		for _, at := range []int{random.IntN(10), 1 << 30} {
			s.killAt(at)
			err := s.run(1+random.IntN(4), func(p *Prefix) error { _, err := completeFlushes(p); return err })
			if s.watch = nil; err != nil && !errors.Is(err, local.ErrKilled) {
				t.Fatal(err)
			}
			s.whole()
		}
		must(t, s.flush(3, ranks, of))
		s.wants("B", "A", "B~1")
		must(t, s.flush(4, 1+random.IntN(ranks), of))
		s.wants("A", "B", "A~2", "B~1")
	}
	for changes, ended := 0, false; !ended; changes++ {
		s, of := begin()
		s.killAt(changes)
		err := s.flush(3, ranks, of)
		s.watch, ended = nil, err == nil
		if errors.Is(err, local.ErrKilled) && len(s.kept()) == 0 {
			continue // it has retired nothing yet
		}
		check(s, of, fmt.Sprint("killed at change ", changes), err)
	}
	for at := 1 + random.Int64N(40); ; at += 1 + random.Int64N(40) {
		s, of := begin()
		s.opt.KillAt = at
		err := s.flush(3, ranks, of)
		s.opt.KillAt = 0
		if err == nil {
			break
		}
		if len(s.kept()) > 0 {
			check(s, of, fmt.Sprint("killed at message ", at), err)
		}
	}
}

// What somebody has put in the place of the directory of a retired dataset is not taken for its files.
func TestRetired_Planted(t *testing.T) {
	for what, plant := range map[string]func(path string) error{
		"file":      func(path string) error { return os.WriteFile(path, []byte("x"), 0o666) },
		"directory": func(path string) error { return os.Mkdir(path, 0o777) },
	} {
		s, of := rotating(t)
		must(t, s.flush(1, 3, of))
		x, err := ReadIndex(s.dir)
		must(t, err)
		in := filepath.Join(s.dir, retiredDir(x.ByID(1).Dataset))
		must(t, os.Mkdir(in, 0o777))
		must(t, plant(filepath.Join(in, "restart.1.0")))
		s.history = 11
		if err := s.flush(3, 3, of); err == nil || !strings.Contains(err.Error(), in) {
			t.Errorf("%s: %v", what, err)
		}
		s.wants("B")
		must(t, os.RemoveAll(in))
		must(t, os.Mkdir(in, 0o777)) // a kill can leave it
		must(t, s.flush(3, 3, of))
		s.wants("B", "B~1")
	}
}

// A checkpoint that is half moved when a program begins to write, itself, over its files has moved before.
func TestRetired_HalfAndBypass(t *testing.T) {
	const ranks = 3
	half := 0
	for changes, ended := 0, false; !ended; changes++ {
		s, of := rotating(t)
		must(t, s.flush(1, ranks, of))
		s.history = 11
		s.killAt(changes)
		err := s.flush(3, ranks, of)
		s.watch, ended = nil, err == nil
		x, err := ReadIndex(s.dir)
		must(t, err)
		if e := x.ByID(1); ended || e.Retired == nil || e.Retired.Moved {
			continue
		}
		half++
		s.name = func(int) string { return "C" }
		d := s.described(5, ranks, of)
		d.SetBypass()
		must(t, s.run(ranks, func(p *Prefix) error {
			if err := p.Begin(d); err != nil {
				return err
			}
			files, err := s.cached(5, p.Comm.Rank(), ranks, of)
			for i, f := range files {
				to := filepath.Join(s.dir, f.Meta.File())
				_, there := os.Lstat(to)
				if there == nil {
					err = errors.Join(err, fmt.Errorf("%s is there", to))
				}
				err = errors.Join(err, os.MkdirAll(filepath.Dir(to), 0o700), os.Rename(f.Path, to))
				files[i].Path, files[i].Below = to, p.root()
			}
			return errors.Join(err, p.Commit(d, files, map[string]bool{}))
		}))
		s.wants("C", "B~1")
		must(t, s.run(ranks, func(p *Prefix) error { return p.Purge() }))
		if got := left(t, s.dir); strings.Contains(got, "state") || len(s.kept()) > 0 {
			t.Error(got)
		}
	}
	if half < ranks {
		t.Errorf("half moved %d times", half)
	}
}

// One that cannot be moved does not stand in the way of who wants to replace it.
func TestRetired_Replaced(t *testing.T) {
	const ranks = 3
	for changes, ended := 0, false; !ended; changes++ {
		s, of := rotating(t)
		must(t, s.flush(1, ranks, of))
		s.history = 11
		s.killAt(changes)
		err := s.flush(3, ranks, of)
		s.watch, ended = nil, err == nil
		x, err := ReadIndex(s.dir)
		must(t, err)
		if e := x.ByID(1); ended || e.Retired == nil || e.Retired.Moved {
			continue
		}
		s.history = dataset.AnyHistory
		must(t, s.flush(5, ranks, of))
		if got := fmt.Sprint(s.whole()); got != "[B]" && got != "[B B~1]" { // all of it had moved
			t.Errorf("killed at %d, and then %s", changes, got)
		}
		if err := s.wrong(5, ranks, of); err != nil {
			t.Error(err)
		}
		must(t, s.run(ranks, func(p *Prefix) error { return p.Purge() }))
		if left := s.kept(); len(left) > 0 {
			t.Errorf("killed at %d: left are %v", changes, left)
		}
	}
}

// What a hostile or damaged index says of a retired dataset names no path and no control character.
func TestRetired_Decoded(t *testing.T) {
	d := dataset.New(7, "A", dataset.Checkpoint, 7, dataset.Owner{}, time.Unix(1e9, 0))
	for _, as := range []string{"", "a\nb", "A~7"} {
		if r := (standing{Desc: d, Retired: &Retired{As: as}}).retired(); r == nil || r.As != "A~7" || r.Moved {
			t.Errorf("%q: %+v", as, r)
		}
	}
	if got := retiredDir(d); got != ".scr/retired.7.1000000000000000" {
		t.Error(got)
	}
}

// A program drops a name while a newer dataset of that name is half flushed: no later run completes or offers any of that name.
func TestDrop_Interrupted(t *testing.T) {
	half := 0 // kills that left an unfinished entry
	for at := range 40 {
		s, of := rotating(t)
		for step := 1; step <= 2; step++ {
			must(t, s.flush(step, 3, of))
		}
		s.killAt(at)
		err := s.flush(3, 3, of)
		s.watch = nil
		x, e := ReadIndex(s.dir)
		must(t, e)
		if third := x.ByID(3); third.ID == 3 && !third.Complete {
			half++
		}
		must(t, UpdateIndex(s.dir, func(x *Index) error { called("B").Drop(x); return nil }))
		must(t, s.run(2, func(p *Prefix) error { _, err := completeFlushes(p); return err }))
		s.wants("A")
		if x, e = ReadIndex(s.dir); e != nil || len(x.named("B")) > 0 && x.named("B")[0].Replaced == nil {
			t.Errorf("killed at change %d: the index has %+v, %v", at, x.named("B"), e)
		}
		if err == nil {
			break // the flush was not killed any more
		}
	}
	if half == 0 {
		t.Error("no kill left a dataset half flushed")
	}
}
