package session

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/goscr/goscr/mpi"
	"github.com/goscr/goscr/mpi/local"
	"github.com/goscr/goscr/test/sample"
)

// Whatever a program does wrong while it writes a dataset is an error on every
// rank; the next dataset is none the worse for it.
func TestMisuse_OfADataset(t *testing.T) {
	t.Parallel()
	put := func(s *Session, rank int, name string) error {
		path, err := s.Route(name)
		if err != nil {
			return err
		}
		return os.WriteFile(path, []byte{byte(rank)}, 0o600)
	}
	for _, kind := range sample.Of(t, []struct {
		name string
		says string
		do   func(c *cluster, s *Session, rank int) // between Start and Complete
	}{
		{"outside the prefix directory", "is not below the prefix directory", func(c *cluster, s *Session, rank int) {
			if rank == 1 {
				put(s, rank, filepath.Join(c.root, "elsewhere/file"))
			}
		}},
		{"outside by the working directory", "file_0 in the working directory ", func(c *cluster, s *Session, rank int) {
			put(s, rank, fmt.Sprint("file_", rank))
		}},
		{"outside by dots", "is not below the prefix directory", func(c *cluster, s *Session, rank int) {
			put(s, rank, c.prefix("a/../../file"))
		}},
		{"outside by a common beginning", "is not below the prefix directory", func(c *cluster, s *Session, rank int) {
			put(s, rank, c.prefix("")+"x/file")
		}},
		{"the prefix directory", "the prefix directory itself", func(c *cluster, s *Session, rank int) { put(s, rank, c.prefix("")) }},
		{"no name", "empty name", func(c *cluster, s *Session, rank int) {
			if rank == 3 {
				put(s, rank, "")
			}
		}},
		{"our own directory", "goscr's own", func(c *cluster, s *Session, rank int) { put(s, rank, c.prefix(".scr/index.scr")) }},
		{"our own directory by a link", "goscr's own", func(c *cluster, s *Session, rank int) {
			put(s, rank, filepath.Join(c.root, "link/.scr/x"))
		}},
		{"a long name", "at most 1023", func(c *cluster, s *Session, rank int) {
			put(s, rank, c.prefix(strings.Repeat("0123456789/", 95)+"x"))
		}},
		{"a file of two ranks", "is also written by rank", func(c *cluster, s *Session, rank int) {
			put(s, rank, c.prefix(fmt.Sprintf("shared/file_%d", rank/2)))
		}},
		{"a file of all ranks", "is also written by rank", func(c *cluster, s *Session, rank int) {
			put(s, rank, c.prefix("shared/file"))
		}},
		{"a file of two ranks, named in two ways", "is also written by rank", func(c *cluster, s *Session, rank int) {
			switch rank {
			case 1:
				put(s, rank, c.prefix("shared/file"))
			case 2:
				put(s, rank, filepath.Join(c.root, "link/./shared/x/../file"))
			}
		}},
		{"never written", "write every file that is routed", func(c *cluster, s *Session, rank int) {
			if rank == 2 {
				s.Route(c.prefix("never"))
			}
		}},
		{"a directory in its place", "is not a regular file", func(c *cluster, s *Session, rank int) {
			if path, err := s.Route(c.prefix(fmt.Sprint("dir_", rank))); err == nil {
				os.Mkdir(path, 0o700)
			}
		}},
		{"a link in its place", "is not a regular file", func(c *cluster, s *Session, rank int) {
			if path, err := s.Route(c.prefix(fmt.Sprint("link_", rank))); err == nil {
				os.Symlink("/etc/passwd", path)
			}
		}},
		{"not valid", "are not valid", func(c *cluster, s *Session, rank int) {}},
	}, 5, sample.Every) {
		t.Run(kind.name, func(t *testing.T) {
			c := newCluster(t)
			if err := errors.Join(os.MkdirAll(c.prefix(""), 0o700), os.Symlink(c.prefix(""), filepath.Join(c.root, "link"))); err != nil {
				t.Fatal(err)
			}
			var each everyRank
			c.job(four, func(s *Session, rank int) error {
				if err := checkpoint(s, rank, 1); err != nil {
					return err
				}
				if err := s.StartOutput("bad", Checkpoint); err != nil {
					return err
				}
				kind.do(c, s, rank)
				each.is(rank, s.CompleteOutput(kind.name != "not valid" || rank != 3))
				return nil
			})
			each.failed(t, 4, kind.says)
			c.job(four, restarts(1))
			c.job(four, func(s *Session, rank int) error {
				if err := s.StartOutput("bad", Checkpoint); err != nil {
					return err
				}
				kind.do(c, s, rank)
				if err := s.CompleteOutput(kind.name != "not valid"); err == nil {
					return errors.New("no error")
				}
				return checkpoint(s, rank, 2)
			})
			c.job(four, restarts(2))
		})
	}
}

