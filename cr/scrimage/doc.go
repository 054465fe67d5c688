//go:build !mpi

// Scr_image starts a program that knows nothing of checkpoints, and saves and restores its process by
// commands of the site. It is built with an MPI's compiler wrapper and the tag mpi, as the Makefile
// does.
package main

import "fmt"

func main() { fmt.Println("build with: CC=mpicc go build -tags mpi") }
