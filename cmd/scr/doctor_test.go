package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/goscr/goscr/internal/prefix"
	"github.com/goscr/goscr/internal/prefix/dataset"
	"github.com/goscr/goscr/test/scavengetest"
)

// says checks what scr_doctor prints of a prefix directory.
func (d doctored) says(t *testing.T, status int, want ...string) {
	t.Helper()
	out, said := run(t, status, append([]string{"scr", "doctor", d.dir, "--offline"}, d.options...)...)
	for _, text := range want {
		if !strings.Contains(out, text) {
			t.Errorf("nothing of %q:\n%s%s", text, out, said)
		}
	}
}

type doctored struct {
	dir     string
	options []string
}

func TestDoctor(t *testing.T) {
	t.Setenv("SCR_NODELIST", "n1,n2,n3")
	t.Setenv("SCR_FLUSH", "0")
	mine := t.TempDir()
	must(t, os.WriteFile(filepath.Join(mine, ".scrconf"), []byte("CKPT=0 TYPE=XOR INTERVAL=1\nGROUPS=n1 POWER=left\n"), 0o600))
	doctored{dir: mine}.says(t, 0, "ok       settings     CKPT=0 INTERVAL=1 TYPE=XOR\n", "ok       settings     GROUPS=n1 POWER=left\n")
	doctored{dir: t.TempDir()}.says(t, 0, "note     job          no job has used ", "there is no checkpoint: the next run starts from the beginning",
		"3 of 3 nodes of the allocation can be used", "SCR_FLUSH=0 (environment)", "warning  settings     SCR_FLUSH=0: checkpoints stay in the caches")

	c := scavengetest.New(t, "SCR_FLUSH=2", "SCR_CACHE_SIZE=4")
	c.Write(scavengetest.Four, 1, 2, 3)
	doctored{dir: c.Prefix()}.says(t, 1, "problem  nodes        3 of 3 nodes can be used, and a run needs 4 (as many as the last run used)",
		"   try: scr_doctor in the allocation of the job, or with the names of its nodes in SCR_NODELIST or SCR_HOST_FILE; or SCR_MIN_NODES=N, if N nodes are enough for a run\n")
	t.Setenv("SCR_NODELIST", "n1,n2,n3,n4")
	d := doctored{dir: c.Prefix()}
	d.says(t, 0, "ok       checkpoints  the next run is offered ckpt.3, from the caches of the nodes; it is not in the prefix directory")
	ended := "2026-11-21T00:00:01.000000Z: host=a, jobid=j, event=RUN_START, run=1, nodes=4\n2026-11-21T00:00:08.000000Z: host=a, jobid=j, event=RUN_END, run=1, status=143\n"
	must(t, os.WriteFile(filepath.Join(d.dir, ".scr/log"), []byte(ended), 0o600))
	d.says(t, 0, "note     checkpoints  the next run is offered ckpt.3 if the caches of the nodes are as the last run left them; it is not in the prefix directory",
		"back to ckpt.3, 0.00 s of work is lost, if the caches of all nodes but one node are there")
	must(t, os.Remove(filepath.Join(d.dir, ".scr/log")))
	run(t, 0, "scr_index", "-p", d.dir, "--current", "ckpt.2")
	d.says(t, 0, "note     checkpoints  a user has chosen ckpt.2 with scr_index", "ok       checkpoints  the next run is offered ckpt.2, which is in the prefix directory",
		"try: scr_index -p "+d.dir+" --verify ckpt.2")

	// The program could not restart from one in the cache.
	located, err := prefix.Locations(d.dir)
	must(t, err)
	for _, l := range located {
		if l.Name == "ckpt.3" {
			must(t, prefix.Reject(d.dir, l.Dataset, "the program could not restart from it"))
		}
	}
	d.says(t, 0, "warning  checkpoints  ckpt.3 is not offered: the program could not restart from it", "try: SCR_CURRENT=ckpt.3 in the environment")

	// All that is there has failed.
	must(t, os.Remove(filepath.Join(d.dir, ".scr/flush.scr")))
	must(t, prefix.UpdateIndex(d.dir, func(x *prefix.Index) error {
		e, _ := x.Find("ckpt.2")
		x.MarkFailed(e.ID, "the program died while it read it", time.Now())
		return nil
	}))
	d.says(t, 1, "warning  checkpoints  ckpt.2 is not offered: a restart from it has failed", "--verify ckpt.2; then --current ckpt.2",
		"problem  checkpoints  of 1 checkpoint the next run is offered none")

	var got struct {
		Prefix   string
		Findings []finding
	}
	out, _ := run(t, 1, "scr_doctor", "-p", d.dir, "--offline", "--json")
	must(t, json.Unmarshal([]byte(out), &got))
	if got.Prefix != d.dir || len(got.Findings) < 5 {
		t.Errorf("%+v", got)
	}

	// An index that cannot be read.
	must(t, os.WriteFile(filepath.Join(d.dir, ".scr/index.scr"), []byte("nonsense"), 0o600))
	d.says(t, 1, "problem  job ", "problem  checkpoints ", "try: scr_index -p "+d.dir+" --repair")
	run(t, 1, "scr_doctor", filepath.Join(d.dir, "none"))
	run(t, 2, "scr_doctor", d.dir, "another")
}

