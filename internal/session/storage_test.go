package session

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/goscr/goscr/internal/job/request"
	"github.com/goscr/goscr/test/faultfs"
	"github.com/goscr/goscr/test/sample"
	"github.com/goscr/goscr/test/storagetest"
)

// at has the cluster's directories where another process has made them.
func (c *cluster) at(root string) {
	c.root = root
	c.set("SCR_PREFIX="+c.prefix(""), "PWD="+root)
}

// refusing is a job that has a checkpoint in the cache when storage begins to refuse
// what is written, and ends with a flush.
func (c *cluster) refusing(errno unix.Errno, atLeast int, file string) {
	var each everyRank
	c.set("SCR_FLUSH=5")
	c.job(four, func(s *Session, rank int) error {
		if err := restartAt(s, rank, 1); err != nil {
			return err
		}
		if err := checkpoint(s, rank, 2); err != nil {
			return err
		}
		if rank == 0 {
			if err := storagetest.Refuse(errno, atLeast); err != nil {
				return err
			}
		}
		s.world.Barrier()
		each.is(rank, s.Finalize())
		return nil
	})
	each.failed(c.t, 4, errno.Error())
	each.failed(c.t, 4, file)
}

// The file system has no room, a quota is reached, a file may not be so large, or the
// medium fails, in the middle of a flush: all ranks are told which file, the
// checkpoint stays in the cache, and the one before can be used.
func TestStorage_FlushIsRefused(t *testing.T) {
	t.Parallel()
	for _, test := range sample.Of(t, []struct {
		name    string
		errno   unix.Errno
		atLeast int
		file    string
	}{
		{"full", unix.ENOSPC, 1000, "ckpt.2/"},
		{"quota", unix.EDQUOT, 1000, "ckpt.2/"},
		{"size", unix.EFBIG, 1000, "ckpt.2/"},
		{"medium", unix.EIO, 1000, "ckpt.2/"},
		{"full-for-the-index", unix.ENOSPC, 500, "index.scr"},
		{"quota-for-the-index", unix.EDQUOT, 500, "index.scr"},
	}, 2, 4) {
		t.Run(test.name, func(t *testing.T) {
			c := newCluster(t, "SCR_FLUSH=1")
			if dir := storagetest.Dir(); dir != "" {
				c.at(dir)
				c.refusing(test.errno, test.atLeast, test.file)
				if got := fmt.Sprint(c.flushed(4, 2)); got != "[1]" {
					t.Errorf("%s are flushed", got)
				}
				if !c.index()["ckpt.1"].Current {
					t.Error("the one before is not the current one")
				}
				return
			}
			c.job(four, steps(1))
			storagetest.Again(t, c.root)
			c.job(four, restarts(2)) // from the cache
			c.lose(four...)
			c.job(four, restarts(1))
			c.job(four, steps(3))
			c.lose(four...)
			c.job(four, restarts(3))
		})
	}
}

// A file system that becomes full, or read-only, and then is as before, under a job
// that continues.
func TestStorage_UnderARunningJob(t *testing.T) {
	t.Parallel()
	dir := storagetest.Dir()
	if dir == "" {
		c := newCluster(t)
		if err := os.Mkdir(c.prefix(""), 0o700); err != nil {
			t.Fatal(err)
		}
		storagetest.AgainMounted(t, c.root, `mount -t tmpfs -o size=1m none "$dir/prefix"`)
		return
	}
	c := newCluster(t, "SCR_FLUSH=1")
	c.at(dir)
	// The job has a file open there, so that the file system itself cannot become read-only:
	// a read-only view of it is mounted over it.
	shell := func(command string) error {
		out, err := exec.Command("sh", "-c", command, "sh", c.prefix("")).CombinedOutput()
		if err != nil {
			err = fmt.Errorf("%w: %s", err, out)
		}
		return err
	}
	filler := c.prefix("filler")
	step := 1
	c.job(four, steps(step))
	for _, state := range []struct {
		says        string
		spoil, undo func() error
	}{
		{"no space left", func() error {
			if err := storagetest.Fill(filler); !errors.Is(err, unix.ENOSPC) {
				return err
			}
			return nil
		}, func() error { return os.Remove(filler) }},
		{"read-only file system", func() error { return shell(`mount --bind "$1" "$1" && mount -o remount,bind,ro "$1"`) },
			func() error { return shell(`umount -l "$1"`) }},
	} {
		c.job(four, func(s *Session, rank int) error {
			for i, then := range []func() error{state.spoil, state.undo} {
				var err error
				if rank == 0 {
					err = then()
				}
				if err := s.Agree(err); err != nil {
					return err
				}
				if err := checkpoint(s, rank, step+i+1); err != nil {
					return err
				}
			}
			return nil
		})
		c.says(state.says)
		c.says(fmt.Sprintf("dataset ckpt.%d stays in the cache", step+1))
		if e := c.index(); e[name(step+1)].Complete || !e[name(step)].Complete || !e[name(step+2)].Complete {
			t.Errorf("%s: %+v", state.says, e)
		}
		step += 2
		c.lose(four...)
		c.job(four, restarts(step))
	}
}

