package main

import (
	"io"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/pflag"
)

// The options of Open MPI's commands for checkpoints, by letter and by name (J. Hursey's
// thesis, tables B.1 to B.3).
func TestOmpi_Options(t *testing.T) {
	for name, list := range map[string]string{
		"scr_checkpoint": "v/verbose V/ /term s/status l/list /stop /detach /attach",
		"scr_restart":    "v/verbose a/apponly s/seq /hostfile /machinefile i/info /mpirun_opts /crdebug",
		"scr_migrate":    "v/verbose x/off r/ranks t/onto",
	} {
		flags := pflag.NewFlagSet(name, pflag.ContinueOnError)
		findCommand(name).run(&context{}, flags)
		for option := range strings.FieldsSeq(list) {
			letter, long, _ := strings.Cut(option, "/")
			if letter != "" && flags.ShorthandLookup(letter) == nil || long != "" && flags.Lookup(long) == nil ||
				letter != "" && long != "" && flags.Lookup(long).Shorthand != letter {
				t.Errorf("%s has no option %s", name, option)
			}
		}
	}
}

func TestOmpi_OneDash(t *testing.T) {
	flags := pflag.NewFlagSet("x", pflag.ContinueOnError)
	findCommand("scr_restart").run(&context{out: io.Discard, err: io.Discard}, flags)
	got := withTwoDashes(flags, strings.Fields("-v -apponly -s 1 -mpirun_opts=a --hostfile x -av -x ref -- -info"))
	if want := strings.Fields("-v --apponly -s 1 --mpirun_opts=a --hostfile x -av -x ref -- -info"); !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
	dir := t.TempDir()
	if _, problems := run(t, 1, "/usr/share/goscr/ompi/ompi-migrate", "-off", "n1", "-onto", "n2", "-p", dir); !strings.Contains(problems, "no job that uses goscr runs") {
		t.Error(problems)
	}
	run(t, 2, "scr_migrate", "-off", "n1", "-p", dir) // ours take the letters o, f, f
}

// The ranks that are to wait for a debugger hear of it by a variable, on any node.
func TestRestart_Debug(t *testing.T) {
	dir := jobToRestart(t, nil)
	t.Chdir(t.TempDir()) // the file of programs is written there
	out, problems := run(t, 0, "scr_restart", "--apponly", "--crdebug", dir)
	file := regexp.MustCompile(`\S*restart\S*`).FindString(out)
	text, _ := os.ReadFile(file)
	if !strings.Contains(out+problems+string(text), "SCR_CR_DEBUG") {
		t.Errorf("%s%s%s", out, problems, text)
	}
	if out, _ := run(t, 0, "scr_restart", "--apponly", dir); strings.Contains(out, "SCR_CR_DEBUG") {
		t.Error(out)
	}
}