// Ranks on several nodes cannot open one file of the cache together by MPI-IO. The program then says that
// its file is not valid, and the error says why, and what to do.
func TestMisuse_ASharedFileThatCannotBeOpened(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	var each, other everyRank
	c.job(four, func(s *Session, rank int) error {
		if err := s.StartOutput("bad", Checkpoint); err != nil {
			return err
		}
		if _, err := s.Route(c.prefix("shared/file")); err != nil {
			return err
		}
		each.is(rank, s.CompleteOutput(false))
		if err := s.StartOutput("bad", Checkpoint); err != nil {
			return err
		}
		if _, err := s.Route(c.prefix(fmt.Sprint("own/file_", rank))); err != nil {
			return err
		}
		other.is(rank, s.CompleteOutput(rank != 1))
		return checkpoint(s, rank, 1)
	})
	for _, text := range []string{"file is also written by rank 0", "SCR_CACHE_BYPASS=1", "GROUP=WORLD", "docs/shared-files.md"} {
		each.failed(t, 4, text)
	}
	other.failed(t, 4, "are not valid")
	c.job(four, restarts(1))
}

func TestRoute_WaysToTheSameFile(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	if err := errors.Join(os.MkdirAll(c.prefix(""), 0o700), os.Symlink(c.prefix(""), filepath.Join(c.root, "link"))); err != nil {
		t.Fatal(err)
	}
	ways := []string{c.prefix("dir/file"), c.prefix("dir//./x/../file"), filepath.Join(c.root, "link/dir/file")}
	for _, prefix := range []string{c.prefix(""), filepath.Join(c.root, "link")} {
		c.set("SCR_PREFIX=" + prefix)
		c.job(on(1, "a"), func(s *Session, rank int) error {
			if err := s.StartOutput("x", Checkpoint); err != nil {
				return err
			}
			for _, way := range ways {
				path, err := s.Route(way)
				if want := c.cached("a", s.writer.output.ID(), "dir/file"); err != nil || path != want {
					return fmt.Errorf("%s: %s, %v", way, path, err)
				}
				if err := os.WriteFile(path, nil, 0o600); err != nil {
					return err
				}
			}
			if err := s.CompleteOutput(true); err != nil {
				return err
			}
			if n := s.cache.List()[0].Files(); n != 1 {
				return fmt.Errorf("%d files", n)
			}
			return nil
		})
	}
}

func TestRoute_InARestart(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	c.job(four, steps(1))
	c.job(four, func(s *Session, rank int) error {
		if _, err := offered(s); err != nil {
			return err
		}
		if _, err := s.StartRestart(); err != nil {
			return err
		}
		route := func(name, want string) error {
			got, err := s.Route(name)
			if want == "" {
				if err == nil {
					return fmt.Errorf("Route(%s): %s", name, got)
				}
				return nil
			}
			if err != nil || got != c.cached(four[rank], 1, want) {
				return fmt.Errorf("Route(%s): %s, %v", name, got, err)
			}
			return nil
		}
		var err error
		switch rank {
		case 0:
			err = errors.Join(
				route(c.prefix("ckpt.1/rank_0"), "ckpt.1/rank_0"),
				route("rank_0", "ckpt.1/rank_0"),
				route("/somewhere/else/rank_0", "ckpt.1/rank_0"),
				route(c.prefix("ckpt.1/rank_2"), ""), // another rank's
				route("", ""))
		case 1:
			err = errors.Join(
				route(c.prefix("ckpt.1/x/1/state"), "ckpt.1/x/1/state"),
				route(c.prefix("ckpt.1/y/1/state"), "ckpt.1/y/1/state"),
				route("state", ""))
			if _, e := s.Route("state"); e == nil || !strings.Contains(e.Error(), "2 files named state") {
				err = errors.Join(err, fmt.Errorf("ambiguous name: %v", e))
			}
		}
		if err := mpi.Agree(s.world, err); err != nil {
			return err
		}
		return s.CompleteRestart(true)
	})
}

