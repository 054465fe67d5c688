// Heat-go is examples/heat in Go: a plate cools down, in parallel, and survives
// the loss of a node. It computes the same and writes the same files, so that
// each of the two can go on from a checkpoint of the other.
//
// What a program has to do to use goscr is in main.go; heat.go is the physics,
// and would be the same without. It is built for the MPI of a compiler:
//
//	CC=mpicc CGO_ENABLED=1 go build -tags mpi ./examples/heat-go
//	mpirun -n 4 ./heat-go -x 1024 -y 1024 -s 1000 -c 100 -o final.heat
package main
