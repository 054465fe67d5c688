package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// script is a file of test/scripts.
type script struct {
	name   string // without .sh
	with   string // its MPIs: "both", "one", "no", "openmpi" or "mpich"
	budget time.Duration
}

var header = regexp.MustCompile(`(?m)^# Test: (both MPIs|one MPI|no MPI|openmpi|mpich), ([0-9]+) s$`)

// parseScript reads the line "# Test: ..." of a script.
func parseScript(name, text string) (script, error) {
	m := header.FindStringSubmatch(text)
	if m == nil {
		return script{}, fmt.Errorf(`%s has no line "# Test: both MPIs, 90 s" (see test/run/doc.go)`, name)
	}
	seconds, err := strconv.Atoi(m[2])
	if err != nil {
		return script{}, fmt.Errorf("%s: %w", name, err)
	}
	with, _, _ := strings.Cut(m[1], " ")
	return script{name, with, time.Duration(seconds) * time.Second}, nil
}

// allScripts returns those of test/scripts.
func allScripts() ([]script, error) {
	files, err := filepath.Glob("test/scripts/*.sh")
	var list []script
	for _, f := range files {
		text, e := os.ReadFile(f)
		s, p := parseScript(strings.TrimSuffix(filepath.Base(f), ".sh"), string(text))
		err = errors.Join(err, e, p)
		list = append(list, s)
	}
	return list, err
}

// drawMPIs draws an MPI, of those there are, for each script that runs with one of them. Of scripts that take about as long, each
// MPI gets as many, so that no seed gives all the long ones to the MPI that takes longer.
func drawMPIs(list []script, mpis []string, random *rand.Rand) map[string]string {
	list = slices.DeleteFunc(slices.Clone(list), func(s script) bool { return s.with != "one" })
	slices.SortStableFunc(list, func(a, b script) int { return cmp.Compare(b.budget, a.budget) })
	drawn := map[string]string{}
	for group := range slices.Chunk(list, len(mpis)) {
		order := random.Perm(len(mpis))
		for i, s := range group {
			drawn[s.name] = mpis[order[i]]
		}
	}
	return drawn
}

// chosen returns the MPIs that a script runs with, of those there are: all that are
// possible if each is, else the one that was drawn for it.
func (s script) chosen(mpis []string, each bool, drawn string) []string {
	switch {
	case s.with == "both", s.with == "one" && each:
		return mpis
	case s.with == "one":
		return []string{drawn}
	case s.with == "no":
		return mpis[len(mpis)-1:]
	case slices.Contains(mpis, s.with):
		return []string{s.with}
	}
	return nil
}

// runScript runs a script with one MPI, and counts its checks.
func runScript(ctx context.Context, s script, mpi string, once bool, live io.Writer) (r result, err error) {
	r = result{name: mpi + " " + s.name}
	work, err := os.MkdirTemp("", "goscr-test.")
	if err != nil {
		return r, err
	}
	defer os.RemoveAll(work)
	env := append(s.mpiEnv(mpi), "WORK="+work, "ONCE="+map[bool]string{true: "yes"}[once])
	bed := "/dev/shm/goscr-test." + filepath.Base(work)
	env = append(env, "TESTBED_DIR="+bed)
	defer func() { err = errors.Join(err, bringDown(env)) }()
	path := filepath.Join("build/tests", mpi, s.name+".log")
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return r, err
	}
	log, err := os.Create(path)
	if err != nil {
		return r, err
	}
	defer func() { err = errors.Join(err, log.Close()) }()

	cmd := exec.Command("bash", "test/scripts/"+s.name+".sh")
	cmd.Env = env
	lines := make(chan string)
	ended, err := startGroup(ctx, cmd, lines, silence())
	if err != nil {
		return r, err
	}
	failing := false // the last check
	for line := range lines {
		switch {
		case strings.HasPrefix(line, "ok "):
			failing = false
			r.passed++
		case strings.HasPrefix(line, "not ok "):
			failing = true
			r.fail(strings.TrimPrefix(line, "not ok "))
		case failing:
			r.explain(line)
		}
		fmt.Fprintln(log, line)
		fmt.Fprintln(live, "  ", line)
	}
	failed := <-ended
	r.cpu = used(cmd)
	switch {
	case failed != nil && len(r.failures) == 0:
		r.fail(failed.Error())
	case r.passed+len(r.failures) == 0:
		r.fail("no checks")
	}
	if len(r.failures) > 0 {
		r.excerpt = excerpt(path)
	}
	return r, nil
}

