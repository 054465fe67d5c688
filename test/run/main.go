package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
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

// errFailed is the result of a run whose last line says what has failed.
var errFailed = errors.New("tests have failed")

func run(ctx context.Context) error {
	quick := flag.Bool("quick", false, "the checks for work in progress; the arguments are packages")
	all := flag.Bool("all", false, "every case, and every script with each MPI")
	times := flag.Bool("times", false, "print what took longest in the last run, and run nothing")
	mpis := flag.String("mpi", "openmpi mpich", "the `MPIs` to test with")
	lanes := flag.Int("lanes", min(2*runtime.NumCPU(), 16), "so many scripts at the same time")
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
	if err := environment(ctx, *all); err != nil {
		return err
	}
	if *quick {
		return runQuick(ctx, flag.Args())
	}
	return runTests(ctx, plan{mpis: strings.Fields(*mpis), only: flag.Args(), lanes: *lanes})
}

// environment sets the variables that all tests have, and removes those of a caller.
func environment(ctx context.Context, all bool) error {
	for _, v := range os.Environ() {
		name, _, _ := strings.Cut(v, "=")
		switch name {
		case "MAKEFLAGS", "MFLAGS", "MAKELEVEL", "WORK", "TESTBED_DIR":
			os.Unsetenv(name)
		default:
			if strings.HasPrefix(name, "SCR_") {
				os.Unsetenv(name)
			}
		}
	}
	root, err := os.Getwd()
	if err != nil {
		return err
	}
	if all {
		os.Setenv("TEST_SIZE", "all")
	}
	if os.Getenv("TEST_SEED") == "" {
		os.Setenv("TEST_SEED", strconv.FormatUint(seedOfCommit(ctx), 10))
	}
	os.Setenv("ROOT", root)
	os.Setenv("TESTBED", filepath.Join(root, "scripts/testbed"))
	if os.Getenv("GOSCR_SCREENSHOTS") == "" {
		os.Setenv("GOSCR_SCREENSHOTS", filepath.Join(root, "build/screenshots"))
	}
	return os.MkdirAll(os.Getenv("GOSCR_SCREENSHOTS"), 0o755)
}

// seedOfCommit returns the first digits of the commit as a number; 1 where there is none.
func seedOfCommit(ctx context.Context) uint64 {
	out, err := exec.CommandContext(ctx, "git", "rev-parse", "HEAD").Output()
	if err != nil || len(out) < 7 {
		return 1
	}
	seed, err := strconv.ParseUint(string(out[:7]), 16, 64)
	if err != nil {
		return 1
	}
	return seed
}

// everything says whether this run leaves nothing out.
func everything() bool { return os.Getenv("TEST_SIZE") == "all" }
