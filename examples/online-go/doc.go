// Online-go is examples/online/files in Go: a program that continues in the same launch after processes have died. The rod
// and the repair of the communicator are the C code of examples/online; what uses goscr is in rod.go. It needs Open MPI 5 or newer:
//
//	CC=mpicc CGO_ENABLED=1 go build -tags mpi,ulfm ./examples/online-go
//	mpirun --with-ft ulfm -n 4 ./online-go -k 2:50     # rank 2 dies after step 50
package main
