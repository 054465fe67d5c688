package main

import (
	"fmt"
	"math/rand/v2"
	"os"

	"github.com/klauspost/compress/zstd"

	"github.com/goscr/goscr/internal/session"
)

// Version is a dataset that a job has begun. Its id grows from dataset to dataset of a
// story, whatever the library does; a name may come back after a restart.
type Version struct {
	ID    int
	Step  int
	Name  string
	Flags session.Flags
	Ranks int  // that write it
	Same  bool // under file names that all checkpoints of the story have, or all other datasets

	Flips []flip `json:",omitempty"` // which nothing finds
}

// flip is bits of a file that were changed in the cache, where the file has no checksum.
type flip struct {
	Rank int
	Name string
	At   int
	Bits byte
}

// overwrites reports whether a version has files of the same names as an older one.
func (v Version) overwrites(older Version) bool {
	return v.ID > older.ID && (v.Name == older.Name || v.Same && older.Same && v.checkpoint() == older.checkpoint())
}

func (v Version) checkpoint() bool { return v.Flags.Has(session.Checkpoint) }

// String is how a story calls it.
func (v Version) String() string { return fmt.Sprintf("%s (version %d)", v.Name, v.ID) }

// versions are those that the program of a job has begun. They say how it begins the next one.
type versions struct {
	Seed  uint64    // of their contents
	Same  bool      // they have the same file names
	Fresh bool      // a name is used once only
	Known []Version // oldest first
	Next  int       // id
}

// begin begins a version.
func (vs *versions) begin(step int, flags session.Flags, ranks int) Version {
	v := Version{ID: vs.Next, Step: step, Name: fmt.Sprintf("step.%d", step), Flags: flags, Ranks: ranks, Same: vs.Same}
	if vs.Fresh {
		v.Name = fmt.Sprintf("version.%d", v.ID)
	}
	vs.Known = append(vs.Known, v)
	vs.Next++
	return v
}

// file is what a program writes, below the prefix directory.
type file struct {
	name  string
	data  []byte
	loose map[int]byte // bits that may be others, by the offset of their byte
}

// mostBytes is the size of the largest files.
const mostBytes = 100 << 10

// contents are the files of a rank in a version of a story: none or several, empty or
// not, some of which become smaller when they are compressed.
func contents(seed uint64, v Version, rank int) (files []file) {
	random := rand.New(rand.NewPCG(seed, uint64(v.ID)<<20|uint64(rank)))
	dir := v.Name
	if v.Same {
		dir = "restart"
		if !v.checkpoint() {
			dir = "fields"
		}
	}
	count := []int{1, 2, 3, 1, 0, 1}[random.IntN(6)]
	if rank == 0 {
		count = max(count, 1)
	}
	for i := range count {
		name := fmt.Sprintf("%s/rank_%d.%d", dir, rank, i)
		if i == 2 {
			name = fmt.Sprintf("%s/more of %d/state", dir, rank)
		}
		most := []int{1, 2, 300, 5000, 30 << 10, mostBytes + 1}[random.IntN(6)]
		f := file{name: name, data: make([]byte, random.IntN(most))}
		pattern := random.IntN(3) == 0
		for k := range f.data {
			if f.data[k] = byte(random.Uint32()); pattern && k > 64 {
				f.data[k] = f.data[k-64]
			}
		}
		if rank == 0 && i == 0 { // which distinguishes all versions
			f.data = append(fmt.Appendf(nil, "version %d\n", v.ID), f.data...)
		}
		for _, c := range v.Flips {
			if c.Rank == rank && c.Name == name {
				if f.loose == nil {
					f.loose = map[int]byte{}
				}
				f.loose[c.At] |= c.Bits
			}
		}
		files = append(files, f)
	}
	return files
}

// differ returns the first byte of data, from an offset on, that is not as it was written, and
// which of its bits: none if there is no such byte.
func (f file) differ(data []byte, from int) (at int, bits byte) {
	for at = from; at < min(len(data), len(f.data)); at++ {
		if bits = (data[at] ^ f.data[at]) &^ f.loose[at]; bits != 0 {
			return at, bits
		}
	}
	return at, 0
}

// is reports whether data is what was written.
func (f file) is(data []byte) bool {
	_, bits := f.differ(data, 0)
	return bits == 0 && len(data) == len(f.data)
}

func (f file) write(path string) error { return os.WriteFile(path, f.data, 0o600) }

// compare returns how a file differs from what was written.
func (f file) compare(path string) error {
	data, err := os.ReadFile(path)
	if err == nil && !f.is(data) {
		at, _ := f.differ(data, 0)
		err = fmt.Errorf("%s: other bytes than were written, from byte %d on (%d, were %d)", path, at, len(data), len(f.data))
	}
	return err
}

// packed reports whether a file that a flush has compressed is the one that was written.
func (f file) packed(path string) bool {
	packed, err := os.ReadFile(path)
	if err != nil {
		return false
	}
	reader, err := zstd.NewReader(nil, zstd.WithDecoderMaxMemory(2*mostBytes))
	if err != nil {
		return false
	}
	defer reader.Close()
	data, err := reader.DecodeAll(packed, nil)
	return err == nil && len(packed) > 0 && f.is(data)
}

// there compares all files of a version, of all ranks, with what is at the paths that place gives for their names.
func (v Version) there(seed uint64, place func(name string) string) error {
	for rank := range v.Ranks {
		for _, f := range contents(seed, v, rank) {
			path := place(f.name)
			if err := f.compare(path); err != nil && !f.packed(path) {
				return err
			}
		}
	}
	return nil
}
