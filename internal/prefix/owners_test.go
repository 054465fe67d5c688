package prefix

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/goscr/goscr/internal/node/meta"
	"github.com/goscr/goscr/internal/observe/report"
	"github.com/goscr/goscr/internal/prefix/dataset"
	"github.com/goscr/goscr/internal/redundancy"
	"github.com/goscr/goscr/mpi"
	"github.com/goscr/goscr/mpi/local"
	"github.com/goscr/goscr/test/sample"
)

// A code is a program that writes some names in a step; site is where it does that.
type (
	code func(step, rank int) []string
	site struct {
		t       *testing.T
		dir     string // prefix directory
		cache   string
		bare    bool
		name    func(step int) string
		stamp   func(step int) time.Time // of files
		opt     local.Options
		watch   func(c mpi.Comm, what string)
		history int64 // of what is flushed
	}
)

func newSite(t *testing.T) *site {
	base := "/dev/shm" // syncing costs nothing there
	if _, err := os.Stat(base); err != nil {
		base = ""
	}
	root, err := os.MkdirTemp(base, "goscr-owners-")
	must(t, err)
	t.Cleanup(func() { os.RemoveAll(root) })
	must(t, os.Mkdir(filepath.Join(root, "prefix"), 0o700))
	return &site{t: t, dir: filepath.Join(root, "prefix"), cache: filepath.Join(root, "cache"), name: func(step int) string { return fmt.Sprint("ckpt.", step) },
		stamp: func(step int) time.Time { return time.Unix(1e9+int64(step), 5) }}
}

// same is a code that writes the same names in each step.
func same(_, rank int) []string {
	return []string{fmt.Sprintf("restart.dat.%d", rank), fmt.Sprintf("sub/%d/state", rank)}
}

// some writes a file again and another one from the beginning.
func some(step, rank int) []string {
	return []string{fmt.Sprintf("log.%d", rank), fmt.Sprintf("field/%d.%d", step, rank)}
}

// data is what is in a file. All files are of one size.
func data(step int, name string) []byte {
	return bytes.Repeat([]byte(fmt.Sprintf("%d %s ", step, name)), 300)[:1500]
}

// described describes the dataset of a step.
func (s *site) described(step, ranks int, of code) dataset.Dataset {
	d := dataset.New(step, s.name(step), dataset.Checkpoint, step, dataset.Owner{User: "u"}, time.Unix(int64(1e9+step), 0))
	files := 0
	for rank := range ranks {
		files += len(of(step, rank))
	}
	d.SetTotals(int64(files), int64(1500*files))
	d.SetComplete(true)
	d.SetHistory(s.history)
	return d
}

// run runs ranks.
func (s *site) run(ranks int, f func(p *Prefix) error) error {
	_, err := local.Run(ranks, s.opt, func(c mpi.Comm) error {
		p := &Prefix{Comm: c, Dir: s.dir, Buffer: 400, Bare: s.bare, Log: &report.Logger{}}
		if s.watch != nil {
			p.watch = func(what string) { s.watch(c, what) }
		}
		return f(p)
	})
	return err
}

// cached makes the files of a rank in the cache.
func (s *site) cached(step, rank, ranks int, of code) (list []redundancy.File, err error) {
	for _, name := range of(step, rank) {
		path := filepath.Join(s.cache, fmt.Sprint(step), name)
		stamp := s.stamp(step)
		err = errors.Join(err, os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, data(step, name), 0o600), os.Chtimes(path, stamp, stamp))
		md := meta.New(name, meta.Full, ranks)
		err = errors.Join(err, md.Record(path))
		md.SetComplete(true)
		list = append(list, redundancy.File{Path: path, Meta: md})
	}
	return list, err
}

// flush flushes the dataset of a step.
func (s *site) flush(step, ranks int, of code) error {
	return s.run(ranks, func(p *Prefix) error {
		files, err := s.cached(step, p.Comm.Rank(), ranks, of)
		if err := mpi.Agree(p.Comm, err); err != nil {
			return err
		}
		return p.NewFlush(s.described(step, ranks, of), ranks, Parts{p.Comm.Rank(): files}).Run()
	})
}

// wrong says what is wrong with the files of a step.
func (s *site) wrong(step, ranks int, of code) (err error) {
	for rank := range ranks {
		for _, name := range of(step, rank) {
			got, e := os.ReadFile(filepath.Join(s.dir, name))
			if err = errors.Join(err, e); e == nil && !bytes.Equal(got, data(step, name)) {
				err = errors.Join(err, fmt.Errorf("%s has other bytes than step %d wrote", name, step))
			}
		}
	}
	return err
}

