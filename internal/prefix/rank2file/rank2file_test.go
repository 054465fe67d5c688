package rank2file

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/goscr/goscr/hash"
	"github.com/goscr/goscr/mpi"
	"github.com/goscr/goscr/mpi/local"
	"github.com/goscr/goscr/test/sample"
)

// smallSegments makes trees of several levels out of few ranks.
func smallSegments(t *testing.T, bytes int) {
	before := segment
	segment = bytes
	t.Cleanup(func() { segment = before })
}

// entryOf makes the entry of a rank with so many files.
func entryOf(rank, files int, name string) *hash.Hash {
	entry := hash.New()
	for i := range files {
		f := entry.At(keyFile, fmt.Sprintf(name, rank, i))
		f.SetInt("SIZE", int64(rank*10+i))
		f.SetValue("CRC", fmt.Sprintf("0x%08x", rank))
	}
	return entry
}

func listing(rank int) *hash.Hash { return entryOf(rank, rank%4, "ckpt/rank_%d/file.%d") }

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// write writes the tree of a job with as many ranks as c, and read returns the
// caller's entry.
func write(c mpi.Comm, dir string, entry *hash.Hash) error {
	return Write(c, dir, c.Size(), []Item{{c.Rank(), entry}})
}

func readAll(c mpi.Comm, dir string) (ranks int, items []Item, err error) {
	ranks, err = Read(c, dir, func(n int, more []Item) error { items = append(items, more...); return nil })
	return ranks, items, err
}

func read(c mpi.Comm, dir string) (*hash.Hash, error) {
	ranks, items, err := readAll(c, dir)
	if err == nil && (ranks != c.Size() || len(items) != 1 || items[0].Rank != c.Rank()) {
		err = fmt.Errorf("rank %d of %d gets %d of %d entries", c.Rank(), c.Size(), len(items), ranks)
	}
	if err != nil {
		return nil, err
	}
	return items[0].Entry, nil
}

func TestEveryNumberOfRanks(t *testing.T) {
	levels := map[int64]bool{}
	for size, step := range map[int]int{1 << 20: 9, 1000: 5, 100: 1} {
		smallSegments(t, size)
		ranks := []int{64} // which has the most levels
		for n := 1; n < 64; n += step {
			ranks = append(ranks, n)
		}
		for _, n := range append(ranks[:1:1], sample.Of(t, ranks[1:], 3, 12)...) {
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
			top, err := hash.ReadFile(filepath.Join(dir, root))
			must(t, err)
			level, _ := top.Int(keyLevel)
			levels[level] = true
			if ranks, _ := top.Int(keyRanks); ranks != int64(n) || level < 1 {
				t.Fatalf("%d ranks: root of %d, level %d", n, ranks, level)
			}
		}
	}
	if len(levels) < 2 || sample.Now() >= sample.All && (!levels[1] || !levels[2] || !levels[3]) {
		t.Errorf("levels %v", levels)
	}
}

// A job of another size reads and writes the same tree.
func TestAnotherNumberOfRanks(t *testing.T) {
	for _, size := range []int{1 << 20, 300} {
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
					var entries []Item
					for rank := range ranks {
						if (rank*5+3)%n == c.Rank() { // wherever they are
							entries = append(entries, Item{rank, listing(rank)})
						}
					}
					if err := Write(c, dir, ranks, entries); err != nil {
						return err
					}
					got, items, err := readAll(c, dir)
					if err != nil || got != ranks {
						return fmt.Errorf("%d ranks, %v", got, err)
					}
					mu.Lock()
					defer mu.Unlock()
					for _, it := range items {
						if seen[it.Rank] || !it.Entry.Equal(listing(it.Rank)) && it.Rank%4 != 0 {
							return fmt.Errorf("entry of rank %d", it.Rank)
						}
						seen[it.Rank] = true
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
func TestNoRankHandlesMuch(t *testing.T) {
	ranks := 16384
	if sample.Now() < sample.All {
		ranks = 2048
	}
	smallSegments(t, 64<<10)
	dir := t.TempDir()
	entry := func(rank int) *hash.Hash { return entryOf(rank, 3, "ckpt.0001/rank_%05d.%d") }
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
		if info.Size() > 2*int64(segment) {
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
	most("read", stats, 3*int64(segment))
}

// What is wrong in a tree is an error on every rank, and never a crash.
func TestDamaged(t *testing.T) {
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
			if _, _, err := readAll(local.One(), dir); err == nil {
				t.Errorf("%s in %s: no error in a single process", name, which)
			}
			errs := make([]error, n)
			_, err = local.Run(n, local.Options{}, func(c mpi.Comm) error {
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
