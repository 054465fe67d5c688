//go:build mpi

// Mpicheck runs the tests of package internal/mpi/mpitest on the system's MPI. Start it
// with mpirun, at any number of ranks.
package main

import (
	"flag"
	"fmt"
	"os"

	"github.com/goscr/goscr/internal/mpi/mpitest"
	"github.com/goscr/goscr/mpi"
	"github.com/goscr/goscr/mpi/system"
)

func main() {
	var opt mpitest.Options
	big := flag.Bool("big", false, "also send messages of more than 2 GiB (needs 5 GiB of memory)")
	flag.Parse()
	if *big {
		opt.Big = mpitest.Over2GiB
	}
	failed, err := run(opt)
	if err != nil {
		fmt.Printf("not ok mpicheck: %v\n", err)
	}
	if failed > 0 || err != nil {
		os.Exit(1)
	}
}

func run(opt mpitest.Options) (failed int, err error) {
	if err := system.Init(); err != nil {
		return 0, err
	}
	c, err := system.World()
	if err != nil {
		return 0, err
	}
	failed = mpitest.Run(c, opt, func(name string, err error) { report(c, name, err) })
	c.Free()
	return failed, system.Finalize()
}

func report(c mpi.Comm, name string, err error) {
	switch {
	case c.Rank() != 0:
	case err == nil:
		fmt.Printf("ok mpi at %d: %s\n", c.Size(), name)
	default:
		fmt.Printf("not ok mpi at %d: %s: %v\n", c.Size(), name, err)
	}
}
