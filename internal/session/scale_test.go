package session

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

// Files of a program that are counted in docs/scale.md: what goscr stores for each of them, without
// the bytes of their redundancy. -v prints it. The names are about as long as those of most programs.
func TestScale_BytesOfEachFile(t *testing.T) {
	const few, many = 20, 520 // files of each rank
	stored := func(files int) map[string]int64 {
		c := newCluster(t, "SCR_FLUSH=1")
		var before, after runtime.MemStats
		collect := func(m *runtime.MemStats) {
			for range 3 { // pools keep what they have for one more, and finalizers run after one
				runtime.GC()
			}
			runtime.ReadMemStats(m)
		}
		collect(&before)
		c.job(four, func(s *Session, rank int) error {
			if err := s.StartOutput("checkpoint.000100", Checkpoint); err != nil {
				return err
			}
			for i := range files {
				path, err := s.Route(filepath.Join(s.prefix.Dir, fmt.Sprintf("checkpoint.000100/rank_%06d.part_%05d", rank, i)))
				if err != nil {
					return err
				}
				if err := os.WriteFile(path, nil, 0o600); err != nil {
					return err
				}
			}
			if err := s.CompleteOutput(true); err != nil {
				return err
			}
			if rank == 0 { // the others wait in Agree
				collect(&after)
			}
			return s.Agree(nil)
		})
		sizes := map[string]int64{"memory": int64(after.HeapAlloc-before.HeapAlloc) / int64(len(four))}
		size := func(what, pattern string) {
			found, err := filepath.Glob(filepath.Join(c.root, pattern))
			if err != nil || len(found) == 0 {
				t.Fatalf("%s: %v, %v", pattern, found, err)
			}
			for _, path := range found {
				info, err := os.Stat(path)
				must(t, err)
				sizes[what] += info.Size() / int64(len(four))
			}
		}
		size("filemap", "node/*/cntl/user/scr.job/filemap_0.scrinfo")
		size("redundancy file", "node/*/cache/user/scr.job/scr.dataset.1/.scr/*.xor")
		size("list of files", "prefix/.scr/scr.dataset.1/rank2file*")
		return sizes
	}
	less, more := stored(few), stored(many)
	var lines []string
	for what, most := range map[string]int64{"memory": 4000, "filemap": 700, "redundancy file": 1100, "list of files": 240} {
		each := (more[what] - less[what]) / (many - few)
		lines = append(lines, fmt.Sprintf("%s: %d bytes", what, each))
		if each > most || each <= 0 {
			t.Errorf("%s: %d bytes for each file of a rank, at most %d before", what, each, most)
		}
	}
	t.Logf("for each file of a rank:\n%s", strings.Join(lines, "\n"))
}
