package prefix

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/goscr/goscr/internal/meta"
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
		missing, err := p.CompleteFlushes()
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
