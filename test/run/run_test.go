package main

import (
	"context"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// Every script of the project says with which MPIs it runs.
func TestScripts(t *testing.T) {
	t.Chdir("../..")
	list, err := allScripts()
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range list {
		if s.budget <= 0 {
			t.Errorf("%s has no budget", s.name)
		}
	}
	for _, text := range []string{"", "# Test: two MPIs, 3 s", "# Test: one MPI", "x # Test: one MPI, 3 s"} {
		if s, err := parseScript("x", text); err == nil {
			t.Errorf("%q is %+v", text, s)
		}
	}
}

func TestChosen(t *testing.T) {
	both := []string{"openmpi", "mpich"}
	for _, x := range []struct {
		with string
		each bool
		want []string
	}{
		{"both", false, both}, {"one", true, both}, {"one", false, both[:1]}, {"no", false, both[1:]}, {"no", true, both[1:]},
		{"openmpi", false, both[:1]}, {"mpich", true, both[1:]},
	} {
		if got := (script{with: x.with}).chosen(both, x.each, "openmpi"); !slices.Equal(got, x.want) {
			t.Errorf("%s: %v", x.with, got)
		}
	}
	if got := (script{with: "openmpi"}).chosen(both[1:], true, "mpich"); got != nil {
		t.Errorf("without Open MPI: %v", got)
	}
}

// Ranks yield while they wait, but not those of MPICH in a run of everything, if MPI is the subject.
func TestYields(t *testing.T) {
	t.Chdir("../..")
	if _, err := exec.LookPath("mpicc.mpich"); err != nil {
		t.Skip("without MPICH")
	}
	for size, preloaded := range map[string]map[string]bool{"": {"both": true, "one": true}, "all": {"both": false, "one": true}} {
		t.Setenv("TEST_SIZE", size)
		remove := buildYield(t.Context(), []string{"openmpi", "mpich"})
		if info, err := os.Stat(filepath.Dir(yield)); err != nil || info.Mode().Perm() != 0o755 {
			t.Errorf("other users cannot read the directory of %q: %v", yield, err)
		}
		if out, err := exec.Command("nm", "-D", "--defined-only", yield).Output(); err != nil || !strings.Contains(string(out), "T ucp_worker_progress") {
			t.Errorf("it does not take the place of UCX's function: %q, %v", out, err)
		}
		for with, want := range preloaded {
			s := script{with: with}
			if got := slices.Contains(s.mpiEnv("mpich"), "LD_PRELOAD="+yield); got != want {
				t.Errorf("size %q, %s: preloaded: %v", size, with, got)
			}
			if !slices.Contains(s.mpiEnv("openmpi"), "OMPI_MCA_mpi_yield_when_idle=1") {
				t.Errorf("size %q, %s: Open MPI does not yield", size, with)
			}
		}
		remove()
		if _, err := os.Stat(yield); err == nil {
			t.Errorf("%s is left", yield)
		}
		yield = ""
	}
}

func TestWanted(t *testing.T) {
	for name, want := range map[string]bool{"44-quiet": true, "44-image": true, "62-schemes": true, "60-kill": false, "go": false} {
		if got := (plan{only: []string{"44", "schemes"}}).wanted(name); got != want {
			t.Errorf("%s: %v", name, got)
		}
	}
	if !(plan{}).wanted("go") {
		t.Error("without names not everything is wanted")
	}
}

// at runs a script of these lines as the runner runs those of the project.
func at(t *testing.T, ctx context.Context, lines string) result {
	t.Helper()
	root := t.TempDir()
	t.Chdir(root)
	if err := os.MkdirAll("test/scripts", 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile("test/scripts/10-x.sh", []byte(lines), 0o644); err != nil {
		t.Fatal(err)
	}
	bed := filepath.Join(root, "bed")
	if err := os.WriteFile(bed, []byte("#!/bin/sh\necho \"$1 $TESTBED_DIR\" >"+root+"/down\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("ROOT", root)
	t.Setenv("TESTBED", bed)
	r, err := runScript(ctx, script{name: "10-x"}, "openmpi", true, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	if down, err := os.ReadFile("down"); err != nil || !strings.HasPrefix(string(down), "down /dev/shm/goscr-test.") {
		t.Errorf("the testbed was not brought down: %q, %v", down, err)
	}
	return r
}

func TestScript_Counts(t *testing.T) {
	for _, x := range []struct {
		lines  string
		passed int
		failed []string
	}{
		{"echo ok a; echo 'not ok b'; echo '  why'; echo ok c", 2, []string{"b"}},
		{"echo ok a; exit 3", 1, []string{"exit status 3"}},
		{"echo 'not ok a'; exit 3", 0, []string{"a"}},
		{"echo well", 0, []string{"no checks"}},
		{`echo "ok $MPI $MPICC $ONCE"; [ -d "$WORK" ] && [ "$BUILD" = "$ROOT/build/openmpi" ] || echo "not ok environment"`, 1, nil},
	} {
		r := at(t, t.Context(), x.lines)
		if r.passed != x.passed || !slices.Equal(r.failures, x.failed) {
			t.Errorf("%s: %+v", x.lines, r)
		}
		if len(x.failed) > 0 && r.excerpt == "" {
			t.Errorf("%s: nothing is shown of it", x.lines)
		}
	}
	// Everything that a failed check says is shown, since nobody can ask CI for the rest.
	if r := at(t, t.Context(), "echo 'not ok a'; seq -f '  line %g.' 30; echo ok b; echo c"); !strings.Contains(r.excerpt, "line 30.") || strings.Contains(r.excerpt, "ok b") {
		t.Errorf("of a check with 30 lines:\n%s", r.excerpt)
	}
	// The last of it stands beside the name at the end, since CI may cut out the middle of what it prints.
	r := at(t, t.Context(), "echo 'not ok a'; seq -f '  line %g.' 30; echo ok b; echo '  c'")
	var all total
	all.add(r, 0, 0)
	if want := []string{"openmpi 10-x: a\n   | line 25.\n   | line 26.\n   | line 27.\n   | line 28.\n   | line 29.\n   | line 30."}; !slices.Equal(all.failures, want) {
		t.Errorf("%q, want %q", all.failures, want)
	}
	// Two failures of one name each have their own reasons, and a line is cut between characters.
	r = at(t, t.Context(), "echo 'not ok a'; echo first; echo 'not ok a'; printf 'é%.0s' {1..300}; echo")
	all = total{}
	all.add(r, 0, 0)
	if want := []string{"openmpi 10-x: a\n   | first", "openmpi 10-x: a\n   | " + strings.Repeat("é", 200)}; !slices.Equal(all.failures, want) {
		t.Errorf("%q, want %q", all.failures, want)
	}
	// The processor time of a process below the script counts once the script has waited for it.
	r = at(t, t.Context(), "sh -c 'i=0; while [ $i -lt 300000 ]; do i=$((i + 1)); done'; echo ok a")
	if r.cpu < 50*time.Millisecond {
		t.Errorf("a process that counted to 300,000 has taken %v", r.cpu)
	}
}

// A script that is silent, or a run that is interrupted, ends with all its processes.
func TestScript_IsEnded(t *testing.T) {
	for _, silent := range []bool{true, false} {
		pids := filepath.Join(t.TempDir(), "pids")
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		want := context.Canceled.Error()
		if silent {
			t.Setenv("TEST_TIMEOUT", "1")
			want = errSilent.Error()
		} else {
			t.Setenv("TEST_TIMEOUT", "3600")
			go func() {
				for ctx.Err() == nil {
					if data, _ := os.ReadFile(pids); strings.Count(string(data), "\n") == 2 {
						cancel()
					}
					time.Sleep(time.Millisecond)
				}
			}()
		}
		r := at(t, ctx, "(echo $BASHPID >>"+pids+"; exec sleep 10000) & echo ok a; echo $$ >>"+pids+"; wait")
		if !slices.Equal(r.failures, []string{want}) {
			t.Errorf("silent: %v: %+v", silent, r)
		}
		data, err := os.ReadFile(pids)
		if err != nil {
			t.Fatal(err)
		}
		for _, pid := range strings.Fields(string(data)) {
			if !isGone(pid) {
				t.Errorf("silent: %v: process %s is left", silent, pid)
			}
		}
	}
}

// isGone waits until a process that was killed is gone, a minute at most: a busy machine takes its time.
func isGone(pid string) bool {
	for limit := time.Now().Add(time.Minute); time.Now().Before(limit); time.Sleep(time.Millisecond) {
		if stat, err := os.ReadFile("/proc/" + pid + "/stat"); err != nil || strings.Contains(string(stat), ") Z ") {
			return true
		}
	}
	return false
}

func TestGo_Counts(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	for name, text := range map[string]string{
		"go.mod":      "module x\ngo 1.24\n",
		"a/a_test.go": "package a\nimport \"testing\"\nfunc TestGood(t *testing.T) {}\nfunc TestSkip(t *testing.T) { t.Skip() }\nfunc TestBad(t *testing.T) { t.Run(\"sub\", func(t *testing.T) { t.Error(\"this is why\") }) }\n",
		"b/b_test.go": "package b\nimport \"testing\"\nfunc TestGood(t *testing.T) { compiled() }\n",
		"c/c_test.go": "package c\nimport (\"os\"; \"testing\")\nfunc TestExits(t *testing.T) { println(\"the last words\"); os.Exit(1) }\n",
		"d/d_test.go": "package d\nimport \"testing\"\nfunc TestGood(t *testing.T) {}\n",
	} {
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	var out strings.Builder
	r, err := runGo(t.Context(), "go", os.Environ(), &out, "./...")
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(r.failures)
	if want := []string{"x/a TestBad", "x/a TestBad/sub", "x/b", "x/c"}; !slices.Equal(r.failures, want) {
		t.Errorf("failed: %q, want %q", r.failures, want)
	}
	if r.passed != 2 {
		t.Errorf("%d passed", r.passed)
	}
	for _, text := range []string{"this is why", "undefined: compiled", "the last words"} {
		if !strings.Contains(r.excerpt, text) {
			t.Errorf("it does not show %q:\n%s", text, r.excerpt)
		}
	}
}

// The scripts' own function draws as package sample does: so many, in their order, the same for
// the same seed, each for some seed, and everything for a run of everything.
func TestDrawn(t *testing.T) {
	drawn := func(seed, size string) string {
		cmd := exec.Command("bash", "-c", `. test/scripts/lib.bash && drawn 2 "a 1" b c d`)
		cmd.Dir = "../.."
		cmd.Env = append(os.Environ(), "TEST_SEED="+seed, "TEST_SIZE="+size)
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		return string(out)
	}
	if got := drawn("1", "all"); got != "a 1\nb\nc\nd\n" {
		t.Errorf("of everything: %q", got)
	}
	seen := map[string]bool{}
	for seed := range 30 {
		s := strconv.Itoa(1000 * seed)
		got := drawn(s, "")
		lines := strings.Split(strings.TrimSuffix(got, "\n"), "\n")
		if len(lines) != 2 || !slices.IsSorted(lines) || got != drawn(s, "") {
			t.Errorf("seed %s: %q", s, got)
		}
		for _, line := range lines {
			seen[line] = true
		}
	}
	if len(seen) != 4 {
		t.Errorf("30 seeds draw %v", seen)
	}
}

// What a script divides between the MPIs is tried with one of them, and with both in a run of everything; each item comes
// to each MPI for some seed.
func TestDivided(t *testing.T) {
	items := []string{"a 1", "b", "c", "d", "e"}
	divided := func(mpi, seed, size string) []string {
		cmd := exec.Command("bash", "-c", `. test/scripts/lib.bash && divided "$@"`)
		cmd.Args = append(cmd.Args, append([]string{"test.sh"}, items...)...)
		cmd.Dir = "../.."
		cmd.Env = append(os.Environ(), "MPI="+mpi, "TEST_SEED="+seed, "TEST_SIZE="+size)
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		return strings.Split(strings.TrimSuffix(string(out), "\n"), "\n")
	}
	for _, mpi := range []string{"openmpi", "mpich"} {
		if got := divided(mpi, "1", "all"); !slices.Equal(got, items) {
			t.Errorf("of everything: %q", got)
		}
	}
	seen := map[string]bool{}
	for seed := range 30 {
		s := strconv.Itoa(1001 * seed)
		first, second := divided("openmpi", s, ""), divided("mpich", s, "")
		if len(first) < 2 || len(first) > 3 || !slices.IsSorted(first) || !slices.IsSorted(second) {
			t.Errorf("seed %s: %q and %q", s, first, second)
		}
		if all := slices.Sorted(slices.Values(slices.Concat(first, second))); !slices.Equal(all, items) {
			t.Errorf("seed %s: %q and %q are not all", s, first, second)
		}
		for _, item := range first {
			seen[item] = true
		}
	}
	if len(seen) != len(items) {
		t.Errorf("30 seeds give Open MPI %v", seen)
	}
}

// Each script gets each MPI with some seed, and of two scripts that take about as long one gets each.
func TestDrawMPIs(t *testing.T) {
	both := []string{"openmpi", "mpich"}
	list := []script{{"a", "one", time.Second}, {"b", "one", time.Minute}, {"c", "both", time.Minute}, {"d", "one", time.Minute}, {"e", "one", 2 * time.Second}, {"f", "one", 0}}
	seen := map[string]map[string]bool{"a": {}, "b": {}, "d": {}, "e": {}, "f": {}}
	for seed := range uint64(40) {
		drawn := drawMPIs(list, both, rand.New(rand.NewPCG(seed, 0)))
		if len(drawn) != len(seen) || drawn["a"] == drawn["e"] || drawn["b"] == drawn["d"] {
			t.Fatalf("seed %d draws %v", seed, drawn)
		}
		for name, mpi := range drawn {
			seen[name][mpi] = true
		}
	}
	for name, mpis := range seen {
		if len(mpis) != 2 {
			t.Errorf("40 seeds draw %v for %s", mpis, name)
		}
	}
	if drawn := drawMPIs(list, both[:1], rand.New(rand.NewPCG(1, 0))); drawn["a"] != "openmpi" || drawn["b"] != "openmpi" {
		t.Errorf("of one MPI: %v", drawn)
	}
}

// When it is late no job starts, those that have begun run to their end, and a run that
// leaves out more than half has failed.
func TestLate(t *testing.T) {
	for _, x := range []struct {
		started int // it is late after so many
		failed  bool
	}{{0, true}, {1, true}, {2, false}, {4, false}} {
		var jobs []job
		ran := 0
		for _, name := range []string{"a", "b", "c", "d"} {
			jobs = append(jobs, job{name: name, budget: time.Minute, run: func(context.Context, io.Writer) (result, error) {
				ran++
				return result{name: name, passed: 1}, nil
			}})
		}
		var total total
		left := work(t.Context(), jobs, 1, func() bool { return ran == x.started }, false, &total)
		total.leave(jobs, left)
		if ran != x.started || total.passed != x.started || len(left) != 4-x.started {
			t.Errorf("late after %d: %d ran, %d passed, %d are left", x.started, ran, total.passed, len(left))
		}
		if failed := len(total.failures) > 0; failed != x.failed {
			t.Errorf("late after %d of 4: failures %q", x.started, total.failures)
		}
	}
}

// Which tests run with the race detector depends on the seed; each does with some seed.
func TestGoJobs(t *testing.T) {
	t.Chdir("../..")
	race, rest, err := goPackages()
	if err != nil || len(race) < len(racing) || len(rest) == 0 {
		t.Fatalf("%d packages with the race detector, %d others, %v", len(race), len(rest), err)
	}
	names, err := testNames(race)
	if err != nil || !slices.Contains(names, "TestFaults_Core") || !slices.IsSorted(names) {
		t.Fatalf("%v, %v", names, err)
	}
	seen := map[string]bool{}
	for seed := range uint64(80) {
		list := drawn(names, raceOf, rand.New(rand.NewPCG(seed, 0)))
		if again := drawn(names, raceOf, rand.New(rand.NewPCG(seed, 0))); !slices.Equal(again, list) || len(list) != (len(names)+raceOf-1)/raceOf {
			t.Fatalf("seed %d draws %v, then %v", seed, list, again)
		}
		for _, n := range list {
			seen[n] = true
		}
	}
	if len(seen) != len(names) {
		t.Errorf("80 seeds draw %d of %d tests", len(seen), len(names))
	}
}
