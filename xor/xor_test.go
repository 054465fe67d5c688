package xor_test

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/goscr/goscr/mpi"
	"github.com/goscr/goscr/mpi/local"
	"github.com/goscr/goscr/xor"
)

// shards returns n shards of different sizes up to most bytes, some of them empty.
func shards(n, most int) [][]byte {
	random := rand.New(rand.NewPCG(uint64(n), uint64(most)))
	list := make([][]byte, n)
	for i := range list {
		list[i] = make([]byte, random.IntN(most+1)*(i%3)/2)
		for k := range list[i] {
			list[i][k] = byte(random.Uint32())
		}
	}
	return list
}

func TestRecover_AnyShard(t *testing.T) {
	for n := 2; n <= 9; n++ {
		for _, most := range []int{0, 1, 2, 1000, 3 << 20} {
			want := shards(n, most)
			parity, err := xor.Encode(want)
			if err != nil {
				t.Fatal(err)
			}
			largest := 0
			for _, s := range want {
				largest = max(largest, len(s))
			}
			for lost := range n {
				if got := len(parity[lost]); got != (largest+n-2)/(n-1) {
					t.Errorf("%d bytes of parity for shards of %d in a set of %d", got, largest, n)
				}
				have, kept := slices.Clone(want), slices.Clone(parity)
				have[lost], kept[lost] = nil, nil
				shard, chunk, err := xor.Recover(have, kept, lost, len(want[lost]))
				if err != nil || !bytes.Equal(shard, want[lost]) || !bytes.Equal(chunk, parity[lost]) {
					t.Errorf("shard %d of %d, of up to %d bytes, does not come back: %v", lost, n, most, err)
				}
			}
		}
	}
}

// The parity of a column is the exclusive or of the chunks in it.
func TestEncode_Layout(t *testing.T) {
	parity, err := xor.Encode([][]byte{{1, 2, 3}, {10, 20, 30}, {100, 101, 102}, {4}})
	want := [][]byte{{10 ^ 100 ^ 4}, {1 ^ 101}, {2 ^ 20}, {3 ^ 30 ^ 102}}
	if err != nil || !slices.EqualFunc(parity, want, bytes.Equal) {
		t.Errorf("%v, want %v (%v)", parity, want, err)
	}
}

func TestRecoverRank_Files(t *testing.T) {
	const n, lost = 4, 1
	dir := t.TempDir()
	want := shards(n, 1<<20)
	_, err := local.Run(n, local.Options{}, func(c mpi.Comm) error {
		open := func(kind string) *os.File {
			f, err := os.OpenFile(filepath.Join(dir, fmt.Sprint(kind, c.Rank())), os.O_RDWR|os.O_CREATE, 0o600)
			if err != nil {
				t.Error(err)
			}
			return f
		}
		shard, parity := open("shard"), open("parity")
		if _, err := shard.Write(want[c.Rank()]); err != nil {
			return err
		}
		sizes, err := xor.EncodeRank(c, shard, int64(len(want[c.Rank()])), parity)
		if err != nil {
			return err
		}
		if c.Rank() == lost {
			if err := errors.Join(shard.Truncate(0), parity.Truncate(0)); err != nil {
				return err
			}
		}
		return errors.Join(xor.RecoverRank(c, lost, sizes, shard, parity), shard.Close(), parity.Close())
	})
	got, e := os.ReadFile(filepath.Join(dir, fmt.Sprint("shard", lost)))
	if err != nil || e != nil || !bytes.Equal(got, want[lost]) {
		t.Errorf("the file does not come back: %v, %v", err, e)
	}
}

// If one rank has an error, all ranks return one, and none waits for another.
func TestErrors_OnAllRanks(t *testing.T) {
	const n = 3
	for name, change := range map[string]func(rank int, sizes []int64, shard *xor.Buffer) (lost int){
		"is lost, but there are only": func(_ int, _ []int64, _ *xor.Buffer) int { return n },
		"different values of lost":    func(rank int, _ []int64, _ *xor.Buffer) int { return rank },
		"different sizes of shards":   func(rank int, sizes []int64, _ *xor.Buffer) int { sizes[1] += int64(rank); return 0 },
		"EOF":                         func(rank int, _ []int64, shard *xor.Buffer) int { shard.Bytes = shard.Bytes[:rank]; return 0 },
		"or different sizes": func(_ int, sizes []int64, _ *xor.Buffer) int {
			for i := range sizes {
				sizes[i] = -1
			}
			return 1
		},
	} {
		failed := make([]error, n)
		_, err := local.Run(n, local.Options{}, func(c mpi.Comm) error {
			shard, parity := &xor.Buffer{Bytes: make([]byte, 100)}, &xor.Buffer{}
			sizes, err := xor.EncodeRank(c, shard, 100, parity)
			if err != nil {
				return err
			}
			failed[c.Rank()] = xor.RecoverRank(c, change(c.Rank(), sizes, shard), sizes, shard, parity)
			return nil
		})
		for rank, e := range failed {
			if err != nil || e == nil || !strings.Contains(e.Error(), name) {
				t.Errorf("%s: rank %d: %v (%v)", name, rank, e, err)
			}
		}
	}
	if _, err := xor.Encode([][]byte{{1}}); err == nil {
		t.Error("a single shard was encoded")
	}
}
