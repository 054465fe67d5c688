package main

// These imports show that the other public packages compile in another module, too;
// mpi/system has no MPI without the tag mpi.
import (
	"github.com/goscr/goscr/hash"
	_ "github.com/goscr/goscr/mpi/system"
)

var _ = hash.New
