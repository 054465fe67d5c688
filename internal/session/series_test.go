package session

import (
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/goscr/goscr/mpi"
	"github.com/goscr/goscr/mpi/local"
	"github.com/goscr/goscr/test/sample"
)

// saveVersion writes a version of a series. Its files are those of a step.
func saveVersion(s *Session, rank int, series string, version, step int) error {
	return errors.Join(Series{s, series}.Start(version), write(s, named(series, contents(step, rank))), s.CompleteOutput(true))
}

// named gives each file the name of a series, since two series are written beside each other.
func named(series string, files []file) []file {
	for i := range files {
		files[i].name = filepath.Join(series, files[i].name)
	}
	return files
}

// restoreVersion reads the newest version of a series, which must have this number and the files of this step.
func restoreVersion(s *Session, rank int, series string, version, step int) error {
	got, ok, err := Series{s, series}.Find(0)
	if err != nil || !ok || got != version {
		return fmt.Errorf("series %s: version %d, %v, %w", series, got, ok, err)
	}
	if err := (Series{s, series}).StartRestart(version); err != nil {
		return err
	}
	for _, f := range named(series, contents(step, rank)) {
		path, err := s.Route(filepath.Join(s.prefix.Dir, f.name))
		if err == nil {
			err = same(path, f)
		}
		if err != nil {
			return err
		}
	}
	return s.CompleteRestart(true)
}

// Each series keeps its newest in a cache of one dataset, though another series writes more often, and after the
// loss of a node each is rebuilt and offered, in whatever order the program asks.
func TestSeries_KeepTheirOwn(t *testing.T) {
	t.Parallel()
	for _, set := range [][]string{{"SCR_FLUSH=0"}, {"SCR_FLUSH=0", "SCR_ENCODE_ASYNC=1"}, {"SCR_FLUSH=1", "SCR_FLUSH_ASYNC=1"}} {
		c := newCluster(t, append(set, "SCR_CACHE_SIZE=1")...)
		c.job(four, func(s *Session, rank int) error {
			if _, ok, err := (Series{s, "slow"}).Find(0); ok || err != nil {
				return fmt.Errorf("found %v, %w", ok, err)
			}
			err := saveVersion(s, rank, "slow", 100, 1)
			for step := 2; step <= 5; step++ {
				err = errors.Join(err, saveVersion(s, rank, "fast", step*10, step))
			}
			if n := len(s.cache.List()); n != 2 {
				err = errors.Join(err, fmt.Errorf("%d datasets in the cache", n))
			}
			return err
		})
		c.lose(four[1])
		c.job(four, func(s *Session, rank int) error {
			return errors.Join(restoreVersion(s, rank, "slow", 100, 1), restoreVersion(s, rank, "fast", 50, 5),
				restoreVersion(s, rank, "slow", 100, 1), // again
				saveVersion(s, rank, "fast", 60, 6), restoreVersion(s, rank, "slow", 100, 1), restoreVersion(s, rank, "fast", 60, 6),
				saveVersion(s, rank, "slow", 200, 7))
		})
		c.job(four, func(s *Session, rank int) error {
			return errors.Join(restoreVersion(s, rank, "fast", 60, 6), restoreVersion(s, rank, "slow", 200, 7))
		})
	}
}

// If all caches are lost, each series is fetched, the newest version that is asked for; SCR_FLUSH and SCR_PREFIX_SIZE count for each.
func TestSeries_Fetch(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "SCR_CACHE_SIZE=1", "SCR_FLUSH=2", "SCR_PREFIX_SIZE=2")
	c.job(four, func(s *Session, rank int) (err error) {
		for i := 1; i <= 7; i++ { // of these 2, 4 and 6 are flushed
			err = errors.Join(err, saveVersion(s, rank, "a", i, i), saveVersion(s, rank, "b", 10*i, i))
		}
		return err
	})
	c.lose(four...)
	c.job(four, func(s *Session, rank int) error {
		if v, ok, err := (Series{s, "a"}).Find(6); v != 6 || !ok || err != nil {
			return fmt.Errorf("found %d, %v, %w", v, ok, err)
		}
		if v, ok, err := (Series{s, "a"}).Find(3); ok || err != nil {
			return fmt.Errorf("found %d, which should have been deleted, %w", v, err)
		}
		err := Series{s, "b"}.StartRestart(50)
		if err == nil || rank == 0 && !strings.Contains(err.Error(), "these are there: 40 60") {
			return fmt.Errorf("version 50: %w", err)
		}
		return errors.Join(restoreVersion(s, rank, "b", 60, 6), restoreVersion(s, rank, "a", 6, 6))
	})
}

// A version from which the program cannot restart is not offered again, and the one before is.
func TestSeries_Refused(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "SCR_CACHE_SIZE=2", "SCR_FLUSH=0")
	c.job(four, func(s *Session, rank int) error {
		return errors.Join(saveVersion(s, rank, "a", 1, 1), saveVersion(s, rank, "b", 1, 2), saveVersion(s, rank, "a", 2, 3))
	})
	c.job(four, func(s *Session, rank int) error {
		if err := (Series{s, "a"}).StartRestart(2); err != nil {
			return err
		}
		if s.CompleteRestart(rank != 2) == nil {
			return errors.New("a restart that has failed")
		}
		return errors.Join(restoreVersion(s, rank, "a", 1, 1), restoreVersion(s, rank, "b", 1, 2))
	})
}

