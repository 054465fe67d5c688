package scr

import (
	"flag"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/goscr/goscr/mpi"
	"github.com/goscr/goscr/mpi/local"
)

var (
	growthAll   = flag.Bool("growth", false, "measure growth up to 16,384 ranks, not only to 1,024")
	growthWrite = flag.String("growth-write", "", "write the table of growth into this file")
)

// growthPhases is what a job does, phase after phase; what a phase costs is the
// difference between a run that ends after it and one that ends before.
var growthPhases = []string{"set up MPI", "Init", "StartOutput", "CompleteOutput", "Init after every rank has moved"}

// growthJob runs n ranks, 8 a node, up to a phase, and returns the most
// messages and bytes that a rank has sent.
func growthJob(t *testing.T, n, phase int) (messages, bytes int64) {
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
			s, err := Init(world, Options{Log: io.Discard, Environ: func(name string) (string, bool) {
				value, ok := env[name]
				return value, ok
			}})
			if err != nil || phase == 1 || shift > 0 {
				return err
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
		messages, bytes = max(messages, s.Messages), max(bytes, s.Bytes)
	}
	return messages, bytes
}

// shmDir is a directory for very many small files.
func shmDir(t *testing.T) string {
	t.Helper()
	base := "/dev/shm"
	if _, err := os.Stat(base); err != nil {
		base = ""
	}
	dir, err := os.MkdirTemp(base, "goscr-growth-")
	must(t, err)
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

// What a rank sends may not grow faster than the logarithm of the number of
// ranks: from 1,024 ranks to 16,384 by no more than from 64 to 1,024, give or
// take what a differing number of rounds makes.
func TestGrowth_LogarithmicPerRank(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("16,384 ranks take long; without -short it runs")
	}
	sizes := []int{16, 64, 256}
	if *growthAll {
		sizes = []int{64, 1024, 16384}
	}
	var table strings.Builder
	fmt.Fprint(&table, "| phase |")
	for _, n := range sizes {
		fmt.Fprintf(&table, " %d ranks |", n)
	}
	fmt.Fprint(&table, "\n|---|", strings.Repeat("---|", len(sizes)), "\n")
	before := make([][2]int64, len(sizes))
	for phase := 1; phase < len(growthPhases); phase++ {
		var messages, bytes []int64
		for i, n := range sizes {
			m, b := growthJob(t, n, phase)
			if phase == 4 {
				messages, bytes = append(messages, m), append(bytes, b)
				continue
			}
			messages, bytes = append(messages, m-before[i][0]), append(bytes, b-before[i][1])
			before[i] = [2]int64{m, b}
		}
		fmt.Fprintf(&table, "| %s |", growthPhases[phase])
		for i := range sizes {
			fmt.Fprintf(&table, " %d messages, %d bytes |", messages[i], bytes[i])
		}
		fmt.Fprintln(&table)
		for what, v := range map[string][]int64{"messages": messages, "bytes": bytes} {
			first, second := float64(v[1]-v[0]), float64(v[2]-v[1])
			if limit := 1.5*math.Max(first, 0) + 0.25*float64(v[1]) + 16; second > limit {
				t.Errorf("%s: %s a rank sends at most grow from %d to %d to %d over %v ranks", growthPhases[phase], what, v[0], v[1], v[2], sizes)
			}
		}
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
