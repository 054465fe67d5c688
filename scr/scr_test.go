package scr_test

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/goscr/goscr/internal/session"
	"github.com/goscr/goscr/mpi"
	"github.com/goscr/goscr/mpi/local"
	"github.com/goscr/goscr/scr"
)

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func says(t *testing.T, err error, want string) {
	t.Helper()
	if err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("%v, want %q", err, want)
	}
}

// alone runs a program of one rank.
func alone(t *testing.T, opt scr.Options, program func(s *scr.Session, dir string)) {
	t.Helper()
	dir := t.TempDir()
	opt.Log, opt.Environ = io.Discard, func(name string) (string, bool) {
		value, ok := map[string]string{"SCR_PREFIX": dir, "SCR_USER_NAME": "user", "SCR_JOB_ID": "job", "SCR_NODE_NAME": "a", "SCR_COPY_TYPE": "SINGLE",
			"SCR_CACHE_BASE": filepath.Join(dir, "a"), "SCR_CNTL_BASE": filepath.Join(dir, "a")}[name]
		return value, ok
	}
	_, err := local.Run(1, local.Options{}, func(world mpi.Comm) error {
		s, err := scr.Init(world, opt)
		if err != nil {
			return err
		}
		program(s, dir)
		return s.Finalize()
	})
	must(t, err)
}

// The names in messages about a call at a wrong time are those of this package.
func TestMisuse(t *testing.T) {
	alone(t, scr.Options{}, func(s *scr.Session, dir string) {
		out, err := s.Begin("first", scr.Checkpoint)
		must(t, err)
		_, err = s.Begin("second", scr.Checkpoint)
		says(t, err, "scr: Session.Begin: called in the wrong place (state OUTPUT): an output is under way; end it with Dataset.Complete first")
		_, err = out.Path("../../outside")
		says(t, err, "prefix directory")
		says(t, out.Complete(true), "is not below the prefix directory")
		says(t, out.Complete(true), "scr: Dataset.Complete: first has been completed")
		_, err = out.Path("file")
		says(t, err, "scr: Dataset.Path: first has been completed")
		_, err = out.Directory()
		says(t, err, "scr: Dataset.Directory: first has been completed")
		_, err = s.Begin("a\nb", scr.Checkpoint)
		says(t, err, "control characters")
	})
}

// Nothing of an error that says more is lost.
func TestMisuse_Finalize(t *testing.T) {
	dir := t.TempDir()
	environ := map[string]string{"SCR_PREFIX": dir, "SCR_CACHE_BASE": filepath.Join(dir, "a"), "SCR_CNTL_BASE": filepath.Join(dir, "a"), "SCR_JOB_ID": "job", "SCR_COPY_TYPE": "SINGLE"}
	_, err := local.Run(1, local.Options{}, func(world mpi.Comm) error {
		s, err := scr.Init(world, scr.Options{Log: io.Discard, Environ: func(name string) (string, bool) {
			value, ok := environ[name]
			return value, ok
		}})
		must(t, err)
		_, err = s.Begin("open", scr.Checkpoint)
		must(t, err)
		err = s.Finalize()
		var state *session.StateError
		if !errors.As(err, &state) {
			t.Errorf("%v is of another kind", err)
		}
		return err
	})
	says(t, err, "scr: Finalize: called in the wrong place (state OUTPUT): an output is under way; end it with Dataset.Complete first")
}

// A name is made for a dataset without one, and its files are below it.
func TestBegin_NoName(t *testing.T) {
	alone(t, scr.Options{FlushInterval: 1}, func(s *scr.Session, dir string) {
		out, err := s.Begin("", scr.Checkpoint)
		must(t, err)
		path, err := out.Path("deep/file")
		must(t, err)
		must(t, os.WriteFile(path, []byte("x"), 0o600))
		must(t, out.Complete(true))
		if out.Name() != "scr.dataset.1" {
			t.Errorf("is called %q", out.Name())
		}
		if _, err := os.Stat(filepath.Join(dir, "scr.dataset.1/deep/file")); err != nil {
			t.Errorf("after the flush: %v", err)
		}
	})
}

func TestOptions(t *testing.T) {
	alone(t, scr.Options{CheckpointInterval: 2, CheckpointTime: time.Minute, CheckpointOverhead: 2.5, SetSize: 4, Failures: 1, CacheSize: 3, FlushInterval: 7,
		FlushInBackground: true, Parameters: map[string]string{"SCR_JOB_NAME": "a b"}}, func(s *scr.Session, _ string) {
		for name, want := range map[string]string{"SCR_CHECKPOINT_INTERVAL": "2", "SCR_CHECKPOINT_SECONDS": "60", "SCR_CHECKPOINT_OVERHEAD": "2.5", "SCR_SET_SIZE": "4",
			"SCR_SET_FAILURES": "1", "SCR_CACHE_SIZE": "3", "SCR_FLUSH": "7", "SCR_FLUSH_ASYNC": "1", "SCR_JOB_NAME": "a b"} {
			if got, ok, err := s.Parameter(name); got != want || !ok || err != nil {
				t.Errorf("%s is %q %v %v, want %q", name, got, ok, err, want)
			}
		}
	})
	for want, opt := range map[string]scr.Options{
		"no number of whole seconds":                      {CheckpointTime: time.Millisecond},
		"SCR_FLUSH is in Parameters, and in a field":      {FlushInterval: 1, Parameters: map[string]string{"SCR_FLUSH": "2"}},
		`"SCR_FLUSH" sets nothing`:                        {Config: []string{"SCR_FLUSH"}},
		"a name has neither blanks nor =, and a value is": {Parameters: map[string]string{"A B": "c"}},
	} {
		_, err := scr.Init(nil, opt)
		says(t, err, want)
	}
}

// An error of another package is told apart.
func TestErrors(t *testing.T) {
	alone(t, scr.Options{}, func(s *scr.Session, dir string) {
		says(t, s.RestartFrom(dir, 1), "has no checkpoint 1")
		if err := s.Migrate([]scr.Destination{{Rank: 0, Near: -1}}); !errors.Is(err, scr.ErrNoLoop) {
			t.Error(err)
		}
	})
}
