//go:build !mpi || !ulfm

package main

func main() {
	panic("online-go was built for an MPI that cannot continue: build it with -tags mpi,ulfm and the mpicc of Open MPI 5")
}
