// Crash is the campaign of kills: it runs jobs and commands, kills them in place of each
// system call that changes a file of the nodes or of the prefix directory, and looks at
// what is there then: whether every dataset that the index has as complete is, and whether
// the next run restarts from what had been complete, with every byte as it was written.
//
//	crash [-tools DIR] [-state FILE] [-jobs N] [-only TEXTS]       all cases, hours
//	crash -sample N [-seed SEED] ...                               N of them
//	crash -case SCENARIO:CALL [-times N]                           one, again and again
//	crash -list                                                    the scenarios
//
// A case is a scenario and the number of a call. With -state FILE what is done is
// recorded, and a campaign that was ended continues, unless the programs have changed. At
// the end stands a table. Exit status 1: a case has failed.
//
//	scenario.go  what is killed, and what must be there afterwards
//	program.go   the job that is killed: ranks are goroutines
//	site.go      the directories of a job, which are put back as they were for each case
//	judge.go     what is checked after a kill
//	campaign.go  all cases, by several workers, and the record of those that are done
//	table.go     the table
//
// The tracer that kills is test/tracer.
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"

	"github.com/goscr/goscr/test/tracer"
)

func main() {
	tracer.Become()
	if len(os.Args) == 3 && os.Args[1] == "job" {
		os.Exit(runJob(os.Args[2]))
	}
	if len(os.Args) > 3 && os.Args[1] == "rank" {
		fmt.Fprintln(os.Stderr, "crash:", becomeRank(os.Args[2], os.Args[3:]))
		os.Exit(127)
	}
	ok, err := campaign(os.Args[1:])
	if err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "crash:", err)
	}
	if err != nil || !ok {
		os.Exit(1)
	}
}

// settings are what the command line asks for.
type settings struct {
	tools  string // where the commands are
	steps  string // the MPI program, "" for none
	mpi    string
	state  string
	failed string // where the directories of failed cases go, "" for nowhere
	only   string
	not    string
	one    string
	jobs   int
	sample int
	seed   uint64
	times  int
}

func campaign(args []string) (ok bool, err error) {
	var s settings
	f := flag.NewFlagSet("crash", flag.ContinueOnError)
	f.StringVar(&s.tools, "tools", "", "`directory` of the commands; default: that of this program")
	f.StringVar(&s.steps, "steps", "", "the `program` of test/scripts/steps.c; without it there are no cases with MPI")
	f.StringVar(&s.mpi, "mpi", "openmpi", "the `MPI` of that program")
	f.StringVar(&s.state, "state", "", "`file` that records which cases are done")
	f.StringVar(&s.failed, "failed", "", "`directory` that gets a copy of what failed cases leave")
	f.StringVar(&s.only, "only", "", "only scenarios whose names contain one of some texts, divided by `commas`")
	f.StringVar(&s.not, "not", "", "no scenarios whose names contain one of some texts, divided by `commas`")
	f.StringVar(&s.one, "case", "", "only this case, `SCENARIO:CALL`")
	f.IntVar(&s.jobs, "jobs", runtime.NumCPU(), "so many cases at the same time")
	f.IntVar(&s.sample, "sample", 0, "only so many cases; 0: all")
	f.Uint64Var(&s.seed, "seed", 1, "of the order of the cases, and so of the sample")
	f.IntVar(&s.times, "times", 10, "how often -case is repeated, as threads are not always in the same order")
	list := f.Bool("list", false, "list the scenarios")
	if err := f.Parse(args); err != nil {
		return false, err
	}
	if f.NArg() > 0 {
		return false, fmt.Errorf("no such argument: %s", f.Arg(0))
	}
	if s.tools == "" {
		self, err := os.Executable()
		if err != nil {
			return false, err
		}
		s.tools = filepath.Dir(self)
	}
	for _, path := range []*string{&s.tools, &s.steps, &s.state, &s.failed} { // jobs have directories of their own
		if *path == "" {
			continue
		}
		if *path, err = filepath.Abs(*path); err != nil {
			return false, err
		}
	}
	if _, err := os.Stat(filepath.Join(s.tools, "scr_index")); err != nil {
		return false, fmt.Errorf("the commands are missing (-tools): %w", err)
	}
	all := scenarios(s.steps != "")
	if *list {
		for _, sc := range all {
			fmt.Println(sc.name)
		}
		return true, nil
	}
	if s.one != "" {
		name, number, found := strings.Cut(s.one, ":")
		at, err := strconv.Atoi(number)
		if !found || err != nil || at < 1 {
			return false, fmt.Errorf("-case takes SCENARIO:CALL, not %q", s.one)
		}
		for _, sc := range all {
			if sc.name == name {
				return repeat(s, sc, at)
			}
		}
		return false, fmt.Errorf("there is no scenario %q (-list)", name)
	}
	var chosen []*scenario
	for _, sc := range all {
		if s.wants(sc.name) {
			chosen = append(chosen, sc)
		}
	}
	if len(chosen) == 0 {
		return false, fmt.Errorf("no scenario has one of %q in its name (-list)", s.only)
	}
	return runAll(s, chosen)
}

// wants reports whether scenarios of a name are asked for.
func (s settings) wants(name string) bool {
	in := func(list string) bool {
		return slices.ContainsFunc(strings.Split(list, ","), func(text string) bool { return strings.Contains(name, text) })
	}
	return in(s.only) && (s.not == "" || !in(s.not))
}
