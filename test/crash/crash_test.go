package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/goscr/goscr/test/tracer"
)

// tools is where the commands are.
var tools string

// TestMain is the campaign's own program for the jobs that the tests start.
func TestMain(m *testing.M) {
	tracer.Become()
	if len(os.Args) == 3 && os.Args[1] == "job" {
		os.Exit(runJob(os.Args[2]))
	}
	os.Exit(withTools(m))
}

func withTools(m *testing.M) int {
	dir, err := os.MkdirTemp("", "goscr-crash-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	tools = dir
	if out, err := exec.Command("go", "build", "-o", filepath.Join(dir, "scr_index"), "github.com/goscr/goscr/cmd/scr").CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "go build ./cmd/scr: %v\n%s", err, out)
		return 1
	}
	return m.Run()
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func named(t *testing.T, name string) *scenario {
	t.Helper()
	for _, sc := range scenarios(true) {
		if sc.name == name {
			return sc
		}
	}
	t.Fatalf("there is no scenario %s", name)
	return nil
}

// begun is a site with the state of a scenario.
func begun(t *testing.T, sc *scenario) *site {
	t.Helper()
	s, err := newSite(settings{tools: tools})
	must(t, err)
	t.Cleanup(s.close)
	must(t, s.begin(sc))
	return s
}

// A campaign that finds nothing means something only if it would find a fault: each kind of
// fault is made here, between the kill and the checks.
func TestJudge_FindsFaults(t *testing.T) {
	change := func(path string) func(t *testing.T, s *site) {
		return func(t *testing.T, s *site) {
			data, err := os.ReadFile(s.at(path))
			must(t, err)
			info, err := os.Stat(s.at(path))
			must(t, err)
			data[len(data)/2] ^= 1
			must(t, os.WriteFile(s.at(path), data, 0o600))
			must(t, os.Chmod(s.at(path), info.Mode()))
			must(t, os.Chtimes(s.at(path), info.ModTime(), info.ModTime()))
		}
	}
	note := func(text string) func(t *testing.T, s *site) {
		return func(t *testing.T, s *site) {
			f, err := os.OpenFile(s.at("log"), os.O_WRONLY|os.O_APPEND, 0o600)
			must(t, err)
			_, err = f.WriteString(text)
			must(t, errors.Join(err, f.Close()))
		}
	}
	for _, c := range []struct {
		name, scenario string
		do             func(t *testing.T, s *site)
		want           Fault
	}{
		{"nothing", "xor-sync-whole", func(*testing.T, *site) {}, ""},
		{"other bytes in the prefix directory", "xor-sync-whole", change("prefix/ckpt.1/rank_0"), FalseComplete},
		{"other mode", "xor-sync-whole", func(t *testing.T, s *site) { must(t, os.Chmod(s.at("prefix/ckpt.2/rank_1"), 0o400)) }, FalseComplete},
		{"other bytes, compressed", "zstd-sync", change("prefix/ckpt.1/rank_0"), FalseComplete},
		{"a checkpoint that was complete and is not there", "xor-none-whole", note("begun 3\ncomplete 3\n"), Lost},
		{"all nodes, where nothing is flushed", "xor-none-whole", func(t *testing.T, s *site) { must(t, s.loseAll()) }, Lost},
		{"more nodes than the scheme bears", "xor-none-whole", func(t *testing.T, s *site) { must(t, s.lose("a", "b")) }, Lost},
		{"a checkpoint that nobody has begun", "xor-none-whole", func(t *testing.T, s *site) {
			must(t, os.WriteFile(s.at("log"), []byte("begun 1\ncomplete 1\nrun 0\n"), 0o600))
		}, Wrong},
		{"an index that cannot be read", "xor-sync-whole", change("prefix/.scr/index.scr"), Fails},
		{"a part of a file", "xor-sync-whole", func(t *testing.T, s *site) {
			must(t, os.WriteFile(s.at("prefix/ckpt.1/.scr.9.0.0.flush"), nil, 0o600))
		}, Left},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			sc := named(t, c.scenario)
			s := begun(t, sc)
			c.do(t, s)
			stored, err := s.checkIndex(sc)
			if err == nil {
				e, failed := s.events()
				must(t, failed)
				err = s.judgeRun(sc, 1, e, stored, &outcome{})
			}
			var got *fault
			if err != nil && !errors.As(err, &got) {
				t.Fatal(err)
			}
			if kind := kindOf(got); kind != c.want {
				t.Errorf("found %q, want %q: %v", kind, c.want, err)
			}
		})
	}
}

