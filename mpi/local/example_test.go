package local_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/goscr/goscr/mpi"
	"github.com/goscr/goscr/mpi/local"
)

// The ranks of a job are goroutines, which need no launcher.
func ExampleRun() {
	stats, err := local.Run(3, local.Options{}, func(world mpi.Comm) error {
		if world.Rank() == 0 {
			world.Send([]byte("hello"), 2, 1)
		}
		if world.Rank() == 2 {
			buf := make([]byte, 10)
			status := world.Recv(buf, mpi.AnySource, 1)
			fmt.Printf("%s from rank %d\n", buf[:status.Count], status.Source)
		}
		return nil
	})
	fmt.Println("rank 0 sent", stats[0].Bytes, "bytes;", err)
	// Output:
	// hello from rank 0
	// rank 0 sent 5 bytes; <nil>
}

// A program that has to leave something usable, whenever it is killed, is killed in
// place of each of its messages. This one writes a file on every rank, and marks them
// as complete once all ranks have.
func ExampleOptions_killAt() {
	dir, err := os.MkdirTemp("", "local-example-")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)
	mark := filepath.Join(dir, "complete")
	program := func(world mpi.Comm) error {
		err := os.WriteFile(filepath.Join(dir, fmt.Sprint("rank_", world.Rank())), []byte("state"), 0o600)
		if err := mpi.Agree(world, err); err != nil {
			return err
		}
		return mpi.OnRoot(world, func() error { return os.WriteFile(mark, nil, 0o600) })
	}
	for kill := int64(1); ; kill++ {
		os.RemoveAll(dir)
		os.Mkdir(dir, 0o700)
		_, err := local.Run(4, local.Options{KillAt: kill}, program)
		files, _ := filepath.Glob(filepath.Join(dir, "rank_*"))
		if _, e := os.Stat(mark); e == nil && len(files) < 4 {
			fmt.Println("killed at message", kill, "it has a mark and", len(files), "files")
		}
		if !errors.Is(err, local.ErrKilled) { // it has come to its end
			fmt.Println("any kill leaves all files or no mark;", err)
			return
		}
	}
	// Output: any kill leaves all files or no mark; <nil>
}

// A job that cannot continue is ended, with the ranks that wait.
func ExampleOptions_timeout() {
	_, err := local.Run(2, local.Options{Timeout: 500 * time.Millisecond}, func(world mpi.Comm) error {
		if world.Rank() == 0 {
			world.Barrier() // which rank 1 does not come to
		}
		return nil
	})
	fmt.Println(err)
	// Output: no rank has got further for 500ms; ranks still waiting: [0]
}
