package scr_test

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/goscr/goscr/mpi"
	"github.com/goscr/goscr/mpi/local"
	"github.com/goscr/goscr/scr"
)

// Parameters can be set by the program before Init, and asked for at any time.
func ExampleInit() {
	m := newMachine()
	defer os.RemoveAll(m.dir)
	m.run(func(world mpi.Comm, environ func(string) (string, bool)) error {
		s, err := scr.Init(world, scr.Options{Scheme: scr.Partner, Environ: environ, Log: io.Discard})
		if err != nil {
			return err
		}
		if value, ok, err := s.Parameter("SCR_COPY_TYPE"); err == nil && ok && world.Rank() == 0 {
			fmt.Println(value)
		}
		return s.Finalize()
	})
	// Output: PARTNER
}

// An output is wanted in the prefix directory in any case; here it is a
// checkpoint as well. That a rank could not write its file is an error on all.
func ExampleDataset_Complete() {
	m := newMachine()
	defer os.RemoveAll(m.dir)
	m.run(func(world mpi.Comm, environ func(string) (string, bool)) error {
		s, err := scr.Init(world, scr.Options{Environ: environ, Log: io.Discard})
		if err != nil {
			return err
		}
		out, err := s.Begin("fields", scr.Checkpoint|scr.Output)
		if err != nil {
			return err
		}
		path, err := out.Path(fmt.Sprintf("rank_%d", world.Rank()))
		if err == nil {
			err = os.WriteFile(path, []byte("temperatures"), 0o666)
		}
		if world.Rank() == 2 {
			err = errors.New("disk full")
		}
		failed := out.Complete(err == nil)
		if world.Rank() == 0 {
			fmt.Println(failed)
		}
		return s.Finalize()
	})
	// Output: rank 2: the program says that its files of dataset fields are not valid
}

// A machine runs a job of four ranks on four nodes, each with storage of its own.
type machine struct{ dir string }

func (m machine) environ(rank int) func(string) (string, bool) {
	node := fmt.Sprintf("node%d", rank)
	env := map[string]string{
		"SCR_PREFIX": filepath.Join(m.dir, "prefix"), "PWD": filepath.Join(m.dir, "prefix"),
		"SCR_NODE_NAME": node, "SCR_USER_NAME": "user", "SCR_JOB_ID": "example", "SCR_FLUSH": "0",
		"SCR_CACHE_BASE": filepath.Join(m.dir, node), "SCR_CNTL_BASE": filepath.Join(m.dir, node),
	}
	return func(name string) (string, bool) {
		value, ok := env[name]
		return value, ok
	}
}

func (m machine) run(job func(world mpi.Comm, environ func(string) (string, bool)) error) {
	_, err := local.Run(4, local.Options{}, func(world mpi.Comm) error {
		return job(world, m.environ(world.Rank()))
	})
	if err != nil {
		fmt.Println(err)
	}
}

func newMachine() machine {
	dir, err := os.MkdirTemp("", "scr-example-")
	if err != nil {
		panic(err)
	}
	for _, name := range []string{"prefix", "node0", "node1", "node2", "node3"} {
		if err := os.Mkdir(filepath.Join(dir, name), 0o777); err != nil {
			panic(err)
		}
	}
	return machine{dir}
}

func (m machine) lose(node string) {
	if err := os.RemoveAll(filepath.Join(m.dir, node)); err != nil {
		panic(err)
	}
	if err := os.Mkdir(filepath.Join(m.dir, node), 0o777); err != nil {
		panic(err)
	}
}
