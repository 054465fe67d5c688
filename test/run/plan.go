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
	"sync"
	"time"
)

// plan is what a run is asked for.
type plan struct {
	mpis  []string
	only  []string      // names or numbers; none: everything
	lanes int           // so many jobs at the same time
	limit time.Duration // no job starts later; 0: all start
}

// job is a part of a run that a lane works on.
type job struct {
	name   string
	mpi    string // that it needs the build for; may be empty
	budget time.Duration
	// run writes lines to live as they come, and returns an error if it could not
	// find out what passes.
	run func(ctx context.Context, live io.Writer) (result, error)
}

// runTests runs what is asked for.
func runTests(ctx context.Context, p plan) error {
	began := time.Now()
	fmt.Printf("TEST_SEED=%s", os.Getenv("TEST_SEED"))
	if !everything() {
		fmt.Print(" draws the samples of this run; make test-all tries everything")
	}
	fmt.Println()
	software(ctx, p.mpis)
	jobs, err := p.jobs()
	if err != nil {
		return err
	}
	if len(jobs) == 0 {
		return fmt.Errorf("there are no tests %s", strings.Join(p.only, " "))
	}
	defer buildYield(ctx, p.mpis)()
	total := &total{}
	bad := build(ctx, jobs, total)
	jobs = slices.DeleteFunc(jobs, func(j job) bool { return bad[j.mpi] })
	late := func() bool { return p.limit > 0 && time.Since(began) > p.limit }
	left := work(ctx, jobs, p.lanes, late, len(jobs) == 1, total)
	total.leave(jobs, left)
	return total.end(ctx, time.Since(began))
}

// software installs what tests need. Only MPIs must be there: other tests say what
// they cannot do.
func software(ctx context.Context, mpis []string) {
	for _, what := range [][]string{append(slices.Clone(mpis), "fortran", "c++", "cmake", "pkg-config", "mandoc", "python"), {"mpi4py"}, {"mariadb"}} {
		cmd := exec.CommandContext(ctx, "scripts/deps", append([]string{"--install"}, what...)...)
		cmd.Env = append(os.Environ(), "MPICC=")
		cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
		if err := cmd.Run(); err != nil {
			fmt.Printf("without %s: %v\n", strings.Join(what, ", "), err)
		}
	}
}

// wanted says whether the arguments name a test, or there are none.
func (p plan) wanted(name string) bool {
	number := regexp.MustCompile(`^[0-9][0-9]-`)
	return len(p.only) == 0 || slices.ContainsFunc(p.only, func(w string) bool {
		return name == w || strings.HasPrefix(name, w+"-") || number.ReplaceAllString(name, "") == w
	})
}

// jobs returns the jobs of a run, the longest first.
func (p plan) jobs() ([]job, error) {
	each := everything() || len(p.only) > 0 // with each MPI
	list, err := allScripts()
	if err != nil {
		return nil, err
	}
	// Not scripts, but drawn like them.
	list = append(list, script{"10-library", "both", 20 * time.Second}, script{"71-install", "one", 90 * time.Second})
	slices.SortFunc(list, func(a, b script) int { return cmp.Compare(a.name, b.name) })
	seed, err := strconv.ParseUint(os.Getenv("TEST_SEED"), 10, 64)
	if err != nil {
		return nil, fmt.Errorf("TEST_SEED: %w", err)
	}
	var jobs []job
	random := rand.New(rand.NewPCG(seed, 0))
	mpiOf := drawMPIs(list, p.mpis, random)
	for _, s := range list {
		mpis := s.chosen(p.mpis, each, mpiOf[s.name])
		for i, mpi := range mpis {
			if !p.wanted(s.name) {
				continue
			}
			once := i == len(mpis)-1
			run := func(ctx context.Context, live io.Writer) (result, error) {
				return runScript(ctx, s, mpi, once, live)
			}
			if pattern := map[string]string{"10-library": "^TestLibrary", "71-install": "^TestInstall"}[s.name]; pattern != "" {
				run = func(ctx context.Context, live io.Writer) (result, error) {
					env := append(s.mpiEnv(mpi), fmt.Sprintf("TESTBED_DIR=/dev/shm/goscr-test.%d.%s.%s", os.Getpid(), mpi, s.name))
					r, err := runGo(ctx, mpi+" "+s.name, env, live, "-count=1", "-timeout", "4h", "-run", pattern, "./"+built)
					return r, errors.Join(err, bringDown(env))
				}
			}
			jobs = append(jobs, job{mpi + " " + s.name, mpi, s.budget, run})
		}
	}
	if p.wanted("go") {
		list, err := goJobs(random)
		if err != nil {
			return nil, err
		}
		jobs = append(jobs, list...)
	}
	slices.SortStableFunc(jobs, func(a, b job) int { return cmp.Compare(b.budget, a.budget) })
	return jobs, nil
}

