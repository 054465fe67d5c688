package main

import (
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"

	"github.com/goscr/goscr/internal/config"
	"github.com/goscr/goscr/internal/prefix"
	"github.com/goscr/goscr/internal/prefix/dataset"
)

// withDatasets is a prefix directory with the datasets ckpt.1 and ckpt.2.
func withDatasets(t *testing.T) string {
	dir := t.TempDir()
	when := time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)
	must(t, prefix.UpdateIndex(dir, func(x *prefix.Index) error {
		x.Add(dataset.New(1, "ckpt.1", dataset.Checkpoint, 1, dataset.Owner{}, when), true, when)
		x.Add(dataset.New(2, "ckpt.2", dataset.Checkpoint, 2, dataset.Owner{}, when), true, when)
		return nil
	}))
	return dir
}

func TestComplete(t *testing.T) {
	dir := withDatasets(t)
	for _, c := range []struct {
		words []string
		want  string
	}{
		{[]string{"scr", "ind"}, "index"},
		{[]string{"scr", "comp"}, "completion"},
		{[]string{"scr", "completion", "z"}, "zsh"},
		{[]string{"scr_index", "--dr"}, "--drop --drop-after"},
		{[]string{"scr", "index", "--dr"}, "--drop --drop-after"},
		{[]string{"/usr/bin/scr_index", "--prefix", ""}, ":dir"},
		{[]string{"scr_index", "-p", ""}, ":dir"},
		{[]string{"scr_index", "-p", dir, "--current", ""}, "ckpt.2 ckpt.1"},
		{[]string{"scr_index", "--prefix=" + dir, "--drop", "ckpt.1"}, "ckpt.1"},
		{[]string{"scr_index", "-p", dir, "--build", ""}, "2 1"},
		{[]string{"scr_index", "-p", dir + "/none", "--drop", ""}, ""},
		{[]string{"scr_crc32", ""}, ":file"},
		{[]string{"scr_nothing", ""}, ""},
		{[]string{"scr_inspect_cache", "--j"}, "--json"},
	} {
		out, _ := run(t, 0, append([]string{"scr", "complete", "--"}, c.words...)...)
		if got := strings.Join(strings.Fields(out), " "); got != c.want {
			t.Errorf("%q: %q, want %q", c.words, got, c.want)
		}
	}
	run(t, 2, "scr", "completion")
	run(t, 2, "scr", "completion", "csh")
}

// Real shells, with the program itself.
func TestCompletion_InShells(t *testing.T) {
	dir := withDatasets(t)
	env := append(os.Environ(), "PATH="+linked(t)+":/usr/bin:/bin", "SCR_PREFIX="+dir, "HOME="+dir)
	for shell, script := range map[string]string{
		"bash": `source <(scr completion bash)
			COMP_WORDS=(scr_index --current ckpt) COMP_CWORD=2
			complete -p scr_index | grep -q _scr_complete && _scr_complete && printf '%s\n' "${COMPREPLY[@]}"`,
		"fish": `scr completion fish | source; complete -C 'scr_index --current ckpt'`,
		"zsh": `autoload -Uz compinit; compadd() { print -l $answer }; words=(scr_index --current ckpt) CURRENT=3
			eval "$(scr completion zsh)"`,
	} {
		t.Run(shell, func(t *testing.T) {
			path, err := exec.LookPath(shell)
			if err != nil {
				t.Skip(err)
			}
			cmd := exec.Command(path, "-c", script)
			cmd.Env = env
			out, err := cmd.CombinedOutput()
			got := strings.Fields(string(out))
			slices.Sort(got)
			if err != nil || !slices.Equal(got, []string{"ckpt.1", "ckpt.2"}) {
				t.Errorf("%v: %q", err, out)
			}
		})
	}
}

// scr.conf(5) has every parameter, and what scr(7) and docs/use.md name there is.
func TestPages_OfParameters(t *testing.T) {
	conf, library := confManual(), libraryManual()
	for _, k := range config.ItemKinds {
		for _, f := range k.Fields {
			if !strings.Contains(conf, "\n.B "+k.Name+" ... "+f.Name+"\n") {
				t.Errorf("scr.conf(5) has no field %s of %s", f.Name, k.Name)
			}
		}
	}
	for _, p := range config.Parameters {
		if !strings.Contains(conf, "\n.B "+p.Name+"\n") {
			t.Errorf("scr.conf(5) has no %s", p.Name)
		}
	}
	for _, name := range usual {
		if !strings.Contains(library, "\n.B "+name+"\n") {
			t.Errorf("there is no parameter %s", name)
		}
	}
}

func TestDidYouMean(t *testing.T) {
	for name, want := range map[string]string{"indx": "index", "scr_idnex": "index", "halt_cntrl": "halt_cntl", "inspect": "inspect_cache", "crc": "crc32"} {
		if _, said := run(t, 2, "scr", name); !strings.Contains(said, "did you mean "+want+"?") {
			t.Errorf("%s: %s", name, said)
		}
	}
	for _, name := range []string{"nothing", "x", "zzzzzz"} {
		if _, said := run(t, 2, "scr", name); strings.Contains(said, "did you mean") {
			t.Errorf("%s: %s", name, said)
		}
	}
}

// Each command is in one group, and where a command has a prefix directory, it is -p.
func TestGroups(t *testing.T) {
	out, _ := run(t, 0, "scr", "help", "--all")
	for _, g := range groups {
		if !strings.Contains(out, "\n"+g.title+":\n") {
			t.Errorf("%s is not in the overview", g.title)
		}
	}
	names := map[string]int{}
	for _, c := range commands {
		for _, name := range c.names {
			names[name]++
		}
		flags := c.flags()
		if p := flags.Lookup("prefix"); slices.Contains(c.environ, "SCR_PREFIX") && !slices.Contains(withoutPrefix, c.names[0]) && (p == nil || p.Shorthand != "p") {
			t.Errorf("%s has no -p", c.names[0])
		}
		flags.VisitAll(func(f *pflag.Flag) {
			if f.Shorthand == "p" && f.Name != "prefix" {
				t.Errorf("%s: -p is --%s", c.names[0], f.Name)
			}
		})
	}
	for name, n := range names {
		if n != 1 {
			t.Errorf("%s is there %d times", name, n)
		}
	}
}

// withoutPrefix are commands that look at the machine only.
var withoutPrefix = []string{"scr_test_runtime"}
