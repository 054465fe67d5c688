package scavenge_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/goscr/goscr/internal/sys/lock"
	"github.com/goscr/goscr/test/scavengetest"
)

// While another scr_copy has the lock of the node and shows no sign of life, none copies:
// both would write the same files. Where no lock can be taken at all, the files are copied
// all the same, with a warning.
func TestCopy_Lock(t *testing.T) {
	c := newCluster(t)
	c.Write(scavengetest.Four, 1)
	lock.SetPatience(lock.Patience{Limit: 50 * time.Millisecond, Tell: func(string) {}})
	defer lock.SetPatience(lock.Patience{Limit: time.Minute, Tell: func(string) {}})
	path := filepath.Join(c.Control("a"), "copy.lock")
	held, err := lock.Try(path, lock.Exclusive)
	must(t, err)
	done, _, err := c.copy("a", 1)
	if !errors.Is(err, lock.ErrTimeout) || !strings.Contains(err.Error(), "another scr_copy works on this node's files") || done.Files > 0 {
		t.Errorf("%+v, %v", done, err)
	}
	held.Release()
	must(t, os.Remove(path))
	must(t, os.Mkdir(path, 0o700)) // cannot be a lock
	done, w, err := c.copy("a", 1)
	if err != nil || done.Files == 0 {
		t.Errorf("%+v, %v", done, err)
	}
	w.say(t, "no lock keeps another scr_copy from this node's files: ")
}
