package prefix

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/goscr/goscr/hash"
	"github.com/goscr/goscr/internal/dataset"
	"github.com/goscr/goscr/internal/meta"
	"github.com/goscr/goscr/internal/redundancy"
	"github.com/goscr/goscr/internal/report"
	"github.com/goscr/goscr/mpi"
	"github.com/goscr/goscr/mpi/local"
)

// smallSegments makes trees of several levels out of few ranks.
func smallSegments(t *testing.T, bytes int64) {
	before := segment
	segment = bytes
	t.Cleanup(func() { segment = before })
}

func listing(rank int) *hash.Hash {
	var files []redundancy.File
	for i := range rank % 4 {
		md := meta.New(fmt.Sprintf("ckpt/rank_%d/file.%d", rank, i), meta.Full, 1)
		md.SetSize(int64(rank*10 + i))
		md.SetCRC(uint32(rank))
		files = append(files, redundancy.File{Meta: md})
	}
	return Parts{rank: files}.entries(false).Get(fmt.Sprint(rank))
}

// write writes the tree of a job with as many ranks as c, and read returns the
// caller's entry.
func write(c mpi.Comm, dir string, entry *hash.Hash) error {
	entries := hash.New()
	entries.Set(fmt.Sprint(c.Rank()), entry)
	return writeRank2file(c, dir, c.Size(), entries)
}

func read(c mpi.Comm, dir string) (*hash.Hash, error) {
	ranks, items, err := readRank2file(c, dir)
	if err == nil && (ranks != c.Size() || len(items) != 1 || items[0].rank != c.Rank()) {
		err = fmt.Errorf("rank %d of %d gets %d of %d entries", c.Rank(), c.Size(), len(items), ranks)
	}
	if err != nil {
		return nil, err
	}
	return items[0].entry, nil
}

func TestRank2file_EveryNumberOfRanks(t *testing.T) {
	levels := map[int64]bool{}
	for size, step := range map[int64]int{1 << 20: 9, 1000: 5, 100: 1} {
		smallSegments(t, size)
		for n := 1; n <= 64; n += step {
			dir := t.TempDir()
			_, err := local.Run(n, local.Options{}, func(c mpi.Comm) error {
				if err := write(c, dir, listing(c.Rank())); err != nil {
					return err
				}
				entry, err := read(c, dir)
				if err != nil {
					return err
				}
				if want := listing(c.Rank()); !entry.Equal(want) && entry.Size()+want.Size() > 0 {
					return fmt.Errorf("rank %d has %d files, wrote %d", c.Rank(), entry.Get(keyFile).Size(), c.Rank()%4)
				}
				return nil
			})
			if err != nil {
				t.Fatalf("%d ranks, segments of %d bytes: %v", n, size, err)
			}
			root, err := hash.ReadFile(filepath.Join(dir, rank2file))
			must(t, err)
			level, _ := root.Int(keyLevel)
			levels[level] = true
			if ranks, _ := root.Int(keyRanks); ranks != int64(n) || level < 1 {
				t.Fatalf("%d ranks: root of %d, level %d", n, ranks, level)
			}
		}
	}
	if !levels[1] || !levels[2] || !levels[3] {
		t.Errorf("levels %v", levels)
	}
}

// A job of another size reads and writes the same tree.
func TestRank2file_AnotherNumberOfRanks(t *testing.T) {
	for _, size := range []int64{1 << 20, 300} {
		smallSegments(t, size)
		for _, ranks := range []int{1, 2, 7, 30} {
			want := t.TempDir()
			_, err := local.Run(ranks, local.Options{}, func(c mpi.Comm) error { return write(c, want, listing(c.Rank())) })
			must(t, err)
			for _, n := range []int{1, 3, 7, 29, 40} {
				dir := t.TempDir()
				var mu sync.Mutex
				seen := map[int]bool{}
				_, err := local.Run(n, local.Options{}, func(c mpi.Comm) error {
					entries := hash.New()
					for rank := range ranks {
						if (rank*5+3)%n == c.Rank() { // wherever they are
							entries.Set(fmt.Sprint(rank), listing(rank))
						}
					}
					if err := writeRank2file(c, dir, ranks, entries); err != nil {
						return err
					}
					got, items, err := readRank2file(c, dir)
					if err != nil || got != ranks {
						return fmt.Errorf("%d ranks, %v", got, err)
					}
					mu.Lock()
					defer mu.Unlock()
					for _, it := range items {
						if seen[it.rank] || !it.entry.Equal(listing(it.rank)) && it.rank%4 != 0 {
							return fmt.Errorf("entry of rank %d", it.rank)
						}
						seen[it.rank] = true
					}
					return nil
				})
				if err != nil || len(seen) != ranks {
					t.Fatalf("%d ranks, written and read by %d: %d seen, %v", ranks, n, len(seen), err)
				}
				files, err := os.ReadDir(want)
				must(t, err)
				for _, f := range files {
					a, _ := os.ReadFile(filepath.Join(want, f.Name()))
					b, _ := os.ReadFile(filepath.Join(dir, f.Name()))
					if !bytes.Equal(a, b) {
						t.Errorf("%d ranks, written by %d: %s differs", ranks, n, f.Name())
					}
				}
			}
		}
	}
}

