package prefix

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/goscr/goscr/hash"
	"github.com/goscr/goscr/internal/node/meta"
	"github.com/goscr/goscr/internal/observe/report"
	"github.com/goscr/goscr/internal/prefix/dataset"
	"github.com/goscr/goscr/mpi"
	"github.com/goscr/goscr/mpi/local"
)

func TestFilesOf_RefusesNamesOutside(t *testing.T) {
	for _, name := range []string{"../x", "a/../../x", "/x", "", ".scr", ".scr/index.scr", "a/../.scr/x", "./.scr"} {
		h := hash.New()
		h.At(keyFile, name)
		if files, err := filesOf(h, "/prefix", origin{}.place, 1); err == nil {
			t.Errorf("%q: %v", name, files)
		}
	}
	for _, name := range []string{"x", ".scrx", "a/.scr/x", "a b/..c"} {
		h := hash.New()
		h.At(keyFile, name)
		if files, err := filesOf(h, "/prefix", origin{}.place, 1); err != nil || files[0].Path != filepath.Join("/prefix", name) {
			t.Errorf("%q: %v", name, err)
		}
	}
}

// flushed flushes a dataset of n ranks with one file each and returns the prefix
// directory.
func flushed(t *testing.T, n int, ids ...int) string {
	t.Helper()
	cache, dir := t.TempDir(), t.TempDir()
	_, err := local.Run(n, local.Options{}, func(c mpi.Comm) error {
		p := &Prefix{Comm: c, Dir: dir, Buffer: 100, Log: &report.Logger{}}
		for _, id := range ids {
			name := fmt.Sprintf("ckpt.%d/rank_%d", id, c.Rank())
			src := filepath.Join(cache, name)
			if err := errors.Join(os.MkdirAll(filepath.Dir(src), 0o700), os.WriteFile(src, bytes.Repeat([]byte{byte(id)}, 1000), 0o640)); err != nil {
				return err
			}
			md := meta.New(name, meta.Full, n)
			if err := md.Record(src); err != nil {
				return err
			}
			d := dataset.New(id, fmt.Sprint("ckpt.", id), dataset.Checkpoint, id,
				dataset.Owner{User: "u", JobID: "1"}, time.Unix(1e9, 0))
			d.SetTotals(int64(n), int64(1000*n))
			d.SetComplete(true)
			if err := p.NewFlush(d, n, Parts{c.Rank(): {{Path: src, Meta: md}}}).Run(); err != nil {
				return err
			}
			if err := p.Fetched(d, Choice{}); err != nil {
				return err
			}
		}
		return nil
	})
	must(t, err)
	return dir
}

// What we write has the keys that SCR 3.1 writes, and those that it ignores.
func TestFlush_KeysAreThoseOfSCR(t *testing.T) {
	added := map[string][]string{
		// A file has nothing below its name there, so it is taken for a value.
		"rank2file.0.0": {"*", "SIZE", "CRC", "MODE", "UID", "GID", "MTIME", "ATIME"},
		"index.scr":     {"FETCHED", "OWNS"},
		"summary.scr":   {"OWNS"},
	}
	ours, theirs := flushed(t, 4, 2, 4, 5), written31(t)
	for _, file := range []string{"index.scr", "flush.scr", "scr.dataset.5/summary.scr", "scr.dataset.5/rank2file", "scr.dataset.5/rank2file.0.0"} {
		mine, err := hash.ReadFile(metadataPath(ours, file))
		must(t, err)
		real, err := hash.ReadFile(metadataPath(theirs, file))
		must(t, err)
		got, want := keys(mine, ""), keys(real, "")
		for _, k := range want {
			if !slices.Contains(got, k) {
				t.Errorf("%s: %s is missing", file, k)
			}
		}
		for _, k := range got {
			if !slices.Contains(want, k) && !slices.Contains(added[filepath.Base(file)], filepath.Base(k)) {
				t.Errorf("%s: %s is not in SCR's", file, k)
			}
		}
	}
}

func fetchList(t *testing.T, dir string, n, id int) (map[string]string, error) {
	t.Helper()
	list := map[string]string{}
	var mu sync.Mutex
	_, err := local.Run(n, local.Options{}, func(c mpi.Comm) error {
		p := &Prefix{Comm: c, Dir: dir, Buffer: 100, Log: &report.Logger{}}
		l, err := p.List(id)
		if err != nil {
			return err
		}
		mu.Lock()
		defer mu.Unlock()
		for _, f := range l.Files {
			list[f.Meta.File()] = fmt.Sprintf("%d %d %s", c.Rank(), f.Meta.Size(), l.Name())
		}
		return nil
	})
	return list, err
}