// Settings that have no effect are warnings, each once, and not listed as if they had.
func TestDoctor_MistypedSettings(t *testing.T) {
	dir := t.TempDir()
	conf := filepath.Join(dir, ".scrconf")
	must(t, os.WriteFile(conf, []byte("SCR_FLUHS=1\nCKPT=0 INTERVAL=1\nCKPT=1 INTERVALL=4\n"), 0o600))
	t.Setenv("SCR_CACHE_SIZ", "3")
	out, said := run(t, 0, "scr_doctor", dir, "--offline")
	for _, want := range []string{
		"environment: unknown parameter SCR_CACHE_SIZ; did you mean SCR_CACHE_SIZE?",
		conf + ":1: unknown parameter SCR_FLUHS; did you mean SCR_FLUSH?",
		conf + ":3: unknown field INTERVALL of CKPT; did you mean INTERVAL?",
	} {
		if strings.Count(out, "warning  settings     "+want+"\n") != 1 {
			t.Errorf("%q is not once in\n%s", want, out)
		}
	}
	if strings.Contains(out, "SCR_FLUHS=") || strings.Contains(out, "INTERVALL=") || strings.Contains(said, "unknown") {
		t.Errorf("%s%s", out, said)
	}
	var got struct{ Findings []finding }
	out, said = run(t, 0, "scr_doctor", dir, "--offline", "--json")
	must(t, json.Unmarshal([]byte(out), &got))
	known := func(f finding) bool {
		return f.Level == caution && f.Area == "settings" && strings.Contains(f.Text, "SCR_CACHE_SIZ;")
	}
	if !slices.ContainsFunc(got.Findings, known) || strings.Contains(said, "unknown") {
		t.Errorf("%+v %s", got, said)
	}
}

// What the environment says about the next restart is beside what is offered without it.
func TestDoctor_Settings_OfRestarts(t *testing.T) {
	c := scavengetest.New(t, "SCR_FLUSH=1")
	c.Write(scavengetest.Four, 1, 2)
	t.Setenv("SCR_CURRENT", "ckpt.1")
	doctored{dir: c.Prefix()}.says(t, 1, "note     checkpoints  SCR_CURRENT=ckpt.1: a run with this setting restarts from that checkpoint")
	t.Setenv("SCR_CURRENT", "")
	t.Setenv("SCR_RESTART", "never")
	doctored{dir: c.Prefix()}.says(t, 1, "note     checkpoints  SCR_RESTART=never: a run with this setting starts from the beginning")
}