func kindOf(f *fault) Fault {
	if f == nil {
		return ""
	}
	return f.Kind
}

// The files of each step are others, also under the same names, and are told apart.
func TestContents(t *testing.T) {
	for _, same := range []bool{false, true} {
		for rank := range 4 {
			for _, f := range contents(2, rank, same) {
				at := filepath.Join(t.TempDir(), "file")
				must(t, f.write(at))
				if err := f.compare(at); err != nil {
					t.Error(err)
				}
				for _, other := range contents(3, rank, same) {
					if err := other.compare(at); err == nil {
						t.Errorf("rank %d: %s of step 3 is %s of step 2", rank, other.name, f.name)
					}
				}
			}
		}
	}
}

// A state that is put back is the one that was saved, byte for byte, with modes and times.
func TestSite_Restore(t *testing.T) {
	t.Parallel()
	s := begun(t, named(t, "xor-sync-whole"))
	must(t, os.Symlink("nowhere", s.at("prefix/link")))
	before, err := s.save()
	must(t, err)
	must(t, s.loseAll())
	must(t, os.WriteFile(s.at("prefix/ckpt.1/rank_0"), []byte("x"), 0o600))
	must(t, os.WriteFile(s.at("prefix/more"), nil, 0o600))
	must(t, s.restore(before))
	after, err := s.save()
	must(t, err)
	if got, want := fmt.Sprint(after), fmt.Sprint(before); got != want {
		t.Errorf("put back: %d files, were %d", len(after), len(before))
	}
}

// A campaign that was ended continues where it was, and one with other programs starts from the beginning.
func TestState(t *testing.T) {
	t.Parallel()
	at := filepath.Join(t.TempDir(), "state")
	set := settings{tools: tools, state: at}
	st, err := openState(set)
	must(t, err)
	must(t, st.add(record{Scenario: "s", Total: 9}))
	must(t, st.add(record{Scenario: "s", At: 3, Call: "write x", Restarts: 2}))
	must(t, st.add(record{Scenario: "s", At: 4, Call: "write y", Fault: Lost, Text: "why"}))
	st.file.Close()
	f, err := os.OpenFile(at, os.O_WRONLY|os.O_APPEND, 0o600)
	must(t, err)
	_, err = f.WriteString(`{"Scenario":"s","At":5,"Ca`) // killed
	must(t, errors.Join(err, f.Close()))

	again, err := openState(set)
	must(t, err)
	var out strings.Builder
	if again.calls("s") != 9 || !again.has("s", 3) || !again.has("s", 4) || again.has("s", 5) || again.report(&out) {
		t.Errorf("read again: %+v", again.list)
	}
	if !strings.Contains(out.String(), "make crash CASE=s:4") {
		t.Errorf("the report does not say how to repeat it:\n%s", out.String())
	}
	must(t, again.add(record{Scenario: "s", At: 6}))
	again.file.Close()
	third, err := openState(set)
	must(t, err)
	if third.file.Close(); !third.has("s", 6) {
		t.Error("what was done after the state was read again is not recorded")
	}

	must(t, os.WriteFile(at, append([]byte("x"), mustRead(t, at)...), 0o600))
	anew, err := openState(set)
	must(t, err)
	defer anew.file.Close()
	if len(anew.list) > 0 {
		t.Errorf("another version's cases count: %+v", anew.list)
	}
}

func mustRead(t *testing.T, path string) []byte {
	t.Helper()
	data, err := os.ReadFile(path)
	must(t, err)
	return data
}

// All parts of a campaign together are every call, once.
func TestTask_AllCalls(t *testing.T) {
	for _, every := range []int{0, 7} {
		seen := map[int]int{}
		for part := range passes {
			for _, at := range (task{sc: &scenario{every: every}, part: part}).pick(1000) {
				seen[at]++
			}
		}
		want := 1000
		if every > 0 {
			want = (1000 + every - 1) / every
		}
		if len(seen) != want {
			t.Errorf("every %d: %d calls", every, len(seen))
		}
		for at, n := range seen {
			if n != 1 || at < 1 || at > 1000 {
				t.Errorf("call %d: %d times", at, n)
			}
		}
	}
}
