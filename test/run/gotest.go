package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"
)

// event is a line of go test -json (go doc test2json).
type event struct {
	Action, Package, Test, Output, ImportPath string
	Elapsed                                   float64
	FailedBuild                               string
}

// withoutSymbols is an argument of go test: what a debugger would read takes a part of the time of each link.
const withoutSymbols = "-ldflags=-s -w"

// runGo runs go test with these arguments, and counts tests and subtests. It writes a
// line for each package, and what a test that failed has printed.
func runGo(ctx context.Context, name string, env []string, live io.Writer, args ...string) (r result, err error) {
	r = result{name: name}
	cmd := exec.Command("go", append([]string{"test", "-json"}, args...)...)
	cmd.Env = env
	lines := make(chan string)
	ended, err := startGroup(ctx, cmd, lines, 4*time.Hour)
	if err != nil {
		return r, err
	}
	c := counter{r: &r, live: live, printed: map[string]*strings.Builder{}, ran: map[string]int{}}
	for line := range lines {
		var e event
		if json.Unmarshal([]byte(line), &e) != nil || e.Action == "" {
			e = event{Action: "build-output", Output: line + "\n"} // go itself has something to say
		}
		c.add(e)
	}
	err = <-ended
	r.cpu = used(cmd)
	if err != nil && len(r.failures) == 0 {
		r.fail(err.Error())
		r.excerpt += c.text("")
	}
	return r, nil
}

// counter adds up the events of go test -json.
type counter struct {
	r       *result
	live    io.Writer
	printed map[string]*strings.Builder // what tests have printed: package and test
	ran     map[string]int              // the tests of each package
}

func (c *counter) text(key string) string {
	if b := c.printed[key]; b != nil {
		return b.String()
	}
	return ""
}

func (c *counter) add(e event) {
	key := e.Package + " " + e.Test
	switch e.Action {
	case "output", "build-output":
		if e.Action == "build-output" {
			key = e.ImportPath
		}
		if c.printed[key] == nil {
			c.printed[key] = &strings.Builder{}
		}
		c.printed[key].WriteString(e.Output)
	case "pass", "skip":
		if e.Test == "" {
			fmt.Fprintf(c.live, "   %-4s %s, %d tests, %.1f s\n", e.Action, short(e.Package), c.ran[e.Package], e.Elapsed)
			c.r.timed(short(e.Package), e.Elapsed, 0)
		} else {
			c.ran[e.Package]++
			if e.Action == "pass" {
				c.r.passed++
			}
			c.took(e)
		}
		delete(c.printed, key)
	case "fail":
		switch {
		case e.Test != "":
			c.ran[e.Package]++
			c.took(e)
			c.r.fail(short(e.Package) + " " + e.Test)
			c.r.excerpt += c.text(key)
			c.r.bad(e.Package)
		case !c.r.isBad(e.Package): // it was not compiled, or its process ended
			c.r.fail(short(e.Package))
			c.r.excerpt += c.text(e.FailedBuild)
			for _, key := range slices.Sorted(maps.Keys(c.printed)) {
				if strings.HasPrefix(key, e.Package+" ") {
					c.r.excerpt += c.text(key)
				}
			}
		}
	}
}

// took records the time of a test that is not a part of another.
func (c *counter) took(e event) {
	if !strings.Contains(e.Test, "/") {
		c.r.timed(short(e.Package)+" "+e.Test, e.Elapsed, testBudget)
	}
}

// testBudget is what a Go test takes at most on two idle cores, without the race detector.
const testBudget = 10 * time.Second

const module = "github.com/goscr/goscr"

// short returns a package's path below the module.
func short(path string) string {
	return strings.TrimPrefix(strings.TrimPrefix(path, module), "/")
}

// racing are the packages whose tests run with the race detector: goroutines of several
// ranks, or of a protection or a copy beside the program, meet there.
var racing = []string{
	"./internal/session", "./scr", "./mpi/...", "./hash", "./internal/lifecycle/background", "./internal/mpi/collective", "./internal/observe/eventlog/...",
	"./cr/inside/...", "./internal/sys/lock", "./internal/lifecycle/mover", "./internal/node/preload", "./internal/lifecycle/protect",
	"./internal/redundancy", "./internal/redundancy/stripe", "./internal/observe/report", "./internal/job/run/...", "./internal/prefix/transfer",
}

// raceOf is of how many tests of these packages one runs with the race detector, which takes eight times as long, in a run of a sample.
const raceOf = 8

// goPackage is a package that go list has found.
type goPackage struct {
	Dir, ImportPath           string
	TestGoFiles, XTestGoFiles []string
}

// goPackages returns the packages in racing, and the others.
func goPackages() (race, rest []goPackage, err error) {
	list := func(patterns ...string) (list []goPackage, err error) {
		cmd := exec.Command("go", append([]string{"list", "-json=Dir,ImportPath,TestGoFiles,XTestGoFiles"}, patterns...)...)
		cmd.Stderr = os.Stderr
		out, err := cmd.Output()
		if err != nil {
			return nil, err
		}
		for d := json.NewDecoder(bytes.NewReader(out)); d.More(); {
			var p goPackage
			if err := d.Decode(&p); err != nil {
				return nil, err
			}
			list = append(list, p)
		}
		return list, nil
	}
	if race, err = list(racing...); err != nil {
		return nil, nil, err
	}
	all, err := list("./...")
	for _, p := range all {
		if short(p.ImportPath) != built && !slices.Contains(paths(race), p.ImportPath) {
			rest = append(rest, p)
		}
	}
	return race, rest, err
}

func paths(packages []goPackage) (list []string) {
	for _, p := range packages {
		list = append(list, p.ImportPath)
	}
	return list
}

var testFunction = regexp.MustCompile(`(?m)^func (Test\w+)\(\w+ \*testing\.T\)`)

// testNames returns the names of all tests of these packages, in order.
func testNames(packages []goPackage) ([]string, error) {
	names := map[string]bool{}
	for _, p := range packages {
		for _, f := range append(p.TestGoFiles, p.XTestGoFiles...) {
			text, err := os.ReadFile(filepath.Join(p.Dir, f))
			if err != nil {
				return nil, err
			}
			for _, m := range testFunction.FindAllStringSubmatch(string(text), -1) {
				names[m[1]] = true
			}
		}
	}
	return slices.Sorted(maps.Keys(names)), nil
}

// drawn returns one of so many of a list.
func drawn(list []string, of int, random *rand.Rand) []string {
	list = slices.Clone(list)
	random.Shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] })
	return list[:(len(list)+of-1)/of]
}

// built has the tests of what was built and installed, which need its place.
const built = "test/scripts/built"