// A configuration with which nothing starts is a finding beside the others, wherever it is.
func TestDoctor_BadConfiguration(t *testing.T) {
	c := scavengetest.New(t, "SCR_FLUSH=1")
	c.Write(scavengetest.Four, 1)
	conf := filepath.Join(t.TempDir(), "scr.conf")
	must(t, os.WriteFile(conf, []byte("SCR_CACHE_SIZE=2\nSCR_FLUSH two\n"), 0o600))
	t.Setenv("SCR_CONF_FILE", conf)
	wants := []string{"problem  settings     no run and no other command starts: " + conf + ":2: ", "ok       checkpoints  the next run is offered ckpt.1, which is in the prefix directory\n"}
	doctored{dir: c.Prefix()}.says(t, 1, wants...)
	t.Setenv("SCR_PREFIX", c.Prefix())
	if out, said := run(t, 1, "scr_doctor"); !strings.Contains(out, wants[0]) || !strings.Contains(out, wants[1]) {
		t.Error(out, said)
	}

	// The prefix directory is in the same file, whose other lines count.
	t.Setenv("SCR_PREFIX", "")
	must(t, os.WriteFile(conf, []byte("SCR_CACHE_SIZE=2\nSCR_FLUSH two\nSCR_PREFIX="+c.Prefix()+"\n"), 0o600))
	if out, said := run(t, 1, "scr_doctor"); !strings.Contains(out, wants[0]) || !strings.Contains(out, wants[1]) {
		t.Error(out, said)
	}
	must(t, os.WriteFile(conf, []byte("SCR_CACHE_SIZE=2\nSCR_PREFIX="+c.Prefix()+"\n"), 0o600))
	if out, said := run(t, 1, "scr_doctor"); strings.Contains(out, "no run and") || !strings.Contains(out, wants[1]) {
		t.Error(out, said)
	}
	t.Setenv("SCR_PREFIX", c.Prefix())
	t.Setenv("SCR_CONF_FILE", "")
	t.Setenv("SCR_CACHE_SIZE", "many")
	if out, said := run(t, 1, "scr_doctor"); !strings.Contains(out, `no run and no other command starts: SCR_CACHE_SIZE="many"`) {
		t.Error(out, said)
	}
}

// Where room is scarce, it says what frees some.
func TestDoctor_Room(t *testing.T) {
	c := scavengetest.New(t, "SCR_FLUSH=1")
	c.Write(scavengetest.Four, 1)
	const large = int64(1) << 60
	d := dataset.New(2, "ckpt.2", dataset.Checkpoint, 2, dataset.Owner{}, time.Now())
	d.SetTotals(4, large)
	must(t, prefix.UpdateIndex(c.Prefix(), func(x *prefix.Index) error { x.Add(d, true, time.Now()); return nil }))
	doctored{dir: c.Prefix()}.says(t, 1, "warning  room ", "try: SCR_PREFIX_SIZE=N in the job's environment", "warning  cache ", "try: scr_clean on the node")
}

// If none of the nodes that have the newest checkpoint can be used, the next run is offered one of the prefix directory.
func TestDoctor_AllNodesAreGone(t *testing.T) {
	c := scavengetest.New(t, "SCR_FLUSH=2", "SCR_CACHE_SIZE=4", "SCR_RECORD=1", "SCR_LOG_ENABLE=1", "SCR_LOG_SYSLOG_ENABLE=0", "SCR_LOG_TXT_ENABLE=1")
	c.Write(scavengetest.Four, 1, 2, 3)
	log, err := os.OpenFile(c.Path(".scr/log"), os.O_APPEND|os.O_WRONLY, 0)
	must(t, err)
	_, err = fmt.Fprintf(log, "%s: host=a, jobid=job, event=RUN_END, note=\"died\", run=1, status=137, signal=9\n", time.Now().UTC().Format("2006-01-02T15:04:05.000000Z"))
	must(t, errors.Join(err, log.Close()))
	bin := t.TempDir()
	// It stands for nodes: those of the variable DOWN do not answer.
	must(t, os.WriteFile(filepath.Join(bin, "ssh"), []byte(`#!/bin/sh
while [ "$1" = -n ] || [ "$1" = -o ]; do [ "$1" = -n ] || shift; shift; done
case $DOWN in *$1*) echo "ssh: connect to host $1 port 22: No route to host" >&2; exit 255 ;; esac
echo scr_check_node: PASS
`), 0o777))
	t.Setenv("PATH", bin+":/usr/bin:/bin")
	t.Setenv("SCR_REMOTE_SHELL", "SSH")
	t.Setenv("SCR_NODELIST", "a,b,c,d")
	for down, wants := range map[string][]string{
		"abc": {"the next run is offered ckpt.3 if the caches of the nodes are as the last run left them"},
		"abcd": {"warning  checkpoints  ckpt.3 is only in the caches of a,b,c,d, and none of these nodes can be used\n",
			"ok       checkpoints  the next run is offered ckpt.2, which is in the prefix directory\n"},
	} {
		t.Setenv("DOWN", down)
		out, _ := run(t, 1, "scr_doctor", c.Prefix())
		for _, want := range wants {
			if !strings.Contains(out, want) {
				t.Errorf("%s are down: nothing of %q:\n%s", down, want, out)
			}
		}
		if strings.Contains(out, "an allocation that has") {
			t.Error(out)
		}
	}
	t.Setenv("DOWN", "a")
	t.Setenv("SCR_NODELIST", "a,b,e,f")
	doctored{dir: c.Prefix(), options: []string{"--program", "none"}}.says(t, 0, "ckpt.3 ran on c,d, which this allocation cannot use\n", "   try: an allocation that has c,d\n")
}