// goJobs are the Go tests. Of those that can run with the race detector, a run of a sample draws which do. They are built
// as the commands are, with -trimpath, so that what both need is compiled once on a bare machine.
// go vet is a part of make lint.
func goJobs(random *rand.Rand) ([]job, error) {
	test := func(name string, budget time.Duration, cgo string, args ...string) job {
		return job{name, "", budget, func(ctx context.Context, live io.Writer) (result, error) {
			env := append(os.Environ(), "CGO_ENABLED="+cgo, "GOGC=400", "GOFLAGS="+strings.TrimSpace(os.Getenv("GOFLAGS")+" -trimpath"))
			return runGo(ctx, name, env, live, append([]string{"-vet=off", "-timeout", "4h", "-count=1", "-p", "2", "-parallel", "4", withoutSymbols}, args...)...)
		}}
	}
	race, rest, err := goPackages()
	if err != nil {
		return nil, err
	}
	jobs := []job{test("go test", 200*time.Second, "0", paths(rest)...)}
	if everything() {
		jobs = append(jobs, test("go test -race", 300*time.Second, "1", append([]string{"-race"}, paths(race)...)...), job{"fuzz", "", 300 * time.Second, fuzz})
		return jobs, nil
	}
	names, err := testNames(race)
	if err != nil {
		return nil, err
	}
	pattern := "^(" + strings.Join(drawn(names, raceOf, random), "|") + ")$"
	return append(jobs,
		test("go test -race", 300*time.Second, "1", append([]string{"-race", "-run", pattern}, paths(race)...)...),
		test("go test, without -race", 250*time.Second, "0", append([]string{"-skip", pattern}, paths(race)...)...)), nil
}

// fuzz runs each fuzz target for a short time: a part of make fuzz.
func fuzz(ctx context.Context, live io.Writer) (result, error) {
	r := result{name: "fuzz"}
	lines := make(chan string)
	ended, err := startGroup(ctx, exec.Command("scripts/fuzz", "10s"), lines, silence())
	if err != nil {
		return r, err
	}
	var said strings.Builder
	for line := range lines {
		fmt.Fprintln(&said, "  ", line)
		fmt.Fprintln(live, "  ", line)
	}
	if err := <-ended; err != nil {
		r.fail(err.Error())
		r.excerpt = said.String()
	} else {
		r.passed++
	}
	return r, nil
}

// build builds everything for each MPI that jobs need, at the same time, and returns
// the MPIs for which that fails.
func build(ctx context.Context, jobs []job, total *total) (bad map[string]bool) {
	bad = map[string]bool{}
	var mu sync.Mutex
	var all sync.WaitGroup
	started := map[string]bool{"": true}
	for _, j := range jobs {
		if started[j.mpi] {
			continue
		}
		started[j.mpi] = true
		all.Add(1)
		go func() {
			defer all.Done()
			began := time.Now()
			r := result{name: j.mpi + " build"}
			log := filepath.Join("build/tests", j.mpi, "build.log")
			if err := buildFor(ctx, j.mpi, log); err != nil {
				r.fail(err.Error())
				r.excerpt = excerpt(log)
				mu.Lock()
				bad[j.mpi] = true
				mu.Unlock()
			} else {
				r.passed++
			}
			total.add(r, time.Since(began), 0)
		}()
	}
	all.Wait()
	return bad
}

// buildFor builds everything that tests with an MPI need, and keeps the output in a file.
func buildFor(ctx context.Context, mpi, log string) error {
	if err := os.MkdirAll(filepath.Dir(log), 0o755); err != nil {
		return err
	}
	out, err := os.Create(log)
	if err != nil {
		return err
	}
	defer out.Close()
	dir := filepath.Join(os.Getenv("ROOT"), "build", mpi)
	cmd := exec.CommandContext(ctx, "make", "--no-print-directory", "BUILD="+dir, "MPICC=mpicc."+mpi,
		"examples", dir+"/steps", dir+"/modes", dir+"/crash", dir+"/soak")
	cmd.Stdout, cmd.Stderr = out, out
	return cmd.Run()
}

// work runs jobs on so many lanes, and returns those that no lane has begun when late
// was true. If a job is alone, its lines are printed as they come.
func work(ctx context.Context, jobs []job, lanes int, late func() bool, alone bool, total *total) (left []job) {
	var live io.Writer = io.Discard
	if alone {
		live = os.Stdout
	}
	var mu sync.Mutex
	next := func() (j job, ok bool) {
		mu.Lock()
		defer mu.Unlock()
		if len(jobs) == 0 || ctx.Err() != nil || late() {
			return j, false
		}
		j, jobs = jobs[0], jobs[1:]
		return j, true
	}
	var all sync.WaitGroup
	for range lanes {
		all.Add(1)
		go func() {
			defer all.Done()
			for j, ok := next(); ok; j, ok = next() {
				began := time.Now()
				r, err := j.run(ctx, live)
				if err != nil {
					r.fail(err.Error())
				}
				if ctx.Err() == nil {
					total.add(r, time.Since(began), j.budget)
				}
			}
		}()
	}
	all.Wait()
	return jobs
}
