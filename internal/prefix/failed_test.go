package prefix

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/goscr/goscr/internal/node/meta"
	"github.com/goscr/goscr/internal/prefix/dataset"
	"github.com/goscr/goscr/internal/redundancy"
	"github.com/goscr/goscr/mpi"
	"github.com/goscr/goscr/mpi/local"
)

// obstruct keeps the summary of a dataset from being written, as a full file system does.
func obstruct(t *testing.T, dir string, id int) (remove func()) {
	t.Helper()
	path := summaryPath(dir, id)
	must(t, os.MkdirAll(filepath.Join(path, "x"), 0o700))
	return func() { must(t, os.RemoveAll(path)) }
}

// What an earlier run has copied may be nowhere else: it stays if it cannot be completed.
func TestFailed_CompleteFlushes(t *testing.T) {
	s := newSite(t)
	s.watch = func(c mpi.Comm, what string) {
		if what == "rename" {
			local.Kill(c)
		}
	}
	if err := s.flush(1, 2, same); !errors.Is(err, local.ErrKilled) {
		t.Fatal(err)
	}
	s.watch = nil
	must(t, os.RemoveAll(s.cache))
	remove := obstruct(t, s.dir, 1)
	must(t, s.run(2, func(p *Prefix) error {
		missing, err := completeFlushes(p)
		if err == nil && len(missing) != 1 {
			err = fmt.Errorf("%d flushes are not completed", len(missing))
		}
		return err
	}))
	remove()
	if _, done, err := Finish(s.dir, 1); err != nil || !done {
		t.Errorf("cannot be completed any more: %v", err)
	}
	if got := fmt.Sprint(s.complete(2, same)); got != "[1]" {
		t.Errorf("complete: %s", got)
	}
}

func TestFailed_Publish(t *testing.T) {
	s := newSite(t)
	d := s.described(1, 2, same)
	must(t, Announce(s.dir, d))
	for rank := range 2 {
		files, err := s.cached(1, rank, 2, same)
		must(t, err)
		for i, f := range files {
			to, err := Destination(s.dir, f)
			must(t, err)
			files[i].Path = Aside(to, 1, ByCopy)
			must(t, os.MkdirAll(filepath.Dir(to), 0o700))
			must(t, os.Rename(f.Path, files[i].Path))
		}
		must(t, (&Part{Rank: rank, Ranks: 2, Dataset: d, Files: files}).Enter(s.dir))
	}
	publish := func() error {
		return Publish(s.dir, d, 2, func(rank int) []redundancy.File {
			part, err := ReadPart(s.dir, 1, rank)
			if err == nil {
				err = part.Find(s.dir)
			}
			if err != nil {
				t.Fatal(err)
			}
			return part.Files
		})
	}
	remove := obstruct(t, s.dir, 1)
	if publish() == nil {
		t.Fatal("published")
	}
	remove()
	must(t, publish())
	if got := fmt.Sprint(s.complete(2, same)); got != "[1]" {
		t.Errorf("complete: %s", got)
	}
}

// Files that the program itself has written are the program's.
func TestFailed_Bypass(t *testing.T) {
	s := newSite(t)
	d := s.described(1, 2, same)
	d.SetBypass()
	err := s.run(2, func(p *Prefix) error {
		if err := p.Begin(d); err != nil {
			return err
		}
		var files []redundancy.File
		var failed error
		for _, name := range same(1, p.Comm.Rank()) {
			f := redundancy.File{Path: filepath.Join(s.dir, name), Meta: meta.New(name, meta.Full, 2)}
			failed = errors.Join(failed, os.MkdirAll(filepath.Dir(f.Path), 0o700), os.WriteFile(f.Path, data(1, name), 0o600), f.Record())
			f.Meta.SetComplete(true)
			files = append(files, f)
		}
		if p.Comm.Rank() == 0 {
			failed = errors.Join(failed, os.MkdirAll(filepath.Join(summaryPath(s.dir, 1), "x"), 0o700))
		}
		if err := mpi.Agree(p.Comm, failed); err != nil {
			t.Error(err)
		}
		return p.Commit(d, files, map[string]bool{})
	})
	if err == nil {
		t.Fatal("complete")
	}
	if err := s.wrong(1, 2, same); err != nil {
		t.Errorf("the program's files: %v", err)
	}
}

// A flush from the cache that fails leaves nothing, as the file system may be full.
func TestFailed_Flush(t *testing.T) {
	s := newSite(t)
	s.watch = func(_ mpi.Comm, what string) {
		if what == "rename" {
			_ = os.MkdirAll(filepath.Join(summaryPath(s.dir, 1), "x"), 0o700)
		}
	}
	if s.flush(1, 2, same) == nil {
		t.Fatal("flushed")
	}
	const want = ".scr/flush.scr .scr/flush.scr.lock .scr/index.scr .scr/index.scr.lock"
	if got := left(t, s.dir); got != want {
		t.Errorf("left: %s, want %s", got, want)
	}
	s.watch = nil
	must(t, s.flush(1, 2, same))
	if got := fmt.Sprint(s.complete(2, same)); got != "[1]" {
		t.Errorf("complete: %s", got)
	}
}

// A job may be killed when the files of an older dataset, which the program has written
// over, are the newer one's already, and that is not complete yet.
func TestFailed_BypassKilled(t *testing.T) {
	for _, at := range []string{"rename", "summary", "index"} {
		s := newSite(t)
		must(t, s.flush(1, 2, same))
		d := s.described(2, 2, same)
		begun := dataset.New(2, d.Name(), d.Flags(), d.Checkpoint(), d.Owner(), d.Created()) // its files are not known
		begun.SetBypass()
		d.SetBypass()
		taken := false
		s.watch = func(c mpi.Comm, what string) {
			if x, err := ReadIndex(s.dir); err == nil && x.ByID(2).Placing > 0 && (what == at || at == "rename") {
				taken = true
				local.Kill(c)
			}
		}
		err := s.run(2, func(p *Prefix) error {
			if err := p.Begin(begun); err != nil {
				return err
			}
			var files []redundancy.File
			var failed error
			existing := map[string]bool{}
			for _, name := range same(2, p.Comm.Rank()) {
				f := redundancy.File{Path: filepath.Join(s.dir, name), Meta: meta.New(name, meta.Full, 2)}
				failed = errors.Join(failed, os.WriteFile(f.Path, data(2, name), 0o600), f.Record())
				f.Meta.SetComplete(true)
				files = append(files, f)
				existing[name] = true
			}
			if err := mpi.Agree(p.Comm, failed); err != nil {
				return err
			}
			return p.Commit(d, files, existing)
		})
		if !errors.Is(err, local.ErrKilled) || !taken {
			t.Fatal(err)
		}
		s.watch = nil
		if at == "rename" {
			_, _, err := Finish(s.dir, 2)
			must(t, err)
		} else {
			must(t, s.run(2, func(p *Prefix) error { _, err := completeFlushes(p); return err }))
		}
		if got := fmt.Sprint(s.complete(2, same)); got != "[2]" {
			t.Errorf("killed at %s: complete: %s", at, got)
		}
	}
}
