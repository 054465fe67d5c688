package main

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/goscr/goscr/internal/job/request"
	"github.com/goscr/goscr/internal/job/run/migration"
	"github.com/goscr/goscr/internal/sys/lock"
)

func TestMigrate_Bad(t *testing.T) {
	dir := t.TempDir()
	for args, want := range map[string]string{
		"":                       "--off names nodes to leave",
		"-t n1":                  "--off names nodes to leave",
		"-x n[1":                 "n[1",
		"-r 1-x":                 "not a list of ranks",
		"-r 3-1":                 "not a list of ranks",
		"-x n1 7x":               "not the id of a process",
		"-x n1 -p " + dir + " 1": "PID goes neither",
		"-x n1 1 2":              "2",
		"-x n1 -p " + dir:        "no job that uses goscr runs",
		"-x n1 99999999":         "99999999",
	} {
		status := 2
		if strings.HasPrefix(want, "no job") || strings.HasPrefix(want, "999") {
			status = 1
		}
		out, problems := run(t, status, append([]string{"scr_migrate"}, strings.Fields(args)...)...)
		if out != "" || !strings.Contains(problems, want) {
			t.Errorf("%q: %q, %q, want %q", args, out, problems, want)
		}
	}
	must(t, os.MkdirAll(filepath.Join(dir, ".scr"), 0o700))
	alive, err := request.Begin(dir, request.Job{ID: "job"}, true)
	must(t, err)
	defer alive.Close()
	if _, problems := run(t, 1, "scr_migrate", "-x", "n1", "-p", dir); !strings.Contains(problems, "does not run under scr_run") {
		t.Error(problems)
	}
}

// What scr_run answers is what the command prints.
func TestMigrate(t *testing.T) {
	for state, want := range map[migration.State]int{migration.Done: 0, migration.Failed: 1} {
		dir := t.TempDir()
		must(t, os.MkdirAll(filepath.Join(dir, ".scr"), 0o700))
		held, err := lock.Try(request.LoopPath(dir), lock.Exclusive)
		must(t, err)
		go func() {
			for {
				r, err := migration.Read(dir)
				if err != nil {
					t.Error(err)
					return
				}
				if r.State == migration.Requested {
					if got := strings.Join(r.Wish.Off, " ") + "/" + strings.Join(r.Wish.Onto, " "); got != "n1 n2/n7" || len(r.Wish.Ranks) != 3 || r.Wish.Ranks[0] != 5 {
						t.Errorf("%+v", r)
					}
					if _, err := migration.Ask(dir, r); err != migration.ErrBusy {
						t.Errorf("a second one: %v", err)
					}
					if err := migration.Answer(dir, r.ID, state, "the text"); err != nil {
						t.Error(err)
					}
					return
				}
				time.Sleep(time.Millisecond)
			}
		}()
		out, problems := run(t, want, "scr_migrate", "-x", "n[1-2]", "--onto", "n7", "-r", "5,0-1", "-v", "-p", dir)
		if !strings.Contains(out+problems, "the text") || !strings.Contains(problems, string(state)) {
			t.Errorf("%s: %q, %q", state, out, problems)
		}
		held.Release()
	}
}

// A migration that has succeeded has a time for each part, and the command adds what is missing in
// the whole.
func TestMigrate_Parts(t *testing.T) {
	dir := t.TempDir()
	must(t, os.MkdirAll(filepath.Join(dir, ".scr"), 0o700))
	held, err := lock.Try(request.LoopPath(dir), lock.Exclusive)
	must(t, err)
	defer held.Release()
	go func() {
		for {
			r, err := migration.Read(dir)
			if err == nil && r.State == migration.Requested {
				err = migration.Ready(dir, time.Second) // of a run that no migration has started
				if r, e := migration.Read(dir); err == nil && (e != nil || r.Init != 0) {
					t.Errorf("%+v %v", r, e)
				}
				if err == nil {
					err = migration.Answer(dir, r.ID, migration.Restarting, "")
				}
				if err == nil {
					err = migration.Ready(dir, 3*time.Second)
				}
				if r, e := migration.Read(dir); err == nil && (e != nil || r.Init != 3*time.Second) {
					t.Errorf("%+v %v", r, e)
				}
				if err == nil {
					err = migration.Finish(dir, r.ID, "SCR_Init: 3.00 s", 3*time.Second)
				}
				if err != nil {
					t.Error(err)
				}
				return
			}
			time.Sleep(time.Millisecond)
		}
	}()
	out, _ := run(t, 0, "scr_migrate", "-x", "n1", "-p", dir)
	var all, own float64
	if n, err := fmt.Sscanf(out, "in all: %f s; request and answer: %f s; SCR_Init: 3.00 s\n", &all, &own); n != 2 || math.Abs(all-own-3) > 0.011 {
		t.Errorf("%q, %v", out, err)
	}
}

// A request that nobody has begun with is taken back.
func TestMigration_TakeBack(t *testing.T) {
	dir := t.TempDir()
	must(t, os.MkdirAll(filepath.Join(dir, ".scr"), 0o700))
	id, err := migration.Ask(dir, migration.Request{})
	must(t, err)
	if done, err := migration.TakeBack(dir, id); !done || err != nil {
		t.Error(done, err)
	}
	if id, err = migration.Ask(dir, migration.Request{}); id != 2 || err != nil {
		t.Error(id, err)
	}
	must(t, migration.Answer(dir, id, migration.Moving, ""))
	if done, err := migration.TakeBack(dir, id); done || err != nil {
		t.Error(done, err)
	}
	must(t, migration.Begin(dir))
	if r, err := migration.Read(dir); r.State != migration.Failed || r.Text != "scr_run was ended" || err != nil {
		t.Error(r, err)
	}
}
