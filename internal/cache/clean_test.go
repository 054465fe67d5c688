package cache

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/goscr/goscr/internal/lock"
)

// A run that begins while scr_clean removes its control directory gets its lock, and a
// directory that is there.
func TestLockControl_WhileItIsRemoved(t *testing.T) {
	base := t.TempDir()
	for range 100 {
		k := &Cache{Config: Config{Control: Base{Dir: base, SetBy: "a test"}, User: "user", JobID: "job"}}
		k.control = filepath.Join(base, "user/scr.job")
		path := filepath.Join(k.control, LockFile)
		if err := MakePrivate(base, "user", "scr.job"); err != nil {
			t.Fatal(err)
		}
		cleaner, err := lock.Try(path, lock.Exclusive)
		if err != nil || cleaner == nil {
			t.Fatal(cleaner, err)
		}
		failed := make(chan error)
		go func() { failed <- k.lockControl("scr.job") }()
		_ = os.Remove(path)
		_ = os.Remove(k.control) // fails if the run has made a lock file again
		cleaner.Release()
		if err := <-failed; err != nil {
			t.Fatal(err)
		}
		if !lock.Held(path) {
			t.Fatal("the run does not hold its lock")
		}
		k.lock.Release()
	}
}
