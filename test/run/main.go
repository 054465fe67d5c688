package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"strings"
	"syscall"
	"time"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	if err := run(ctx); err != nil {
		if !errors.Is(err, errFailed) {
			fmt.Fprintln(os.Stderr, "test:", err)
		}
		os.Exit(1)
	}
}

func run(ctx context.Context) error {
	quick := flag.Bool("quick", false, "the checks for work in progress; the arguments are packages")
	all := flag.Bool("all", false, "every case, and every script with each MPI")
	times := flag.Bool("times", false, "print what took longest in the last run, and run nothing")
	mpis := flag.String("mpi", "openmpi mpich", "the `MPIs` to test with")
	lanes := flag.Int("lanes", min(3*runtime.NumCPU(), 16), "so many scripts at the same time")
	minutes := flag.Float64("minutes", 0, "start no job later than so many `minutes` after the beginning; 0: no limit")
	flag.Parse()
	root, err := exec.CommandContext(ctx, "go", "list", "-m", "-f", "{{.Dir}}").Output()
	if err != nil {
		return fmt.Errorf("go list -m: %w", err)
	}
	if err := os.Chdir(strings.TrimSpace(string(root))); err != nil {
		return err
	}
	if *times {
		return printTimes(os.Stdout)
	}
	seed := seedOfCommit(ctx)
	if *quick {
		seed = 1 // also after a commit, or go test would run again what it remembers
	}
	if err := environment(seed, *all); err != nil {
		return err
	}
	if *quick {
		return runQuick(ctx, flag.Args())
	}
	return runTests(ctx, plan{mpis: strings.Fields(*mpis), only: flag.Args(), lanes: *lanes,
		limit: time.Duration(*minutes * float64(time.Minute))})
}
