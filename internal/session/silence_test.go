package session

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// All ranks route one file, as with MPI-IO, and wait in it for each other.
func TestSilence(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "SCR_WAIT_SECONDS=1")
	c.job(on(2, "a", "b"), func(s *Session, rank int) error {
		if err := s.StartOutput(name(1), Checkpoint); err != nil {
			return err
		}
		path, err := s.Route(c.prefix("ckpt.1/all"))
		if err == nil && rank%2 == 0 {
			err = os.WriteFile(path, []byte("header"), 0o600)
		}
		for err == nil && !strings.Contains(c.said(), "the files of rank 0 have not changed for 1s") {
			time.Sleep(time.Millisecond)
		}
		return err
	})
	c.says("SCR_CACHE_BYPASS=1")
}

// A program that writes slowly is not silent, nor is one that has routed no file, or many.
func TestSilence_No(t *testing.T) {
	dir := t.TempDir()
	told := 0
	w := watchFor(time.Hour, func() { told++ })
	w.look()
	w.look()
	path := filepath.Join(dir, "file")
	w.route(path)
	for i := range 3 {
		if err := os.WriteFile(path, make([]byte, i), 0o600); err != nil {
			t.Fatal(err)
		}
		w.look()
	}
	if told > 0 {
		t.Error("the file grows")
	}
	w.look()
	w.look()
	if told == 0 {
		t.Error("nothing was told")
	}
	told = 0
	for range 10 {
		w.route(path)
	}
	w.look()
	w.look()
	w.end()
	w.look()
	var none *silence
	none.route(path)
	none.end()
	if told > 0 {
		t.Error("many files")
	}
}

// It ends with the dataset, however that ends.
func TestSilence_Ends(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	c.job(four, func(s *Session, rank int) error {
		if err := s.StartOutput(name(1), Checkpoint); err != nil {
			return err
		}
		first := s.writer.output.silence
		err := s.CompleteOutput(true)
		err = errors.Join(err, s.StartOutput(name(2), Checkpoint))
		second := s.writer.output.silence
		_ = s.Finalize() // an error: the dataset is not complete
		if rank == 0 && !(first.ended && second.ended) {
			err = errors.Join(err, errors.New("it continues"))
		}
		if rank > 0 && first != nil {
			err = errors.Join(err, errors.New("not on rank 0"))
		}
		return err
	})
}
