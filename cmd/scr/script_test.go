package main

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/goscr/goscr/test/sample"
	"github.com/rogpeppe/go-internal/testscript"
)

// linked returns a directory that has the commands: this test binary is each of them by its
// name (TestMain). To build them would take longer than all that scripts do.
func linked(t *testing.T) (dir string) {
	dir = t.TempDir()
	program, err := os.Executable()
	must(t, err)
	must(t, os.Symlink(program, filepath.Join(dir, "scr")))
	for _, c := range commands {
		for _, name := range c.names {
			must(t, os.Symlink(program, filepath.Join(dir, name)))
		}
	}
	return dir
}

// verbs are what the scripts can do besides the commands of testscript itself.
var verbs = map[string]func(ts *testscript.TestScript, neg bool, args []string){
	// status N COMMAND...: its exit status is N
	"status": func(ts *testscript.TestScript, _ bool, args []string) {
		want, err := strconv.Atoi(args[0])
		ts.Check(err)
		got := 0
		if err := ts.Exec(args[1], args[2:]...); err != nil {
			var exit *exec.ExitError
			if !errors.As(err, &exit) {
				ts.Fatalf("%v", err)
			}
			got = exit.ExitCode()
		}
		if got != want {
			ts.Fatalf("%q: exit status %d, not %d", args[1:], got, want)
		}
	},
	// until FILE: waits for the file
	"until": func(ts *testscript.TestScript, _ bool, args []string) {
		for {
			if _, err := os.Stat(ts.MkAbs(args[0])); err == nil {
				return
			}
			time.Sleep(10 * time.Millisecond)
		}
	},
}

// scripts runs the scripts of testdata/script that match, with the commands of goscr in
// PATH, the files of dirs in the current directory, and variables, NAME=VALUE.
func scripts(t *testing.T, pattern string, dirs []string, variables ...string) {
	files, err := filepath.Glob(filepath.Join("testdata", "script", pattern))
	if err != nil || len(files) == 0 {
		t.Fatal(pattern, err)
	}
	commands := linked(t)
	setup := func(e *testscript.Env) error {
		e.Setenv("COMMANDS", commands)
		e.Setenv("PATH", filepath.Join(e.WorkDir, "bin")+":"+commands+":"+e.Getenv("PATH"))
		for _, v := range variables {
			name, value, _ := strings.Cut(v, "=")
			e.Setenv(name, strings.ReplaceAll(value, "$WORK", e.WorkDir))
		}
		for _, dir := range dirs {
			if err := os.CopyFS(e.WorkDir, os.DirFS(dir)); err != nil {
				return err
			}
		}
		return nil
	}
	testscript.Run(t, testscript.Params{Files: sample.Of(t, files, 3, sample.Every), Setup: setup, Cmds: verbs, RequireExplicitExec: true})
}

// The batch scripts that users copy, and the one of examples/jobscripts, as they are, with launchers that only say how they
// were called (testdata/launchers). test/scripts/90-slurm.sh runs them with real ones.
func TestScripts_Launchers(t *testing.T) {
	dir := t.TempDir()
	if out, err := exec.Command("go", "run", "../../scripts/launchers", dir).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	launcher, err := os.ReadFile("testdata/launchers/bin/srun")
	must(t, err)
	must(t, os.Mkdir(filepath.Join(dir, "bin"), 0o777))
	for _, name := range []string{"mpirun", "flux", "jsrun", "aprun"} {
		must(t, os.WriteFile(filepath.Join(dir, "bin", name), launcher, 0o777))
	}
	scripts(t, "launcher_*.txtar", []string{dir, "../../examples/jobscripts", "testdata/launchers"}, "SCR_RESOURCE_MANAGER=NONE", "SCR_REMOTE_SHELL=SSH",
		"SCR_JOB_ID=templates", "SCR_PREFIX=$WORK", "SCR_CNTL_BASE=$WORK/cntl", "SCR_CACHE_BASE=$WORK/cache")
}
