// Package oldtest makes prefix directories as SCR 1.1 left them, for tests.
package oldtest

import (
	"fmt"
	"hash/crc32"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/goscr/goscr/hash"
)

// Ranks is the number of ranks that wrote the checkpoints.
const Ranks = 4

// Index is the index of the developer's manual of SCR 1.1 (§9.1): of checkpoint
// 18 there are two copies, of which one has failed.
const Index = `
VERSION
  1
DIR
  scr.2011-02-28_12:37:36.1145655.18
    CKPT
      18
  scr.2011-02-28_12:37:14.1145655.18
    CKPT
      18
  scr.2011-02-28_12:37:04.1145655.12
    CKPT
      12
  scr.2011-02-28_12:36:50.1145655.6
    CKPT
      6
CKPT
  18
    DIR
      scr.2011-02-28_12:37:36.1145655.18
        COMPLETE
          1
        FLUSHED
          2011-02-28T12:37:36
      scr.2011-02-28_12:37:14.1145655.18
        FAILED
          2011-02-28T12:37:36
        FETCHED
          2011-02-28T12:37:36
        COMPLETE
          1
        FLUSHED
          2011-02-28T12:37:14
  12
    DIR
      scr.2011-02-28_12:37:04.1145655.12
        FETCHED
          2011-02-28T12:37:36
          2011-02-28T12:37:14
        COMPLETE
          1
        FLUSHED
          2011-02-28T12:37:04
  6
    DIR
      scr.2011-02-28_12:36:50.1145655.6
        FETCHED
          2011-02-28T12:37:04
        COMPLETE
          1
        FLUSHED
          2011-02-28T12:36:50
`

// Dirs are the directories of Index, by the checkpoint in them, best first.
var Dirs = map[int][]string{
	18: {"scr.2011-02-28_12:37:36.1145655.18", "scr.2011-02-28_12:37:14.1145655.18"},
	12: {"scr.2011-02-28_12:37:04.1145655.12"},
	6:  {"scr.2011-02-28_12:36:50.1145655.6"},
}

// Tree makes a hash of keys, one a line, indented by two more spaces than what
// they are under.
func Tree(text string) *hash.Hash {
	root := hash.New()
	path := []*hash.Hash{root}
	for line := range strings.Lines(text) {
		key := strings.TrimLeft(line, " ")
		depth := (len(line) - len(key)) / 2
		if key = strings.TrimSpace(key); key != "" {
			path = append(path[:depth+1], path[depth].At(key))
		}
	}
	return root
}

// Name is the name of the file of a rank.
func Name(rank int) string { return fmt.Sprintf("rank_%d.ckpt", rank) }

// Data is what is in it; its size is that in the manual, a thousandth of it.
func Data(id, rank int) []byte {
	data := make([]byte, 524+rank)
	for i := range data {
		data[i] = byte(i*id + rank)
	}
	return data
}

// Write makes a prefix directory with the checkpoints of Index, the first copy
// of the newest current.
func Write(t testing.TB, prefix string) {
	t.Helper()
	must(t, os.MkdirAll(prefix, 0o700))
	must(t, hash.WriteShared(filepath.Join(prefix, "index.scr"), Tree(Index)))
	for id, dirs := range Dirs {
		for _, dir := range dirs {
			writeCheckpoint(t, filepath.Join(prefix, dir), id)
		}
	}
	must(t, os.Symlink(Dirs[18][0], filepath.Join(prefix, "scr.current")))
}

func writeCheckpoint(t testing.TB, dir string, id int) {
	t.Helper()
	must(t, os.MkdirAll(dir, 0o700))
	summary := hash.New()
	summary.SetInt("VERSION", 5)
	of := summary.At("CKPT", strconv.Itoa(id))
	of.SetValue("COMPLETE", "1")
	of.SetInt("RANKS", Ranks)
	for rank := range Ranks {
		data := Data(id, rank)
		must(t, os.WriteFile(filepath.Join(dir, Name(rank)), data, 0o600))
		f := of.At("RANK", strconv.Itoa(rank), "FILE", Name(rank))
		f.SetInt("SIZE", int64(len(data)))
		f.SetValue("CRC", fmt.Sprintf("0x%x", crc32.ChecksumIEEE(data)))
		xor := fmt.Sprintf("%d_of_4_in_0.xor", rank+1) // what a drain leaves, and nobody fetches
		must(t, os.WriteFile(filepath.Join(dir, xor), []byte("redundancy"), 0o600))
		x := of.At("RANK", strconv.Itoa(rank), "FILE", xor)
		x.At("NOFETCH")
		x.SetInt("SIZE", 10)
	}
	must(t, hash.WriteShared(filepath.Join(dir, "summary.scr"), summary))
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