// complete returns the steps that the index calls complete, and fails the test if the
// files of one are not its own.
func (s *site) complete(ranks int, of code) (steps []int) {
	s.t.Helper()
	x, err := ReadIndex(s.dir)
	must(s.t, err)
	for _, e := range x.own() {
		if !e.Complete {
			continue
		}
		steps = append(steps, e.ID)
		if err := s.wrong(e.ID, ranks, of); err != nil {
			s.t.Errorf("dataset %d is complete: %v", e.ID, err)
		}
		if _, err := fetchList(s.t, s.dir, ranks, e.ID); err != nil {
			s.t.Errorf("dataset %d cannot be fetched: %v", e.ID, err)
		}
	}
	return steps
}

func (s *site) why(step int) string {
	s.t.Helper()
	x, err := ReadIndex(s.dir)
	must(s.t, err)
	return x.ByID(step).Why()
}

func (s *site) asides() (list []string) {
	_ = filepath.WalkDir(s.dir, func(path string, e fs.DirEntry, _ error) error {
		if e != nil && e.Name() != Metadata && strings.HasPrefix(e.Name(), ".scr.") {
			list = append(list, path)
		}
		return nil
	})
	return list
}

// times are file systems with their times of files: as they are, in whole seconds, none.
var times = map[string]func(step int) time.Time{
	"times":   func(step int) time.Time { return time.Unix(1e9+int64(step), 5) },
	"seconds": func(int) time.Time { return time.Unix(1e9, 0) },
	"none":    func(int) time.Time { return time.Unix(0, 0) },
}

func forAll(t *testing.T, f func(t *testing.T, s *site)) {
	for name, stamp := range times {
		for _, bare := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s bare %v", name, bare), func(t *testing.T) {
				s := newSite(t)
				s.stamp, s.bare = stamp, bare
				f(t, s)
			})
		}
	}
}

// A newer dataset with the same names replaces the older one, whose hard links keep what
// they have.
func TestOwners_SameNames(t *testing.T) {
	forAll(t, func(t *testing.T, s *site) {
		must(t, s.flush(1, 3, same))
		kept := filepath.Join(s.dir, "kept")
		must(t, os.Mkdir(kept, 0o700))
		must(t, os.Link(filepath.Join(s.dir, "restart.dat.2"), filepath.Join(kept, "2"))) // cp -al
		for step := 2; step <= 3; step++ {
			must(t, s.flush(step, 3, same))
			if got := fmt.Sprint(s.complete(3, same)); got != fmt.Sprintf("[%d]", step) {
				t.Errorf("complete: %s", got)
			}
			if got := s.why(step - 1); got != fmt.Sprintf("its files were replaced by ckpt.%d", step) {
				t.Error(got)
			}
		}
		if got, err := os.ReadFile(filepath.Join(kept, "2")); err != nil || !bytes.Equal(got, data(1, "restart.dat.2")) {
			t.Errorf("the hard link has %.10q, %v", got, err)
		}
		if left := s.asides(); len(left) > 0 {
			t.Errorf("left: %q", left)
		}
		// Neither the window nor a user who deletes an older one removes the newest.
		must(t, s.run(3, func(p *Prefix) error { return p.Delete(called("ckpt.1")) }))
		must(t, s.run(3, func(p *Prefix) error { return p.Keep(1) }))
		if got := fmt.Sprint(s.complete(3, same)); got != "[3]" {
			t.Errorf("complete: %s", got)
		}
		x, err := ReadIndex(s.dir)
		must(t, err)
		if len(x.Entries()) != 1 || fmt.Sprint(ids(t, s.dir)) != "[3]" {
			t.Errorf("%d entries, datasets %v", len(x.Entries()), ids(t, s.dir))
		}
		must(t, s.run(3, func(p *Prefix) error { return p.Delete(called("ckpt.3")) }))
		if got := left(t, s.dir); strings.Contains(got, "restart") || strings.Contains(got, "state") {
			t.Error(got)
		}
	})
}

