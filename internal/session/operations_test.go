package session

import (
	"fmt"
	"maps"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/goscr/goscr/internal/mpi/mpitest"
	"github.com/goscr/goscr/mpi"
)

// operations records what one rank does with its communicators in each call of a session.
type operations struct {
	rank  int
	call  string                    // the call that is made
	count map[string]map[string]int // by call and operation
	lines map[string][]string       // by call: each operation, and the functions that it is in
}

func (o *operations) Call(rank int, name string) {
	if rank == o.rank {
		o.call = name
	}
}

func (o *operations) Wrap(world mpi.Comm) mpi.Comm {
	if world.Rank() != o.rank {
		return world
	}
	return mpitest.Faulty(world, func(op string) {
		if o.count[o.call] == nil {
			o.count[o.call] = map[string]int{}
		}
		o.count[o.call][op]++
		o.lines[o.call] = append(o.lines[o.call], op+" in "+callers())
	})
}

// callers returns the functions of goscr in which a communicator is used, the innermost first.
func callers() string {
	pcs := make([]uintptr, 100)
	frames := runtime.CallersFrames(pcs[:runtime.Callers(4, pcs)])
	var names []string
	for {
		frame, more := frames.Next()
		name := frame.Function[strings.LastIndex(frame.Function, "/")+1:]
		if strings.HasPrefix(name, "session.(*Session).guard") || !more {
			return strings.Join(names, " < ")
		}
		names = append(names, fmt.Sprintf("%s:%d", name, frame.Line))
	}
}

// collective are the operations for which a rank waits for all ranks of a communicator.
var collective = []string{"Allreduce", "Barrier", "Bcast", "Exscan", "Gather", "Ibarrier", "Split"}

// With many ranks on few cores, a call takes about as long as its collective operations: 2 to 3 ms
// each with 64 ranks a core. -v prints where they are.
func TestOperations_OfEachCall(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	nodes := on(8, "a", "b")
	run := func(f func(s *Session, rank int) error) *operations {
		o := &operations{count: map[string]map[string]int{}, lines: map[string][]string{}}
		c.faults = o
		c.job(nodes, f)
		return o
	}
	first := run(func(s *Session, rank int) error { return checkpoint(s, rank, 1) })
	for _, x := range []struct {
		when, call string
		made       *operations
		most       map[string]int // 0 for those that it does not have
	}{
		{"with an empty cache", "Init", first, map[string]int{"Allreduce": 8, "Bcast": 3, "Split": 2}},
		{"of the first dataset", "StartOutput", first, map[string]int{"Allreduce": 2, "Bcast": 2}},
		{"of the first dataset", "CompleteOutput", first, map[string]int{"Allreduce": 8 /* one of a node, for the room that it has */, "Ibarrier": 1}},
		{"with a checkpoint in the cache", "Init", run(func(s *Session, rank int) error { return nil }),
			map[string]int{"Allreduce": 22, "Bcast": 5, "Split": 2}},
	} {
		got := x.made.count[x.call]
		t.Logf("%s %s: %v\n%s", x.call, x.when, got, strings.Join(x.made.lines[x.call], "\n"))
		if len(got) == 0 {
			t.Errorf("no operation was seen in %s", x.call)
		}
		for _, op := range slices.Sorted(maps.Keys(got)) {
			if slices.Contains(collective, op) && got[op] > x.most[op] {
				t.Errorf("%s %s: %d operations %s, at most %d before", x.call, x.when, got[op], op, x.most[op])
			}
		}
	}
}
