package interval

import (
	"math"
	"testing"
	"time"
)

const s = time.Second

func TestNeed(t *testing.T) {
	written := func(count int, cost, since time.Duration) Observed {
		return Observed{Calls: 1, Since: since, Count: count, Cost: cost}
	}
	for _, c := range []struct {
		name string
		p    Policy
		o    Observed
		want bool
	}{
		{"nothing set", Policy{}, written(0, 0, time.Hour), false},
		{"calls, not yet", Policy{Calls: 3}, Observed{Calls: 2}, false},
		{"calls", Policy{Calls: 3}, Observed{Calls: 6}, true},
		{"seconds, not yet", Policy{Every: 10 * s}, written(1, s, 9*s), false},
		{"seconds", Policy{Every: 10 * s}, written(1, s, 10*s), true},
		{"seconds, from the start of the run", Policy{Every: 10 * s}, written(0, 0, 9*s), false},
		{"overhead, cost unknown", Policy{Overhead: 1}, written(0, 0, 0), true},
		{"overhead, too much", Policy{Overhead: 10}, written(2, 2*s, 8*s), false},
		{"overhead", Policy{Overhead: 10}, written(2, 2*s, 9*s), true},
		{"overhead of the mean", Policy{Overhead: 10}, written(2, 4*s, 9*s), false},
		{"either", Policy{Calls: 5, Every: 10 * s}, written(1, s, 10*s), true},
		{"failures, cost unknown", Policy{MTBF: 5000 * s}, written(0, 0, 0), true},
		{"failures, not yet", Policy{MTBF: 5000 * s}, written(1, s, 99*s), false},
		{"failures", Policy{MTBF: 5000 * s}, written(1, s, 101*s), true},
		{"failures, but an interval is set", Policy{MTBF: 5000 * s, Calls: 1000}, written(1, s, time.Hour), false},
		{"failures, but seconds are set", Policy{MTBF: s, Every: time.Hour}, written(1, s, time.Minute), false},
	} {
		if got := c.p.Need(c.o); got != c.want {
			t.Errorf("%s: %v", c.name, got)
		}
	}
}

// lost is the part of the time that a job loses which computes for w between
// checkpoints of that cost, with failures that come at random: the exact value
// for the exponential distribution, without the time of a restart.
func lost(w, cost, mtbf float64) float64 { return mtbf * (math.Exp((w+cost)/mtbf) - 1) / w }

func TestOptimal_LosesTheLeast(t *testing.T) {
	for _, mtbf := range []time.Duration{100 * s, 3600 * s, 86400 * s} {
		for _, cost := range []time.Duration{s / 1000, s, 10 * s, 30 * s} {
			c, m := cost.Seconds(), mtbf.Seconds()
			w := Optimal(c, m)
			best := math.Inf(1)
			for x := w / 4; x < 4*w; x *= 1.001 {
				best = min(best, lost(x, c, m))
			}
			if got := lost(w, c, m); got > best*1.001 {
				t.Errorf("cost %v, failures every %v: computing for %.3f s loses %.5f, possible are %.5f", cost, mtbf, w, got, best)
			}
		}
	}
	if got := Optimal(300, 100); got != 100 {
		t.Errorf("checkpoints that take longer than a failure lets them: %v", got)
	}
}
