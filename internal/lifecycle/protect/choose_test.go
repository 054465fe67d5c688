package protect

import (
	"io"
	"testing"
	"time"

	"github.com/goscr/goscr/internal/observe/report"
	"github.com/goscr/goscr/internal/sys/processors"
	"github.com/goscr/goscr/mpi"
	"github.com/goscr/goscr/mpi/local"
)

const ms = time.Millisecond

// quiet discards messages.
func quiet() *report.Logger { return &report.Logger{Out: io.Discard} }

// By how much a thread makes the program slower depends on who shares the processors, and on how idle these were.
func TestSlower(t *testing.T) {
	const s = time.Second
	for _, c := range []struct {
		used    time.Duration
		between processors.Usage
		want    time.Duration
	}{
		{100 * ms, processors.Usage{Processors: 1, Busy: 9 * s, Own: 9 * s}, 100 * ms},                 // a rank that computes on a processor of its own
		{100 * ms, processors.Usage{Processors: 1, Busy: 9 * s, Own: 9 * s, Idle: 70 * ms}, 30 * ms},   // ... and waits at times
		{100 * ms, processors.Usage{Processors: 2, Busy: 9 * s, Own: 9 * s, Idle: 9 * s}, 0},           // ... and has another processor
		{100 * ms, processors.Usage{Processors: 2, Busy: 8 * s, Own: 2 * s}, 200 * ms},                 // four ranks on two processors
		{100 * ms, processors.Usage{Processors: 2, Busy: 8 * s, Own: 2 * s, Idle: 200 * ms}, 100 * ms}, // ... that were idle for 50 ms of each rank
		{100 * ms, processors.Usage{Processors: 8, Busy: 36 * s, Own: 9 * s, Idle: 36 * s}, 0},         // four ranks on eight
		{100 * ms, processors.Usage{}, 100 * ms},                                                       // not known
		{100 * ms, processors.Usage{Processors: 1, Busy: 1 * s, Own: 2 * s}, 100 * ms},                 // the process ran elsewhere, too
	} {
		if got := slower(c.used, c.between); got != c.want {
			t.Errorf("%+v: %v of %v, not %v", c.between, got, c.used, c.want)
		}
	}
}

// The first two datasets are protected while the program waits, the third in the background, and then what costs less on the
// rank for which it costs most.
func TestChoice(t *testing.T) {
	steps := []struct {
		used, late, spare time.Duration // of the last in the background, which ends before this one
		waited            time.Duration // if this one is protected while the program waits
		behind            bool
	}{
		{waited: 500 * ms},
		{waited: 100 * ms},
		{behind: true},
		{used: 150 * ms, waited: 100 * ms}, // the processors are busy
		{used: 150 * ms, spare: 40 * ms, waited: 100 * ms},                // ... and still
		{used: 150 * ms, spare: 60 * ms, behind: true},                    // some of them were idle
		{used: 150 * ms, spare: time.Second, behind: true},                // ... for long enough
		{used: 50 * ms, late: 200 * ms, waited: 100 * ms},                 // the program has waited for the thread
		{used: 50 * ms, spare: time.Second, late: 200 * ms, behind: true}, // ... but the processors are idle now
	}
	_, err := local.Run(ranks, local.Options{}, func(world mpi.Comm) error {
		var c choice
		busy := processors.Usage{Processors: 1, Busy: time.Hour, Own: time.Hour}
		for n, s := range steps {
			slow := world.Rank() == 1 // the others know nothing of it
			if n > 2 && slow {
				c.thread, c.between = threadCost{s.used, s.late}, busy
				c.between.Idle = s.spare
			} else if n > 2 {
				c.thread, c.between = threadCost{used: ms}, busy
				c.between.Idle = time.Hour
			}
			if got := c.background(world, quiet()); got != s.behind {
				t.Errorf("rank %d, dataset %d: in the background: %v", world.Rank(), n+1, got)
			}
			if !s.behind && slow {
				c.waitedFor(s.waited)
			} else if !s.behind {
				c.waitedFor(ms)
			}
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}

// The time of a thread that was ended in the middle counts as if it had done all of its work, and over TCP that of others, too.
func TestChoice_Ended(t *testing.T) {
	c := choice{waited: 100 * ms}
	for _, s := range []struct {
		used    time.Duration
		done    float64
		overTCP bool
		want    time.Duration
	}{{80 * ms, 1, false, 80 * ms}, {80 * ms, 1, true, 160 * ms}, {80 * ms, 0.25, false, 320 * ms}, {0, 0, true, 200 * ms}, {80 * ms, 0, false, 200 * ms}} {
		if c.ended(s.used, 0, s.done, s.overTCP); c.thread.used != s.want {
			t.Errorf("%+v: %v", s, c.thread.used)
		}
	}
}

// The time until the program needs the next dataset counts, and not that for which it waits for a thread.
func TestChoice_Count(t *testing.T) {
	var now processors.Usage
	before := usage
	usage = func() processors.Usage { return now }
	defer func() { usage = before }()
	var c choice
	c.end()
	now.Idle += 3 * time.Second
	c.count()
	now.Idle += time.Second // the program waits for the thread
	c.count()
	if c.between.Idle != 3*time.Second {
		t.Errorf("%v", c.between)
	}
	c.end()
	now.Idle += 2 * time.Second
	if c.count(); c.between.Idle != 2*time.Second {
		t.Errorf("%v", c.between)
	}
}
