package cache

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/goscr/goscr/internal/observe/report"
	"github.com/goscr/goscr/internal/redundancy/reddesc"
	"github.com/goscr/goscr/internal/sys/lock"
	"github.com/goscr/goscr/internal/sys/probe"
	"github.com/goscr/goscr/mpi"
	"github.com/goscr/goscr/mpi/local"
)

// A run that begins while scr_clean removes its control directory gets its lock, and a
// directory that is there.
func TestLockControl_WhileItIsRemoved(t *testing.T) {
	base := t.TempDir()
	for range 100 {
		c := Config{Control: Base{Dir: base, SetBy: "a test"}, User: "user", JobID: "job", Log: &report.Logger{}}
		control := filepath.Join(base, "user/scr.job")
		path := filepath.Join(control, LockFile)
		if err := MakePrivate(base, "user", "scr.job"); err != nil {
			t.Fatal(err)
		}
		cleaner, err := lock.Try(path, lock.Exclusive)
		if err != nil || cleaner == nil {
			t.Fatal(cleaner, err)
		}
		var own *lock.Lock
		failed := make(chan error)
		go func() {
			l, err := lockControl(c, control, probe.NewRun())
			own = l
			failed <- err
		}()
		_ = os.Remove(path)
		_ = os.Remove(control) // fails if the run has made a lock file again
		cleaner.Release()
		if err := <-failed; err != nil {
			t.Fatal(err)
		}
		if !lock.Held(path) {
			t.Fatal("the run does not hold its lock")
		}
		own.Release()
	}
}

// A run that waits until scr_clean has removed the job has the directories of all its stores
// then, which are not in the control directory.
func TestOpen_WhileTheJobIsRemoved(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "control/u/scr.1", LockFile)
	stores := []string{filepath.Join(dir, "cache"), filepath.Join(dir, "other")}
	must(t, MakePrivate(filepath.Join(dir, "control"), "u", "scr.1"))
	cleaner, err := lock.Try(path, lock.Exclusive)
	if err != nil || cleaner == nil {
		t.Fatal(cleaner, err)
	}
	waited := false
	hurry(t, 10*time.Second, func(string) { // as Remove of internal/node/remains does
		waited = true
		for _, base := range stores {
			must(t, RemoveTree(filepath.Join(base, "u/scr.1")))
		}
		must(t, errors.Join(os.Remove(path), os.Remove(filepath.Dir(path))))
		cleaner.Release()
	})
	_, err = local.Run(2, local.Options{}, func(world mpi.Comm) error {
		c := Config{
			World: world, Node: world, Control: Base{Dir: filepath.Join(dir, "control")}, User: "u", JobID: "1", Prefix: "/prefix",
			Piece: 64, Distribute: true, Log: &report.Logger{Rank: world.Rank(), Node: "node"},
		}
		for _, base := range stores {
			c.Stores = append(c.Stores, &reddesc.Store{Name: base, Base: base, Comm: world})
		}
		k, err := Open(c, "test", nil)
		if err != nil {
			return err
		}
		for i, s := range c.Stores {
			k.parts.places.put(i+1, s)
			err = errors.Join(err, k.parts.makeDir(i+1))
		}
		return errors.Join(mpi.Agree(world, err), k.Close())
	})
	if err != nil || !waited {
		t.Errorf("%v; it has waited: %v", err, waited)
	}
}

// A directory that another process removes while it is made is made again. Each is removed once: one
// that is removed again and again cannot be made.
func TestMakePrivate_WhileItIsRemoved(t *testing.T) {
	base := t.TempDir()
	dir := filepath.Join(base, "user/scr.job")
	for range 5000 {
		must(t, MakePrivate(base, "user", "scr.job"))
		removed := make(chan error)
		go func() { removed <- os.Remove(dir) }()
		made := MakePrivate(base, "user", "scr.job")
		must(t, errors.Join(<-removed, made))
	}
}
