package session

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/goscr/goscr/hash"
	"github.com/goscr/goscr/internal/job/halt"
	"github.com/goscr/goscr/internal/observe/eventlog"
)

var logged = regexp.MustCompile(`(event|xfer)=(\w+)(?:, note=("(?:[^"\\]|\\.)*"))?(?:, from=.*?, to=".*?")?(?:, dset=(\d+))?`)

// events are those of the log, of which it begins a new one: type and dataset,
// with the note where the type is among notes. A transfer is in lower case. NODES, which each
// run has, is left out.
func (c *cluster) events(notes ...string) []string {
	c.t.Helper()
	text, err := os.ReadFile(eventlog.TextFile(c.prefix("")))
	if err == nil {
		err = os.Remove(eventlog.TextFile(c.prefix("")))
	}
	if err != nil {
		c.t.Fatal(err)
	}
	var list []string
	for line := range strings.Lines(string(text)) {
		if strings.Contains(line, ", phase=") || strings.Contains(line, ", event=NODES, ") {
			continue
		}
		m := logged.FindStringSubmatch(line)
		if m == nil {
			c.t.Fatalf("line %q", line)
		}
		e := m[2]
		if m[1] == "xfer" {
			e = strings.ToLower(e)
		}
		if m[4] != "" {
			e += " " + m[4]
		}
		if slices.Contains(notes, m[2]) {
			e += " " + m[3]
		}
		list = append(list, e)
	}
	return list
}

