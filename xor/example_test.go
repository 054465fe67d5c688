package xor_test

import (
	"bytes"
	"fmt"
	"log"

	"github.com/goscr/goscr/mpi"
	"github.com/goscr/goscr/mpi/local"
	"github.com/goscr/goscr/xor"
)

// All shards are in one process, and one is lost.
func ExampleEncode() {
	shards := [][]byte{[]byte("of different"), []byte("lengths"), []byte("or"), []byte("the same")}
	parity, err := xor.Encode(shards)
	if err != nil {
		log.Fatal(err)
	}
	shards[1], parity[1] = nil, nil

	shard, _, err := xor.Recover(shards, parity, 1, len("lengths"))
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%d bytes of parity beside each: %s\n", len(parity[0]), shard)
	// Output: 4 bytes of parity beside each: lengths
}

// Every rank has one shard, here in a buffer; it could be in a file. With mpi/system
// instead of mpi/local the ranks are those of an MPI job.
func ExampleEncodeRank() {
	_, err := local.Run(3, local.Options{}, func(c mpi.Comm) error {
		state := []byte(fmt.Sprint("the state of rank ", c.Rank()))
		var parity xor.Buffer
		sizes, err := xor.EncodeRank(c, bytes.NewReader(state), int64(len(state)), &parity)
		if err != nil {
			return err
		}
		shard := &xor.Buffer{Bytes: state}
		if c.Rank() == 2 { // stands for a new process, which has lost the data
			shard, parity, sizes = &xor.Buffer{}, xor.Buffer{}, nil
		}
		if err := xor.RecoverRank(c, 2, sizes, shard, &parity); err != nil {
			return err
		}
		if c.Rank() == 2 {
			fmt.Printf("%s\n", shard.Bytes)
		}
		return nil
	})
	if err != nil {
		log.Fatal(err)
	}
	// Output: the state of rank 2
}