func TestList(t *testing.T) {
	dir := flushed(t, 3, 7)
	list, err := fetchList(t, dir, 3, 7)
	must(t, err)
	if got := fmt.Sprint(list); got != "map[ckpt.7/rank_0:0 1000 ckpt.7 ckpt.7/rank_1:1 1000 ckpt.7 ckpt.7/rank_2:2 1000 ckpt.7]" {
		t.Error(got)
	}
	for n := range 5 { // all of it, with any number of ranks
		if list, err := fetchList(t, dir, n+1, 7); err != nil || len(list) != 3 {
			t.Errorf("with %d ranks: %v, %v", n+1, list, err)
		}
	}
	if _, err := fetchList(t, dir, 3, 8); err == nil {
		t.Error("dataset 8 is listed")
	}
	// An index that cannot be read now says nothing of the checkpoint: no rank may mark that as failed.
	must(t, os.Remove(filepath.Join(dir, ".scr/index.scr")))
	must(t, os.Mkdir(filepath.Join(dir, ".scr/index.scr"), 0o700))
	_, err = local.Run(3, local.Options{}, func(c mpi.Comm) error {
		_, err := (&Prefix{Comm: c, Dir: dir, Buffer: 100, Log: &report.Logger{}}).List(7)
		if !errors.Is(err, ErrIndex) {
			return fmt.Errorf("rank %d: %v is no ErrIndex", c.Rank(), err)
		}
		return nil
	})
	must(t, err)
}

func TestList_WhatSCRWrote(t *testing.T) {
	dir := written31(t)
	before, err := os.ReadFile(filepath.Join(dir, ".scr/index.scr"))
	must(t, err)
	for _, id := range []int{2, 4, 5} {
		list, err := fetchList(t, dir, 4, id)
		must(t, err)
		if len(list) != 4 || list[fmt.Sprintf("ckpt.%d/rank_3.ckpt", id)] != fmt.Sprintf("3 4104 ckpt.%d", id) {
			t.Errorf("dataset %d: %v", id, list)
		}
	}
	if after, _ := os.ReadFile(filepath.Join(dir, ".scr/index.scr")); !bytes.Equal(before, after) {
		t.Error("listing changed the index")
	}
}

// called are the datasets of a name, of any history.
func called(name string) Meant { return Meant{Name: name, Of: dataset.AnyHistory} }

func TestDelete(t *testing.T) {
	dir := flushed(t, 3, 7, 8)
	must(t, os.WriteFile(filepath.Join(dir, "ckpt.8/notes"), nil, 0o600))
	_, err := local.Run(3, local.Options{}, func(c mpi.Comm) error {
		p := &Prefix{Comm: c, Dir: dir, Buffer: 100, Log: &report.Logger{}}
		return errors.Join(p.Delete(called("ckpt.7")), p.Delete(called("ckpt.8")), p.Delete(called("ckpt.9")))
	})
	must(t, err)
	var left []string
	for _, pattern := range []string{"ckpt*/*", ".scr/scr.dataset.*"} {
		found, err := filepath.Glob(filepath.Join(dir, pattern))
		must(t, err)
		left = append(left, found...)
	}
	if got := fmt.Sprint(left); got != fmt.Sprintf("[%s]", filepath.Join(dir, "ckpt.8/notes")) {
		t.Errorf("left: %s", got)
	}
	x, err := ReadIndex(dir)
	must(t, err)
	if len(x.Entries()) != 0 {
		t.Errorf("%v", x.Entries())
	}
	if _, err := os.Stat(filepath.Join(dir, "ckpt.7")); !os.IsNotExist(err) {
		t.Error("the directory is left")
	}
	if _, err := os.Stat(filepath.Join(dir, "ckpt.8/notes")); err != nil {
		t.Error(err)
	}
}

// A description that was changed must not make a flush write over what is
// ours, or over nothing at all.
func TestFlush_RefusesNamesOutside(t *testing.T) {
	for _, name := range []string{"../x", "/x", "", ".scr/index.scr", "a/../.scr/index.scr"} {
		cache, dir := t.TempDir(), t.TempDir()
		src := filepath.Join(cache, "file")
		must(t, os.WriteFile(src, []byte("data"), 0o600))
		md := meta.New(name, meta.Full, 1)
		must(t, md.Record(src))
		_, err := local.Run(1, local.Options{}, func(c mpi.Comm) error {
			p := &Prefix{Comm: c, Dir: dir, Buffer: 100, Log: &report.Logger{}}
			return p.NewFlush(described(1, "a", dataset.Checkpoint), 1, Parts{0: {{Path: src, Meta: md}}}).Run()
		})
		if err == nil {
			t.Errorf("%q was flushed", name)
		}
		x, err := ReadIndex(dir)
		must(t, err)
		if len(order(x)) != 0 {
			t.Errorf("%q: %v", name, x.Entries())
		}
	}
}
