//go:build !mpi

// Libscr is goscr as a library with SCR's own C interface. It is built with an
// MPI's compiler wrapper and the tag mpi, as the Makefile does.
package main

import "fmt"

func main() { fmt.Println("build with: CC=mpicc go build -tags mpi -buildmode=c-shared") }
