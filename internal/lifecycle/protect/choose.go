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
	free    time.Duration    // how long the processors would have been idle between two datasets without a thread
	ran     bool             // a thread has protected a dataset since the last Complete
	counted bool             // between is that of the time since the last Complete
	behind  int              // what was chosen last: 1 the background, -1 not; 0: nothing yet
	rest    int              // datasets since the last one in the background
}

// firstWaits is the number of datasets that are protected first while the program waits.
const firstWaits = 2

// retry is after how many datasets the background is measured again: perhaps it has been late only once.
const retry = 50

// threadCost is what a protection in the background has cost.
type threadCost struct {
	used time.Duration // processor time of the process; 0: not known
	late time.Duration // how long the program has waited for the thread, or has protected the dataset itself after all
}

// usage is processors.Now, or nothing if that is not known. Tests change it.
var usage = func() processors.Usage {
	u, _ := processors.Now()
	return u
}

// end is called at the end of Complete.
func (c *choice) end() { c.before, c.counted, c.ran = usage(), false, false }

// count is called when the program needs the next dataset.
func (c *choice) count() {
	if !c.counted {
		c.between, c.counted = usage().Since(c.before), true
	}
}

// demand is the processor time of the threads of all processes that share the caller's processors, with which they were busy
// between two datasets. ranks are those of its node.
func (c *choice) demand(ranks int) time.Duration {
	u := c.between
	if u.Own == 0 {
		return c.thread.used
	}
	// A rank that mostly waits has a small share in what all of them did. Nodes that share a machine have more ranks than one has.
	most := float64(max(ranks, 2*u.Processors))
	processes := min(max(1, float64(u.Busy)/float64(u.Own)), most)
	return time.Duration(float64(c.thread.used) * processes)
}

// loss is what the background would cost the program: by how much the threads make it slower, or how long it waits for them.
func (c *choice) loss(ranks int) time.Duration {
	demand := c.demand(ranks)
	switch idle := c.between.Idle; {
	case !c.ran:
		c.free = idle
	case idle > demand/10: // what the threads have left
		c.free = idle + demand
	case c.free >= demand: // it is not so any more
		c.free = idle
	}
	return max(0, demand-c.free) / time.Duration(max(1, c.between.Processors))
}

// background returns what is chosen. ranks are those of the caller's node. It is collective, and the same on all ranks.
func (c *choice) background(world mpi.Comm, ranks int, log *report.Logger) bool {
	facts := []int64{int64(max(c.loss(ranks), c.thread.late)), int64(c.waited), int64(c.thread.used)}
	world.Allreduce(facts, mpi.Max)
	loss, waited, used := time.Duration(facts[0]), time.Duration(facts[1]), time.Duration(facts[2])
	before := c.behind
	if c.behind = -1; c.waits >= firstWaits && (used == 0 || loss < waited || c.rest >= retry) {
		c.behind, c.rest = 1, 0
	} else {
		c.rest++
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

// ended records what a protection in the background has cost. used is the processor time of its thread, done the part of
// the work that it has done, and late how long the program has waited.
func (c *choice) ended(used, late time.Duration, done float64, overTCP bool) {
	if overTCP {
		used *= receivers
	}
	if used > 0 && done > 0 {
		used = time.Duration(float64(used) / done)
	} else {
		used = 2 * c.waited // the thread has got no processor
	}
	c.thread, c.ran = threadCost{used, late}, true
}

// processorTime returns that of the calling thread.
func processorTime() time.Duration {
	var t unix.Timespec
	if unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &t) != nil {
		return 0
	}
	return time.Duration(t.Nano())
}
