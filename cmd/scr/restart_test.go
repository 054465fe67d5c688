package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/goscr/goscr/internal/prefix"
	"github.com/goscr/goscr/internal/prefix/dataset"
	"github.com/goscr/goscr/internal/prefix/snapshot"
)

// jobToRestart makes a prefix directory with checkpoints 1 to 4, of which 3 is incomplete
// and 4 has failed. Nothing is recorded with 1.
func jobToRestart(t *testing.T, change func(f *snapshot.Facts)) (dir string) {
	t.Helper()
	dir = t.TempDir()
	bin := t.TempDir()
	must(t, os.WriteFile(filepath.Join(bin, "mpirun"), []byte("#!/bin/sh\necho Open MPI\n"), 0o700))
	t.Setenv("PATH", bin+":/bin:/usr/bin")
	when := time.Date(2026, 11, 21, 12, 30, 0, 0, time.Local)
	f := &snapshot.Facts{Version: "v1", Job: "17", Prefix: dir, Ranks: 2, Nodes: []snapshot.Node{{Name: "n1", Ranks: 1}, {Name: "n2", Ranks: 1}},
		Launcher: &snapshot.Start{Argv: []string{"mpirun", "-n", "2", "./app", "in put"}, Dir: dir},
		Programs: []snapshot.Program{{Ranks: 2, Start: snapshot.Start{Argv: []string{"./app", "in put"}, Dir: dir}, Environ: []string{"OMP_NUM_THREADS=2"}}}}
	if change != nil {
		change(f)
	}
	for id := 1; id <= 4; id++ {
		d := dataset.New(id, fmt.Sprint("ckpt.", id), dataset.Checkpoint, id, dataset.Owner{}, when)
		must(t, prefix.UpdateIndex(dir, func(x *prefix.Index) error { x.Add(d, id != 3, when); return nil }))
		if id > 1 {
			kept, err := f.Store(dir)
			must(t, err)
			must(t, kept.Refer(d, when, ""))
		}
	}
	must(t, prefix.UpdateIndex(dir, func(x *prefix.Index) error { x.MarkFailed(4, "it was bad", when); return nil }))
	return dir
}

// starts runs scr_restart and returns the command that it starts.
func starts(t *testing.T, argv ...string) (command *snapshot.Command, errors string) {
	t.Helper()
	usual := replaceBy
	defer func() { replaceBy = usual }()
	replaceBy = func(c *snapshot.Command) error { command = c; return nil }
	_, errors = run(t, 0, append([]string{"scr_restart"}, argv...)...)
	if command == nil {
		t.Fatalf("%q starts nothing: %s", argv, errors)
	}
	return command, errors
}

func TestRestart(t *testing.T) {
	dir := jobToRestart(t, nil)
	c, errors := starts(t, dir)
	if want := []string{"mpirun", "-x", "SCR_PREFIX", "-n", "2", "./app", "in put"}; !slices.Equal(c.Argv, want) || c.Dir != dir {
		t.Errorf("%q in %s", c.Argv, c.Dir)
	}
	if want := []string{"OMP_NUM_THREADS=2", "SCR_PREFIX=" + dir}; !slices.Equal(c.Env, want) {
		t.Errorf("%q", c.Env)
	}
	for _, want := range []string{"checkpoint 4 (ckpt.4) is passed over: a restart from it has failed\n", "checkpoint 3 (ckpt.3) is passed over: it is incomplete\n"} {
		if !strings.Contains(errors, want) {
			t.Errorf("%q lacks %q", errors, want)
		}
	}
	t.Chdir(dir)
	for _, argv := range [][]string{{"-s", "2", dir}, {"ckpt.2"}, {"--seq=2"}, {"-p", dir, "ckpt.2"}} {
		c, _ := starts(t, append(argv, "--mpirun_opts", "--tag 'a b'")...)
		if !slices.Contains(c.Env, "SCR_CURRENT=ckpt.2") || !slices.Contains(c.Argv, "SCR_CURRENT") || !slices.Contains(c.Argv, "a b") {
			t.Errorf("%q: %+v", argv, c)
		}
	}
	for text, argv := range map[string][]string{
		"checkpoint 4 (ckpt.4) cannot be used: a restart from it has failed": {"-s", "4"},
		"there is no checkpoint 9 in":                                        {"-s", "9"},
		"has no checkpoint of this name; scr_checkpoint -l lists":            {"nonsense"},
		"there is no prefix directory /nonsense":                             {"/nonsense"},
		"checkpoint 1 (ckpt.1): nothing is recorded":                         {"-s", "1"},
	} {
		if _, errors := run(t, 1, append([]string{"scr_restart"}, argv...)...); !strings.Contains(errors, text) {
			t.Errorf("%q: %q", argv, errors)
		}
	}
	run(t, 2, "scr_restart", "a", "b")
	run(t, 2, "scr_restart", "--mpirun_opts", "'", dir)
}

