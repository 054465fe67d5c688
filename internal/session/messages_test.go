package session

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/goscr/goscr/internal/node/scavenge"
	"github.com/goscr/goscr/internal/sys/lock"
)

// A dataset for which no rank has called Route is complete, as with SCR 3.1, and can be
// restarted from; but every run says that there is nothing in it.
func TestCompleteOutput_NoFiles(t *testing.T) {
	t.Parallel()
	for _, bypass := range []string{"0", "1"} {
		t.Run("bypass="+bypass, func(t *testing.T) {
			c := newCluster(t, "SCR_CACHE_BYPASS="+bypass)
			c.job(four, func(s *Session, rank int) error {
				if err := errors.Join(s.StartOutput(name(1), Checkpoint), s.CompleteOutput(true)); err != nil {
					return err
				}
				return errors.Join(checkpoint(s, rank, 2), s.StartOutput(name(3), Checkpoint), s.CompleteOutput(true))
			})
			for _, step := range []int{1, 3} {
				c.says(fmt.Sprintf("dataset %d (%s) has no files: no rank has called SCR_Route_file for a file of it", step, name(step)))
			}
			if strings.Contains(c.said(), "dataset 2 (ckpt.2) has no files") {
				t.Error(c.said())
			}
			c.job(four, func(s *Session, _ int) error {
				got, err := offered(s)
				if err == nil && got != name(3) {
					err = fmt.Errorf("offered %q", got)
				}
				return err
			})
			if bypass == "0" {
				c.says("checkpoint ckpt.3, which is offered to restart from, has no files")
			}
		})
	}
}

// The error of Finalize says how much room is missing, and what the user can do is enough.
func TestFull_FinalizeSaysWhatToDo(t *testing.T) {
	t.Parallel()
	c := mounted(t, "prefix", "SCR_FLUSH=1")
	if c == nil {
		return
	}
	c.job(four, func(s *Session, rank int) error { return nil }) // makes .scr
	empty := c.fill(c.prefix(""), 8<<10)
	var each everyRank
	c.job(four, func(s *Session, rank int) error {
		if err := checkpoint(s, rank, 1); err != nil {
			return err
		}
		each.is(rank, s.Finalize())
		return nil
	})
	c.says("stays in the cache; remove files there, or let SCR_PREFIX_SIZE keep fewer checkpoints")
	for _, want := range []string{"no space left on device", ": the dataset takes ", c.prefix("") + " has ", " free", "make room in the prefix directory",
		"scr_copy --id 1 on each of them and scr_index --build 1"} {
		each.failed(t, 4, want)
	}
	empty()
	warn := func(err error) { t.Log(err) }
	for _, node := range four {
		control := filepath.Join(c.node(node), "cntl/user/scr.job")
		if _, err := (&scavenge.Copy{Control: control, Prefix: c.prefix(""), ID: 1, Buffer: 4096, Warn: warn}).Run(); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := scavenge.Build(c.prefix(""), 1, warn, nil); err != nil {
		t.Fatal(err)
	}
	c.lose(four...)
	c.job(four, restarts(1))
}

// An error about storage names the parameter that says where it is, and its source.
func TestInit_StorageThatCannotBeMade(t *testing.T) {
	t.Parallel()
	for parameter, dir := range map[string]string{"SCR_CACHE_BASE": "cache", "SCR_CNTL_BASE": "cntl"} {
		c := newCluster(t)
		if err := errors.Join(os.MkdirAll(c.node("a"), 0o700), os.WriteFile(filepath.Join(c.node("a"), dir), nil, 0o600)); err != nil {
			t.Fatal(err)
		}
		err := c.try(four, func(*Session, int) error { return nil })
		want := fmt.Sprintf("choose another directory with %s, which is %s (environment)", parameter, filepath.Join(c.node("a"), dir))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", parameter, err)
		}
	}
	c := newCluster(t)
	store := filepath.Join(c.root, "file")
	c.configure("STORE="+store+" COUNT=2", "CKPT=0 STORE="+store)
	if err := os.WriteFile(store, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := c.try(four, func(*Session, int) error { return nil }); err == nil || !strings.Contains(err.Error(), "choose another directory with STORE="+store) {
		t.Errorf("%v", err)
	}
}

// A name of storage that is mistyped above its last element makes directories that nobody
// meant; it is said. The user's own directory, which a fresh node has not, is normal.
func TestInit_DirectoriesAboveTheCacheAreMade(t *testing.T) {
	t.Parallel()
	for base, made := range map[string]string{"cache": "", "new/cache": "new", "a/b/c": "a", "user/cache": "", "user/a/cache": "user/a", "a/user/cache": "a"} {
		c := newCluster(t)
		c.base = base
		for _, node := range four {
			if err := os.MkdirAll(c.node(node), 0o700); err != nil {
				t.Fatal(err)
			}
		}
		for run := range 2 {
			c.job(four, func(*Session, int) error { return nil })
			said := strings.Contains(c.said(), "is made for")
			if said != (made != "" && run == 0) {
				t.Errorf("%s, run %d:\n%s", base, run, c.said())
			}
			if said {
				c.says(fmt.Sprintf("%s was not there, and is made for SCR_CACHE_BASE, which is %s (environment)", filepath.Join(c.node("a"), made), filepath.Join(c.node("a"), base)))
			}
		}
	}
}

func TestFlags_String(t *testing.T) {
	t.Parallel()
	for flags, want := range map[Flags]string{None: "NONE", Checkpoint: "CHECKPOINT", Output | Checkpoint: "CHECKPOINT|OUTPUT", 0x63: "CHECKPOINT|OUTPUT|0x60", 64: "0x40"} {
		if got := flags.String(); got != want {
			t.Errorf("%#x: %q, want %q", int(flags), got, want)
		}
	}
	c := newCluster(t)
	c.job(four, func(s *Session, _ int) error {
		if err := s.StartOutput("x", 0x63); err == nil || !strings.Contains(err.Error(), "flags CHECKPOINT|OUTPUT|0x60: 0x60 is no flag") {
			return fmt.Errorf("error %w", err)
		}
		return nil
	})
}

// A wait of one session in the process writes lines while another one begins, to which the process has given them.
func TestMessages_OfAWaitDuringInit(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "SCR_WAIT_SECONDS=60")
	held := filepath.Join(t.TempDir(), "lock")
	l, err := lock.Try(held, lock.Exclusive)
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for range 200 {
			w := lock.Waiting{Path: held, To: "release it", Limit: time.Millisecond}
			for w.Pause() == nil {
				continue
			}
		}
	}()
	c.job(four, func(*Session, int) error { return nil })
	<-done
	l.Release()
}