// The clocks of a job's nodes and of this one are compared by the log.
func TestDoctor_Clocks(t *testing.T) {
	dir, text := logged(t)
	d := doctored{dir: dir}
	d.says(t, 0, "clocks ")
	line, _, _ := strings.Cut(text, "\n")
	stamp, rest, _ := strings.Cut(line, ": ")
	if stamp == "" || rest == "" {
		t.Fatal(text)
	}
	later := time.Now().Add(time.Hour).UTC().Format("2006-01-02T15:04:05.000000Z")
	must(t, os.WriteFile(filepath.Join(dir, ".scr/log"), []byte(strings.ReplaceAll(line, stamp, later)+"\n"), 0o600))
	d.says(t, 0, "warning  clocks       the job's log ends 1h0m0s in the future")
}

// A program that is linked with one MPI, and its libscr with another.
func TestDoctor_MPI(t *testing.T) {
	cc, err := exec.LookPath("cc")
	if err != nil {
		t.Skip("no C compiler")
	}
	dir := t.TempDir()
	build := func(argv ...string) {
		t.Helper()
		cmd := exec.Command(cc, argv...)
		cmd.Dir = dir
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
	}
	must(t, os.WriteFile(filepath.Join(dir, "none.c"), []byte("int main(void) { return 0; }\n"), 0o600))
	must(t, os.WriteFile(filepath.Join(dir, "empty.c"), nil, 0o600))
	for _, mpi := range []string{"libmpi.so.40", "libmpi.so.12"} {
		build("-shared", "-fPIC", "-Wl,-soname,"+mpi, "-o", mpi, "empty.c")
	}
	build("-shared", "-fPIC", "-Wl,-soname,libscr.so", "-o", "libscr.so", "empty.c", "-Wl,--no-as-needed", "-L.", "-l:libmpi.so.12")
	for name, mpi := range map[string]string{"right": "libmpi.so.12", "wrong": "libmpi.so.40"} {
		build("-o", name, "none.c", "-Wl,--no-as-needed", "-L.", "-l:libscr.so", "-l:"+mpi, "-Wl,--allow-shlib-undefined", "-Wl,-rpath,$ORIGIN", "-Wl,-rpath-link,.")
	}
	build("-o", "alone", "none.c")
	at := func(name string) string { return filepath.Join(dir, name) }
	program := func(name string) doctored { return doctored{t.TempDir(), []string{"--program", at(name)}} }
	program("right").says(t, 0, at("right")+" and its "+at("libscr.so")+" are linked with the same MPI (libmpi.so.12)")
	program("wrong").says(t, 1, "problem  program      "+at("wrong")+" is linked with libmpi.so.40, and its "+at("libscr.so")+" with libmpi.so.12: they are of different MPIs")
	program("alone").says(t, 0, "is linked with no libscr.so")
	program("none.c").says(t, 0, "note     program      the libraries of "+at("none.c")+" are unknown")
	must(t, os.Remove(at("libscr.so")))
	program("right").says(t, 0, "warning  program ", "needs libscr.so, which is not in the directories that it names",
		"   try: LD_LIBRARY_PATH=DIR in the job's environment, or to link the program with -Wl,-rpath,DIR")
}
