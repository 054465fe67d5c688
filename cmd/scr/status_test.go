package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/goscr/goscr/internal/prefix/snapshot"
	"github.com/goscr/goscr/internal/session"
	"github.com/goscr/goscr/test/scavengetest"
)

func TestStatus(t *testing.T) {
	dir, text := logged(t)
	out, said := run(t, 0, "scr_status", "-p", dir)
	if said != "" || !strings.Contains(out, "job job1 of alice, heat   run 2, FINISHED 46 s (ended ") || !strings.Contains(out, "nodes node[0-3]   lost node3 ") {
		t.Errorf("%s%s", out, said)
	}
	var got struct {
		State string
		Run   int
		Lost  []struct{ Node string }
	}
	out, _ = run(t, 0, "scr_status", "-p", dir, "--json")
	must(t, json.Unmarshal([]byte(out), &got))
	if got.State != "FINISHED" || got.Run != 2 || len(got.Lost) != 1 || got.Lost[0].Node != "node3" {
		t.Errorf("%+v", got)
	}
	// A job that is over is told of once.
	if out, _ := run(t, 0, "scr_status", "-p", dir, "-w"); strings.Count(out, "FINISHED") != 1 || strings.Contains(out, "\x1b") {
		t.Errorf("%q", out)
	}
	must(t, os.WriteFile(filepath.Join(dir, ".scr/log"), []byte(text+"x"), 0o600))
	if out, said := run(t, 0, "scr_status", "-p", dir); !strings.Contains(said, "are left out") || !strings.Contains(out, "run 2") {
		t.Errorf("%s%s", out, said)
	}
	run(t, 1, "scr_status", "-p", filepath.Join(dir, "none"))
	out, _ = run(t, 0, "scr_status", "-p", dir, "--json")
	if out, said := run(t, 1, "scr_status", "-p", t.TempDir()); !strings.Contains(out, "no job runs here") || strings.HasSuffix(out, "\n\n") || !strings.Contains(said, "no job has used ") {
		t.Errorf("%s%s", out, said)
	}
	run(t, 2, "scr_status", "-p", dir, "-w", "--json")
	if named, _ := run(t, 0, "scr_status", dir, "--json"); named != out {
		t.Errorf("%s, and with -p %s", named, out)
	}
	run(t, 2, "scr_status", dir, dir)
	run(t, 2, "scr_status", "-p", dir, dir)
}

// A job whose checkpoints have all failed has used its prefix directory all the same.
func TestStatus_NoCheckpoint(t *testing.T) {
	c := scavengetest.New(t)
	c.Job(scavengetest.Four, func(s *session.Session, _ int) error { return s.Finalize() })
	out, said := run(t, 0, "scr_status", "-p", c.Prefix())
	if said != "" || !strings.HasPrefix(out, "AT RISK: a job has run here, and has no complete checkpoint that can be used; ") || !strings.Contains(out, "\nnext: ") {
		t.Errorf("%s%s", out, said)
	}
}

// Where scr_restart can start the job, it is the next command.
func TestStatus_Restart(t *testing.T) {
	for want, change := range map[string]func(f *snapshot.Facts){
		"scr_restart DIR starts the job again; scr_index -p DIR shows":                     nil,
		"start the job again, with the same prefix directory; scr_index -p DIR shows from": func(f *snapshot.Facts) { f.Partial = true },
	} {
		dir := jobToRestart(t, change)
		log := "2026-11-21T00:00:01.000000Z: host=a, jobid=j, event=RUN_START, run=1, nodes=2\n2026-11-21T00:00:08.000000Z: host=a, jobid=j, event=RUN_END, run=1, status=143\n"
		for without, text := range []string{log, ""} {
			must(t, os.WriteFile(filepath.Join(dir, ".scr/log"), []byte(text), 0o600))
			want := "\nnext: " + strings.ReplaceAll(want, "DIR", dir)
			if without == 1 {
				want = strings.Replace(strings.Replace(want, "next: ", "next: if the job is not done, ", 1), " the job again", " it again", 1)
			}
			if out, _ := run(t, 0, "scr_status", "-p", dir); !strings.Contains(out, want) {
				t.Errorf("%swant %s", out, want)
			}
		}
	}
}

