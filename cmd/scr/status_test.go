package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
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
	if out, said := run(t, 1, "scr_status", "-p", t.TempDir()); !strings.Contains(out, "no job runs here") || !strings.Contains(said, "no job has used ") {
		t.Errorf("%s%s", out, said)
	}
	run(t, 2, "scr_status", "-p", dir, "-w", "--json")
}
