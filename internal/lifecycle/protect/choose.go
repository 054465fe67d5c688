package protect

import (
	"time"

	"golang.org/x/sys/unix"

	"github.com/goscr/goscr/internal/observe/report"
	"github.com/goscr/goscr/internal/sys/processors"
	"github.com/goscr/goscr/mpi"
)

// choice decides with SCR_ENCODE_ASYNC=AUTO whether a dataset is protected in the background
// (docs/decisions/choice.md). It assumes that the next dataset and the time until the one after it are like the last
// ones. To measure both, the first two datasets are protected while the program waits (the first one uses memory that is
// new to the process), and the third one in the background.
type choice struct {
	waited time.Duration // of the program, for the last dataset that was protected while it waited
	waits  int           // how many were
	thread threadCost    // of the last dataset in the background

	before  processors.Usage // at the end of the last Complete
	between processors.Usage // from then until the program needed the next dataset
	counted bool             // between is that of the time since the last Complete
	behind  int              // what was chosen last: 1 the background, -1 not; 0: nothing yet
}

// firstWaits is the number of datasets that are protected first while the program waits.
const firstWaits = 2

// threadCost is what a protection in the background has cost.
type threadCost struct {
	used time.Duration // processor time of the process; 0: not known
	late time.Duration // how long the program has waited for the thread
}

// usage is processors.Now, or nothing if that is not known. Tests change it.
var usage = func() processors.Usage {
	u, _ := processors.Now()
	return u
}

// end is called at the end of Complete.
func (c *choice) end() { c.before, c.counted = usage(), false }

// count is called when the program needs the next dataset.
func (c *choice) count() {
	if !c.counted {
		c.between, c.counted = usage().Since(c.before), true
	}
}

// slower is by how much a thread that uses so much processor time makes the program slower. Processes that share the
// processors of the caller, with which they were busy between two datasets, have such threads, too.
func slower(used time.Duration, between processors.Usage) time.Duration {
	if between.Own == 0 || between.Processors == 0 {
		return used
	}
	processes := max(1, float64(between.Busy)/float64(between.Own))
	return max(0, time.Duration(float64(used)*processes)-between.Idle) / time.Duration(between.Processors)
}

// loss is what the background would cost the program.
func (c *choice) loss() time.Duration {
	if d := slower(c.thread.used, c.between); d > 0 {
		return max(d, c.thread.late)
	}
	return 0
}

// background returns what is chosen. It is collective, and the same on all ranks.
func (c *choice) background(world mpi.Comm, log *report.Logger) bool {
	facts := []int64{int64(c.loss()), int64(c.waited), int64(c.thread.used)}
	world.Allreduce(facts, mpi.Max)
	loss, waited, used := time.Duration(facts[0]), time.Duration(facts[1]), time.Duration(facts[2])
	before := c.behind
	if c.behind = -1; c.waits >= firstWaits && (used == 0 || loss < waited) {
		c.behind = 1
	}
	if before != c.behind && used > 0 {
		how := "while the program waits"
		if c.behind > 0 {
			how = "in the background"
		}
		log.Info("SCR_ENCODE_ASYNC=AUTO: from now on datasets are protected %s; measured: a wait costs %.3f s, the background %.3f s",
			how, waited.Seconds(), loss.Seconds())
	}
	return c.behind > 0
}

// waitedFor records how long the program has waited for a protection.
func (c *choice) waitedFor(d time.Duration) {
	c.waited = d
	c.waits++
}

// receivers is how much processor time a protection over TCP takes, if that of its thread is 1: other threads receive
// messages. With 4 ranks and 128 MiB a rank it was 2.3.
const receivers = 2

// ended records what a protection in the background has cost. used is the processor time of its thread, and done the part of
// the work that it has done.
func (c *choice) ended(used, late time.Duration, done float64, overTCP bool) {
	if overTCP {
		used *= receivers
	}
	if used > 0 && done > 0 {
		used = time.Duration(float64(used) / done)
	} else {
		used = 2 * c.waited // the thread has got no processor
	}
	c.thread = threadCost{used, late}
}

// processorTime returns that of the calling thread.
func processorTime() time.Duration {
	var t unix.Timespec
	if unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &t) != nil {
		return 0
	}
	return time.Duration(t.Nano())
}
