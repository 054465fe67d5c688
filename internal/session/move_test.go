package session

import (
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/goscr/goscr/test/sample"
)

// bulk are files of a rank that take many batches to move, if pieces have so
// many bytes: a batch has 64 of them, and so two of these files. They are of one
// size, so that what comes to a node in a batch is as much as what goes.
func bulk(piece, step, rank int) []file {
	random := rand.New(rand.NewPCG(uint64(step), uint64(rank)))
	files := []file{{name: fmt.Sprintf("ckpt.%d/%d/empty", step, rank), mode: 0o600, time: time.Unix(1e9, 0)}}
	for i := range 12 {
		f := file{name: fmt.Sprintf("ckpt.%d/%d/file.%d", step, rank, i), data: make([]byte, 24*piece),
			mode: 0o640, time: time.Unix(1e9, int64(i))}
		for k := range f.data {
			f.data[k] = byte(random.Uint32())
		}
		files = append(files, f)
	}
	return files
}

func bulkSteps(piece int, list ...int) func(s *Session, rank int) error {
	return func(s *Session, rank int) error {
		for _, step := range list {
			if err := s.StartOutput(name(step), Checkpoint); err != nil {
				return err
			}
			if err := write(s, bulk(piece, step, rank)); err != nil {
				return err
			}
			if err := s.CompleteOutput(true); err != nil {
				return err
			}
		}
		return nil
	}
}

// bulkRestarts is a program that restarts from a step and finds its files.
func bulkRestarts(piece, step int) func(s *Session, rank int) error {
	return func(s *Session, rank int) error {
		if got, err := offered(s); err != nil || got != name(step) {
			return fmt.Errorf("offered %q, want %q: %v", got, name(step), err)
		}
		if _, err := s.StartRestart(); err != nil {
			return err
		}
		var failed error
		for _, f := range bulk(piece, step, rank) {
			path, err := s.Route(filepath.Join(s.prefix.Dir, f.name))
			if err == nil {
				err = same(path, f)
			}
			if failed == nil {
				failed = err
			}
		}
		if err := s.Agree(failed); err != nil {
			return err
		}
		return s.CompleteRestart(true)
	}
}

// used is what the files of a dataset take on a node, in bytes.
func (c *cluster) used(node string, id int) int64 {
	var total int64
	// Others make and delete files at the same time.
	_ = filepath.WalkDir(c.cached(node, id, ""), func(_ string, d fs.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() {
			if info, err := d.Info(); err == nil {
				total += info.Size()
			}
		}
		return nil
	})
	return total
}

// Files that move to other nodes do not need room there for a second copy of
// what is there already and leaves: at any message a node has no more than
// before or after, and a batch for each of its ranks.
func TestMove_RoomOnANode(t *testing.T) {
	t.Parallel()
	const piece, per = 256, 2
	c := newCluster(t, "SCR_COPY_TYPE=SINGLE", fmt.Sprintf("SCR_MPI_BUF_SIZE=%d", piece))
	names := []string{"a", "b", "c"}
	c.job(on(per, names...), bulkSteps(piece, 1))
	before := map[string]int64{}
	for _, node := range names {
		before[node] = c.used(node, 1)
	}
	var mu sync.Mutex
	peak := map[string]int64{}
	moved := on(per, "b", "c", "a")
	c.opt.Watch = func(rank int) {
		now := c.used(moved[rank], 1)
		mu.Lock()
		peak[moved[rank]] = max(peak[moved[rank]], now)
		mu.Unlock()
	}
	c.job(moved, bulkRestarts(piece, 1))
	c.says("as it was in the cache")
	const batches = per * 64 * piece
	for _, node := range names {
		after := c.used(node, 1)
		if room := max(before[node], after) + batches; peak[node] > room {
			t.Errorf("node %s had %d bytes before, %d after, and %d at one time; want at most %d", node, before[node], after, peak[node], room)
		}
		if after < 4*batches || peak[node] < after {
			t.Errorf("node %s: %d bytes after, seen %d: that proves nothing", node, after, peak[node])
		}
	}
}

