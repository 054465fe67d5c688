// Launchers writes the batch scripts that users copy, one with a single run and one
// with a loop for each launcher, into the directory that is its argument. They differ
// in a few lines, so script.sh.tmpl has all of them.
package main

import (
	_ "embed"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"text/template"
)

//go:embed script.sh.tmpl
var text string

// script is what the template is filled with.
type script struct {
	Launcher string // the command that starts the ranks
	Command  string // the launcher with the subcommand that it needs
	Options  string // for 8 ranks on 4 nodes
	Loop     bool   // a failed program is started again
	Nodes    int    // of the allocation
}

// launchers are the commands to which the library's commands know the options.
var launchers = []script{
	{Launcher: "srun", Command: "srun", Options: "-n8 -N4"},
	{Launcher: "mpirun", Command: "mpirun", Options: "-n 8"},
	{Launcher: "flux", Command: "flux run", Options: "-n8 -N4"},
	{Launcher: "jsrun", Command: "jsrun", Options: "-n4 -a2 -c2"},
	{Launcher: "aprun", Command: "aprun", Options: "-n 8 -N 2"},
}

// generate returns all scripts by their file names.
func generate() (map[string]string, error) {
	t, err := template.New("script.sh.tmpl").Parse(text)
	if err != nil {
		return nil, err
	}
	scripts := map[string]string{}
	for _, s := range launchers {
		for _, kind := range []struct {
			suffix string
			loop   bool
			nodes  int // a loop needs a spare
		}{{"", false, 4}, {"_loop", true, 5}} {
			s.Loop, s.Nodes = kind.loop, kind.nodes
			var b strings.Builder
			if err := t.Execute(&b, s); err != nil {
				return nil, err
			}
			scripts["scr_"+s.Launcher+kind.suffix+".sh"] = b.String()
		}
	}
	return scripts, nil
}

func write(dir string) error {
	scripts, err := generate()
	if err != nil {
		return err
	}
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return err
	}
	for name, text := range scripts {
		err = errors.Join(err, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o777))
	}
	return err
}

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: launchers DIRECTORY")
		os.Exit(2)
	}
	if err := write(os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, "launchers:", err)
		os.Exit(1)
	}
}
