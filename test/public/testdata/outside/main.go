// Program outside is in a module of its own. It computes how heat flows along a rod, of
// which each of four ranks has a quarter. It ends after the step that its second argument
// names, as if it had been killed, and restarts from the newest checkpoint when it is run
// again. Its first argument is the directory for everything that it writes.
package main

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"

	"github.com/goscr/goscr/mpi"
	"github.com/goscr/goscr/mpi/local"
	"github.com/goscr/goscr/scr"
)

const steps, cells = 50, 64

func main() {
	dir, kill := os.Args[1], os.Args[2]
	_, err := local.Run(4, local.Options{}, func(world mpi.Comm) error {
		node := fmt.Sprint("node", world.Rank())
		environ := map[string]string{"SCR_PREFIX": filepath.Join(dir, "prefix"), "SCR_NODE_NAME": node, "SCR_USER_NAME": "user",
			"SCR_JOB_ID": "heat", "SCR_CACHE_BASE": filepath.Join(dir, node), "SCR_CNTL_BASE": filepath.Join(dir, node), "SCR_FLUSH": "0"}
		s, err := scr.Init(world, scr.Options{Log: io.Discard, Environ: func(name string) (string, bool) {
			value, ok := environ[name]
			return value, ok
		}})
		if err != nil {
			return err
		}
		return errors.Join(heat(s, world, kill), s.Finalize())
	})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func heat(s *scr.Session, world mpi.Comm, kill string) error {
	rod, step := make([]byte, 8*cells), 0 // a cell is a number of 8 bytes
	file := fmt.Sprint("rank_", world.Rank())
	for {
		in, err := s.Restart()
		if err != nil || in == nil {
			break
		}
		path, err := in.Path(file)
		data, read := os.ReadFile(path)
		if in.Complete(errors.Join(err, read) == nil && len(data) == len(rod)) == nil {
			rod = data
			step, _ = strconv.Atoi(filepath.Ext(in.Name())[1:])
			break
		}
	}
	if world.Rank() == 0 {
		fmt.Println("from step", step)
	}
	for step++; step <= steps; step++ {
		flow(world, rod)
		if step%10 == 0 {
			out, err := s.Begin(fmt.Sprint("ckpt.", step), scr.Checkpoint)
			if err != nil {
				return err
			}
			path, err := out.Path(file)
			if err == nil {
				err = os.WriteFile(path, rod, 0o600)
			}
			if err := out.Complete(err == nil); err != nil {
				return err
			}
		}
		if strconv.Itoa(step) == kill {
			os.Exit(3)
		}
	}
	sum := mpi.AllreduceOne(world, weigh(world.Rank(), rod), mpi.Sum)
	if world.Rank() == 0 {
		fmt.Println("result", sum)
	}
	return nil
}

// flow computes one step, in which heat flows from the left end, which is hot, to the right.
func flow(world mpi.Comm, rod []byte) {
	left := make([]byte, 8)
	binary.BigEndian.PutUint64(left, 1<<40)
	if world.Rank() > 0 {
		world.Recv(left, world.Rank()-1, 1)
	}
	for i := range cells {
		cell := rod[8*i : 8*i+8]
		mean := (binary.BigEndian.Uint64(left) + binary.BigEndian.Uint64(cell)) / 2
		binary.BigEndian.PutUint64(cell, mean)
		left = cell
	}
	if world.Rank() < world.Size()-1 {
		world.Send(left, world.Rank()+1, 1)
	}
}

func weigh(rank int, rod []byte) (sum int64) {
	for i := range cells {
		sum += int64(binary.BigEndian.Uint64(rod[8*i:])>>16) * int64(cells*rank+i+1)
	}
	return sum
}
