package hash_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"time"

	"github.com/goscr/goscr/hash"
	"github.com/goscr/goscr/mpi"
	"github.com/goscr/goscr/mpi/local"
)

// A tree is made by setting what is in it, and asked for by paths of keys. What is
// not there is an empty hash.
func Example() {
	h := hash.New()
	h.SetValue("NAME", "ckpt.12")
	h.SetInt("RANKS", 2)
	for rank := range 2 {
		h.At("RANK", strconv.Itoa(rank), "FILE", fmt.Sprintf("rank_%d.ckpt", rank)).SetInt("SIZE", int64(100*rank))
	}
	h.PrintKV(os.Stdout, 0)

	size, ok := h.Get("RANK", "1", "FILE", "rank_1.ckpt").Int("SIZE")
	fmt.Println(size, ok)
	size, ok = h.Get("RANK", "7", "FILE", "rank_7.ckpt").Int("SIZE")
	fmt.Println(size, ok)
	// Output:
	// NAME = ckpt.12
	// RANK
	//   0
	//     FILE
	//       rank_0.ckpt
	//         SIZE = 0
	//   1
	//     FILE
	//       rank_1.ckpt
	//         SIZE = 100
	// RANKS = 2
	// 100 true
	// 0 false
}

// SetValue replaces what a key had; SetKV adds to it.
func ExampleHash_SetKV() {
	h := hash.New()
	h.SetValue("STATE", "RUNNING")
	h.SetValue("STATE", "STOPPED")
	h.SetKV("LOCATION", "CACHE")
	h.SetKV("LOCATION", "PFS")
	h.Print(os.Stdout, 0)
	// Output:
	// LOCATION
	//   CACHE
	//   PFS
	// STATE
	//   STOPPED
}

// Keys are iterated over as texts in order, or as numbers in order.
func ExampleHash_All() {
	h := hash.New()
	for _, id := range []int{10, 9, 100} {
		h.At("DSET", strconv.Itoa(id)).SetValue("NAME", fmt.Sprint("ckpt.", id))
	}
	for id, dataset := range h.Get("DSET").All() {
		fmt.Println(id, dataset.Text("NAME"))
	}
	fmt.Println(h.Get("DSET").Ints())
	// Output:
	// 10 ckpt.10
	// 100 ckpt.100
	// 9 ckpt.9
	// [9 10 100]
}

// A file is replaced as a whole: who reads it finds the old tree or the new one.
func ExampleWriteFile() {
	path := filepath.Join(tempDir(), "nodes.scr")
	defer os.RemoveAll(filepath.Dir(path))

	h := hash.New()
	h.SetInt("NODES", 4)
	if err := hash.WriteFile(path, h); err != nil {
		fmt.Println(err)
	}
	h, err := hash.ReadFile(path)
	if err != nil {
		fmt.Println(err)
	}
	fmt.Println("NODES =", h.Text("NODES"))
	// Output: NODES = 4
}

// A file that several processes change is changed under its lock.
func ExampleUpdate() {
	path := filepath.Join(tempDir(), "runs.scr")
	defer os.RemoveAll(filepath.Dir(path))

	var all sync.WaitGroup
	for range 10 {
		all.Add(1)
		go func() {
			defer all.Done()
			err := hash.Update(path, func(h *hash.Hash) error {
				runs, _ := h.Int("RUNS") // 0 if there is no file yet
				h.SetInt("RUNS", runs+1)
				return nil
			})
			if err != nil {
				fmt.Println(err)
			}
		}()
	}
	all.Wait()
	h, err := hash.ReadFile(path)
	fmt.Println(h.Text("RUNS"), err)
	// Output: 10 <nil>
}

// Every rank sends a hash to any others, none of which need expect it: here, what
// each rank knows of files goes to the rank that owns them.
func ExampleExchange() {
	_, err := local.Run(3, local.Options{}, func(world mpi.Comm) error {
		send := hash.New()
		owner := (world.Rank() + 1) % world.Size()
		send.At(strconv.Itoa(owner)).SetValue("FILE", fmt.Sprint("seen by rank ", world.Rank()))
		received, err := hash.Exchange(send, world)
		if err != nil {
			return err
		}
		if world.Rank() == 0 {
			received.PrintKV(os.Stdout, 0)
		}
		return nil
	})
	if err != nil {
		fmt.Println(err)
	}
	// Output:
	// 2
	//   FILE = seen by rank 2
}

// What one rank has read, all ranks get.
func ExampleBcast() {
	_, err := local.Run(3, local.Options{}, func(world mpi.Comm) error {
		var h *hash.Hash
		if world.Rank() == 0 {
			h = hash.New()
			h.SetValue("CURRENT", "ckpt.12")
		}
		h = hash.Bcast(h, 0, world)
		if world.Rank() == 2 {
			fmt.Println(h.Text("CURRENT"))
		}
		return nil
	})
	if err != nil {
		fmt.Println(err)
	}
	// Output: ckpt.12
}

func tempDir() string {
	dir, err := os.MkdirTemp("", "hash-example-")
	if err != nil {
		panic(err)
	}
	return dir
}

// A record is a struct that has a key beside each of its fields.
func ExampleMarshal() {
	type member struct {
		Size int64 `hash:"SIZE"`
	}
	type set struct {
		Name    string         `hash:"NAME"`
		Created time.Time      `hash:"CREATED"` // in microseconds
		Why     string         `hash:"WHY,omitempty"`
		Members map[int]member `hash:"RANK"`
	}
	h := hash.Marshal(set{Name: "ckpt.12", Created: time.Unix(1, 0), Members: map[int]member{0: {100}, 7: {200}}})
	h.PrintKV(os.Stdout, 0)

	h.SetValue("CREATED", "yesterday") // by somebody else
	h.SetValue("WHY", "no space")
	s := set{Created: time.Unix(5, 0)}
	hash.Unmarshal(h, &s)
	fmt.Println(s.Name, s.Created.Unix(), s.Why, s.Members)
	// Output:
	// CREATED = 1000000
	// NAME = ckpt.12
	// RANK
	//   0
	//     SIZE = 100
	//   7
	//     SIZE = 200
	// ckpt.12 5 no space map[0:{100} 7:{200}]
}