// The files of a program are not mixed up with a series, in the cache and in the prefix directory: HaveRestart offers none of a series.
func TestSeries_BesideFiles(t *testing.T) {
	t.Parallel()
	for _, lost := range [][]string{four[2:3], four} {
		c := newCluster(t, "SCR_CACHE_SIZE=1", "SCR_FLUSH=1")
		c.job(four, func(s *Session, rank int) error {
			return errors.Join(checkpoint(s, rank, 1), saveVersion(s, rank, "a", 1, 3), checkpoint(s, rank, 2), saveVersion(s, rank, "a", 2, 4))
		})
		c.lose(lost...)
		c.job(four, func(s *Session, rank int) error {
			return errors.Join(restartAt(s, rank, 2), restoreVersion(s, rank, "a", 2, 4), restartAt(s, rank, 2), checkpoint(s, rank, 5), saveVersion(s, rank, "a", 3, 6))
		})
		c.lose(lost...)
		c.job(four, func(s *Session, rank int) error {
			return errors.Join(restoreVersion(s, rank, "a", 3, 6), restartAt(s, rank, 5), restoreVersion(s, rank, "a", 3, 6))
		})
	}
	c := newCluster(t)
	c.job(four, func(s *Session, rank int) error { return saveVersion(s, rank, "a", 1, 1) })
	c.job(four, func(s *Session, rank int) error {
		if name, err := offered(s); name != "" || err != nil {
			return fmt.Errorf("offered %q, %w", name, err)
		}
		return restoreVersion(s, rank, "a", 1, 1)
	})
}

// A version that the user has chosen is found first, until the run has begun a dataset.
func TestSeries_Chosen(t *testing.T) {
	t.Parallel()
	for _, lost := range [][]string{nil, four} {
		c := newCluster(t, "SCR_CACHE_SIZE=3", "SCR_FLUSH=1")
		c.job(four, func(s *Session, rank int) error {
			return errors.Join(saveVersion(s, rank, "a", 1, 1), saveVersion(s, rank, "a", 2, 2), saveVersion(s, rank, "a", 3, 3), saveVersion(s, rank, "b", 1, 4))
		})
		c.lose(lost...)
		c.set("SCR_CURRENT=a-2")
		c.job(four, func(s *Session, rank int) error {
			return errors.Join(restoreVersion(s, rank, "a", 2, 2), restoreVersion(s, rank, "b", 1, 4), saveVersion(s, rank, "a", 4, 5), restoreVersion(s, rank, "a", 4, 5))
		})
	}
}

// Wait flushes the newest version if it should be in the prefix directory and an earlier run did not begin to flush it; if it cannot, it
// returns an error, and tries again when it is called again.
func TestWait_LeftByAnEarlierRun(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "SCR_FLUSH=0")
	c.job(four, func(s *Session, rank int) error {
		return errors.Join(saveVersion(s, rank, "a", 1, 1), saveVersion(s, rank, "b", 2, 2), Wait(s))
	})
	if got := len(c.index()); got > 0 {
		t.Fatalf("with SCR_FLUSH=0 the index has %d entries", got)
	}
	c.set("SCR_FLUSH=1")
	c.job(four, func(s *Session, rank int) error {
		var unblock func()
		if rank == 0 {
			unblock = c.block("b")
		}
		if err := s.Agree(nil); err != nil {
			return err
		}
		if err := Wait(s); err == nil || !strings.Contains(err.Error(), "dataset b-2 could not be flushed") {
			return fmt.Errorf("Wait while the flush fails: %w", err)
		}
		if rank == 0 {
			unblock()
		}
		if err := errors.Join(s.Agree(nil), Wait(s)); err != nil {
			return err
		}
		if list, err := (Series{s, "b"}).Usable(c.prefix("")); err != nil || len(list) != 1 {
			return fmt.Errorf("%d versions are in the prefix directory after Wait, %w", len(list), err)
		}
		return nil
	})
}

// Calls in the wrong place, with other arguments on some rank, or with wrong ones.
func TestSeries_Misuse(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	c.job(four, func(s *Session, rank int) error {
		var argument *ArgumentError
		if err := (Series{s, ""}).Start(1); !errors.As(err, &argument) {
			return fmt.Errorf("no name: %w", err)
		}
		if err := (Series{s, "a"}).Start(-1); !errors.As(err, &argument) {
			return fmt.Errorf("a negative version: %w", err)
		}
		if err := (Series{s, fmt.Sprint(rank % 2)}).Start(1); err == nil {
			return errors.New("other names on other ranks")
		}
		if _, _, err := (Series{s, "a"}).Find(rank); err == nil {
			return errors.New("other versions on other ranks")
		}
		if err := (Series{s, "a"}).Start(1); err != nil {
			return err
		}
		var state *StateError
		if _, _, err := (Series{s, "a"}).Find(0); !errors.As(err, &state) {
			return fmt.Errorf("Find in a dataset: %w", err)
		}
		if err := Wait(s); !errors.As(err, &state) {
			return fmt.Errorf("Wait in a dataset: %w", err)
		}
		return errors.Join(write(s, contents(1, rank)), s.CompleteOutput(true), Wait(s))
	})
}

