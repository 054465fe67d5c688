// Package interval decides when a job should write its next checkpoint.
package interval

import (
	"math"
	"time"
)

// Policy holds the user's conditions; 0 is not set. If several are set, one that
// holds is enough.
type Policy struct {
	Calls    int           // a checkpoint at every n-th call of Need
	Every    time.Duration // a checkpoint this time after the end of the last
	Overhead float64       // a checkpoint whenever it takes at most this percentage of the time
	MTBF     time.Duration // mean time between failures; counts if nothing else is set
}

// Observed is what has happened in the run.
type Observed struct {
	Calls int           // times that the program has asked, this one included
	Since time.Duration // from the end of the last checkpoint, else the start of the run
	Count int           // checkpoints written
	Cost  time.Duration // time that all of them took
}

// mean is the mean cost of a checkpoint.
func (o Observed) mean() time.Duration { return o.Cost / time.Duration(max(o.Count, 1)) }

// Advises reports whether the policy has any condition.
func (p Policy) Advises() bool { return p.Calls > 0 || p.Every > 0 || p.Overhead > 0 || p.MTBF > 0 }

// Need reports whether it is time for a checkpoint. Conditions that depend on the
// cost of a checkpoint hold before the first, so that its cost becomes known.
func (p Policy) Need(o Observed) bool {
	switch {
	case p.Calls > 0 && o.Calls%p.Calls == 0:
		return true
	case p.Every > 0 && o.Since >= p.Every:
		return true
	case p.Overhead > 0 && (o.Count == 0 || share(o) <= p.Overhead):
		return true
	case p.Calls > 0 || p.Every > 0 || p.Overhead > 0 || p.MTBF <= 0:
		return false
	}
	return o.Count == 0 || o.Since.Seconds() >= Optimal(o.mean().Seconds(), p.MTBF.Seconds())
}

// share is the percentage of the time since the last checkpoint that a checkpoint
// now would take.
func share(o Observed) float64 {
	cost := float64(o.mean())
	return 100 * cost / (float64(o.Since) + cost)
}

// Optimal is the time to compute between two checkpoints that minimizes the time
// lost to checkpoints and failures: the approximation of higher order in Daly,
// which for a cost much less than the mean time between failures is √(2·cost·mtbf)
// (Young). All times are in seconds.
func Optimal(cost, mtbf float64) float64 {
	if cost >= 2*mtbf {
		return mtbf
	}
	ratio := cost / (2 * mtbf)
	young := math.Sqrt(2 * cost * mtbf)
	return young*(1+math.Sqrt(ratio)/3+ratio/9) - cost
}
