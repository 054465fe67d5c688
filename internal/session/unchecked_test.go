package session

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/goscr/goscr/internal/prefix"
	"github.com/goscr/goscr/internal/redundancy"
	"github.com/goscr/goscr/test/sample"
)

// Without redundancy, and in memory, Complete reads no files for checksums. They are taken when the bytes are
// read anyway.

// checksums returns for how many of the files of a dataset on a node its filemap has a checksum, and how many there are.
func checksums(s *Session, id int) (known, all int) {
	own, _ := redundancy.Split(s.cache.Files(id))
	for _, f := range own {
		if _, ok := f.Meta.CRC(); ok {
			known++
		}
	}
	return known, len(own)
}

// wantChecksums is an error unless all files of a dataset have checksums, or none has.
func wantChecksums(s *Session, id int, want bool) error {
	known, all := checksums(s, id)
	unchecked := s.cache.Find(id).Unchecked()
	if all > 0 && (known == all) != want || known > 0 && !want || unchecked == want {
		return fmt.Errorf("dataset %d: %d of %d files have checksums, unchecked: %t", id, known, all, unchecked)
	}
	return nil
}

func single(t *testing.T, env ...string) *cluster {
	c := newCluster(t, slices.Concat([]string{"SCR_COPY_TYPE=SINGLE"}, env)...)
	c.inMode(waiting)
	return c
}

// After a node has started again, nothing would show what a power failure has lost of a file without a checksum.
func TestUnchecked_NodesHaveStartedAgain(t *testing.T) {
	t.Parallel()
	c := single(t)
	c.job(four, steps(1, 2))
	c.booted = time.Now().Add(time.Hour)
	c.job(four, func(s *Session, rank int) error {
		if got, err := offered(s); got != "" || err != nil {
			return fmt.Errorf("offered %q, %w", got, err)
		}
		return nil
	})
	c.says("is not used: the node has started again since it was written, and it had no checksum yet")
	c.lose(four...)
	c.set("SCR_CRC_ON_DELETE=1")
	c.booted = time.Time{}
	c.job(four, steps(3))
	c.booted = time.Now().Add(time.Hour)
	c.job(four, restarts(3))
}

// A restart uses what has no checksum, unless a size has changed. A byte that has changed is not noticed.
func TestUnchecked_Restart(t *testing.T) {
	t.Parallel()
	c := single(t)
	c.job(four, func(s *Session, rank int) error {
		return errors.Join(steps(1, 2)(s, rank), wantChecksums(s, 2, false))
	})
	if l := c.located(2); !l.Verified.IsZero() || !l.Is(prefix.InCache) {
		t.Errorf("%+v", l)
	}
	c.job(four, func(s *Session, rank int) error {
		return errors.Join(restartAt(s, rank, 2), wantChecksums(s, 2, false))
	})
	c.says("dataset 2 (ckpt.2): as it was in the cache, by the sizes of its files, which have no checksums yet")
	if l := c.located(2); !l.Verified.IsZero() {
		t.Errorf("%+v", l)
	}
	c.change(c.cached("d", 2, contents(2, 3)[0].name), flip)
	c.job(four, func(s *Session, rank int) error {
		if got, err := offered(s); got != name(2) {
			return fmt.Errorf("offered %q, %w", got, err)
		}
		return nil
	})
	c.change(c.cached("d", 2, contents(2, 3)[0].name), cut)
	c.job(four, restarts(1))
	c.says("dataset 2 (ckpt.2) in the cache is passed over")
}