func TestRestart_UnderRun(t *testing.T) {
	for _, c := range []struct{ runner, want string }{
		{"scr_run -p /old mpirun -n 2 ./app input", "run --prefix DIR -- mpirun -n 2 ./app input"},
		{"scr_mpirun -n 2 ./app input", "run --prefix DIR -- mpirun -n 2 ./app input"},
		{"scr_run -rc './app input' -rs './app -again' mpirun -n 2", "run --prefix DIR '--run-cmd=./app input' '--restart-cmd=./app -again' -- mpirun -n 2"},
	} {
		dir := jobToRestart(t, func(f *snapshot.Facts) {
			f.Programs[0].Argv = []string{"./app", "input"}
			f.Launcher.Argv = []string{"mpirun", "-n", "2", "./app", "input"}
			argv, err := words(c.runner)
			must(t, err)
			f.Runner = &snapshot.Start{Argv: argv, Dir: f.Prefix}
		})
		command, _ := starts(t, dir)
		argv := command.Argv[1:]
		for i, w := range argv {
			if strings.Contains(w, " ") {
				argv[i] = "'" + w + "'"
			}
		}
		if got := strings.ReplaceAll(strings.Join(argv, " "), dir, "DIR"); got != c.want {
			t.Errorf("%s\n%s\nwant\n%s", c.runner, got, c.want)
		}
	}
}

func TestRestart_Info(t *testing.T) {
	dir := jobToRestart(t, nil)
	out, _ := run(t, 0, "scr_restart", "-i", dir)
	for _, want := range []string{"Snapshot Ref.:     2 " + dir, "ranks:             2", "nodes:             n[1-2], each with 1 ranks", `launcher:          mpirun -n 2 ./app "in put"`, "  with:            OMP_NUM_THREADS=2"} {
		if !strings.Contains(out, want+"\n") {
			t.Errorf("%q is missing in\n%s", want, out)
		}
	}
	out, _ = run(t, 0, "scr_restart", "--info", "--json", dir)
	var r snapshot.Record
	must(t, json.Unmarshal([]byte(out), &r))
	if r.Seq != 2 || r.Job != "17" || r.Programs[0].Argv[1] != "in put" || r.Name != "ckpt.2" {
		t.Errorf("%+v", r)
	}
}

func TestRestart_AppFile(t *testing.T) {
	dir := jobToRestart(t, nil)
	t.Chdir(t.TempDir())
	out, _ := run(t, 0, "scr_restart", "--apponly", dir)
	if !strings.Contains(out, "cd "+dir+" && env OMP_NUM_THREADS=2 SCR_PREFIX="+dir+" mpirun -x SCR_PREFIX --app ") {
		t.Error(out)
	}
	text, err := os.ReadFile("goscr-restart.2")
	if err != nil || string(text) != "-n 2 -wdir "+dir+" ./app 'in put'\n" {
		t.Errorf("%q, %v", text, err)
	}
}

// The files of the ranks are in the cache of this machine before the job starts.
func TestRestart_Preload(t *testing.T) {
	usual := replaceBy
	defer func() { replaceBy = usual }()
	dir := jobToRestart(t, nil)
	base := t.TempDir()
	for name, value := range map[string]string{"SCR_CACHE_BASE": base, "SCR_CNTL_BASE": base, "SCR_JOB_ID": "18", "SCR_USER_NAME": "me", "SCR_RESOURCE_MANAGER": "NONE"} {
		t.Setenv(name, value)
	}
	_, errors := starts(t, "--preload", dir)
	// This test binary is no scr, and checkpoint 2 has no files.
	if !strings.Contains(errors, "so the job fetches the missing ones: ") {
		t.Error(errors)
	}
	t.Setenv("SCR_FETCH_BYPASS", "1")
	if _, errors := starts(t, "--preload", dir); !strings.Contains(errors, "the program is to read checkpoints where they are") {
		t.Error(errors)
	}
}

func TestRestart_WhileTheJobRuns(t *testing.T) {
	dir, _ := jobIn(t)
	other := jobToRestart(t, nil)
	must(t, os.CopyFS(filepath.Join(dir), os.DirFS(other)))
	if _, errors := run(t, 1, "scr_restart", dir); !strings.Contains(errors, "a job runs with the prefix directory "+dir) {
		t.Error(errors)
	}
}

// A command line that another user has recorded is not run, unless the caller names that user.
func TestRestart_RecordOfAnotherUser(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can give files to another user")
	}
	dir := jobToRestart(t, nil)
	t.Setenv("SCR_TRUST_USERS", "")
	must(t, os.Chown(filepath.Join(dir, ".scr/records.scr"), 65533, 65533))
	for _, argv := range [][]string{{"scr_restart", dir}, {"scr_restart", "-a", dir}} {
		out, errors := run(t, 1, argv...)
		if out != "" || !strings.Contains(errors, "belongs to user 65533") || !strings.Contains(errors, "--trust") {
			t.Errorf("%q: %q, %q", argv, out, errors)
		}
	}
	if out, _ := run(t, 0, "scr_restart", "--info", dir); !strings.Contains(out, "./app") {
		t.Error(out)
	}
	if c, _ := starts(t, "--trust", "65533", dir); !slices.Contains(c.Argv, "./app") || os.Getenv("SCR_TRUST_USERS") != "65533" {
		t.Errorf("%q", c.Argv)
	}
}

// Commands say which configuration file of another user they ignore, once.
func TestConfig_OfAnotherUser(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can give files to another user")
	}
	dir := t.TempDir()
	path := filepath.Join(dir, ".scrconf")
	must(t, os.WriteFile(path, []byte("SCR_RUNS=3\n"), 0o600))
	must(t, os.Chown(path, 65533, 65533))
	t.Setenv("SCR_PREFIX", dir)
	_, errors := run(t, 0, "scr_index", "--list")
	if strings.Count(errors, path+" is ignored: it belongs to user 65533") != 1 {
		t.Errorf("%q", errors)
	}
}