func TestMisuse_CallsInTheWrongPlace(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	c.job(four, steps(1))
	c.job(four, func(s *Session, rank int) error {
		var state *StateError
		wrong := func(err error) error {
			if !errors.As(err, &state) {
				return fmt.Errorf("no error of the state but %v", err)
			}
			return nil
		}
		start := func() error { return s.StartOutput("x", Checkpoint) }
		have := func() error { _, _, err := s.HaveRestart(); return err }
		begin := func() error { _, err := s.StartRestart(); return err }
		err := errors.Join(wrong(s.CompleteOutput(true)), wrong(s.CompleteRestart(true)))
		_, err1 := offered(s)
		err = errors.Join(err, err1, begin())
		err = errors.Join(err, wrong(start()), wrong(have()), wrong(begin()), wrong(s.CompleteOutput(true)), wrong(s.Delete("x")), wrong(s.Current("x")), wrong(s.Drop("x")))
		err = errors.Join(err, s.CompleteRestart(true), start())
		err = errors.Join(err, wrong(start()), wrong(have()), wrong(begin()), wrong(s.CompleteRestart(true)), wrong(s.CompleteCheckpoint(true)), wrong(s.Delete("x")))
		err = errors.Join(err, write(s, contents(2, rank)), s.CompleteOutput(true))
		if err != nil {
			return err
		}
		if begin() == nil {
			return errors.New("StartRestart without HaveRestart")
		}
		if err := checkpoint(s, rank, 3); err != nil {
			return err
		}
		if err := s.Finalize(); err != nil {
			return err
		}
		_, need := s.NeedCheckpoint()
		_, exit := s.ShouldExit()
		return errors.Join(wrong(need), wrong(exit), wrong(start()), wrong(have()), wrong(begin()), wrong(s.Finalize()),
			wrong(s.CompleteOutput(true)), wrong(s.CompleteRestart(true)), wrong(s.Delete("x")))
	})
	c.job(four, restarts(3))
}

func TestMisuse_NamesOfDatasets(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	for text, names := range map[string][]string{
		"control characters": {"a\nb", "\x1b[2J", "a\x7f"},
		"rank 0 called it":   nil,
	} {
		for i := range max(len(names), 2) {
			var each everyRank
			c.job(four, func(s *Session, rank int) error {
				name, flags := fmt.Sprint("rank ", rank), Checkpoint
				if names != nil {
					name = names[i]
				} else if i == 1 {
					name, flags = "same", Flags(1+rank%2)
				}
				each.is(rank, s.StartOutput(name, flags))
				return checkpoint(s, rank, 2)
			})
			each.failed(t, 4, text)
		}
	}
	c.job(four, restarts(2))
}

func TestStartOutput_WithoutAName(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "SCR_FLUSH=1")
	c.job(four, func(s *Session, rank int) error {
		for range 2 {
			if err := errors.Join(s.StartOutput("", Checkpoint), write(s, contents(1, rank)), s.CompleteOutput(true)); err != nil {
				return err
			}
		}
		return nil
	})
	if got := c.index(); !got["scr.dataset.2"].Complete {
		t.Errorf("%v", got)
	}
}

func TestInit_WithoutUserAndJob(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	delete(c.env, "SCR_USER_NAME")
	delete(c.env, "SCR_JOB_ID")
	c.job(four, steps(1, 2))
	c.job(four, restarts(2))
	found, _ := filepath.Glob(filepath.Join(c.node("a"), "cache/*/scr.defjobid/scr.dataset.2"))
	if len(found) != 1 {
		t.Errorf("%v", found)
	}
}

