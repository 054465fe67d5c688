package prefix

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/goscr/goscr/internal/prefix/dataset"
	"github.com/goscr/goscr/internal/prefix/transfer"
)

func TestCopyMeter(t *testing.T) {
	dir := t.TempDir()
	d := described(1, "a", dataset.Checkpoint)
	must(t, os.MkdirAll(Dir(dir, 1), 0o700))
	is := func(want float64, there bool) {
		t.Helper()
		if part, known := Copied(dir, d); part != want || known != there {
			t.Errorf("%v %v, want %v %v", part, known, want, there)
		}
	}
	m := NewCopyMeter(dir, d)
	m.Set(100, 1000)
	c := transfer.NewCopier(10)
	steps := 0
	c.Step = func(n int) error { steps += n; return errors.New("stop") }
	m.Watch(c)
	notYet := func() { m.told = time.Now().Add(time.Hour) }
	notYet()
	if err := c.Step(100); err == nil || steps != 100 {
		t.Error(err, steps)
	}
	is(0, false) // a second is not over
	m.told = time.Now().Add(-2 * copyInterval)
	_ = c.Step(100)
	is(.3, true)
	notYet()
	_ = c.Step(100)
	is(.3, true)
	m.told = time.Time{}
	_ = c.Step(2000) // a file that has grown
	is(1, true)
	if !m.Of(dir, d) || m.Of(dir, described(2, "a", dataset.Checkpoint)) || (*CopyMeter)(nil).Of(dir, d) {
		t.Error("a meter is of one dataset")
	}
	copied(dir, 1)
	is(0, false)

	// After an error it tries no more.
	m = NewCopyMeter(filepath.Join(dir, "none"), d)
	m.Set(0, 1000)
	for range 2 {
		m.told = time.Time{}
		m.add(1)
	}
	if !m.failed || !m.told.IsZero() {
		t.Errorf("%+v", m)
	}
}