// Without redundancy, every file has to be on one node or the other at any time.
func TestKilled_WhileMovingFilesThatNothingProtects(t *testing.T) {
	t.Parallel()
	const piece = 64
	c := newCluster(t, "SCR_COPY_TYPE=SINGLE", fmt.Sprintf("SCR_MPI_BUF_SIZE=%d", piece))
	three := on(1, "a", "b", "c")
	c.job(three, bulkSteps(piece, 1))
	places := [][]string{{"a", "b", "c"}, {"b", "c", "a"}, {"c", "a", "b"}, {"c", "b", "a"}, {"a", "c", "b"}}
	split := 0
	killsOf(t, c, 120, places[1], bulkRestarts(piece, 1), func(at int64) {
		for rank, node := range three {
			old, _ := os.ReadDir(c.cached(node, 1, fmt.Sprintf("ckpt.1/%d", rank)))
			now, _ := os.ReadDir(c.cached(places[1][rank], 1, fmt.Sprintf("ckpt.1/%d", rank)))
			if len(old) > 0 && len(old) < 13 && len(now) > 0 {
				split++
				break
			}
		}
		if err := c.try(places[at%5], bulkRestarts(piece, 1)); err != nil {
			t.Errorf("%v\n%s", err, c.said())
		}
		c.says("as it was in the cache")
	})
	if split < int(fewer(120)/12) {
		t.Errorf("only %d kills left files of a rank on two nodes", split)
	}
}

// A node that has some of a rank's files when they move, with others elsewhere,
// is lost: they are rebuilt.
func TestMove_InterruptedAndANodeLost(t *testing.T) {
	t.Parallel()
	const piece = 64
	for _, lost := range sample.Of(t, []string{"a", "b", "c", "d"}, 1, 2) {
		t.Run(lost, func(t *testing.T) {
			c := newCluster(t, fmt.Sprintf("SCR_MPI_BUF_SIZE=%d", piece), "SCR_COPY_TYPE=RS")
			c.job(four, bulkSteps(piece, 1))
			moved := []string{"b", "a", "c", "d"} // what was moving is on two nodes
			killsOf(t, c, 20, moved, bulkRestarts(piece, 1), func(int64) {
				c.lose(lost)
				if err := c.try(moved, bulkRestarts(piece, 1)); err != nil {
					t.Errorf("%v\n%s", err, c.said())
				}
			})
		})
	}
}

// More ranks than can be rebuilt find something in the way where they now run.
// Their files stay where they are, for a run that has room for them.
func TestMove_NoRoomOnTheNewNodes(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	c.job(four, steps(1, 2))
	for id := 1; id <= 2; id++ {
		// A file where rank 1 needs a directory, and the other way round for rank 0.
		if err := os.WriteFile(c.cached("a", id, name(id)+"/x"), nil, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.MkdirAll(c.cached("b", id, name(id)+"/rank_0/x"), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	c.job([]string{"b", "a", "c", "d"}, restarts(0))
	c.says("my files did not arrive")
	c.says("dataset 2 (ckpt.2) in the cache cannot be used now")
	for id := 1; id <= 2; id++ {
		if err := errors.Join(os.Remove(c.cached("a", id, name(id)+"/x")), os.RemoveAll(c.cached("b", id, name(id)+"/rank_0"))); err != nil {
			t.Fatal(err)
		}
	}
	c.job(four, restarts(2))
	c.says("as it was in the cache")
}

// Members of a set that have come to one node keep descriptors for each other there. What
// is only that must not count as the dataset.
func TestMove_SetOnOneNode(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "SCR_SET_SIZE=2")
	c.job(on(2, "a", "b"), steps(1, 2)) // ranks 0 and 2 are a set, and 1 and 3
	for range 3 {
		c.job([]string{"a", "b", "a", "b"}, restarts(2))
	}
	c.says("as it was in the cache")
}
