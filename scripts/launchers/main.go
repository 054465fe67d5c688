// Launchers writes batch scripts, which users copy, into the directory in its argument. For
// each launcher there is one with a single run and one with a loop. They differ in few
// lines, so they are made from one template, script.sh.tmpl.
package main

import (
	"bytes"
	_ "embed"
	"log"
	"os"
	"path/filepath"
	"text/template"
)

//go:embed script.sh.tmpl
var text string

// script holds the values that the template inserts.
type script struct {
	Launcher string // the command that starts the ranks
	Command  string // the launcher with the subcommand that it needs
	Options  string // for 8 ranks on 4 nodes
	Loop     bool   // the script starts a failed program again
	Nodes    int    // number of nodes in the allocation
}

var launchers = []script{
	{Launcher: "srun", Command: "srun", Options: "--mpi=pmix -n8 -N4"},
	{Launcher: "mpirun", Command: "mpirun", Options: "-n 8"},
	{Launcher: "flux", Command: "flux run", Options: "-n8 -N4"},
	{Launcher: "jsrun", Command: "jsrun", Options: "-n4 -a2 -c2"},
	{Launcher: "aprun", Command: "aprun", Options: "-n 8 -N 2"},
}

func main() {
	if len(os.Args) != 2 {
		log.Fatal("usage: launchers DIRECTORY")
	}
	check(os.MkdirAll(os.Args[1], 0o777))
	scripts := template.Must(template.New("script.sh.tmpl").Parse(text))
	write := func(name string, s script) {
		var b bytes.Buffer
		check(scripts.Execute(&b, s))
		check(os.WriteFile(filepath.Join(os.Args[1], name), b.Bytes(), 0o777))
	}
	for _, s := range launchers {
		s.Nodes = 4
		write("scr_"+s.Launcher+".sh", s)
		s.Loop, s.Nodes = true, 5 // a loop needs a spare
		write("scr_"+s.Launcher+"_loop.sh", s)
	}
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