// A dataset that has lost some of its files keeps the others until it is deleted.
func TestOwners_SomeFiles(t *testing.T) {
	forAll(t, func(t *testing.T, s *site) {
		for step := 1; step <= 3; step++ {
			must(t, s.flush(step, 3, some))
		}
		x, err := ReadIndex(s.dir)
		must(t, err)
		for _, step := range []int{1, 2} {
			if r := x.ByID(step).Replaced; r == nil || r.Left != 3 || r.List != "left.1" {
				t.Errorf("dataset %d: %+v", step, r)
			}
		}
		// What is left can be lost, too; by a job of another size, on another rank.
		others := func(_, rank int) []string {
			return []string{fmt.Sprintf("field/1.%d", 1-rank), fmt.Sprint("new.", rank)}
		}
		must(t, s.flush(4, 2, others))
		x, err = ReadIndex(s.dir)
		must(t, err)
		if r := x.ByID(1).Replaced; r == nil || r.Left != 1 || r.List != "left.2" || r.By != "ckpt.4" {
			t.Errorf("dataset 1: %+v", r)
		}
		if _, err := os.Stat(filepath.Join(Dir(s.dir, 1), "left.1")); !os.IsNotExist(err) {
			t.Error("the list before is left")
		}
		if err := errors.Join(s.wrong(3, 3, some), s.wrong(4, 2, others)); err != nil {
			t.Error(err)
		}
		must(t, s.run(3, func(p *Prefix) error {
			return errors.Join(p.Delete(called("ckpt.1")), p.Delete(called("ckpt.2")))
		}))
		if err := errors.Join(s.wrong(3, 3, some), s.wrong(4, 2, others)); err != nil {
			t.Error(err)
		}
		got, _ := filepath.Glob(filepath.Join(s.dir, "field/*"))
		for i := range got {
			got[i] = filepath.Base(got[i])
		}
		if want := "1.0 1.1 3.0 3.1 3.2"; strings.Join(got, " ") != want {
			t.Errorf("field has %q, want %s", got, want)
		}
	})
}

// Files of one rank are those of another one, of jobs of other sizes.
func TestOwners_OtherRanks(t *testing.T) {
	const files = 7
	among := func(ranks, turn int) code {
		return func(_, rank int) (list []string) {
			for i := range files {
				if (i+turn)%ranks == rank {
					list = append(list, fmt.Sprint("part.", i))
				}
			}
			return list
		}
	}
	s := newSite(t)
	for step, ranks := range []int{1: 4, 2: 4, 3: 1, 4: 6, 5: 2} {
		if ranks == 0 {
			continue
		}
		must(t, s.flush(step, ranks, among(ranks, step)))
		if got := fmt.Sprint(s.complete(ranks, among(ranks, step))); got != fmt.Sprintf("[%d]", step) {
			t.Errorf("complete: %s", got)
		}
		if x, err := ReadIndex(s.dir); err != nil || step > 1 && x.ByID(step-1).Replaced.Left != 0 {
			t.Errorf("%v, %+v", err, x.ByID(step-1).Replaced)
		}
	}
}

// Until a dataset is complete an older one of its name keeps it.
func TestOwners_SameDatasetName(t *testing.T) {
	s := newSite(t)
	s.name = func(int) string { return "restart" }
	must(t, s.flush(1, 2, same))
	must(t, os.RemoveAll(s.cache))
	must(t, s.run(2, func(p *Prefix) error { // fails: nothing is in the cache
		gone := redundancy.File{Path: filepath.Join(s.cache, "gone"), Meta: meta.New("restart.dat.0", meta.Full, 2)}
		if err := p.NewFlush(s.described(2, 2, same), 2, Parts{p.Comm.Rank(): {gone}}).Run(); err == nil {
			return errors.New("nothing was flushed")
		}
		return nil
	}))
	if got := fmt.Sprint(s.complete(2, same)); got != "[1]" {
		t.Errorf("complete: %s", got)
	}
	x, err := ReadIndex(s.dir)
	must(t, err)
	if e, ok := x.Find("restart"); !ok || e.ID != 1 || !e.Current || x.ByID(2).Current {
		t.Errorf("%+v", e)
	}
	must(t, s.flush(3, 2, same))
	if got := fmt.Sprint(s.complete(2, same)); got != "[3]" || fmt.Sprint(ids(t, s.dir)) != "[2 3]" {
		t.Errorf("complete: %s of %v", got, ids(t, s.dir))
	}
}