func (c *cluster) logs(want []string, notes ...string) {
	c.t.Helper()
	if got := c.events(notes...); !slices.Equal(got, want) {
		c.t.Errorf("the log has\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

func newLoggingCluster(t *testing.T, env ...string) *cluster {
	return newCluster(t, append([]string{"SCR_LOG_ENABLE=1", "SCR_LOG_SYSLOG_ENABLE=0"}, env...)...)
}

func TestEvents_FromTheBeginning(t *testing.T) {
	t.Parallel()
	c := newLoggingCluster(t)
	c.job(four, func(s *Session, rank int) error {
		for range 2 {
			if _, have, err := s.HaveRestart(); have || err != nil {
				return errors.Join(errors.New("a checkpoint"), err)
			}
		}
		return errors.Join(output(s, rank, 1, Checkpoint), output(s, rank, 2, Output), s.Finalize())
	})
	c.logs([]string{"INIT_START", "INIT_END", "COMPUTE_START", "RESTART_NONE", "COMPUTE_END", "CHECKPOINT_START 1",
		"CHECKPOINT_END 1", "encode 1", "COMPUTE_START", "COMPUTE_END", "OUTPUT_START 2", "OUTPUT_END 2", "encode 2",
		"FLUSH_START 2", "FLUSH_SUCCESS 2", "flush 2", "COMPUTE_START", "COMPUTE_END", "FINALIZE_END"})
	if n := strings.Count(c.said(), "the run starts from the beginning"); n != 1 {
		t.Errorf("told %d times in\n%s", n, c.said())
	}
	c.job(four, restarts(1))
	if strings.Contains(c.said(), "from the beginning") {
		t.Errorf("there is a checkpoint\n%s", c.said())
	}
	c = newCluster(t)
	c.job(four, steps(1)) // without asking
	c.says("the run starts from the beginning")
	if _, err := os.Stat(eventlog.TextFile(c.prefix(""))); err == nil {
		t.Error("there is a log that nobody asked for")
	}
}

func TestEvents_WhatFails(t *testing.T) {
	t.Parallel()
	c := newLoggingCluster(t, "SCR_FLUSH=1")
	c.job(four, func(s *Session, rank int) error {
		if err := s.StartOutput("bad", Checkpoint); err != nil {
			return err
		}
		if s.CompleteOutput(rank != 2) == nil {
			return errors.New("files that are not valid are accepted")
		}
		if s.StartOutput("x", 1<<20) == nil {
			return errors.New("flags that there are not are accepted")
		}
		return steps(1)(s, rank)
	})
	c.logs([]string{"INIT_START", "INIT_END", "COMPUTE_START", "RESTART_NONE", "COMPUTE_END", "CHECKPOINT_START 1",
		`CHECKPOINT_FAIL 1 "rank 2: the program says that its files of dataset bad are not valid"`, "COMPUTE_START",
		"COMPUTE_END", "CHECKPOINT_START 2", "CHECKPOINT_END 2", "encode 2", "FLUSH_START 2", "FLUSH_SUCCESS 2", "flush 2",
		"COMPUTE_START"}, "CHECKPOINT_FAIL")

	c.lose("a", "b")
	c.change(c.prefix("ckpt.1/rank_0"), flip)
	c.job(four, func(s *Session, rank int) error {
		_, _, err := s.HaveRestart()
		return err
	})
	got := c.events("FETCH_FAIL", "REBUILD_FAIL")
	for i, e := range got {
		if strings.HasPrefix(e, "REBUILD_FAIL") && strings.Contains(e, "cannot be rebuilt") {
			got[i] = "REBUILD_FAIL 2"
		}
		if strings.HasPrefix(e, "FETCH_FAIL") && strings.Contains(e, "ckpt.1/rank_0") {
			got[i] = "FETCH_FAIL 2"
		}
	}
	want := []string{"INIT_START", "EARLIER_RUN_DIED", "REBUILD_START 2", "REBUILD_FAIL 2", "INIT_END", "COMPUTE_START", "FETCH_START 2", "FETCH_FAIL 2",
		"RESTART_NONE"}
	if !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}

	c = newLoggingCluster(t)
	c.job(four, steps(1))
	c.events()
	c.job(four, func(s *Session, rank int) error {
		if _, err := s.StartRestart(); err != nil {
			return err
		}
		if s.CompleteRestart(rank != 3) == nil {
			return errors.New("a restart that failed is accepted")
		}
		return nil
	})
	c.logs([]string{"INIT_START", "EARLIER_RUN_DIED", "REBUILD_START 1", "REBUILD_SUCCESS 1", "INIT_END", "COMPUTE_START", "RESTART_START 1",
		`RESTART_FAIL 1 "rank 3: the program could not restart from ckpt.1; it is not used again, unless SCR_CURRENT=ckpt.1 names it"`}, "RESTART_FAIL")
}

func TestEvents_Rebuilt(t *testing.T) {
	t.Parallel()
	c := newLoggingCluster(t)
	c.job(four, steps(1))
	c.events()
	c.lose("b")
	c.job(four, restarts(1))
	c.logs([]string{"INIT_START", "EARLIER_RUN_DIED", "REBUILD_START 1", `REBUILD_SUCCESS 1 "rebuilt from redundancy, 1 of 4 ranks had lost files"`,
		"INIT_END", "COMPUTE_START", "RESTART_START 1", "RESTART_SUCCESS 1"}, "REBUILD_SUCCESS")
}

// A reason to stop is logged once, however often the program asks.
func TestEvents_Halt(t *testing.T) {
	t.Parallel()
	c := newLoggingCluster(t)
	c.job(four, func(s *Session, rank int) error {
		for range 3 {
			if _, err := s.NeedCheckpoint(); err != nil {
				return err
			}
		}
		if rank == 0 {
			err := hash.Update(halt.Path(c.prefix("")), func(h *hash.Hash) error { h.SetValue("ExitReason", "enough"); return nil })
			if err != nil {
				return err
			}
		}
		for range 3 {
			if err := s.Agree(nil); err != nil {
				return err
			}
			if _, err := s.ShouldExit(); err != nil {
				return err
			}
		}
		return s.Finalize()
	})
	c.logs([]string{"INIT_START", "INIT_END", "COMPUTE_START", `HALT "enough"`, "COMPUTE_END", "FINALIZE_END"}, "HALT")
}

// A run that was asked to end has not died, even if it ends without Finalize; it has if that
// was taken back.
func TestEvents_HaltWithoutFinalize(t *testing.T) {
	t.Parallel()
	for _, takenBack := range []bool{false, true} {
		c := newLoggingCluster(t)
		c.must(halt.Change(c.prefix(""), map[halt.Field]string{halt.Because: halt.Asked}))
		c.job(four, func(s *Session, rank int) error {
			yes, err := s.ShouldExit()
			if takenBack && err == nil {
				if rank == 0 {
					err = halt.Remove(c.prefix(""))
				}
				if err = s.Agree(err); err == nil {
					yes, err = s.ShouldExit()
				}
			}
			if err == nil && yes == takenBack {
				err = fmt.Errorf("ShouldExit says %v", yes)
			}
			return err
		})
		c.events()
		c.must(halt.Remove(c.prefix("")))
		c.job(four, func(s *Session, rank int) error { return nil })
		if died := slices.Contains(c.events(), "EARLIER_RUN_DIED"); died != takenBack {
			t.Errorf("taken back %v, died %v", takenBack, died)
		}
	}
}

// Where the library ends the job, the log ends as with Finalize.
func TestEvents_HaltExit(t *testing.T) {
	t.Parallel()
	c := newLoggingCluster(t, "SCR_HALT_EXIT=1", "SCR_FLUSH=10", "SLURM_JOB_ID=17")
	c.job(four, func(s *Session, rank int) error {
		if rank == 0 {
			if err := hash.Update(halt.Path(c.prefix("")), func(h *hash.Hash) error { h.SetInt("CheckpointsLeft", 1); return nil }); err != nil {
				return err
			}
		}
		if err := checkpoint(s, rank, 1); !errors.Is(err, ErrHalted) {
			return errors.Join(errors.New("the job continues"), err)
		}
		return nil
	})
	c.logs([]string{"INIT_START", "INIT_END", "COMPUTE_START", "RESTART_NONE", "COMPUTE_END", "CHECKPOINT_START 1", "CHECKPOINT_END 1",
		"encode 1", "HALT", "FLUSH_START 1", "FLUSH_SUCCESS 1", "flush 1", "FINALIZE_END"})
	if err := c.try(four, func(*Session, int) error { return errors.New("Init has not halted") }); !errors.Is(err, ErrHalted) {
		t.Errorf("the next run: %v", err)
	}
	c.logs([]string{"INIT_START", "REBUILD_START 1", "REBUILD_SUCCESS 1", "INIT_END", "HALT", "FINALIZE_END"})
}

func TestEvents_InitFails(t *testing.T) {
	t.Parallel()
	c := newLoggingCluster(t, "SCR_COPY_TYPE=PARTNER", "SCR_GROUP=NONE")
	if c.try(four, func(*Session, int) error { return nil }) == nil {
		t.Fatal("a group that there is not is accepted")
	}
	got := c.events("INIT_FAIL")
	if len(got) != 2 || got[0] != "INIT_START" || !strings.HasPrefix(got[1], "INIT_FAIL ") || !strings.Contains(got[1], "NONE") {
		t.Errorf("%q", got)
	}
}

// Without scr_run, too, the log has the nodes.
func TestEvents_Nodes(t *testing.T) {
	t.Parallel()
	c := newLoggingCluster(t)
	c.job([]string{"n1", "n2", "n2", "n3"}, func(*Session, int) error { return nil })
	text, err := os.ReadFile(eventlog.TextFile(c.prefix("")))
	must(t, err)
	if want := `event=NODES, nodes=3, ranks=4, nodelist="n[1-3]"`; !strings.Contains(string(text), want) {
		t.Errorf("no %s in\n%s", want, text)
	}
}

// Each phase of a checkpoint is logged as all ranks took it.
func TestEvents_Phases(t *testing.T) {
	t.Parallel()
	phases := func(c *cluster) (list []eventlog.Record) {
		text, err := os.ReadFile(eventlog.TextFile(c.prefix("")))
		if err == nil {
			err = os.Remove(eventlog.TextFile(c.prefix("")))
		}
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(text)) {
			r, err := eventlog.Parse(line)
			if err != nil {
				t.Fatal(err)
			}
			if r.Spread != nil {
				list = append(list, r)
			}
		}
		return list
	}
	check := func(list []eventlog.Record, want ...string) {
		t.Helper()
		var got []string
		for _, r := range list {
			got = append(got, r.Type)
			s := r.Spread
			if !(s.Least <= s.Median && s.Median <= s.Most) || s.Node == "" || s.Rank < 0 || s.Rank > 3 || r.Dataset != 1 || r.Name != "ckpt.1" {
				t.Errorf("%s %+v of dataset %d", r.Type, s, r.Dataset)
			}
		}
		if !slices.Equal(got, want) {
			t.Errorf("phases %q, want %q", got, want)
		}
	}
	for _, async := range []string{"0", "1"} {
		c := newLoggingCluster(t, "SCR_FLUSH=1", "SCR_FLUSH_ASYNC="+async)
		c.job(four, func(s *Session, rank int) error {
			if err := s.StartOutput("ckpt.1", Checkpoint); err != nil {
				return err
			}
			if rank == 2 {
				time.Sleep(50 * time.Millisecond) // which its WRITE has to contain
			}
			return errors.Join(write(s, contents(1, rank)), s.CompleteOutput(true), s.Finalize())
		})
		list := phases(c)
		check(list, "ROUTE", "WRITE", "ENCODE", "FILL", "FLUSH")
		if w := list[1].Spread; w.Most < .05 {
			t.Errorf("WRITE %+v, and rank 2 slept 0.05 s", w)
		}
		if e := list[2]; e.Bytes == nil || *e.Bytes <= 0 {
			t.Errorf("no bytes of redundancy: %v", e.Bytes)
		}
		if f := list[3]; f.Spread.Most > 100 || f.Note == "" {
			t.Errorf("FILL %+v of %q", f.Spread, f.Note)
		}
		c.lose("b")
		c.job(four, restarts(1))
		check(phases(c), "DISTRIBUTE", "REBUILD")
		c.lose("a", "b")
		c.job(four, restarts(1))
		check(phases(c), "FETCH")
	}
}

// Metrics do not need a log.
func TestEvents_Metrics(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	c := newCluster(t, "SCR_METRICS_DIR="+dir, "SCR_FLUSH=2")
	metrics := func(want ...string) {
		t.Helper()
		list, err := filepath.Glob(filepath.Join(dir, "*"))
		if err != nil || len(list) != 1 {
			t.Fatalf("%v %v", list, err)
		}
		data, err := os.ReadFile(list[0])
		if err != nil {
			t.Fatal(err)
		}
		for _, w := range want {
			if !regexp.MustCompile(`(?m)^` + strings.Replace(w, "{", `\{jobid="[^"]*",user="[^"]*",?`, 1) + `$`).Match(data) {
				t.Errorf("no %s in\n%s", w, data)
			}
		}
	}
	c.job(four, steps(1, 2, 3)) // is killed
	metrics("goscr_checkpoints_total{} 3", "goscr_flushes_total{} 1", `goscr_restarts_total{from="beginning"} 1`, "goscr_job_running{} 1",
		`goscr_phases_total{phase="encode",scheme="XOR"} 3`, "goscr_written_bytes_total{} [1-9][0-9]*", "goscr_redundancy_bytes_total{} [1-9][0-9]*",
		"goscr_cache_bytes{} [1-9][0-9]*", `goscr_cache_used_ratio{store="[^"]*"} 0\.[0-9]*`)
	c.job(four, func(s *Session, rank int) error { return errors.Join(restarts(3)(s, rank), s.Finalize()) })
	metrics("goscr_failures_total{} 1", "goscr_failures_survived_total{} 1", `goscr_restarts_total{from="cache"} 1`, "goscr_job_running{} 0")
	if _, err := os.Stat(filepath.Join(c.prefix(""), ".scr", "log")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("there is a log: %v", err)
	}
}

// A checkpoint that bypasses the cache is in the prefix directory.
func TestEvents_MetricsOfBypass(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	c := newCluster(t, "SCR_METRICS_DIR="+dir, "SCR_CACHE_BYPASS=1")
	c.job(four, steps(1, 2))
	list, err := filepath.Glob(filepath.Join(dir, "*"))
	if err != nil || len(list) != 1 {
		t.Fatalf("%v %v", list, err)
	}
	text, err := os.ReadFile(list[0])
	if err != nil {
		t.Fatal(err)
	}
	if found := regexp.MustCompile(`goscr_newest_checkpoint_timestamp_seconds\{.*place="([a-z]*)"`).FindAllSubmatch(text, -1); len(found) != 1 || string(found[0][1]) != "prefix" {
		t.Errorf("%q in\n%s", found, text)
	}
}
