package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"time"
)

// longest are the packages whose tests take longest. They start first, so that none of them
// runs alone at the end.
var longest = []string{"./internal/session", "./cmd/scr", "./internal/job/run", "./test/faultfs", "./internal/node/cache"}

// runQuick runs the checks for work in progress: of all packages, or of some, and then
// without the job. go test remembers the results of packages that a change does not reach.
func runQuick(ctx context.Context, packages []string) error {
	began := time.Now()
	total := &total{}
	goEnv := append(os.Environ(), "CGO_ENABLED=0")
	narrow := len(packages) > 0
	if !narrow {
		packages = []string{"./..."}
	}
	step := func(name string, f func() error) {
		t := time.Now()
		r := result{name: name}
		if err := f(); err != nil {
			r.fail(name)
			r.excerpt = err.Error() + "\n"
		} else {
			r.passed++
		}
		total.add(r, time.Since(t), 0)
	}
	output := func(name string, args ...string) (string, error) {
		cmd := exec.CommandContext(ctx, name, args...)
		cmd.Env = goEnv
		out, err := cmd.CombinedOutput()
		if err != nil {
			err = fmt.Errorf("%s %s: %w\n%s", name, strings.Join(args, " "), err, out)
		}
		return string(out), err
	}
	// The last tests leave a core idle, so gofmt, vet and the job run beside the tests.
	var beside sync.WaitGroup
	beside.Add(1)
	go func() {
		defer beside.Done()
		step("gofmt", func() error {
			files, err := output("git", "ls-files", "*.go")
			if err != nil {
				return err
			}
			bad, err := output("gofmt", append([]string{"-l"}, strings.Fields(files)...)...)
			if err == nil && bad != "" {
				err = fmt.Errorf("gofmt would change:\n%s", bad)
			}
			return err
		})
		step("go vet", func() error {
			_, err := output("go", append([]string{"vet"}, packages...)...)
			return err
		})
		if narrow {
			return
		}
		step("a job under Open MPI loses a node", func() error {
			dir, err := filepath.Abs("build/openmpi") // as the rules name their targets
			if err != nil {
				return err
			}
			if _, err := output("make", "--no-print-directory", "MPI=openmpi", dir+"/heat", dir+"/scr"); err != nil {
				return err
			}
			_, err = output("env", "BUILD="+dir, "MPI=openmpi", "scripts/demo", "--size", "301", "--steps", "2000")
			return err
		})
	}()
	// Many tests wait for something: more of them run at once than there are cores.
	cores := runtime.NumCPU()
	args := []string{"-short", "-vet=off", withoutSymbols, "-p", strconv.Itoa(cores + 1), "-parallel", strconv.Itoa(3 * cores)}
	if !narrow {
		args = append(args, longest...)
	}
	t := time.Now()
	r, err := runGo(ctx, "go test -short", append(goEnv, "GOGC=400"), io.Discard, append(args, packages...)...)
	if err == nil {
		total.add(r, time.Since(t), 0)
	}
	beside.Wait()
	if err != nil {
		return err
	}
	return total.end(ctx, time.Since(began))
}
