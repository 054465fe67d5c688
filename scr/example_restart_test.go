package scr_test

import (
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/goscr/goscr/mpi"
	"github.com/goscr/goscr/scr"
)

// inSession begins a session for an example and ends it after f.
func inSession(world mpi.Comm, environ func(string) (string, bool), f func(s *scr.Session) error) error {
	s, err := scr.Init(world, scr.Options{Environ: environ, Log: io.Discard})
	if err != nil {
		return err
	}
	return errors.Join(f(s), s.Finalize())
}

// A checkpoint that one rank cannot read is not used by any: the one before is
// offered.
func ExampleSession_Restart() {
	m := newMachine()
	defer os.RemoveAll(m.dir)
	m.run(func(world mpi.Comm, environ func(string) (string, bool)) error {
		return inSession(world, environ, func(s *scr.Session) error {
			return errors.Join(save(s, world.Rank(), 3), save(s, world.Rank(), 6))
		})
	})
	m.run(func(world mpi.Comm, environ func(string) (string, bool)) error {
		return inSession(world, environ, func(s *scr.Session) error {
			for {
				in, err := s.Restart()
				if err != nil || in == nil {
					return err
				}
				_, err = load(in, world.Rank())
				if world.Rank() == 2 && in.Name() == "ckpt.6" {
					err = errors.New("this is not my state")
				}
				err = in.Complete(err == nil)
				if world.Rank() == 0 {
					fmt.Println(in.Name(), err == nil)
				}
				if err == nil {
					return nil
				}
			}
		})
	})
	// Output:
	// ckpt.6 false
	// ckpt.3 true
}

// A program decides on its own failures as goscr does on its: all ranks return the
// error that one has met.
func ExampleSession_Agree() {
	m := newMachine()
	defer os.RemoveAll(m.dir)
	m.run(func(world mpi.Comm, environ func(string) (string, bool)) error {
		return inSession(world, environ, func(s *scr.Session) error {
			var err error
			if world.Rank() == 1 {
				err = errors.New("the input file is missing")
			}
			err = s.Agree(err)
			if world.Rank() == 0 {
				fmt.Println(err)
			}
			return nil
		})
	})
	// Output: rank 1: the input file is missing
}

// Parameters are asked for by name, or by the fields of a line that describes a kind of
// checkpoint.
func ExampleSession_Parameter() {
	m := newMachine()
	defer os.RemoveAll(m.dir)
	m.run(func(world mpi.Comm, environ func(string) (string, bool)) error {
		kinds := []string{"CKPT=0 INTERVAL=1 TYPE=XOR", "CKPT=1 INTERVAL=4 TYPE=RS SET_FAILURES=2"}
		s, err := scr.Init(world, scr.Options{CacheSize: 3, Config: kinds, Environ: environ, Log: io.Discard})
		if err != nil {
			return err
		}
		if world.Rank() == 0 {
			for _, query := range []string{"SCR_CACHE_SIZE", "SCR_FETCH", "CKPT=1 TYPE"} {
				value, ok, err := s.Parameter(query)
				fmt.Println(query, "is", value, ok, err)
			}
		}
		return s.Finalize()
	})
	// Output:
	// SCR_CACHE_SIZE is 3 true <nil>
	// SCR_FETCH is  false <nil>
	// CKPT=1 TYPE is RS true <nil>
}

// A checkpoint that nobody needs any more is deleted, in the prefix directory and on
// the nodes.
func ExampleSession_Delete() {
	m := newMachine()
	defer os.RemoveAll(m.dir)
	m.run(func(world mpi.Comm, environ func(string) (string, bool)) error {
		return inSession(world, environ, func(s *scr.Session) error {
			return errors.Join(save(s, world.Rank(), 3), save(s, world.Rank(), 6), s.Delete("ckpt.6"))
		})
	})
	m.run(func(world mpi.Comm, environ func(string) (string, bool)) error {
		return inSession(world, environ, func(s *scr.Session) error {
			in, err := s.Restart()
			if err != nil || in == nil {
				return err
			}
			if world.Rank() == 0 {
				fmt.Println(in.Name())
			}
			return in.Complete(true)
		})
	})
	// Output: ckpt.3
}
