package main

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"sync"
	"time"
)

// errFailed is the result of a run whose last line says what has failed.
var errFailed = errors.New("tests have failed")

var errInterrupted = errors.New("interrupted")

// result is what a job has found out.
type result struct {
	name     string
	passed   int
	failures []string
	reasons  map[int][]string // by the number of the failure: the last lines that it printed
	excerpt  string           // what was printed around the failures
	packages []string
	cpu      time.Duration // of its processes
	times    []timing      // of its parts
}

func (r *result) fail(what string) { r.failures = append(r.failures, what) }

// explain adds a line to the reason of the last failure, which keeps the last few.
func (r *result) explain(line string) {
	const most, width = 6, 200
	line = fmt.Sprintf("%.*s", width, strings.ToValidUTF8(strings.TrimSpace(line), "?")) // so many characters, not bytes
	if line == "" {
		return
	}
	if r.reasons == nil {
		r.reasons = map[int][]string{}
	}
	last := len(r.failures) - 1 // an earlier one may have the same name
	lines := append(r.reasons[last], line)
	r.reasons[last] = lines[max(0, len(lines)-most):]
}

func (r *result) bad(name string)        { r.packages = append(r.packages, name) }
func (r *result) isBad(name string) bool { return slices.Contains(r.packages, name) }
func (r *result) timed(name string, seconds float64, budget time.Duration) {
	r.times = append(r.times, timing{Name: name, Seconds: seconds, Budget: budget.Seconds()})
}

// timing is a line of build/tests/times.json: how long something took, the processor time of its
// processes (0: not known; what has left the tree of processes is not in it), and how long it may
// take on two idle cores (0: no budget).
type timing struct {
	Name    string
	Seconds float64
	CPU     float64
	Budget  float64
}

const timesFile = "build/tests/times.json"

// total adds up the results of a run, and prints each.
type total struct {
	mu       sync.Mutex
	passed   int
	failures []string
	cpu      time.Duration
	times    []timing
}

func (t *total) add(r result, took, budget time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.passed += r.passed
	for i, f := range r.failures {
		text := r.name + ": " + f
		for _, line := range r.reasons[i] {
			text += "\n   | " + line
		}
		t.failures = append(t.failures, text)
	}
	t.times = append(append(t.times, r.times...), timing{r.name, took.Seconds(), r.cpu.Seconds(), budget.Seconds()})
	t.cpu += r.cpu
	if len(r.failures) == 0 {
		fmt.Printf("-- %s: %d passed, %.0f s\n", r.name, r.passed, took.Seconds())
		return
	}
	fmt.Print(r.excerpt)
	fmt.Printf("-- %s: %d passed, %d FAILED, %.0f s\n", r.name, r.passed, len(r.failures), took.Seconds())
}

// leave names the jobs that were left out because it was late. A run that leaves out more
// than half of its jobs, by their budgets, has failed: its numbers say too little.
func (t *total) leave(jobs, left []job) {
	if len(left) == 0 {
		return
	}
	sum := func(jobs []job) (all time.Duration) {
		for _, j := range jobs {
			all += j.budget
		}
		return all
	}
	fmt.Printf("\nleft out for lack of time, %.0f of %.0f s by their budgets:\n", sum(left).Seconds(), sum(jobs).Seconds())
	for _, j := range left {
		fmt.Println("  ", j.name)
	}
	if 2*sum(left) > sum(jobs) {
		t.failures = append(t.failures, "more than half was left out for lack of time")
	}
}

// end records the times, prints what failed and the numbers, and returns errFailed if not all passed.
func (t *total) end(ctx context.Context, took time.Duration) error {
	if ctx.Err() != nil {
		for _, f := range t.failures {
			fmt.Println("failed:", f)
		}
		return errInterrupted
	}
	t.times = append(t.times, timing{"all", took.Seconds(), t.cpu.Seconds(), 0})
	if err := writeTimes(t.times); err != nil {
		return err
	}
	if everything() {
		fmt.Println()
		if err := printTimes(os.Stdout); err != nil {
			return err
		}
	}
	fmt.Println()
	for _, f := range t.failures {
		fmt.Println("failed:", f)
	}
	fmt.Printf("%.0f s with TEST_SEED=%s; make test-times prints what took longest\n", took.Seconds(), os.Getenv("TEST_SEED"))
	fmt.Printf("%d passed, %d failed\n", t.passed, len(t.failures))
	if len(t.failures) > 0 {
		return errFailed
	}
	return nil
}

func writeTimes(times []timing) error {
	if err := os.MkdirAll("build/tests", 0o755); err != nil {
		return err
	}
	f, err := os.Create(timesFile)
	if err != nil {
		return err
	}
	w := bufio.NewWriter(f)
	e := json.NewEncoder(w)
	for _, t := range times {
		err = errors.Join(err, e.Encode(t))
	}
	return errors.Join(err, w.Flush(), f.Close())
}

// slowest is how many rows the table of times has of each kind.
const slowest = 25

// printTimes prints what took longest in the last run: jobs, and Go tests.
func printTimes(w io.Writer) error {
	f, err := os.Open(timesFile)
	if err != nil {
		return fmt.Errorf("no run has been timed here yet: %w", err)
	}
	defer f.Close()
	var times []timing
	for d := json.NewDecoder(f); d.More(); {
		var t timing
		if err := d.Decode(&t); err != nil {
			return fmt.Errorf("%s: %w", timesFile, err)
		}
		times = append(times, t)
	}
	slices.SortStableFunc(times, func(a, b timing) int { return cmp.Compare(b.Seconds, a.Seconds) })
	fmt.Fprintf(w, "%8s %8s %8s  what took longest (budget: on two idle cores)\n", "seconds", "CPU", "budget")
	for _, t := range times[:min(len(times), slowest)] {
		cpu, budget := "", ""
		if t.CPU > 0 {
			cpu = fmt.Sprintf("%.1f", t.CPU)
		}
		if t.Budget > 0 {
			budget = fmt.Sprintf("%.0f", t.Budget)
		}
		if t.Budget > 0 && t.Seconds > t.Budget {
			budget += "!"
		}
		fmt.Fprintf(w, "%8.1f %8s %8s  %s\n", t.Seconds, cpu, budget, strings.TrimSpace(t.Name))
	}
	return nil
}
