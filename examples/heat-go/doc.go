// Heat-go is examples/heat in Go: a plate cools down, in parallel, and survives
// the loss of a node. It computes the same as the C program and writes the same files,
// so that each of the two can restart from a checkpoint of the other.
//
// The calls of goscr are in main.go; heat.go has the physics, and would be the same
// without goscr. CC chooses the MPI for which it is built:
//
//	CC=mpicc CGO_ENABLED=1 go build -tags mpi ./examples/heat-go
//	mpirun -n 4 ./heat-go -x 1024 -y 1024 -s 1000 -c 100 -o final.heat
package main
