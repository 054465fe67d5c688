package prefix

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/goscr/goscr/hash"
	"github.com/goscr/goscr/internal/prefix/dataset"
	"github.com/goscr/goscr/mpi"
)

// interrupted begins the flush of a dataset, and leaves it: rank 0 has copied all its files,
// and its list says so; the others have begun with their first.
func (s *site) interrupted(step, ranks int, of code) {
	s.t.Helper()
	must(s.t, s.run(ranks, func(p *Prefix) error {
		rank, d := p.Comm.Rank(), s.described(step, ranks, of)
		files, err := s.cached(step, rank, ranks, of)
		if err := mpi.Agree(p.Comm, err); err != nil {
			return err
		}
		f := p.NewFlush(d, ranks, Parts{rank: files})
		if _, err := f.Start(); err != nil {
			return err
		}
		if rank > 0 {
			begun := Aside(filepath.Join(s.dir, files[0].Meta.File()), step, ByFlush)
			return errors.Join(os.MkdirAll(filepath.Dir(begun), 0o700), os.WriteFile(begun, []byte("a part"), 0o600))
		}
		copied, err := f.copy(p.Copier(), files)
		if err != nil {
			return err
		}
		part := &Part{Rank: rank, Ranks: ranks, Dataset: d, Files: copied}
		return part.Enter(s.dir)
	}))
}

// What an interrupted flush has left goes when it cannot be continued any more, and only
// then.
func TestLitter(t *testing.T) {
	const parts, whole = 2, 2 // of ranks 1 and 2; of rank 0
	ours := func(cached ...int) func(s *site) error {
		return func(s *site) error {
			return s.run(2, func(p *Prefix) error {
				missing, err := completeFlushes(p)
				if err == nil && len(missing) != 1 {
					err = fmt.Errorf("missing %v", missing)
				}
				if err != nil {
					return err
				}
				return removeLitterOnRoot(p, "", func(d dataset.Dataset) bool { return len(cached) > 0 && d.ID() == cached[0] })
			})
		}
	}
	for name, test := range map[string]struct {
		do   func(s *site) error
		left int
	}{
		"in the cache": {ours(7), parts + whole},
		"lost":         {ours(), whole},
		"being copied": {func(s *site) error {
			return s.run(2, func(p *Prefix) error { return removeLitterOnRoot(p, "", func(dataset.Dataset) bool { return false }) })
		}, parts + whole},
		"of another job": {func(s *site) error {
			return errors.Join(ours(7)(s), s.run(2, func(p *Prefix) error {
				return removeLitterOnRoot(p, "other", func(dataset.Dataset) bool { return false })
			}))
		}, parts + whole},
		"deleted": {func(s *site) error {
			return s.run(2, func(p *Prefix) error { return p.Delete(called("ckpt.7")) })
		}, 0},
		"lost and deleted": {func(s *site) error {
			return errors.Join(ours()(s), s.run(2, func(p *Prefix) error { return p.Delete(called("ckpt.7")) }))
		}, 0},
		"purged": {func(s *site) error { return s.run(2, func(p *Prefix) error { return p.Purge() }) }, 0},
		"its number is used again": {func(s *site) error {
			s.name = func(int) string { return "another" }
			return s.flush(7, 2, some)
		}, 0},
		"flushed again": {func(s *site) error { return s.flush(7, 3, same) }, 0},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSite(t)
			empty := filepath.Join(s.dir, "sub/of the user")
			must(t, os.MkdirAll(empty, 0o700))
			s.interrupted(7, 3, same)
			if got := s.asides(); len(got) != parts+whole {
				t.Fatalf("%q", got)
			}
			must(t, test.do(s))
			if got := s.asides(); len(got) != test.left {
				t.Errorf("left are %q, want %d", got, test.left)
			}
			if _, err := os.Stat(empty); err != nil {
				t.Error(err)
			}
			if _, err := os.Stat(filepath.Join(Dir(s.dir, 7), copyingFile)); test.left == 0 && err == nil {
				t.Error("the directories are still listed")
			}
		})
	}
}

// A dataset that was never complete, because the job was killed before its files got their
// names: deleting it does not delete files of the user at these paths.
func TestDelete_FilesOfTheUser(t *testing.T) {
	forAll(t, func(t *testing.T, s *site) {
		s.killAt(1) // before the second file gets its name
		if err := s.flush(1, 1, same); err == nil {
			t.Fatal("not killed")
		}
		s.watch = nil
		names := same(1, 0)
		placed, own := filepath.Join(s.dir, names[0]), filepath.Join(s.dir, names[1])
		if _, err := os.Stat(placed); err != nil {
			t.Fatal(err)
		}
		mine := []byte(strings.Repeat("mine ", 300)) // as many bytes as the dataset's
		must(t, errors.Join(os.WriteFile(own, mine, 0o600), os.Chtimes(own, time.Now(), s.stamp(1))))
		must(t, s.run(2, func(p *Prefix) error { return p.Delete(called("ckpt.1")) }))
		if got, err := os.ReadFile(own); err != nil || string(got) != string(mine) {
			t.Errorf("%.20q, %v", got, err)
		}
		if _, err := os.Stat(placed); !os.IsNotExist(err) {
			t.Errorf("a file of the dataset is left: %v", err)
		}
		if left := s.asides(); len(left) > 0 {
			t.Errorf("left: %q", left)
		}
		must(t, s.flush(2, 1, func(int, int) []string { return []string{"else"} }))
		must(t, s.run(1, func(p *Prefix) error { return p.Purge() }))
		if got, err := os.ReadFile(own); err != nil || string(got) != string(mine) {
			t.Errorf("%.20q, %v", got, err)
		}
	})
}

// A flush of another job, which may continue now, is not completed, and not given up.
func TestCompleteFlushes_OfAnotherJob(t *testing.T) {
	s := newSite(t)
	s.interrupted(7, 3, same)
	must(t, s.run(2, func(p *Prefix) error {
		p.Ours = func(dataset.Dataset) bool { return false }
		missing, err := completeFlushes(p)
		if err == nil && len(missing) > 0 {
			err = fmt.Errorf("missing %v", missing)
		}
		return err
	}))
	if under, err := UnderWay(s.dir, s.described(7, 3, same)); err != nil || !under {
		t.Errorf("it is not under way any more: %v", err)
	}
}

// completeFlushes completes the flushes that were interrupted, as SCR_Init does.
func completeFlushes(p *Prefix) ([]dataset.Dataset, error) {
	var interrupted *hash.Hash
	err := mpi.OnRoot(p.Comm, func() (err error) {
		interrupted, err = p.Interrupted()
		return err
	})
	if err != nil {
		return nil, err
	}
	return p.CompleteFlushes(interrupted)
}

// removeLitterOnRoot removes the litter, and returns when it is gone.
func removeLitterOnRoot(p *Prefix, jobID string, cached func(d dataset.Dataset) bool) error {
	return mpi.OnRoot(p.Comm, func() error {
		p.RemoveLitter(jobID, cached)
		return nil
	})
}