// At the size of a large machine no rank handles more than about a segment.
func TestRank2file_NoRankHandlesMuch(t *testing.T) {
	ranks := 16384
	if testing.Short() || raceDetector {
		ranks = 2048
	}
	smallSegments(t, 64<<10)
	dir := t.TempDir()
	entry := func(rank int) *hash.Hash {
		var files []redundancy.File
		for i := range 3 {
			md := meta.New(fmt.Sprintf("ckpt.0001/rank_%05d.%d", rank, i), meta.Full, 1)
			md.SetSize(1 << 30)
			md.SetCRC(uint32(rank))
			files = append(files, redundancy.File{Meta: md})
		}
		return Parts{rank: files}.entries(false).Get(fmt.Sprint(rank))
	}
	stats, err := local.Run(ranks, local.Options{}, func(c mpi.Comm) error { return write(c, dir, entry(c.Rank())) })
	must(t, err)
	most := func(what string, stats []local.Stats, limit int64) {
		t.Helper()
		for rank, s := range stats {
			if s.Bytes > limit || s.Messages > 1000 {
				t.Fatalf("%s: rank %d of %d sent %d messages, %d bytes", what, rank, ranks, s.Messages, s.Bytes)
			}
		}
	}
	most("write", stats, 32<<10)
	nodes, err := filepath.Glob(filepath.Join(dir, "rank2file*"))
	must(t, err)
	for _, node := range nodes {
		info, err := os.Stat(node)
		must(t, err)
		if info.Size() > 2*segment {
			t.Errorf("%s has %d bytes, a segment %d", node, info.Size(), segment)
		}
	}
	if len(nodes) < ranks/1024 {
		t.Errorf("%d nodes", len(nodes))
	}
	stats, err = local.Run(ranks, local.Options{}, func(c mpi.Comm) error {
		got, err := read(c, dir)
		if err == nil && !got.Equal(entry(c.Rank())) {
			err = fmt.Errorf("rank %d reads something else", c.Rank())
		}
		return err
	})
	must(t, err)
	most("read", stats, 3*segment)
}

// What is wrong in a tree is an error on every rank, and never a crash.
func TestRank2file_Damaged(t *testing.T) {
	smallSegments(t, 200)
	const n = 12
	for name, damage := range map[string]func(h *hash.Hash){
		"another job's size": func(h *hash.Hash) { h.SetInt(keyRanks, n+1) },
		"no size":            func(h *hash.Hash) { h.Unset(keyRanks) },
		"another level":      func(h *hash.Hash) { h.SetInt(keyLevel, 5) },
		"a huge level":       func(h *hash.Hash) { h.SetInt(keyLevel, 1<<40) },
		"a negative level":   func(h *hash.Hash) { h.SetInt(keyLevel, -3) },
		"no level":           func(h *hash.Hash) { h.Unset(keyLevel) },
		"rank beyond":        func(h *hash.Hash) { h.At(keyRank, fmt.Sprint(n)) },
		"negative rank":      func(h *hash.Hash) { h.At(keyRank, "-1") },
		"no rank":            func(h *hash.Hash) { h.At(keyRank, "x") },
		"a name outside": func(h *hash.Hash) {
			for _, e := range h.Get(keyRank).All() {
				e.SetValue(keyFile, "../../x")
			}
		},
		"no name": func(h *hash.Hash) {
			for _, e := range h.Get(keyRank).All() {
				e.Unset(keyFile)
			}
		},
	} {
		for _, which := range []string{"rank2file", "rank2file.0.0"} {
			if which == "rank2file.0.0" && strings.HasSuffix(name, "name outside") || which == "rank2file.0.0" && name == "no name" {
				continue // names in leaves are looked at by filesOf
			}
			dir := t.TempDir()
			_, err := local.Run(n, local.Options{}, func(c mpi.Comm) error { return write(c, dir, listing(c.Rank())) })
			must(t, err)
			h, err := hash.ReadFile(filepath.Join(dir, which))
			must(t, err)
			damage(h)
			must(t, hash.WriteFile(filepath.Join(dir, which), h))
			errs := make([]error, n)
			_, err = local.Run(n, local.Options{Timeout: 20 * time.Second}, func(c mpi.Comm) error {
				_, errs[c.Rank()] = read(c, dir)
				return nil
			})
			if err != nil {
				t.Fatalf("%s in %s: %v", name, which, err)
			}
			for rank, err := range errs {
				if err == nil {
					t.Errorf("%s in %s: no error on rank %d", name, which, rank)
				}
			}
		}
	}
}

func TestFilesOf_RefusesNamesOutside(t *testing.T) {
	for _, name := range []string{"../x", "a/../../x", "/x", "", ".scr", ".scr/index.scr", "a/../.scr/x", "./.scr"} {
		h := hash.New()
		h.At(keyFile, name)
		if files, err := filesOf(h, "/prefix", 1); err == nil {
			t.Errorf("%q: %v", name, files)
		}
	}
	for _, name := range []string{"x", ".scrx", "a/.scr/x", "a b/..c"} {
		h := hash.New()
		h.At(keyFile, name)
		if files, err := filesOf(h, "/prefix", 1); err != nil || files[0].Path != filepath.Join("/prefix", name) {
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
			if err := p.Flush(d, n, Parts{c.Rank(): {{Path: src, Meta: md}}}); err != nil {
				return err
			}
			if err := p.Fetched(d); err != nil {
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
		"index.scr":     {"FETCHED"},
	}
	ours, theirs := flushed(t, 4, 2, 4, 5), sample(t)
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
}

func TestList_WhatSCRWrote(t *testing.T) {
	dir := sample(t)
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

func TestDelete(t *testing.T) {
	dir := flushed(t, 3, 7, 8)
	must(t, os.WriteFile(filepath.Join(dir, "ckpt.8/notes"), nil, 0o600))
	_, err := local.Run(3, local.Options{}, func(c mpi.Comm) error {
		p := &Prefix{Comm: c, Dir: dir, Buffer: 100, Log: &report.Logger{}}
		return errors.Join(p.Delete("ckpt.7"), p.Delete("ckpt.8"), p.Delete("ckpt.9"))
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
			return p.Flush(described(1, "a", dataset.Checkpoint), 1, Parts{0: {{Path: src, Meta: md}}})
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
