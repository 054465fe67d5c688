package main

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
)

// environment sets the variables that all tests have, and removes those of a caller. seed is used
// if the caller has no TEST_SEED.
func environment(seed uint64, all bool) error {
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
		os.Setenv("TEST_SEED", strconv.FormatUint(seed, 10))
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