// A flush that fails leaves older datasets as they were, and nothing beside them.
func TestOwners_FlushFails(t *testing.T) {
	for what, fail := range map[string]func(s *site){
		"a file of the cache is lost": func(s *site) { must(t, os.Remove(filepath.Join(s.cache, "2/sub/1/state"))) },
		"a directory is at a path": func(s *site) {
			must(t, os.Remove(filepath.Join(s.dir, "sub/1/state")))
			must(t, os.MkdirAll(filepath.Join(s.dir, "sub/1/state/x"), 0o700))
		},
	} {
		s := newSite(t)
		must(t, s.flush(1, 3, same))
		for rank := range 3 {
			_, err := s.cached(2, rank, 3, same)
			must(t, err)
		}
		fail(s)
		err := s.run(3, func(p *Prefix) error {
			var files []redundancy.File
			for _, name := range same(2, p.Comm.Rank()) {
				md := meta.New(name, meta.Full, 3)
				md.SetSize(1500)
				files = append(files, redundancy.File{Path: filepath.Join(s.cache, "2", name), Meta: md})
			}
			return p.NewFlush(s.described(2, 3, same), 3, Parts{p.Comm.Rank(): files}).Run()
		})
		if err == nil {
			t.Errorf("%s: flushed", what)
		}
		x, err := ReadIndex(s.dir)
		must(t, err)
		if !x.ByID(1).Complete || x.ByID(2).Complete || x.ByID(2).Placing > 0 {
			t.Errorf("%s: %+v", what, x.Entries())
		}
		if left := s.asides(); len(left) > 0 {
			t.Errorf("%s: left %q", what, left)
		}
		if err := s.wrong(1, 3, same); what != "a directory is at a path" && err != nil {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// Datasets that were entered by SCR 3.1 were not compared.
func TestOwners_OfSCR(t *testing.T) {
	older := func(s *site) {
		must(s.t, UpdateIndex(s.dir, func(x *Index) error {
			for _, e := range x.own() {
				x.replace(e.Dataset, true)
				x.change(e.ID, func(s *stored) { s.Owns, s.Replaced = false, nil })
				must(s.t, Found{Dataset: e.Dataset, Complete: true}.store(s.dir))
			}
			return nil
		}))
	}
	forAll(t, func(t *testing.T, s *site) {
		for step := 1; step <= 3; step++ {
			must(t, s.flush(step, 3, some))
		}
		older(s) // all three are complete now
		must(t, s.run(3, func(p *Prefix) error { return p.Delete(called("ckpt.1")) }))
		if err := errors.Join(s.wrong(3, 3, some)); err != nil {
			t.Error(err)
		}
		if _, err := os.Stat(filepath.Join(s.dir, "field/1.0")); !os.IsNotExist(err) {
			t.Error("nothing was deleted")
		}
		must(t, s.flush(4, 2, some))
		if s.why(2) == "" || s.why(3) == "" {
			t.Error("of the datasets that list a file one is complete")
		}
		must(t, s.run(1, func(p *Prefix) error { return p.Keep(1) }))
		if got := fmt.Sprint(s.complete(2, some)); got != "[4]" {
			t.Error(got)
		}
	})
}

// A file that a user has deleted belongs to the next that writes it.
func TestOwners_FileDeletedByTheUser(t *testing.T) {
	forAll(t, func(t *testing.T, s *site) {
		must(t, s.flush(1, 2, same))
		must(t, os.RemoveAll(filepath.Join(s.dir, "sub")))
		must(t, s.flush(2, 2, func(_, rank int) []string { return []string{fmt.Sprintf("sub/%d/state", rank)} }))
		if s.stamp(1) == s.stamp(2) && !s.bare {
			return // nothing says that file from the first one's
		}
		must(t, s.run(2, func(p *Prefix) error { return p.Delete(called("ckpt.1")) }))
		if err := s.wrong(2, 2, func(_, rank int) []string { return []string{fmt.Sprintf("sub/%d/state", rank)} }); err != nil {
			t.Error(err)
		}
	})
}

// A user has deleted one of the files that the next dataset replaces: it belongs to that one, also
// where nothing tells the old file from the new one.
func TestOwners_OneFileDeletedByTheUser(t *testing.T) {
	forAll(t, func(t *testing.T, s *site) {
		more := func(step, rank int) []string {
			names := same(step, rank)
			if step == 1 {
				names = append(names, fmt.Sprint("old.", rank))
			}
			return names
		}
		must(t, s.flush(1, 3, more))
		must(t, os.Remove(filepath.Join(s.dir, "restart.dat.0")))
		must(t, s.flush(2, 2, more))
		must(t, s.run(2, func(p *Prefix) error { return p.Keep(1) }))
		if got := fmt.Sprint(s.complete(2, more)); got != "[2]" {
			t.Error(got)
		}
		for rank := range 3 {
			if _, err := os.Lstat(filepath.Join(s.dir, fmt.Sprint("old.", rank))); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("a file of the old dataset is left: %v", err)
			}
		}
	})
}

// What was dropped from the index is not brought back when its files are another's.
func TestOwners_Dropped(t *testing.T) {
	s := newSite(t)
	must(t, s.flush(1, 2, same))
	must(t, UpdateIndex(s.dir, func(x *Index) error { x.Remove("ckpt.1"); return nil }))
	must(t, s.flush(2, 2, same))
	f, err := Summary(s.dir, 1)
	if must(t, err); f.Complete || f.Replaced == nil {
		t.Errorf("%+v", f)
	}
	must(t, os.WriteFile(metadataPath(s.dir, indexFile), []byte("damaged"), 0o600))
	if r, err := RepairIndex(s.dir); err != nil || !r.Done {
		t.Fatalf("%+v, %v", r, err)
	}
	if got := fmt.Sprint(s.complete(2, same)); got != "[2]" {
		t.Error(got)
	}
}

// A file that cannot get its name: the flush is finished when it can.
func TestOwners_FinishedLater(t *testing.T) {
	s := newSite(t)
	must(t, s.flush(1, 3, same))
	blocked := filepath.Join(s.dir, "sub/1/state")
	var once sync.Once
	s.watch = func(_ mpi.Comm, what string) {
		if what == "index" {
			once.Do(func() { must(t, errors.Join(os.Remove(blocked), os.MkdirAll(filepath.Join(blocked, "x"), 0o700))) })
		}
	}
	if err := s.flush(2, 3, same); err == nil {
		t.Error("flushed")
	}
	s.watch = nil
	if got := s.complete(3, same); len(got) > 0 {
		t.Errorf("complete: %v", got)
	}
	if err := s.run(2, func(p *Prefix) error { _, err := completeFlushes(p); return err }); err != nil {
		t.Error(err)
	}
	must(t, os.RemoveAll(blocked))
	must(t, s.flush(2, 3, same)) // finds that all is there
	if got := fmt.Sprint(s.complete(3, same)); got != "[2]" {
		t.Error(got)
	}
}

// killAt has a job killed at the n-th change in the prefix directory.
func (s *site) killAt(n int) {
	var mu sync.Mutex
	s.watch = func(c mpi.Comm, _ string) {
		mu.Lock()
		n--
		now := n < 0
		mu.Unlock()
		if now {
			local.Kill(c)
		}
	}
}

// killed is what a test of kills does after one: the next run, of another size, may be
// killed too. It returns the datasets that are complete then.
func (s *site) killed(ranks, step int, of code, again int) (before, after []int) {
	s.t.Helper()
	before = s.complete(ranks, of) // what the index calls complete is whole
	for _, at := range []int{again, 1 << 30} {
		s.killAt(at)
		err := s.run(1+again%(ranks+1), func(p *Prefix) error {
			missing, err := completeFlushes(p)
			if len(missing) > 1 {
				err = errors.Join(err, fmt.Errorf("missing %v", missing))
			}
			return err
		})
		s.watch = nil
		if err != nil && (at > 1<<20 || !errors.Is(err, local.ErrKilled)) {
			s.t.Fatal(err)
		}
		after = s.complete(ranks, of)
	}
	if !slices.Contains(after, step) && !slices.Contains(after, step-1) {
		s.t.Errorf("complete are %v, and neither %d nor %d", after, step-1, step)
	}
	return before, after
}

// Wherever a job is killed, by a message that does not arrive or between two changes in
// the prefix directory, the older dataset or the newer one is whole.
func TestOwners_Killed(t *testing.T) {
	const ranks = 3
	mixed := func(step, rank int) []string {
		return append(some(step, (rank+step)%ranks), fmt.Sprint("again.", (rank+step)%ranks))
	}
	for name, of := range map[string]code{"same": same, "mixed": mixed} {
		for _, stamp := range sample.Of(t, []string{"times", "none"}, 1, 2) {
			t.Run(name+" "+stamp, func(t *testing.T) {
				random := sample.Rand(t)
				begin := func() *site {
					s := newSite(t)
					s.stamp = times[stamp]
					must(t, s.flush(1, ranks, of))
					return s
				}
				// At each change.
				ended := false
				changes, none := 0, 0
				for !ended {
					s := begin()
					s.killAt(changes)
					err := s.flush(2, ranks, of)
					s.watch = nil
					if ended = err == nil; !ended && !errors.Is(err, local.ErrKilled) {
						t.Fatal(err)
					}
					before, after := s.killed(ranks, 2, of, random.IntN(10))
					if len(before) == 0 && fmt.Sprint(after) == "[2]" {
						none++
					}
					if t.Failed() {
						t.Fatalf("killed at change %d", changes)
					}
					must(t, s.flush(3, ranks, of))
					if got := fmt.Sprint(s.complete(ranks, of)); got != "[3]" {
						t.Fatalf("killed at change %d, and then complete: %s", changes, got)
					}
					changes++
				}
				if changes < ranks*2+3 || none < ranks*2 {
					t.Errorf("%d changes, %d times the next run finished what was begun", changes, none)
				}
				// At some of the messages.
				for at := 1 + random.Int64N(40); ; at += 1 + random.Int64N(40) {
					s := begin()
					s.opt.KillAt = at
					err := s.flush(2, ranks, of)
					s.opt.KillAt = 0
					if err != nil && !errors.Is(err, local.ErrKilled) {
						t.Fatal(err)
					}
					s.killed(ranks, 2, of, random.IntN(10))
					if t.Failed() {
						t.Fatalf("killed at message %d", at)
					}
					if err == nil {
						t.Logf("killed at %d changes and up to message %d", changes, at)
						break
					}
				}
			})
		}
	}
}

// A file that several ranks have written together is one file, whichever of them writes it
// later.
func TestOwners_SharedFile(t *testing.T) {
	const name, ranks = "all", 3
	s := newSite(t)
	s.stamp = times["seconds"]
	d := s.described(1, 1, func(int, int) []string { return []string{name} })
	d.SetBypass()
	must(t, s.run(ranks, func(p *Prefix) error {
		if err := p.Begin(d); err != nil {
			return err
		}
		path := filepath.Join(s.dir, name)
		err := mpi.OnRoot(p.Comm, func() error {
			return errors.Join(os.WriteFile(path, data(1, name), 0o600), os.Chtimes(path, s.stamp(1), s.stamp(1)))
		})
		if err != nil {
			return err
		}
		f := redundancy.File{Path: path, Meta: meta.New(name, meta.Full, ranks)}
		if err := mpi.Agree(p.Comm, f.Record()); err != nil {
			return err
		}
		if p.Comm.Rank() > 0 {
			f.Meta.SetShared(0)
		}
		return p.Commit(d, []redundancy.File{f}, map[string]bool{})
	}))
	one := func(_, rank int) []string {
		return []string{name, fmt.Sprint("own.", rank)}[min(rank, 1):]
	}
	must(t, s.flush(2, ranks, one))
	x, err := ReadIndex(s.dir)
	must(t, err)
	if r := x.ByID(1).Replaced; r == nil || r.Left != 0 {
		t.Errorf("dataset 1: %+v", r)
	}
	must(t, s.run(ranks, func(p *Prefix) error { return p.Delete(called("ckpt.1")) }))
	if err := s.wrong(2, ranks, one); err != nil {
		t.Error(err)
	}
}

func ids(t *testing.T, prefix string) []int {
	t.Helper()
	list, err := IDs(prefix)
	if err != nil {
		t.Fatal(err)
	}
	return list
}

// A directory that cannot be listed is not an empty one: nothing is deleted.
func TestIDs_Unreadable(t *testing.T) {
	dir := t.TempDir()
	if list, err := IDs(dir); err != nil || len(list) > 0 {
		t.Errorf("%v, %v", list, err)
	}
	if err := os.WriteFile(filepath.Join(dir, Metadata), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	_, bad := Summaries(dir)
	_, own := owning(dir, new(Index), 0)
	_, list := IDs(dir)
	for what, err := range map[string]error{"ids": list, "summaries": errors.Join(bad...), "owning": own} {
		if !errors.Is(err, syscall.ENOTDIR) {
			t.Errorf("%s: %v", what, err)
		}
	}
}
