package mpi_test

import (
	"errors"
	"fmt"

	"github.com/goscr/goscr/mpi"
	"github.com/goscr/goscr/mpi/local"
)

// run runs a job of four ranks.
func run(program func(world mpi.Comm) error) {
	if _, err := local.Run(4, local.Options{}, program); err != nil {
		fmt.Println(err)
	}
}

// An error that one rank meets becomes one that all ranks return, so that all continue
// alike. That costs one reduction when there is none.
func ExampleAgree() {
	run(func(world mpi.Comm) error {
		var err error
		if world.Rank() == 2 {
			err = errors.New("no space left on device")
		}
		err = mpi.Agree(world, err)
		if world.Rank() == 0 {
			fmt.Println(err)
		}
		return nil
	})
	// Output: rank 2: no space left on device
}

// errFull is a kind of error that the ranks of a job tell each other. Its number is
// one that no other package of the program has.
var errFull = mpi.NewKind(13, "the storage of the node is full")

// What kind of error a rank has met, the others can ask: no reduction more is
// needed for it.
func ExampleNewKind() {
	run(func(world mpi.Comm) error {
		var err error
		if world.Rank() == 3 {
			err = fmt.Errorf("cannot write ckpt.12: %w", errFull)
		}
		err = mpi.Agree(world, err)
		if world.Rank() == 0 {
			fmt.Println(err)
			fmt.Println(errors.Is(err, errFull))
		}
		return nil
	})
	// Output:
	// rank 3: cannot write ckpt.12: the storage of the node is full
	// true
}

// Every rank gets the largest of what the ranks have.
func ExampleAllreduceOne() {
	run(func(world mpi.Comm) error {
		newest := mpi.AllreduceOne(world, 10*world.Rank(), mpi.Max)
		if world.Rank() == 1 {
			fmt.Println(newest)
		}
		return nil
	})
	// Output: 30
}

// Any and All ask what holds on one rank, or on every one.
func ExampleAny() {
	run(func(world mpi.Comm) error {
		lost := world.Rank() == 3
		any, all := mpi.Any(world, lost), mpi.All(world, lost)
		if world.Rank() == 0 {
			fmt.Println(any, all)
		}
		return nil
	})
	// Output: true false
}

// Rank 0 does something, and all ranks know how it went.
func ExampleOnRoot() {
	run(func(world mpi.Comm) error {
		err := mpi.OnRoot(world, func() error { return errors.New("the index cannot be read") })
		if world.Rank() == 3 {
			fmt.Println(err)
		}
		return nil
	})
	// Output: rank 0: the index cannot be read
}

// Ranks are divided into groups, here of even and odd ones, that talk to each other
// by ranks of their own.
func ExampleComm_split() {
	run(func(world mpi.Comm) error {
		group := world.Split(world.Rank()%2, world.Rank())
		sum := mpi.AllreduceOne(group, world.Rank(), mpi.Sum)
		if world.Rank() == 3 {
			fmt.Printf("rank %d of %d, whose sum is %d\n", group.Rank(), group.Size(), sum)
		}
		group.Free()
		return nil
	})
	// Output: rank 1 of 2, whose sum is 4
}

// A message that is sent without waiting stays in memory that MPI may keep a
// pointer to.
func ExampleAlloc() {
	run(func(world mpi.Comm) error {
		right, left := (world.Rank()+1)%world.Size(), (world.Rank()+world.Size()-1)%world.Size()
		out := mpi.Alloc(1)
		defer mpi.Free(out)
		out[0] = byte(world.Rank())
		sending := world.Isend(out, right, 7)
		in := make([]byte, 1)
		status := world.Recv(in, left, 7)
		if world.Rank() == 0 {
			fmt.Printf("%d byte from rank %d: %d\n", status.Count, status.Source, in[0])
		}
		sending.Wait()
		return nil
	})
	// Output: 1 byte from rank 3: 3
}

// Traffic is counted on the way.
func ExampleCount() {
	run(func(world mpi.Comm) error {
		var t mpi.Traffic
		counted := mpi.Count(world, &t)
		switch world.Rank() {
		case 0:
			counted.Send(make([]byte, 100), 1, 0)
			fmt.Println(t.Messages, "message of", t.Sent, "bytes")
		case 1:
			counted.Recv(make([]byte, 100), 0, 0)
		}
		return nil
	})
	// Output: 1 message of 100 bytes
}
