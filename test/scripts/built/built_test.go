// Package built has the tests of what make builds and installs that are written in Go.
// scripts/test runs them once for each MPI, and says in the environment where it is.
package built

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// build is what scripts/test says about the build that is tested.
type build struct {
	root, dir  string // the sources; libscr.so and so on
	mpi, mpicc string // openmpi or mpich; its compiler
	testbed    string
}

// theBuild returns the build, or skips the test if scripts/test does not run it.
func theBuild(t *testing.T) build {
	b := build{os.Getenv("ROOT"), os.Getenv("BUILD"), os.Getenv("MPI"), os.Getenv("MPICC"), os.Getenv("TESTBED")}
	if b.dir == "" {
		t.Skip("BUILD is not set: scripts/test names the build to test")
	}
	return b
}

// run runs a command that has to succeed and returns its output.
func run(t *testing.T, argv ...string) string {
	t.Helper()
	out, err := exec.Command(argv[0], argv[1:]...).CombinedOutput()
	if err != nil {
		t.Errorf("%s: %v\n%s", strings.Join(argv, " "), err, out)
	}
	return string(out)
}

func read(t *testing.T, path ...string) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(path...))
	must(t, err)
	return string(data)
}

// functions are the functions that scr.h declares, in the order of their names.
func (b build) functions(t *testing.T) []string {
	var names []string
	for _, m := range regexp.MustCompile(`(?m)^[a-z].*?\b(SCR_[A-Z][A-Za-z_]*)\(`).FindAllStringSubmatch(read(t, b.dir, "scr.h"), -1) {
		names = append(names, m[1])
	}
	slices.Sort(names)
	names = slices.Compact(names)
	if len(names) == 0 {
		t.Fatal("scr.h declares nothing")
	}
	return names
}