// Whatever reads the bytes takes the checksums. From then on a byte that has changed is noticed.
func TestUnchecked_UntilBytesAreRead(t *testing.T) {
	t.Parallel()
	moved := []string{"d", "c", "b", "a"}
	for _, by := range sample.Of(t, []struct {
		name string
		env  []string
		read func(s *Session, rank int) error // in the run that writes
		then []string                         // nodes of a run that reads
	}{
		{"flush", []string{"SCR_FLUSH=1"}, nil, nil},
		{"flush with compression", []string{"SCR_FLUSH=1", "SCR_FLUSH_COMPRESS=zstd"}, nil, nil},
		{"flush by threads", []string{"SCR_FLUSH=1", "SCR_FLUSH_ASYNC=1", "SCR_FLUSH_TYPE=PTHREAD"}, drained, nil},
		{"flush by scr_transfer", []string{"SCR_FLUSH=1", "SCR_FLUSH_ASYNC=1", "SCR_FLUSH_TYPE=DAEMON"}, drained, nil},
		{"move", nil, nil, moved},
		{"protection in the background", []string{"SCR_ENCODE_ASYNC=1"}, func(s *Session, rank int) error { return s.flusher.WaitForProtection() }, nil},
		{"flush without checksums to come", []string{"SCR_CRC_ON_FLUSH=0"}, nil, nil},
		{"eviction that verifies", []string{"SCR_CRC_ON_DELETE=1"}, nil, nil},
	}, 3, sample.Every) {
		t.Run(by.name, func(t *testing.T) {
			c := single(t)
			c.set(by.env...)
			nodes := four
			c.job(four, func(s *Session, rank int) error {
				err := steps(1, 2)(s, rank)
				if err == nil && by.read != nil {
					err = by.read(s, rank)
				}
				if err == nil && by.then == nil {
					err = wantChecksums(s, 2, true)
				}
				return err
			})
			c.serving.Wait()
			if by.then != nil {
				nodes = by.then
				c.job(nodes, func(s *Session, rank int) error { return errors.Join(restartAt(s, rank, 2), wantChecksums(s, 2, true)) })
			}
			c.job(nodes, restarts(2))
			c.says("dataset 2 (ckpt.2): as it was in the cache, ready")
			node := nodes[3]
			c.change(c.cached(node, 2, contents(2, 3)[0].name), flip)
			c.must(os.RemoveAll(c.prefix(".scr/scr.dataset.2"))) // 2 cannot be fetched
			c.job(nodes, func(s *Session, rank int) error {
				got, err := offered(s)
				if got == name(2) {
					return errors.New("corrupt files are offered")
				}
				return err
			})
			c.says("dataset 2 (ckpt.2) in the cache is passed over")
		})
	}
}

// drained waits until nothing is copied any more.
func drained(s *Session, _ int) error {
	for {
		if n := s.flusher.Running(); n == 0 {
			return nil
		}
		if _, err := s.NeedCheckpoint(); err != nil {
			return err
		}
	}
}

// What was not read for a checksum is scavenged, with a checksum.
func TestUnchecked_Flushed(t *testing.T) {
	t.Parallel()
	c := single(t, "SCR_FLUSH=0")
	c.job(four, steps(1, 2))
	c.set("SCR_FLUSH_ON_RESTART=1")
	c.job(four, func(s *Session, rank int) error {
		return errors.Join(restartAt(s, rank, 2), wantChecksums(s, 2, true), wantChecksums(s, 1, true))
	})
	if got := c.flushed(4, 2); !slices.Equal(got, []int{1, 2}) {
		t.Errorf("in the prefix directory: %v", got)
	}
	for rank, md := range c.listed(2, contents(2, 3)[0].name) {
		if _, known := md.CRC(); !known {
			t.Errorf("rank %d: listed without a checksum", rank)
		}
	}
	if l := c.located(2); l.Verified.IsZero() {
		t.Errorf("%+v", l)
	}
	c.lose(four...)
	c.set("SCR_FLUSH_ON_RESTART=0")
	c.job(four, restarts(2))
	if !strings.Contains(c.said(), "fetched") {
		t.Error(c.said())
	}
}

// On a medium that keeps what was not synced when the power failed, checksums are taken at once.
func TestUnchecked_OnAMedium(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if inMemory(t, dir) {
		t.Skip("the temporary directory is in memory")
	}
	c := clusterAt(t, dir, "SCR_COPY_TYPE=SINGLE")
	c.job(four, func(s *Session, rank int) error { return errors.Join(steps(1)(s, rank), wantChecksums(s, 1, true)) })
}

func inMemory(t *testing.T, dir string) bool {
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil {
		t.Fatal(err)
	}
	return st.Type == unix.TMPFS_MAGIC
}
