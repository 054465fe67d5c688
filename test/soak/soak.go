// Soak is the campaign of random jobs, drawn from a seed, against a model of what every run
// must be offered to restart from.
//
//	soak [-jobs N] [-seed FIRST] [-workers N] [-refuse=false] [-tell]
//
// The story of a job that does not go as it must is printed in plain English, with what was
// wrong in the end. At the end stands a table. Exit status 1: a job has failed.
//
// A story is what happens to one job: runs, over one prefix directory and over nodes that
// are directories, and between them lost nodes, damaged files, moved ranks, another number
// of ranks, and a scavenge. Each run is a process of its own whose ranks are goroutines; it
// may be killed at any message, or find its storage full.
//
//	soak.go      jobs by their seeds, several at a time; the table
//	recover.go   ... which continues without a rank that has died
//	refuse.go    ... whose program refuses what it is offered
//	story.go     what happens to a job, drawn from its seed and told in English
//	judge.go     ... whether each run, and what it leaves, is as the model says
//	model.go     what is certain, and the rules for that
//	layout.go    ... of a checkpoint in the cache: which losses it tolerates
//	site.go      the directories of a job, and what happens to them between runs
//	start.go     a run, as a process
//	program.go   ... what it does
//	settings.go  how it is started: nodes and parameters
//	contents.go  the files that it writes
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"runtime"
	"strings"
	"sync"
	"text/tabwriter"
)

func main() {
	Become()
	opt := Options{Out: os.Stdout}
	flag.Uint64Var(&opt.First, "seed", 1, "`seed` of the first job; the others follow")
	flag.IntVar(&opt.Jobs, "jobs", 1000, "so many jobs")
	flag.IntVar(&opt.Workers, "workers", runtime.NumCPU(), "so many at the same time")
	flag.BoolVar(&opt.Refuse, "refuse", true, "the program may refuse several checkpoints, on one rank or all; -refuse=false tells the stories that were told before it did")
	flag.BoolVar(&opt.Tell, "tell", false, "tell the stories of all jobs, not just of those that fail")
	flag.Parse()
	ok, err := Run(opt)
	if err != nil {
		fmt.Fprintln(os.Stderr, "soak:", err)
	}
	if err != nil || !ok {
		os.Exit(1)
	}
}

// Options say which jobs Run runs.
type Options struct {
	First   uint64 // seed of the first; the others follow
	Jobs    int
	Workers int       // so many at a time
	Out     io.Writer // gets the stories of failed jobs, and the table
	Tell    bool      // the stories of all jobs
	// Refuse is whether the program may refuse several checkpoints, on one rank or all. Seeds that have found something before
	// it did so tell the same stories without.
	Refuse bool
}

// counts are what the table counts.
type counts struct {
	Jobs, Runs, Kills, Lost, Damaged, Full, Scavenged, Datasets, Failures int
	Recovered, Died                                                       int // runs that have gone on; because a rank has died
	Refused, Stopped                                                      int // checkpoints, by the program; runs that were offered nothing more

	Restarts map[string]int // by where the checkpoint was
}

// sources are the keys of Restarts, in the order of the table.
var sources = []string{"from the cache", "rebuilt", "fetched", "in place", "none"}

func (c *counts) add(d counts) {
	c.Jobs, c.Runs, c.Kills, c.Lost, c.Damaged = c.Jobs+d.Jobs, c.Runs+d.Runs, c.Kills+d.Kills, c.Lost+d.Lost, c.Damaged+d.Damaged
	c.Full, c.Scavenged, c.Datasets, c.Failures = c.Full+d.Full, c.Scavenged+d.Scavenged, c.Datasets+d.Datasets, c.Failures+d.Failures
	c.Recovered, c.Died = c.Recovered+d.Recovered, c.Died+d.Died
	c.Refused, c.Stopped = c.Refused+d.Refused, c.Stopped+d.Stopped
	for how, n := range d.Restarts {
		c.Restarts[how] += n
	}
}

// table writes the table.
func (c *counts) table(to io.Writer) error {
	w := tabwriter.NewWriter(to, 0, 0, 2, ' ', tabwriter.AlignRight)
	row := func(n int, what string) { fmt.Fprintf(w, "%d\t  %s\n", n, what) }
	row(c.Jobs, "jobs")
	row(c.Runs, "runs")
	row(c.Kills, "of them killed")
	row(c.Full, "of them with full storage")
	row(c.Recovered, "of them recovered without a new launch")
	row(c.Died, "ranks died for good")
	row(c.Refused, "checkpoints refused")
	row(c.Stopped, "runs that have refused two on all ranks")
	row(c.Datasets, "datasets written")
	row(c.Lost, "nodes lost")
	row(c.Damaged, "files damaged")
	row(c.Scavenged, "datasets scavenged")
	for _, how := range sources {
		row(c.Restarts[how], "restarts, "+how)
	}
	row(c.Failures, "failures")
	return w.Flush()
}

// Run runs jobs, and reports whether all of them went as they must.
func Run(opt Options) (ok bool, err error) {
	total := counts{Restarts: map[string]int{}}
	var mu sync.Mutex
	seeds := make(chan uint64)
	var wg sync.WaitGroup
	for range max(opt.Workers, 1) {
		wg.Add(1)
		go func() {
			defer wg.Done()
			for seed := range seeds {
				c, told, e := runSeed(seed, opt.Refuse)
				mu.Lock()
				total.add(c)
				var f *failure
				switch {
				case errors.As(e, &f):
					fmt.Fprintf(opt.Out, "\nSeed %d fails. Its story:\n\n%s\n\nWrong: %v\n\nTo repeat it: make soak SEED=%d\n", seed, told, e, seed)
				case e != nil:
					err = errors.Join(err, fmt.Errorf("seed %d: %w", seed, e))
				case opt.Tell:
					fmt.Fprintf(opt.Out, "\nSeed %d:\n\n%s\n", seed, told)
				}
				mu.Unlock()
			}
		}()
	}
	for i := range opt.Jobs {
		seeds <- opt.First + uint64(i)
	}
	close(seeds)
	wg.Wait()
	fmt.Fprintln(opt.Out)
	return total.Failures == 0 && err == nil, errors.Join(err, total.table(opt.Out))
}

// runSeed plays the story of a seed. refuse is as in Options.
func runSeed(seed uint64, refuse bool) (c counts, told string, err error) {
	s, err := newSite()
	if err != nil {
		return c, "", err
	}
	defer s.close()
	st := &story{seed: seed, refuse: refuse, site: s, model: newModel(), transcript: transcript{counts: counts{Jobs: 1, Restarts: map[string]int{}}}}
	if err = st.play(); err != nil {
		st.counts.Failures++
	}
	return st.counts, strings.Join(st.lines, "\n"), err
}