// After a run that has died, the nodes of the newest checkpoint are asked, if they are in this allocation.
func TestStatus_AsksNodes(t *testing.T) {
	c := scavengetest.New(t, "SCR_FLUSH=2", "SCR_CACHE_SIZE=4", "SCR_RECORD=1", "SCR_LOG_ENABLE=1", "SCR_LOG_SYSLOG_ENABLE=0", "SCR_LOG_TXT_ENABLE=1")
	c.Write(scavengetest.Four, 1, 2, 3)
	log, err := os.OpenFile(filepath.Join(c.Prefix(), ".scr/log"), os.O_APPEND|os.O_WRONLY, 0)
	must(t, err)
	_, err = fmt.Fprintf(log, "%s: host=a, jobid=job, event=RUN_END, note=\"died\", run=1, status=137, signal=9\n", time.Now().UTC().Format("2006-01-02T15:04:05.000000Z"))
	must(t, errors.Join(err, log.Close()))
	bin, asked := c.Path("bin"), c.Path("asked")
	must(t, os.MkdirAll(bin, 0o777))
	// It stands for nodes: c does not answer.
	must(t, os.WriteFile(filepath.Join(bin, "ssh"), []byte(`#!/bin/sh
while [ "$1" = -n ] || [ "$1" = -o ]; do [ "$1" = -n ] || shift; shift; done
echo "$1" >>`+asked+`
[ "$1" != c ] || { echo "ssh: connect to host c port 22: No route to host" >&2; exit 255; }
echo scr_check_node: PASS
`), 0o777))
	t.Setenv("PATH", bin+":/usr/bin:/bin")
	t.Setenv("SCR_REMOTE_SHELL", "SSH")
	verdict := func(want string, options ...string) {
		t.Helper()
		out, said := run(t, 0, append([]string{"scr_status", "-p", c.Prefix()}, options...)...)
		if !strings.HasPrefix(out, want) || said != "" {
			t.Errorf("%q: %s%s", options, out, said)
		}
	}
	unknown := "SAFE: the next run can go back to ckpt.3, "
	verdict(unknown) // without an allocation
	var before struct {
		Asked    []string
		Recorded time.Time `json:"caches_recorded"`
	}
	told, _ := run(t, 0, "scr_status", "-p", c.Prefix(), "--json")
	must(t, json.Unmarshal([]byte(told), &before))
	if before.Asked == nil || len(before.Asked) > 0 || before.Recorded.IsZero() {
		t.Errorf("%+v", before)
	}
	t.Setenv("SCR_NODELIST", "a,b,c,d")
	verdict(unknown, "--offline")
	if _, err := os.Stat(asked); err == nil {
		t.Error("nodes are asked")
	}
	out, said := run(t, 0, "scr_status", "-p", c.Prefix())
	if !strings.HasPrefix(out, unknown) || !strings.Contains(out, "it can be rebuilt, although c of its 4 nodes cannot be used. Without more of them: back to ckpt.2, ") || strings.Contains(out, "not asked") {
		t.Errorf("%s%s", out, said)
	}
	t.Setenv("SCR_NODELIST", "c,e") // another allocation
	if out, _ := run(t, 0, "scr_status", "-p", c.Prefix()); !strings.HasPrefix(out, "AT RISK: none of the nodes asked (c) can be used, so ckpt.3 can be rebuilt only if enough other nodes have files of it. If not: back to ckpt.2, ") {
		t.Error(out)
	}
	var got struct{ Asked, Gone []string }
	out, _ = run(t, 0, "scr_status", "-p", c.Prefix(), "--json")
	must(t, json.Unmarshal([]byte(out), &got))
	if strings.Join(got.Asked, " ") != "c" || strings.Join(got.Gone, " ") != "c" {
		t.Errorf("%+v", got)
	}
}
