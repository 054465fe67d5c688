//go:build !mpi

package main

func main() { panic("heat-go was built without MPI: build it with -tags mpi and CC=mpicc") }