// What Init cannot work with is an error on every rank, not the end of the job.
func TestInit_Refuses(t *testing.T) {
	t.Parallel()
	for _, kind := range []struct {
		name, says string
		prepare    func(c *cluster)
	}{
		{"user", "SCR_USER_NAME", func(c *cluster) { c.set("SCR_USER_NAME=../x") }},
		{"job", "SCR_JOB_ID", func(c *cluster) { c.set("SCR_JOB_ID=a/b") }},
		{"scheme", "SCR_COPY_TYPE", func(c *cluster) { c.set("SCR_COPY_TYPE=RAID6") }},
		{"unknown scheme", "SCR_COPY_TYPE", func(c *cluster) { c.set("SCR_COPY_TYPE=TAPE") }},
		{"group", "no group", func(c *cluster) { c.set("SCR_GROUP=RACK") }},
		{"disabled", "SCR_ENABLE", func(c *cluster) { c.set("SCR_ENABLE=0") }},
		{"prefix is a file", "not a directory", func(c *cluster) { os.WriteFile(c.prefix(""), nil, 0o600) }},
		{"cache is a link", "is not a directory", func(c *cluster) {
			os.MkdirAll(filepath.Join(c.node("c"), "cache"), 0o700)
			os.Symlink("/tmp", filepath.Join(c.node("c"), "cache/user"))
		}},
		{"control directory is another's", "belongs to user", func(c *cluster) {
			if os.Geteuid() != 0 {
				c.t.Skip("only root can give a directory away")
			}
			dir := filepath.Join(c.node("b"), "cntl/user/scr.job")
			os.MkdirAll(dir, 0o700)
			os.Chown(dir, 12345, 12345)
		}},
	} {
		t.Run(kind.name, func(t *testing.T) {
			c := newCluster(t)
			kind.prepare(c)
			var each everyRank
			_, err := local.Run(4, c.opt, func(world mpi.Comm) error {
				_, err := Init(world, c.options(four[world.Rank()]))
				each.is(world.Rank(), err)
				world.Barrier()
				return nil // the job is alive
			})
			if err != nil {
				t.Fatal(err)
			}
			each.failed(t, 4, kind.says)
		})
	}
}

func TestNeedCheckpoint_AndShouldExit(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "SCR_CHECKPOINT_INTERVAL=3")
	c.job(four, func(s *Session, rank int) error {
		for i := 1; i <= 7; i++ {
			if need, err := s.NeedCheckpoint(); err != nil || need != (i%3 == 0) {
				return fmt.Errorf("call %d: %v, %v", i, need, err)
			}
			if exit, err := s.ShouldExit(); err != nil || exit {
				return fmt.Errorf("call %d: exit: %v, %v", i, exit, err)
			}
		}
		return nil
	})
}

// A program in C reads the names that functions have in C.
func TestStateError_In(t *testing.T) {
	t.Parallel()
	err := &StateError{Call: "StartOutput", State: "RESTART", Advice: states[restarting].advice}
	if got := err.Error(); got != "StartOutput called in the wrong place (state RESTART): a restart is under way; end it with CompleteRestart first" {
		t.Error(got)
	}
	if got := err.In(strings.ToUpper); got != "called in the wrong place (state RESTART): a restart is under way; end it with COMPLETERESTART first" {
		t.Error(got)
	}
}

// A program that closes its files after it has completed a dataset is warned once in a run.
func TestMisuse_FileIsClosedLater(t *testing.T) {
	t.Parallel()
	for _, env := range [][]string{nil, {"SCR_CACHE_BYPASS=1"}} {
		c := newCluster(t)
		c.set(env...)
		write := func(late bool) {
			t.Helper()
			c.job(four, func(s *Session, rank int) error {
				for step := range 5 {
					name := fmt.Sprint("late.", step)
					if err := s.StartOutput(name, Checkpoint); err != nil {
						return err
					}
					path, err := s.Route(c.prefix(fmt.Sprintf("%s/rank_%d", name, rank)))
					if err != nil {
						return err
					}
					f, err := os.Create(path)
					if err != nil {
						return err
					}
					if !late {
						f.Close()
					}
					if err := s.CompleteOutput(true); err != nil {
						return err
					}
					if late {
						_, err = f.WriteString("what was in a buffer")
						f.Close()
					}
					if err != nil {
						return err
					}
				}
				return nil
			})
		}
		const text = "is still open for writing"
		write(false)
		if strings.Contains(c.said(), text) {
			t.Errorf("%v: %s", env, c.said())
		}
		write(true)
		if n := strings.Count(c.said(), text); n != 1 { // of one rank, in one dataset
			t.Errorf("%v: %d lines:\n%s", env, n, c.said())
		}
	}
}
