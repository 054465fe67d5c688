package session

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/goscr/goscr/test/sample"
)

// gone are ways in which a file of the cache is not there any more.
var gone = []struct {
	name  string
	spoil func(path string) error
}{
	{"removed", os.Remove},
	{"directory", func(path string) error {
		if err := os.Remove(path); err != nil {
			return err
		}
		return os.MkdirAll(filepath.Join(path, "full"), 0o700)
	}},
	{"link", func(path string) error {
		if err := os.Remove(path); err != nil {
			return err
		}
		return os.Symlink("/dev/null", path)
	}},
	{"pipe", func(path string) error {
		if err := os.Remove(path); err != nil {
			return err
		}
		return unix.Mkfifo(path, 0o600)
	}},
	{"its directory", func(path string) error { return os.RemoveAll(filepath.Dir(path)) }},
}

// A file that is missing when its dataset is flushed is rebuilt, like one that has
// changed, and the flush continues.
func TestFlush_MissingInTheCache(t *testing.T) {
	t.Parallel()
	for _, async := range []string{"SCR_FLUSH_ASYNC=0", "SCR_FLUSH_TYPE=PTHREAD", "SCR_FLUSH_TYPE=DAEMON"} {
		for _, way := range sample.Of(t, gone, 1, 3) {
			t.Run(async+"/"+way.name, func(t *testing.T) {
				c := newCluster(t, "SCR_FLUSH=0", "SCR_FLUSH_ASYNC=1", async)
				defer c.serving.Wait()
				c.job(four, steps(1))
				c.set("SCR_FLUSH=1")
				c.job(four, func(s *Session, rank int) error {
					var err error
					if rank == 1 {
						err = way.spoil(c.cached("b", 1, "ckpt.1/y/1/state"))
					}
					if err := s.Agree(err); err != nil {
						return err
					}
					if async != "SCR_FLUSH_ASYNC=0" {
						if err := begin(s, s.cache.Find(1)); err != nil {
							return err
						}
					}
					return s.Finalize()
				})
				c.says("dataset 1 (ckpt.1): rebuilt from redundancy, 1 of 4 ranks had lost files")
				if async != "SCR_FLUSH_ASYNC=0" {
					c.says("rank 1 on b: flush of dataset 1 (ckpt.1) in the background: ")
					c.says("it is rebuilt, and flushed while the program waits")
				}
				c.whole(1, 4)
			})
		}
	}
}

// Where too much is missing to rebuild it the flush fails, the dataset leaves the cache, and
// the program continues.
func TestFlush_TooMuchIsMissing(t *testing.T) {
	t.Parallel()
	movers(t, func(t *testing.T, c *cluster) {
		c.set("SCR_FLUSH=0")
		c.job(four, steps(1))
		c.set("SCR_FLUSH=1")
		c.job(four, func(s *Session, rank int) error {
			var err error
			if rank < 2 {
				err = os.RemoveAll(c.cached(four[rank], 1, name(1)))
			}
			if err := s.Agree(err); err != nil {
				return err
			}
			if err := begin(s, s.cache.Find(1)); err != nil {
				return err
			}
			if err := checkpoint(s, rank, 2); err != nil {
				return err
			}
			if err := s.Finalize(); err != nil {
				return fmt.Errorf("Finalize: %w", err)
			}
			return nil
		})
		c.says("flush of dataset 1 (ckpt.1) again: ")
		c.whole(2, 4)
	})
}