// Something that one node may not do is an error on all: with the prefix directory
// or with its own storage.
func TestStorage_PermissionDeniedOnOneNode(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "SCR_FLUSH=1")
	dir := storagetest.Dir()
	if dir == "" {
		c.job(four, steps(1))
		storagetest.AgainUnprivileged(t, c.root)
		return
	}
	c.at(dir)
	close := func(path string) (open func()) {
		t.Helper()
		info, err := os.Stat(path)
		if err == nil {
			err = os.Chmod(path, info.Mode()&0o500)
		}
		if err != nil {
			t.Fatal(err)
		}
		return func() {
			if err := os.Chmod(path, info.Mode()|0o700); err != nil {
				t.Fatal(err)
			}
		}
	}
	const denied = "permission denied"

	// A directory in the prefix directory that is the files' of one rank.
	own := c.prefix("ckpt.2/y/1")
	if err := os.MkdirAll(own, 0o700); err != nil {
		t.Fatal(err)
	}
	open := close(own)
	c.job(four, steps(2))
	c.says(own)
	c.says(denied)
	c.says("dataset ckpt.2 stays in the cache")
	if got := fmt.Sprint(c.flushed(4, 2)); got != "[1]" {
		t.Errorf("%s are flushed", got)
	}
	open()
	c.job(four, steps(3))

	// A file that one rank may not read: an error, not an older checkpoint, and nothing is marked as failed.
	c.lose(four...)
	unreadable := c.prefix("ckpt.3/y/1/state")
	if err := os.Chmod(unreadable, 0); err != nil {
		t.Fatal(err)
	}
	failed := c.try(four, restarts(3))
	if text := "checkpoint ckpt.3 cannot be fetched: rank 1: open " + unreadable + ": " + denied; failed == nil || !strings.Contains(failed.Error(), text) {
		t.Errorf("%v; want %q", failed, text)
	}
	if err := os.Chmod(unreadable, 0o600); err != nil {
		t.Fatal(err)
	}
	c.job(four, restarts(3))

	// The cache of one node.
	open = close(filepath.Dir(c.cached("c", 1, "")))
	var each everyRank
	c.job(four, func(s *Session, rank int) error {
		each.is(rank, checkpoint(s, rank, 4))
		return nil
	})
	each.failed(t, 4, denied)
	open()
	c.job(four, restarts(3))

	// What goscr keeps in the prefix directory: no run begins without it.
	open = close(c.prefix(".scr"))
	if err := c.try(four, restarts(3)); err == nil {
		t.Error("Init can write where it may not")
	}
	open()
	c.job(four, restarts(3))
}

// The prefix directory is on a file system without locks, such as Lustre without the mount option flock, or one
// that has no fsync: both are tried with the errors by which file systems say so.
func TestStorage_LessThanPOSIX(t *testing.T) {
	t.Parallel()
	nodes := newCluster(t).root
	for _, test := range sample.Of(t, []struct {
		name string
		opt  faultfs.Options
	}{
		{"no locks", faultfs.Options{Locks: unix.ENOLCK}},
		{"neither", faultfs.Options{Locks: unix.EOPNOTSUPP, Syncs: unix.EOPNOTSUPP}},
		{"no fsync", faultfs.Options{Syncs: unix.EINVAL}},
	}, 1, 1) {
		m := faultfs.New(t, faultfs.Options{})
		m.Set(test.opt)
		for _, way := range sample.Of(t, flushing, 1, 2) {
			t.Run(test.name+" "+way.name, func(t *testing.T) {
				root, err := os.MkdirTemp(m.Dir, "way-")
				if err != nil {
					t.Fatal(err)
				}
				own := filepath.Join(nodes, test.name, way.name)
				if err := errors.Join(os.MkdirAll(own, 0o700), os.Symlink(own, filepath.Join(root, "node"))); err != nil {
					t.Fatal(err)
				}
				c := clusterAt(t, root, way.env...)
				c.job(four, func(s *Session, rank int) error {
					err := steps(1, 2)(s, rank)
					if rank == 0 && err == nil {
						_, e := request.Begin(c.prefix(""), request.Job{ID: "18", User: "anna"}, false)
						if e == nil || !strings.Contains(e.Error(), "works in the prefix directory") {
							err = fmt.Errorf("another job: %w", e)
						}
					}
					return errors.Join(s.Agree(err), s.Finalize())
				})
				c.serving.Wait()
				c.lose(four...)
				c.job(four, restarts(2))
			})
		}
	}
}
