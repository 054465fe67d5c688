package session

import (
	"flag"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/goscr/goscr/mpi"
	"github.com/goscr/goscr/mpi/local"
)

var (
	growthAll   = flag.Bool("growth", false, "measure growth up to 16,384 ranks, or as many as may have their files open (ulimit -n), not only to 256")
	growthWrite = flag.String("growth-write", "", "write the table of growth into this file")
)

// growthPhases is what a job does, phase after phase; what a phase costs is the
// difference between a run that ends after it and one that ends before.
var growthPhases = []string{"set up MPI", "Init", "StartOutput", "CompleteOutput", "Init after every rank has moved, with other sets"}

// growthFiles is how many files a rank keeps open in each phase: its lock of the cache, and from
// CompleteOutput on the journal of its filemap. Few ranks of the process open another one at the same time.
var growthFiles = []int{0, 1, 1, 2, 2}

// growthJob runs n ranks, 8 a node, up to a phase, and returns the most
// messages and bytes that a rank has sent, and the most messages that one was sent.
func growthJob(t *testing.T, n, phase int) (most local.Stats) {
	t.Helper()
	const perNode = 8
	root := shmDir(t)
	job := func(shift, phase int) []local.Stats {
		stats, err := local.Run(n, local.Options{}, func(world mpi.Comm) error {
			if phase == 0 {
				return nil
			}
			node := fmt.Sprint("n", (world.Rank()+shift)%n/perNode)
			env := map[string]string{
				"SCR_NODE_NAME": node, "SCR_PREFIX": filepath.Join(root, "prefix"), "SCR_USER_NAME": "u", "SCR_JOB_ID": "1",
				"SCR_CACHE_BASE": filepath.Join(root, node), "SCR_CNTL_BASE": filepath.Join(root, node), "SCR_FLUSH": "0",
				"SCR_MPI_BUF_SIZE": "1k",
			}
			if shift > 0 { // other sets than before: those of the dataset have to be made again, however many ranks there are
				env["SCR_SET_SIZE"] = "2"
			}
			s, err := Init(world, Options{Log: io.Discard, Environ: func(name string) (string, bool) {
				value, ok := env[name]
				return value, ok
			}})
			if err != nil {
				return err
			}
			defer s.cache.Close() // the descriptors that a process would give back
			defer s.events.Close()
			defer s.advisor.Abandon()
			if phase == 1 || shift > 0 {
				return nil
			}
			if err := s.StartOutput("c", Checkpoint); err != nil || phase == 2 {
				return err
			}
			// Without files, which would be more than one process may open;
			// they make no message more.
			return s.CompleteOutput(true)
		})
		must(t, err)
		return stats
	}
	stats := job(0, min(phase, 3))
	if phase == 4 {
		stats = job(perNode, 1)
	}
	for _, s := range stats {
		most.Messages, most.Bytes, most.Received = max(most.Messages, s.Messages), max(most.Bytes, s.Bytes), max(most.Received, s.Received)
	}
	return most
}

// shmDir is a directory for very many small files. Its name has always the same length, because
// ranks send each other names.
func shmDir(t *testing.T) string {
	t.Helper()
	base := "/dev/shm"
	if _, err := os.Stat(base); err != nil {
		base = os.TempDir()
	}
	dir := filepath.Join(base, fmt.Sprintf("goscr-growth-%010d", rand.Uint32()))
	must(t, os.Mkdir(dir, 0o700))
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

// growth is a line of numbers of ranks, with what a phase costs for each of them.
type growth struct {
	ranks []int
	cost  []int64
}

// at returns what a phase costs for n ranks if the cost is a + b·log2 of the number of ranks, with a
// and b from the first two numbers of ranks.
func (g growth) at(n int) float64 {
	step := float64(g.cost[1]-g.cost[0]) / math.Log2(float64(g.ranks[1])/float64(g.ranks[0]))
	return float64(g.cost[0]) + step*math.Log2(float64(n)/float64(g.ranks[0]))
}

// check fails the test if the cost for the third number of ranks is not what the first two say.
func (g growth) check(t *testing.T, what string) {
	t.Helper()
	if want := g.at(g.ranks[2]); float64(g.cost[2]) > 1.05*want+16 {
		t.Errorf("%s a rank: %d over %v ranks, where the logarithm of the number of ranks gives %.0f for the last", what, g.cost, g.ranks, want)
	}
}

// What a rank sends grows with the logarithm of the number of ranks or not at all. So does what it
// is sent, but for rank 0 in Init, which each node sends one message.
func TestGrowth_LogarithmicPerRank(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("it takes long; without -short it runs")
	}
	const far = 131072 // ranks, more than a test can have
	sizes := []int{16, 64, 256}
	if *growthAll {
		sizes = []int{64, 1024, 16384}
	}
	var limit unix.Rlimit
	must(t, unix.Getrlimit(unix.RLIMIT_NOFILE, &limit))
	var table strings.Builder
	fmt.Fprintf(&table, "| phase | ranks: messages, bytes that a rank sends at most | %d ranks, by the formula |\n|---|---|---|\n", far)
	before := map[int]local.Stats{} // by the number of ranks
	for phase := 1; phase < len(growthPhases); phase++ {
		messages, bytes, received := growth{}, growth{}, growth{}
		var cells []string
		for _, n := range sizes {
			for uint64(n*growthFiles[phase])+uint64(n/8)+200 > limit.Cur {
				n /= 2
			}
			if phase == 3 && before[n] == (local.Stats{}) { // fewer ranks than in the phase before
				before[n] = growthJob(t, n, phase-1)
			}
			most := growthJob(t, n, phase)
			cost := most
			if phase < 4 {
				cost.Messages -= before[n].Messages
				cost.Bytes -= before[n].Bytes
				cost.Received -= before[n].Received
				before[n] = most
			}
			for x, v := range map[*growth]int64{&messages: cost.Messages, &bytes: cost.Bytes, &received: cost.Received} {
				x.ranks, x.cost = append(x.ranks, n), append(x.cost, v)
			}
			cells = append(cells, fmt.Sprintf("%d: %d, %d", n, cost.Messages, cost.Bytes))
		}
		fmt.Fprintf(&table, "| %s | %s | %.0f, %.0f |\n", growthPhases[phase], strings.Join(cells, "; "), messages.at(far), bytes.at(far))
		messages.check(t, growthPhases[phase]+": messages that are sent by")
		bytes.check(t, growthPhases[phase]+": bytes that are sent by")
		for i, n := range received.ranks {
			if phase == 1 || phase == 4 {
				received.cost[i] -= int64(n / 8)
			}
		}
		received.check(t, growthPhases[phase]+": messages that are sent to")
	}
	t.Logf("\n%s", &table)
	if *growthWrite != "" {
		must(t, os.WriteFile(*growthWrite, []byte(table.String()), 0o666))
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
