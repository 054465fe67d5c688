package main

// All public packages compile in a module of its own; mpi/system is empty without
// the tag mpi.
import (
	"github.com/goscr/goscr/hash"
	"github.com/goscr/goscr/mpi/mpitest"
	_ "github.com/goscr/goscr/mpi/system"
)

var (
	_ = hash.New
	_ = mpitest.Run
)
