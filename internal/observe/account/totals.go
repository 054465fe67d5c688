package account

import (
	"time"

	"github.com/goscr/goscr/internal/job/interval"
	"github.com/goscr/goscr/internal/observe/eventlog"
)

// Totals are the sums over all runs.
type Totals struct {
	Runs        int     `json:"runs"`
	Finished    int     `json:"finished"`
	Died        int     `json:"died"`
	LostNodes   int     `json:"lost_nodes"`
	Ran         float64 `json:"ran"`         // seconds of all runs
	Checkpoints int     `json:"checkpoints"` // that are complete
	Flushed     int     `json:"flushed"`     // of these, in the prefix directory

	Seconds  Seconds  `json:"seconds"`
	Bytes    Bytes    `json:"bytes"`
	Hours    Hours    `json:"node_hours"`
	Interval Interval `json:"interval"`
	Slowest  Slowest  `json:"slowest"`
}

// Seconds says for what the time was used. Recomputed is a part of Computing, and Background is
// beside the others; these sum to the length of all runs, and Down.
type Seconds struct {
	Computing  float64 `json:"computing"`
	Writing    float64 `json:"writing"`
	Protecting float64 `json:"protecting"`
	Flushing   float64 `json:"flushing"`   // the program waited
	Background float64 `json:"background"` // it did not
	Restarting float64 `json:"restarting"`
	Launching  float64 `json:"launching"` // until SCR_Init
	Ending     float64 `json:"ending"`    // after the last event
	Other      float64 `json:"other"`
	Down       float64 `json:"down"`
	Recomputed float64 `json:"recomputed"`
}

// Bytes of checkpoints.
type Bytes struct {
	Written    int64 `json:"written"`
	Redundancy int64 `json:"redundancy"`
	Flushed    int64 `json:"flushed"`
	Avoided    int64 `json:"avoided"` // written, and not flushed
}

// Hours are node-hours. Spent is the time that runs have waited for checkpoints and
// restarts; Saved is, at each restart, what was computed up to the checkpoint, which would
// otherwise have to be computed again.
type Hours struct {
	Spent float64 `json:"spent"`
	Saved float64 `json:"saved"`
}

// Interval compares the time between checkpoints with Daly's formula. All are in seconds;
// 0 is not known.
type Interval struct {
	Used float64 `json:"used"`
	Cost float64 `json:"cost"`
	MTBF float64 `json:"mtbf"`
	Best float64 `json:"best"`
}

// Slowest is the node that was most often the slowest in writing and protecting.
type Slowest struct {
	Node  string `json:"node"`
	Times int    `json:"times"`
	Of    int    `json:"of"` // how often there was a slowest node
}

// longestTime is more seconds than anything takes, and not too many for a Duration.
const longestTime = 1e9

// Totals returns the sums.
func (a *Account) Totals() Totals {
	t := Totals{Runs: len(a.Runs), LostNodes: len(a.Failures)}
	var between, costs float64 // seconds
	gaps := 0
	slow := map[string]int{}
	kept := map[string]float64{} // seconds of useful computing of a job so far
	for _, run := range a.Runs {
		t.Ran += max(run.End.Sub(run.Start).Seconds(), 0)
		switch run.Outcome {
		case Finished:
			t.Finished++
		case Died:
			t.Died++
		}
		nodes := float64(max(run.Nodes, 1))
		if run.From != "" {
			t.Hours.Saved += nodes * kept[run.Job] / 3600
		}
		waited := 0.0
		for _, s := range run.Spans {
			waited += t.Seconds.add(s).Seconds()
			if s.Kind == Compute {
				kept[run.Job] += (s.Took() - s.lost).Seconds()
			}
		}
		t.Hours.Spent += nodes * waited / 3600
		var last time.Time
		for _, d := range run.Datasets {
			if !d.Complete || !d.Checkpoint {
				continue
			}
			t.Checkpoints++
			costs += d.Seconds + d.Waited
			t.Bytes.Written += d.Bytes
			t.Bytes.Redundancy += d.Redundancy
			if d.Flushed {
				t.Flushed++
				t.Bytes.Flushed += d.Bytes
			} else {
				t.Bytes.Avoided += d.Bytes
			}
			if !last.IsZero() && d.Start.After(last) {
				between += d.Start.Sub(last).Seconds()
				gaps++
			}
			last = d.Start.Add(time.Duration(min(d.Seconds+d.Waited, longestTime) * float64(time.Second)))
			for _, phase := range []string{eventlog.Write, eventlog.Encode} {
				if p := d.Phases[phase]; p != nil && p.Node != "" && run.Nodes != 1 {
					slow[p.Node]++
					t.Slowest.Of++
				}
			}
		}
	}
	for node, n := range slow {
		if n > t.Slowest.Times || n == t.Slowest.Times && node < t.Slowest.Node {
			t.Slowest.Node, t.Slowest.Times = node, n
		}
	}
	if gaps > 0 {
		t.Interval.Used = between / float64(gaps)
	}
	if t.Checkpoints > 0 {
		t.Interval.Cost = costs / float64(t.Checkpoints)
	}
	if t.Died > 0 {
		t.Interval.MTBF = t.Ran / float64(t.Died)
	}
	if t.Interval.Cost > 0 && t.Interval.MTBF > 0 {
		t.Interval.Best = interval.Optimal(t.Interval.Cost, t.Interval.MTBF)
	}
	return t
}

// All returns the length of all runs and of the times between a failure and the next run.
func (t *Seconds) All() float64 {
	return t.Computing + t.Checkpoints() + t.Restarting + t.Launching + t.Ending + t.Other + t.Down
}

// Checkpoints returns the overhead of checkpoints: the time in which the program waited for them.
func (t *Seconds) Checkpoints() float64 { return t.Writing + t.Protecting + t.Flushing }

// add adds a span, and returns how long the program waited in it for checkpoints.
func (t *Seconds) add(s Span) time.Duration {
	took := s.Took()
	switch s.Kind {
	case Compute:
		t.Computing += took.Seconds()
		t.Recomputed += s.lost.Seconds()
		return 0
	case Write:
		t.Writing += took.Seconds()
	case Encode:
		t.Protecting += took.Seconds()
	case Flush:
		t.Flushing += took.Seconds()
	case Background:
		t.Background += took.Seconds()
		return 0
	case Restart:
		t.Restarting += took.Seconds()
	case Launch:
		t.Launching += took.Seconds()
		return 0
	case End:
		t.Ending += took.Seconds()
		return 0
	case Other:
		t.Other += took.Seconds()
		return 0
	case Down:
		t.Down += took.Seconds()
		return 0
	default: // a part of another
		return 0
	}
	return took
}
