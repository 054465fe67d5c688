// Package sample says how much of a matrix of cases a run of the tests tries,
// and draws the cases.
//
// Tests whose cases are too many for every run declare all of them, and try
// those that Of returns. There are four sizes:
//
//	Quick     a few: go test -short, make quick
//	Drawn     a part, which is the default: make test
//	All       what fits into an hour: make test-all
//	Campaign  everything, for hours: make losses, make power
//
// The environment variable TEST_SIZE is "all" or "campaign" for the last two.
// The same TEST_SEED, a number, draws the same cases; make test takes one from
// the commit, so that other commits try other cases. Without it the seed is 1.
package sample

import (
	"bytes"
	"errors"
	"flag"
	"hash/fnv"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// Size is how much of its cases a test tries.
type Size int

const (
	Quick Size = iota
	Drawn
	All
	Campaign
)

// Every is more than there are cases: none is left out.
const Every = math.MaxInt

// Now returns the size of this run.
func Now() Size {
	switch os.Getenv("TEST_SIZE") {
	case "campaign":
		return Campaign
	case "all":
		return All
	}
	if testing.Short() {
		return Quick
	}
	return Drawn
}

// Seed returns the seed of this run.
func Seed(t testing.TB) uint64 {
	t.Helper()
	text := os.Getenv("TEST_SEED")
	if text == "" {
		return 1
	}
	seed, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		t.Fatalf("TEST_SEED: %v", err)
	}
	return seed
}

// Rand returns random numbers that depend on the seed and on the test's name only.
func Rand(t testing.TB) *rand.Rand {
	t.Helper()
	name := fnv.New64a()
	name.Write([]byte(t.Name()))
	return rand.New(rand.NewPCG(Seed(t), name.Sum64()))
}

// Of returns the cases that this run tries, in their order: quick or drawn of
// them by chance in these sizes, in others all. The test's log names the seed if
// some are left out.
func Of[T any](t testing.TB, cases []T, quick, drawn int) []T {
	t.Helper()
	n := len(cases)
	switch Now() {
	case Quick:
		n = min(n, quick)
	case Drawn:
		n = min(n, drawn)
	}
	if n == len(cases) {
		return cases
	}
	t.Logf("TEST_SEED=%d draws %d of %d cases", Seed(t), n, len(cases))
	return choose(Rand(t), cases, n)
}

// choose returns n of the cases in their order, every choice with the same chance.
func choose[T any](random *rand.Rand, cases []T, n int) []T {
	chosen := make([]T, 0, n)
	for i, c := range cases {
		if random.IntN(len(cases)-i) < n-len(chosen) {
			chosen = append(chosen, c)
		}
	}
	return chosen
}

// Run runs the tests of this binary, for TestMain, and returns the exit code. go test remembers that they have
// passed until a file of the module that they opened has changed. It looks at each file of their list again,
// also at a million files of testbeds that are not of the module: Run leaves these out of the list.
func Run(m *testing.M) int {
	flag.Parse()
	list := flag.Lookup("test.testlogfile") // of package testing; nil in a version of Go without such a list
	if list == nil || list.Value.String() == "" {
		return m.Run()
	}
	dir, err := os.Getwd()
	if err != nil {
		panic(err)
	}
	root, err := moduleRoot(dir)
	if err != nil {
		panic(err)
	}
	code := m.Run()
	text, err := os.ReadFile(list.Value.String())
	if err == nil {
		err = os.WriteFile(list.Value.String(), shorten(text, root, dir), 0o666)
	}
	if err != nil {
		panic(err)
	}
	return code
}

// moduleRoot returns the directory of go.mod, which is dir or above it.
func moduleRoot(dir string) (string, error) {
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir, nil
		}
		above := filepath.Dir(dir)
		if above == dir {
			return "", errors.New("no go.mod above the working directory")
		}
		dir = above
	}
}

// shorten leaves out of a list, which has lines such as "open PATH" (go doc internal/testlog), each path that is
// not below root, and each line that it has already. A relative path is one of the directory of the last "chdir",
// or of dir before the first; shorten makes it absolute.
func shorten(list []byte, root, dir string) []byte {
	var short []byte
	seen := map[string]bool{}
	for line := range bytes.Lines(list) {
		text := strings.TrimSuffix(string(line), "\n")
		verb, path, _ := strings.Cut(text, " ")
		if verb == "open" || verb == "stat" || verb == "chdir" {
			if !filepath.IsAbs(path) {
				path = filepath.Join(dir, path)
			}
			if verb == "chdir" {
				dir = path
				continue
			}
			if path != root && !strings.HasPrefix(path, root+"/") {
				continue
			}
			text = verb + " " + path
		}
		if !seen[text] {
			seen[text] = true
			short = append(append(short, text...), '\n')
		}
	}
	return short
}
