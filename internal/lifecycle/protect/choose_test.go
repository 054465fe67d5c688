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

// What the background would cost depends on who shares the processors, and on how idle these are without a thread.
func TestChoice_Loss(t *testing.T) {
	const s = time.Second
	type interval struct {
		between processors.Usage
		ran     bool
		want    time.Duration
	}
	one := func(idle time.Duration) processors.Usage {
		return processors.Usage{Processors: 1, Busy: 9 * s, Own: 9 * s, Idle: idle}
	}
	for name, list := range map[string][]interval{
		"a rank that computes on a processor of its own":  {{one(0), false, 100 * ms}, {one(0), true, 100 * ms}},
		"... and waits at times":                          {{one(70 * ms), false, 30 * ms}, {one(0), true, 30 * ms}, {one(70 * ms), false, 30 * ms}},
		"... for longer than a thread needs":              {{one(150 * ms), false, 0}, {one(50 * ms), true, 0}, {one(50 * ms), true, 0}},
		"... and no longer":                               {{one(150 * ms), false, 0}, {one(0), true, 100 * ms}, {one(0), false, 100 * ms}},
		"it has another processor":                        {{processors.Usage{Processors: 2, Busy: 9 * s, Own: 9 * s, Idle: 9 * s}, false, 0}},
		"four ranks on two processors":                    {{processors.Usage{Processors: 2, Busy: 8 * s, Own: 2 * s}, false, 200 * ms}},
		"... that were idle for 50 ms of each":            {{processors.Usage{Processors: 2, Busy: 8 * s, Own: 2 * s, Idle: 200 * ms}, false, 100 * ms}},
		"four ranks on eight":                             {{processors.Usage{Processors: 8, Busy: 36 * s, Own: 9 * s, Idle: 36 * s}, false, 0}},
		"not known":                                       {{processors.Usage{}, false, 100 * ms}},
		"the process ran elsewhere, too":                  {{processors.Usage{Processors: 1, Busy: s, Own: 2 * s}, false, 100 * ms}},
		"a rank that waits while 63 others compute on 64": {{processors.Usage{Processors: 64, Busy: 6300 * s, Own: time.Millisecond, Idle: 99 * s}, false, 0}},
	} {
		c := choice{thread: threadCost{used: 100 * ms}}
		for n, i := range list {
			c.between, c.ran = i.between, i.ran
			if got := c.loss(4); got != i.want {
				t.Errorf("%s, interval %d: %v, not %v", name, n, got, i.want)
			}
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
		{used: 150 * ms, spare: 40 * ms, waited: 100 * ms},                    // ... and still
		{used: 150 * ms, spare: 60 * ms, behind: true},                        // some of them were idle
		{used: 150 * ms, spare: time.Second, behind: true},                    // ... for long enough
		{used: 50 * ms, late: 200 * ms, waited: 100 * ms},                     // the program has waited for the thread
		{used: 50 * ms, spare: time.Second, late: 200 * ms, waited: 100 * ms}, // ... although processors are idle
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
			if got := c.background(world, 1, quiet()); got != s.behind {
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

// What the background costs is measured again at times.
func TestChoice_Retry(t *testing.T) {
	_, err := local.Run(1, local.Options{}, func(world mpi.Comm) error {
		c := choice{waits: firstWaits, waited: 100 * ms, thread: threadCost{used: ms, late: time.Second}}
		for n := range 2*retry + 2 {
			if got := c.background(world, 1, quiet()); got != (n%(retry+1) == retry) {
				t.Errorf("dataset %d: in the background: %v", n, got)
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
