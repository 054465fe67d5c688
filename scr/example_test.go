package scr_test

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"

	"github.com/goscr/goscr/mpi"
	"github.com/goscr/goscr/scr"
)

// simulate is a program: it counts to ten, on all ranks, and writes a checkpoint
// after every third step. A program of its own gets its world from mpi/system,
// and leaves Options.Environ as it is.
func simulate(world mpi.Comm, environ func(string) (string, bool)) error {
	s, err := scr.Init(world, scr.Options{CheckpointInterval: 3, Environ: environ, Log: io.Discard})
	if err != nil {
		return err
	}
	step, err := restore(s, world.Rank())
	if err != nil {
		return err
	}
	if world.Rank() == 0 {
		fmt.Println("continues from step", step)
	}
	for step < 10 {
		step++
		need, err := s.NeedCheckpoint()
		if err != nil {
			return err
		}
		if need {
			if err := save(s, world.Rank(), step); err != nil && world.Rank() == 0 {
				fmt.Println("without this checkpoint:", err)
			}
		}
	}
	return s.Finalize()
}

// restore returns the step of the newest checkpoint that all ranks can read, 0
// if there is none.
func restore(s *scr.Session, rank int) (step int, err error) {
	for {
		in, err := s.Restart()
		if err != nil || in == nil {
			return 0, err
		}
		step, err := load(in, rank)
		if in.Complete(err == nil) == nil {
			return step, nil
		}
	}
}

func load(in *scr.Dataset, rank int) (step int, err error) {
	path, err := in.Path(fmt.Sprintf("rank_%d", rank))
	if err != nil {
		return 0, err
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return 0, err
	}
	return strconv.Atoi(string(text))
}

// save writes a checkpoint.
func save(s *scr.Session, rank, step int) error {
	out, err := s.Begin(fmt.Sprintf("ckpt.%d", step), scr.Checkpoint)
	if err != nil {
		return err
	}
	path, err := out.Path(fmt.Sprintf("rank_%d", rank))
	if err == nil {
		err = os.WriteFile(path, []byte(strconv.Itoa(step)), 0o666)
	}
	return errors.Join(err, out.Complete(err == nil))
}

// A job that is run again continues from the newest checkpoint of the run before,
// also when the storage of one of its nodes is gone. Functions simulate,
// restore and save are what a program consists of.
func Example() {
	m := newMachine()
	defer os.RemoveAll(m.dir)
	m.run(simulate)
	m.lose("node2")
	m.run(simulate)
	// Output:
	// continues from step 0
	// continues from step 9
}