// bringDown removes the testbed of a test with this environment, also after an interrupt.
func bringDown(env []string) error {
	down := exec.Command(os.Getenv("TESTBED"), "down")
	down.Env = env
	if out, err := down.CombinedOutput(); err != nil {
		return fmt.Errorf("testbed down: %w\n%s", err, out)
	}
	return nil
}

// mpiEnv is the environment of tests of what was built for an MPI. There are fewer cores than ranks, so those that wait have to yield:
// Open MPI has a setting for that, and a library is preloaded for MPICH, unless this run leaves nothing out and MPI is the subject.
func (s script) mpiEnv(mpi string) []string {
	env := append(os.Environ(), "MPI="+mpi, "MPICC=mpicc."+mpi, "BUILD="+filepath.Join(os.Getenv("ROOT"), "build", mpi))
	switch {
	case mpi == "openmpi":
		env = append(env, "OMPI_MCA_mpi_yield_when_idle=1")
	case yield != "" && (s.with != "both" || !everything()):
		env = append(env, "LD_PRELOAD="+yield)
	}
	return env
}

// yield is the library of test/scripts/yield.c, or "" if tests run without it.
var yield string

// buildYield builds it in a directory that other users can read, since some tests run programs as one, and returns a function that
// removes it. Without it tests with MPICH take twice as long.
func buildYield(ctx context.Context, mpis []string) (remove func()) {
	if !slices.Contains(mpis, "mpich") {
		return func() {}
	}
	dir, err := os.MkdirTemp("", "goscr-test.")
	remove = func() { os.RemoveAll(dir) }
	if err == nil {
		err = os.Chmod(dir, 0o755)
	}
	if err == nil {
		yield = filepath.Join(dir, "yield.so")
		var out []byte
		if out, err = exec.CommandContext(ctx, "mpicc.mpich", "-O2", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC", "-o", yield, "test/scripts/yield.c").CombinedOutput(); err != nil {
			err = fmt.Errorf("%w\n%s", err, out)
		}
	}
	if err != nil {
		fmt.Printf("without test/scripts/yield.c, tests with MPICH take longer: %v\n", err)
		yield = ""
	}
	return remove
}

// silence returns how long a script may print nothing.
func silence() time.Duration {
	if n, err := strconv.Atoi(os.Getenv("TEST_TIMEOUT")); err == nil && n > 0 {
		return time.Duration(n) * time.Second
	}
	return time.Hour
}

// excerpt returns each check of a script that failed, with what it said (100 lines of it) and
// the 40 lines before it, or the end of the output if a failure was not a check's.
func excerpt(path string) string {
	data, err := os.ReadFile(path)
	if err != nil {
		return err.Error()
	}
	lines := strings.Split(strings.TrimSuffix(string(data), "\n"), "\n")
	keep := make([]bool, len(lines))
	found := false
	for i, line := range lines {
		if strings.HasPrefix(line, "not ok ") {
			found = true
			end := i + 1
			for end < min(len(lines), i+101) && !strings.HasPrefix(lines[end], "ok ") && !strings.HasPrefix(lines[end], "not ok ") {
				end++
			}
			for k := max(0, i-40); k < end; k++ {
				keep[k] = true
			}
		}
	}
	var b strings.Builder
	for i, line := range lines {
		if keep[i] || !found && i >= len(lines)-60 {
			fmt.Fprintln(&b, "  ", line)
		}
	}
	return b.String()
}
