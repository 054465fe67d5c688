package allocation

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func env(vars ...string) Environ {
	return func(name string) (string, bool) {
		for _, v := range vars {
			if key, value, _ := strings.Cut(v, "="); key == name {
				return value, true
			}
		}
		return "", false
	}
}

func TestFindEnd(t *testing.T) {
	noon := time.Date(2026, 11, 21, 12, 0, 0, 0, time.Local)
	says := func(want, text string) Run {
		return func(name string, args ...string) (string, error) {
			if got := strings.Join(append([]string{name}, args...), " "); got != want {
				t.Errorf("ran %q, want %q", got, want)
			}
			return text, nil
		}
	}
	const ask = "squeue --noheader --jobs 17 --format %e"
	for _, c := range []struct {
		name  string
		env   Environ
		run   Run
		want  time.Time
		where string
		fails bool
	}{
		{name: "nobody knows", env: env()},
		{name: "no number", env: env("SLURM_JOB_END_TIME=noon"), fails: true},
		{name: "Slurm", env: env("SLURM_JOB_ID=17", "SLURM_JOB_END_TIME=5"), want: time.Unix(5, 0), where: "SLURM_JOB_END_TIME"},
		{name: "older Slurm", env: env("SLURM_JOB_ID=17"), run: says(ask, "2026-11-21T12:00:00"), want: noon, where: "squeue"},
		{name: "Slurm without an end", env: env("SLURM_JOB_ID=17"), run: says(ask, "N/A")},
		{name: "Slurm says something else", env: env("SLURM_JOB_ID=17"), run: says(ask, "tomorrow"), fails: true},
		{name: "squeue fails", env: env("SLURM_JOB_ID=17"), run: func(string, ...string) (string, error) {
			return "", errors.New("not today")
		}, fails: true},
		{name: "Flux without an end", env: env("FLUX_JOB_ID=f1"), run: says("flux job timeleft", "1e10")},
		{name: "Flux fails", env: env("FLUX_JOB_ID=f1"), run: says("flux job timeleft", "?"), fails: true},
	} {
		end, ok, err := FindEnd(c.env, c.run)
		if (err != nil) != c.fails || ok != (c.where != "") || !end.Time.Equal(c.want) || end.Where != c.where {
			t.Errorf("%s: %v %v %v", c.name, end, ok, err)
		}
	}
	before := time.Now()
	end, ok, err := FindEnd(env("FLUX_JOB_ID=f1"), says("flux job timeleft", "60.5"))
	left := time.Minute + time.Second/2
	if !ok || err != nil || end.Time.Before(before.Add(left)) || end.Time.After(time.Now().Add(left)) {
		t.Errorf("Flux: %v %v %v", end, ok, err)
	}
}

func TestFindEnd_RunsCommands(t *testing.T) {
	dir := t.TempDir()
	squeue := filepath.Join(dir, "squeue")
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
	write := func(text string) {
		if err := os.WriteFile(squeue, []byte("#!/bin/sh\n"+text), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	write("echo 2026-11-21T12:00:00")
	if end, ok, err := FindEnd(env("SLURM_JOB_ID=1"), nil); !ok || err != nil || end.Time.Hour() != 12 {
		t.Errorf("%v %v %v", end, ok, err)
	}
	write("echo not known >&2; exit 3")
	if _, _, err := FindEnd(env("SLURM_JOB_ID=1"), nil); err == nil || !strings.Contains(err.Error(), "not known") {
		t.Errorf("%v", err)
	}
}