// A kill at any message, and the loss of a node after it, loses no version of any series that was complete, and none of the other series.
func TestKilled_Series(t *testing.T) {
	most := int64(24)
	if sample.Now() == sample.Campaign {
		most = 1 << 30
	}
	for _, set := range [][]string{{"SCR_FLUSH=0"}, {"SCR_FLUSH=1", "SCR_FLUSH_ASYNC=1", "SCR_PREFIX_SIZE=1"}} {
		t.Run(strings.Join(set, " "), func(t *testing.T) {
			t.Parallel()
			c := newCluster(t, set...)
			c.inMode(waiting)
			c.job(four, func(s *Session, rank int) error {
				return errors.Join(saveVersion(s, rank, "a", 1, 1), saveVersion(s, rank, "b", 10, 2))
			})
			var mu sync.Mutex
			begun := int64(-1)       // the message at which the run is killed that has begun to write
			var least map[string]int // the newest version that a rank has completed in that run
			first := map[string]int{"a": 1, "b": 10}
			killsOf(t, c, most, four, func(s *Session, rank int) error {
				mu.Lock()
				if begun != c.opt.KillAt {
					begun, least = c.opt.KillAt, maps.Clone(first)
				}
				mu.Unlock()
				err := errors.Join(restoreVersion(s, rank, "b", 10, 2), restoreVersion(s, rank, "a", 1, 1))
				for _, x := range []struct {
					series        string
					version, step int
				}{{"a", 2, 3}, {"b", 20, 4}, {"a", 3, 5}} {
					if err == nil {
						err = saveVersion(s, rank, x.series, x.version, x.step)
					}
					if err == nil {
						mu.Lock()
						least[x.series] = max(least[x.series], x.version)
						mu.Unlock()
					}
				}
				return err
			}, func(at int64) {
				want := first
				if begun == at {
					want = least
				}
				c.lose(four[at%4])
				steps := map[string]map[int]int{"a": {1: 1, 2: 3, 3: 5}, "b": {10: 2, 20: 4}}
				c.job(four, func(s *Session, rank int) error {
					for _, series := range []string{"b", "a"} {
						v, ok, err := Series{s, series}.Find(0)
						if err != nil || !ok || v < want[series] {
							return fmt.Errorf("killed at message %d: series %s: version %d, %v, %w; %d was complete", at, series, v, ok, err, want[series])
						}
						if err := restoreVersion(s, rank, series, v, steps[series][v]); err != nil {
							return fmt.Errorf("killed at message %d: %w", at, err)
						}
					}
					return errors.Join(saveVersion(s, rank, "a", 4, 6), restoreVersion(s, rank, "a", 4, 6))
				})
			})
		})
	}
}

// Without a cache, the program writes versions to the prefix directory, and reads them there.
func TestSeries_Bypass(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "SCR_CACHE_BYPASS=1", "SCR_PREFIX_SIZE=1")
	c.job(four, func(s *Session, rank int) error {
		return errors.Join(saveVersion(s, rank, "a", 1, 1), saveVersion(s, rank, "b", 1, 2), checkpoint(s, rank, 3), saveVersion(s, rank, "a", 2, 4))
	})
	c.job(four, func(s *Session, rank int) error {
		return errors.Join(restoreVersion(s, rank, "b", 1, 2), restoreVersion(s, rank, "a", 2, 4), restartAt(s, rank, 3))
	})
}

// To find a version of another computation in a run does not change that of the run.
func TestSeries_FindInRunKeepsTheHistory(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "SCR_CACHE_SIZE=2", "SCR_FLUSH=1")
	c.job(four, func(s *Session, rank int) error { return saveVersion(s, rank, "old", 1, 1) })
	c.job(four, func(s *Session, rank int) error {
		if err := saveVersion(s, rank, "new", 1, 2); err != nil { // without having asked: from the beginning
			return err
		}
		history := s.numbers.history
		if err := errors.Join(restoreVersion(s, rank, "old", 1, 1), saveVersion(s, rank, "new", 2, 3)); err != nil {
			return err
		}
		if s.numbers.history != history || s.cache.List()[0].History() != history {
			return fmt.Errorf("history %d is %d now", history, s.numbers.history)
		}
		return nil
	})
}

// An error that a rank meets while it makes its settings is an error of Init on all ranks.
func TestSettings_ErrOfTheCaller(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	var all everyRank
	_, err := local.Run(4, local.Options{}, func(world mpi.Comm) error {
		opt := c.options(four[world.Rank()])
		opt.Settings = &Settings{}
		if world.Rank() == 2 {
			opt.Settings.Err = errors.New("no configuration")
		}
		_, err := Init(world, opt)
		all.is(world.Rank(), err)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	all.failed(t, 4, "no configuration")
}
