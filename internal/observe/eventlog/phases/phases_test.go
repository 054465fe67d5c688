package phases

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/goscr/goscr/internal/config"
	"github.com/goscr/goscr/internal/observe/eventlog"
	"github.com/goscr/goscr/internal/observe/report"
	"github.com/goscr/goscr/internal/prefix/dataset"
	"github.com/goscr/goscr/mpi"
	"github.com/goscr/goscr/mpi/local"
)

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// open opens a log in a new directory.
func open(t testing.TB) (*eventlog.Log, string) {
	dir := t.TempDir()
	must(t, os.Mkdir(filepath.Join(dir, ".scr"), 0o777))
	env := map[string]string{"SCR_PREFIX": dir, "SCR_LOG_ENABLE": "1", "SCR_LOG_SYSLOG_ENABLE": "0", "SCR_NODE_NAME": "node0", "SCR_JOB_ID": "job1"}
	cfg, _, err := config.Load(nil, nil, func(name string) (string, bool) { v, ok := env[name]; return v, ok })
	must(t, err)
	return eventlog.Open(cfg, &report.Logger{Out: os.Stderr}, nil), eventlog.TextFile(dir)
}

// reductions counts those of a communicator.
type reductions struct {
	mpi.Comm
	n *int
}

func (r reductions) Allreduce(values []int64, op mpi.Op) {
	*r.n++
	r.Comm.Allreduce(values, op)
}

// measure logs the phases list(rank) of n ranks, times times, and returns the records.
func measure(t *testing.T, n, times int, list func(rank int) []Phase) (records []eventlog.Record, calls int) {
	t.Helper()
	log, path := open(t)
	d := dataset.New(7, "ckpt.7", dataset.Checkpoint, 7, dataset.Owner{}, time.Now())
	_, err := local.Run(n, local.Options{}, func(c mpi.Comm) error {
		var events *eventlog.Log
		mine := new(int)
		if c.Rank() == 0 {
			events, mine = log, &calls
		}
		m := New(reductions{c, mine}, fmt.Sprintf("node%d", c.Rank()/4), true, events)
		for range times {
			m.Log(d, list(c.Rank())...)
		}
		return nil
	})
	must(t, err)
	log.Close()
	text, err := os.ReadFile(path)
	must(t, err)
	for line := range strings.Lines(string(text)) {
		r, err := eventlog.Parse(line)
		must(t, err)
		records = append(records, r)
	}
	return records, calls
}

func TestMeter_Spread(t *testing.T) {
	for _, n := range []int{1, 2, 5, 64, 100, 130} {
		records, calls := measure(t, n, 3, func(rank int) []Phase {
			up := float64(rank + 1)
			return []Phase{{Type: "UP", Value: up}, {Type: "DOWN", Value: float64(n) - up + .5, Note: "x", Bytes: eventlog.Count(int64(rank) + 9)}}
		})
		if len(records) != 6 || calls != 3 {
			t.Fatalf("%d ranks: %d records, %d reductions for 3 calls", n, len(records), calls)
		}
		for i, r := range records {
			s, rank := *r.Spread, n-1
			least, most, middle := 1.0, float64(n), float64(n+1)/2
			if i%2 == 1 {
				least, most, middle, rank = .5, float64(n)-.5, float64(n)/2, 0
				if r.Note != "x" || *r.Bytes != 9 {
					t.Errorf("%+v", r)
				}
			}
			// The median of a sample of 64 ranks is off by at most one distance between them.
			if s.Least != least || s.Most != most || s.Rank != rank || s.Node != fmt.Sprintf("node%d", rank/4) ||
				math.Abs(s.Median-middle) > float64((n-1)/sample)*float64(n+sample-1)/sample || r.Dataset != 7 {
				t.Errorf("%d ranks: %s %+v, want %v %v %v of rank %d", n, r.Type, s, least, middle, most, rank)
			}
		}
	}
}

func TestSlot(t *testing.T) {
	for _, size := range []int{1, 2, 3, 63, 64, 65, 127, 128, 1000, 10007} {
		used := map[int]bool{}
		for rank := range size {
			if i, ok := slot(rank, size); ok {
				if used[i] {
					t.Fatalf("%d ranks: slot %d is used twice", size, i)
				}
				used[i] = true
			}
		}
		if len(used) != min(size, sample) {
			t.Errorf("%d ranks: a sample of %d", size, len(used))
		}
	}
}

func TestMeter_OddNumbers(t *testing.T) {
	records, _ := measure(t, 2, 1, func(rank int) []Phase {
		return []Phase{{Type: "A", Value: -1}, {Type: "B", Value: 1e30}, {Type: "C", Value: 0}}
	})
	for i, want := range []float64{0, most / unit, 0} {
		if s := records[i].Spread; math.Abs(s.Most-want) > 1e-6*want || s.Least != s.Most {
			t.Errorf("%+v, want %v", s, want)
		}
	}
}

func TestMeter_IsOff(t *testing.T) {
	m := New(nil, "", false, nil)
	m.Log(dataset.Dataset{}, Phase{Type: "A"}) // would fail without a communicator
}
