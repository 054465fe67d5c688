package faultfs

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func syncs(t *testing.T, path string) {
	t.Helper()
	f, err := os.Open(path)
	must(t, err)
	must(t, f.Sync())
	must(t, f.Close())
}

// outcomes are what a file may be after a power failure, over many seeds; "-" if it is
// not there. Zeros are shown as "0".
func outcomes(t *testing.T, m *Mount, at int, name string) map[string]bool {
	t.Helper()
	found := map[string]bool{}
	dir := filepath.Join(t.TempDir(), "after")
	for seed := range uint64(60) {
		m.Survivors(at, seed, dir)
		data, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			found["-"] = true
		} else {
			found[strings.ReplaceAll(string(data), "\x00", "0")] = true
		}
		must(t, os.RemoveAll(dir))
	}
	return found
}

func expect(t *testing.T, what string, got map[string]bool, want ...string) {
	t.Helper()
	for _, w := range want {
		if !got[w] {
			t.Errorf("%s: never %q, but %v", what, w, got)
		}
	}
	if len(got) != len(want) {
		t.Errorf("%s: %v, want %q", what, got, want)
	}
}

// A file that is replaced in the right way is the old one or the new one at any instant,
// and the new one in the end. Each sync that is left out shows.
func TestSurvivors_Replace(t *testing.T) {
	for _, c := range []struct {
		name          string
		data, parent  bool
		middle, after []string // before the directory is synced, and at the end
	}{
		{"right", true, true, []string{"old", "new"}, []string{"new"}},
		{"without fsync", false, true, []string{"old", "", "000", "new"}, []string{"", "000", "new"}},
		{"without fsync of the directory", true, false, []string{"old", "new"}, []string{"old", "new"}},
	} {
		m := New(t, Options{})
		path := filepath.Join(m.Dir, "file")
		must(t, os.WriteFile(path, []byte("old"), 0o600))
		m.Set(Options{Record: true})
		must(t, os.WriteFile(path+".tmp", []byte("new"), 0o600))
		if c.data {
			syncs(t, path+".tmp")
		}
		expect(t, c.name+": before", outcomes(t, m, m.Count(), "file"), "old")
		must(t, os.Rename(path+".tmp", path))
		middle := m.Count()
		if c.parent {
			syncs(t, m.Dir)
		}
		expect(t, c.name+": in the middle", outcomes(t, m, middle, "file"), c.middle...)
		expect(t, c.name+": after", outcomes(t, m, m.Count(), "file"), c.after...)
		expect(t, c.name+": none", outcomes(t, m, 0, "file"), "old")
	}
}

func TestSurvivors_Directories(t *testing.T) {
	m := New(t, Options{Record: true})
	must(t, os.MkdirAll(filepath.Join(m.Dir, "a/b"), 0o700))
	path := filepath.Join(m.Dir, "a/b/file")
	must(t, os.WriteFile(path, []byte("1"), 0o600))
	syncs(t, path)
	syncs(t, filepath.Dir(path))
	expect(t, "without the directories above", outcomes(t, m, m.Count(), "a/b/file"), "-", "1")
	syncs(t, filepath.Join(m.Dir, "a"))
	syncs(t, m.Dir)
	expect(t, "all", outcomes(t, m, m.Count(), "a/b/file"), "1")
	must(t, os.Remove(path))
	expect(t, "removed", outcomes(t, m, m.Count(), "a/b/file"), "-", "1")
	syncs(t, filepath.Dir(path))
	expect(t, "removed for good", outcomes(t, m, m.Count(), "a/b/file"), "-")
}

// Writes of several sectors may reach the medium in part, and in any order.
func TestSurvivors_TornWrites(t *testing.T) {
	m := New(t, Options{Record: true})
	path := filepath.Join(m.Dir, "file")
	data := strings.Repeat("a", sector) + strings.Repeat("b", sector) + strings.Repeat("c", 10)
	must(t, os.WriteFile(path, []byte(data), 0o600))
	syncs(t, m.Dir)
	found := outcomes(t, m, m.Count(), "file")
	zeros, second := strings.Repeat("0", len(data)), strings.Repeat("0", sector)+data[sector:]
	for _, want := range []string{"", data, zeros, second} {
		if !found[want] {
			t.Errorf("never %d bytes %.3q", len(want), want)
		}
	}
	syncs(t, path)
	expect(t, "synced", outcomes(t, m, m.Count(), "file"), data)
}

// Mode, owner and times are durable once the file is synced after they were set.
func TestSurvivors_Attributes(t *testing.T) {
	m := New(t, Options{Record: true})
	path := filepath.Join(m.Dir, "file")
	must(t, os.WriteFile(path, nil, 0o600))
	syncs(t, m.Dir)
	must(t, os.Chmod(path, 0o640))
	modes := func() map[os.FileMode]bool {
		found := map[os.FileMode]bool{}
		for seed := range uint64(20) {
			dir := filepath.Join(t.TempDir(), "after")
			m.Survivors(m.Count(), seed, dir)
			info, err := os.Stat(filepath.Join(dir, "file"))
			must(t, err)
			found[info.Mode()] = true
		}
		return found
	}
	if got := modes(); len(got) != 2 {
		t.Error(got)
	}
	syncs(t, path)
	if got := modes(); len(got) != 1 || !got[0o640] {
		t.Error(got)
	}
}
