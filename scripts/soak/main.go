// Soak is the campaign of random jobs: internal/soak runs them, this is its command line.
//
//	soak [-jobs N] [-seed FIRST] [-workers N] [-tell]
//
// A job that does not go as it must is told in plain English, with what was wrong in the
// end. At the end stands a table. Exit status 1: a job has failed.
package main

import (
	"flag"
	"fmt"
	"os"
	"runtime"

	"github.com/goscr/goscr/internal/soak"
)

func main() {
	soak.Become()
	opt := soak.Options{Out: os.Stdout}
	flag.Uint64Var(&opt.First, "seed", 1, "`seed` of the first job; the others follow")
	flag.IntVar(&opt.Jobs, "jobs", 1000, "so many jobs")
	flag.IntVar(&opt.Workers, "workers", runtime.NumCPU(), "so many at the same time")
	flag.BoolVar(&opt.Tell, "tell", false, "tell the stories of all jobs, not just of those that fail")
	flag.Parse()
	ok, err := soak.Run(opt)
	if err != nil {
		fmt.Fprintln(os.Stderr, "soak:", err)
	}
	if err != nil || !ok {
		os.Exit(1)
	}
}
