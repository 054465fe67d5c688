package session

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/goscr/goscr/mpi"
	"github.com/goscr/goscr/mpi/local"
)

// counted counts communicators that have not been freed.
type counted struct {
	mpi.Comm
	open *atomic.Int64
}

func (c counted) Split(color, key int) mpi.Comm {
	part := c.Comm.Split(color, key)
	if part == nil {
		return nil
	}
	c.open.Add(1)
	return counted{part, c.open}
}

func (c counted) Revocable() mpi.Revocable {
	r := c.Comm.Revocable()
	c.open.Add(1)
	return countedJob{counted{r, c.open}, r}
}

// countedJob is one that can be revoked.
type countedJob struct {
	counted
	job mpi.Revocable
}

func (c countedJob) Revoke(reason string) { c.job.Revoke(reason) }
func (c countedJob) Revoked() error       { return c.job.Revoked() }

func (c counted) Concurrent() mpi.Comm {
	of, ok := c.Comm.(mpi.Concurrent)
	if !ok || of.Concurrent() == nil {
		return nil
	}
	return counted{of.Concurrent(), c.open}
}

func (c counted) Free() {
	c.open.Add(-1)
	c.Comm.Free()
}

// An MPI has a limited number of communicators, and a process may begin and end
// any number of sessions.
func TestFinalize_FreesAllCommunicators(t *testing.T) {
	c := newCluster(t)
	var open atomic.Int64
	sessions := func(n int, f func(s *Session, rank int) error) {
		t.Helper()
		_, err := local.Run(4, c.opt, func(world mpi.Comm) error {
			for range n {
				s, err := Init(counted{world, &open}, c.options(four[world.Rank()]))
				if err != nil {
					return nil // as intended
				}
				if err := errors.Join(f(s, world.Rank()), s.Finalize()); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		if n := open.Load(); n != 0 {
			t.Errorf("%d communicators are left", n)
		}
		open.Store(0)
	}
	sessions(1, steps(1, 2))
	sessions(3, func(*Session, int) error { return nil })
	sessions(1, func(s *Session, rank int) error {
		_, err := s.StartRestart()
		_ = s.CompleteRestart(false)
		return err
	})
	c.lose("a", "b")
	sessions(1, steps(3, 4, 5))
	c.set("SCR_COPY_TYPE=FILE")
	sessions(1, steps())
	c.set("SCR_COPY_TYPE=XOR", "SCR_GROUP=nonsense")
	sessions(1, steps())
}

// A protection that is cancelled, as one of a dataset that is deleted at once, costs no communicator.
func TestDelete_FreesTheCommunicatorOfTheProtection(t *testing.T) {
	c := newCluster(t)
	c.set("SCR_ENCODE_ASYNC=1", "SCR_ENCODE_CARRIER=MPI", "SCR_CACHE_SIZE=3")
	var open atomic.Int64
	var after []int64
	_, err := local.Run(4, c.opt, func(world mpi.Comm) error {
		s, err := Init(counted{world, &open}, c.options(four[world.Rank()]))
		if err != nil {
			return err
		}
		for step := 1; step <= 6; step++ {
			name := fmt.Sprint("ckpt.", step)
			err := s.StartOutput(name, Checkpoint)
			path, e := s.Route(c.prefix(fmt.Sprintf("%s/rank_%d", name, world.Rank())))
			if err = errors.Join(err, e); err == nil {
				err = os.WriteFile(path, []byte("data"), 0o600)
			}
			if err = errors.Join(err, s.CompleteOutput(err == nil), s.Delete(name), meet(world)); err != nil {
				return err
			}
			if world.Rank() == 0 {
				after = append(after, open.Load())
			}
			world.Barrier()
		}
		return s.Finalize()
	})
	if err != nil {
		t.Fatal(err)
	}
	if after[5] != after[1] {
		t.Errorf("communicators after each step: %v", after)
	}
	if n := open.Load(); n != 0 {
		t.Errorf("%d communicators are left", n)
	}
}

// An Init that fails gives back what it has taken: a process that continues without
// goscr would hold the lock of its node, and keep other jobs off it.
func TestInit_FailureHoldsNoFiles(t *testing.T) {
	c := newCluster(t)
	held := func() (list []string) {
		links, err := filepath.Glob("/proc/self/fd/*")
		if err != nil || len(links) == 0 {
			t.Skip("there is no /proc/self/fd, which lists the open files")
		}
		for _, link := range links {
			if path, err := os.Readlink(link); err == nil && strings.HasPrefix(path, c.root) {
				list = append(list, path)
			}
		}
		return list
	}
	fails := func(text string) {
		t.Helper()
		if err := c.try(four, steps()); err == nil || !strings.Contains(err.Error(), text) {
			t.Fatalf("Init: %v, want an error with %q", err, text)
		}
		if list := held(); len(list) > 0 {
			t.Errorf("still open: %v", list)
		}
	}
	c.job(four, steps(1))
	block := c.prefix(".scr/app.conf") // known late
	if err := errors.Join(os.RemoveAll(block), os.MkdirAll(block+"/full", 0o700)); err != nil {
		t.Fatal(err)
	}
	fails("app.conf")
	if err := os.RemoveAll(block); err != nil {
		t.Fatal(err)
	}
	cached := filepath.Join(c.node("b"), "cache/user/scr.job") // while the cache is opened
	if err := errors.Join(os.RemoveAll(cached), os.WriteFile(cached, nil, 0o600)); err != nil {
		t.Fatal(err)
	}
	fails("is not a directory")
	if err := os.Remove(cached); err != nil {
		t.Fatal(err)
	}
	c.job(four, steps(2))
}
