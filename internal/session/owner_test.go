package session

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Two programs of one allocation, one after the other, have the same job id and so the same cache. What the first
// has not flushed stays, however many datasets the second writes; what it has flushed leaves for them.
func TestOtherProgram_KeepsItsOwn(t *testing.T) {
	t.Parallel()
	for _, env := range []string{"SCR_FLUSH=0", "SCR_FLUSH=2"} {
		t.Run(env, func(t *testing.T) {
			c := newCluster(t, env)
			first, second := c.prefix(""), filepath.Join(c.root, "second")
			c.job(four, steps(1, 2, 3))
			c.set("SCR_PREFIX=" + second)
			c.job(four, func(s *Session, rank int) error {
				if got, err := offered(s); err != nil || got != "" {
					return fmt.Errorf("offered %q (%w)", got, err)
				}
				for step := 11; step <= 14; step++ {
					if err := writeBelow(s, second, rank, step); err != nil {
						return err
					}
				}
				return nil
			})
			c.says("belongs to a program with prefix directory " + filepath.Clean(first))
			c.says(map[string]string{"SCR_FLUSH=0": "stays in the cache until that directory has it", "SCR_FLUSH=2": "which has it, or a newer checkpoint: it leaves"}[env])
			want := "2 3 6 7"
			if env == "SCR_FLUSH=2" {
				want = "3 6 7" // 2 is in the first directory
			}
			if got := c.in("a", "cache"); got != want {
				t.Errorf("in the cache: %q, want %q", got, want)
			}
			c.set("SCR_PREFIX=" + first)
			c.job(four, restarts(3))
			c.job([]string{"a", "b", "e", "d"}, restarts(3))
		})
	}
}

// writeBelow writes a checkpoint with one file, to another prefix directory.
func writeBelow(s *Session, prefix string, rank, step int) error {
	if err := s.StartOutput(name(step), Checkpoint); err != nil {
		return err
	}
	path, err := s.Route(fmt.Sprintf("%s/%s/%d", prefix, name(step), rank))
	if err == nil {
		err = os.WriteFile(path, []byte(strings.Repeat(name(step), 100)), 0o600)
	}
	return errors.Join(err, s.CompleteOutput(true))
}

// A dataset of the first program is not replaced by one of the same number that the second one fetches.
func TestOtherProgram_SameNumber(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "SCR_FLUSH=1")
	second := filepath.Join(c.root, "second")
	c.set("SCR_PREFIX=" + second)
	c.job(four, func(s *Session, rank int) error { return writeBelow(s, second, rank, 1) })
	c.lose(four...)
	c.set("SCR_PREFIX="+c.prefix(""), "SCR_FLUSH=0")
	c.job(four, steps(1))
	c.set("SCR_PREFIX=" + second)
	err := c.try(four, func(s *Session, rank int) error {
		_, err := offered(s)
		return err
	})
	if text := "the cache has a dataset 1, too, which is ckpt.1 of another program"; err == nil || !strings.Contains(err.Error(), text) {
		t.Errorf("%v\n%s", err, c.said())
	}
	c.set("SCR_PREFIX=" + c.prefix(""))
	c.job(four, restarts(1))
}

// A prefix directory that has another name now is the same one.
func TestOtherProgram_SameDirectory(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	c.job(four, steps(1, 2))
	moved := filepath.Join(c.root, "moved")
	if err := errors.Join(os.Rename(c.prefix(""), moved), os.Symlink(moved, filepath.Clean(c.prefix("")))); err != nil {
		t.Fatal(err)
	}
	c.set("SCR_PREFIX=" + moved)
	c.job(four, func(s *Session, rank int) error {
		if got, err := offered(s); err != nil || got != name(2) {
			return fmt.Errorf("offered %q (%w)", got, err)
		}
		return nil
	})
}

// What no program needs any more leaves: a newer checkpoint is flushed, or the prefix directory is gone. So the cache does
// not fill with what one program after the other leaves.
func TestOtherProgram_Leaves(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "SCR_FLUSH=10")
	for program := range 4 {
		dir := filepath.Join(c.root, fmt.Sprint("program", program))
		c.set("SCR_PREFIX=" + dir)
		c.job(four, func(s *Session, rank int) error {
			for step := 1; step <= 3; step++ {
				if err := writeBelow(s, dir, rank, step); err != nil {
					return err
				}
			}
			if program == 2 {
				return nil // nothing is flushed
			}
			return s.Finalize() // flushes the newest
		})
		if program == 2 {
			if err := os.RemoveAll(dir); err != nil {
				t.Fatal(err)
			}
		}
	}
	if got := c.in("a", "cache"); got != "11 12" {
		t.Errorf("in the cache: %q", got)
	}
}
