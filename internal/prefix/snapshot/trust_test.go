package snapshot

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/goscr/goscr/hash"
	"github.com/goscr/goscr/internal/sys/trust"
)

const other = 65533

// What another user has recorded starts nothing of the caller's, also after the caller has
// recorded more in the same file.
func TestRecord_OfAnotherUser(t *testing.T) {
	dir := t.TempDir()
	must(t, hash.MakeDirs(filepath.Join(dir, ".scr")))
	refer := func(id int, command string) {
		t.Helper()
		enter(t, dir, id, true)
		kept, err := facts().Store(dir)
		must(t, err)
		must(t, kept.Refer(ckpt(id), when, command))
	}
	check := func(id int, users trust.Users) error {
		t.Helper()
		r, err := Read(dir, find(t, dir, id))
		must(t, err)
		return r.Check(users)
	}
	records := metadata(dir, recordsFile)
	refer(1, "./evil")
	if err := check(1, nil); err != nil {
		t.Error(err)
	}
	if info, err := os.Stat(records); err != nil || info.Mode().Perm()&0o022 != 0 {
		t.Errorf("others can write to it: %v", info.Mode())
	}
	must(t, os.Chmod(records, 0o666))
	if err := check(1, nil); err == nil {
		t.Error("others can write to it, and it counts")
	}
	refer(2, "")
	if err := check(1, nil); err == nil || !strings.Contains(err.Error(), "may have been written by another user") {
		t.Errorf("%v", err)
	}
	if err := check(2, nil); err != nil {
		t.Error(err)
	}
	if os.Geteuid() != 0 {
		return
	}
	must(t, errors.Join(os.Chown(records, other, other), os.Chmod(records, 0o644)))
	if err := check(1, trust.Users{other: true}); err == nil {
		t.Error("a record that anybody may have written counts")
	}
	for range 2 { // before and after the caller makes the file his own
		if err := check(2, nil); err == nil || !strings.Contains(err.Error(), trust.Parameter) {
			t.Errorf("%v", err)
		}
		if err := check(2, trust.Users{other: true}); err != nil {
			t.Error(err)
		}
		refer(3, "./mine")
		if err := check(3, nil); err != nil {
			t.Error(err)
		}
	}
}

// The facts of a record are those that its digest names.
func TestRecord_OtherFacts(t *testing.T) {
	dir := t.TempDir()
	must(t, hash.MakeDirs(filepath.Join(dir, ".scr")))
	enter(t, dir, 1, true)
	kept, err := facts().Store(dir)
	must(t, err)
	must(t, kept.Refer(ckpt(1), when, ""))
	evil := facts()
	evil.Programs[0].Argv = []string{"./evil"}
	must(t, hash.WriteFile(factsPath(dir, digest(facts().Programs[0].encode())), evil.Programs[0].encode()))
	if _, err := Read(dir, find(t, dir, 1)); !errors.Is(err, hash.ErrCorrupt) {
		t.Errorf("%v", err)
	}
	_, err = facts().Store(dir) // writes it again
	must(t, err)
	if r, err := Read(dir, find(t, dir, 1)); err != nil || r.Programs[0].Argv[0] == "./evil" {
		t.Errorf("%v", err)
	}
}
