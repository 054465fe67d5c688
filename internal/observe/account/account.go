// Package account computes from the log of a job what its checkpoints have cost, and what they
// have saved.
//
//	read.go     records from text logs and databases
//	account.go  what an Account holds
//	collect.go  records to runs, checkpoints and spans of time
//	fill.go     spans that sum to the run
//	totals.go   sums over all runs
package account

import (
	"time"

	"github.com/goscr/goscr/internal/observe/eventlog"
)

// Account is what a log says.
type Account struct {
	Job      eventlog.Job `json:"job"` // of the newest record that names it
	Runs     []*Run       `json:"runs"`
	Failures []Failure    `json:"failures"`          // nodes that were lost
	Problem  string       `json:"problem,omitempty"` // what could not be read of the log
}

// Run is one run of the program.
type Run struct {
	Job        string     `json:"job"`    // its id
	Number     int        `json:"number"` // of the runs of the account, from 1
	Start      time.Time  `json:"start"`
	End        time.Time  `json:"end"` // of its last sign, if its end is not in the log
	Outcome    Outcome    `json:"outcome"`
	Why        string     `json:"why,omitempty"`
	Halted     string     `json:"halted,omitempty"` // why it was asked to end before it had done everything; "": it was not
	Status     *int       `json:"status,omitempty"`
	Signal     int        `json:"signal,omitempty"`
	Nodes      int        `json:"nodes"` // 0: not known
	Ranks      int        `json:"ranks"`
	NodeList   string     `json:"nodelist,omitempty"`
	Protection string     `json:"protection,omitempty"` // as INIT_END has it
	From       string     `json:"from,omitempty"`       // the checkpoint that it restarted from
	Datasets   []*Dataset `json:"datasets"`
	Spans      []Span     `json:"spans"`

	state collecting
}

// Launched reports whether scr_run has started the run. Only scr_run logs lost nodes.
func (r *Run) Launched() bool { return r.state.loop }

// Outcome is how a run has ended.
type Outcome string

// The outcomes.
const (
	Finished Outcome = "finished" // by SCR_Finalize, or with exit status 0
	Died     Outcome = "died"
	Open     Outcome = "open" // it may run: that is not known of a copy of a log, or a database
)

// Kind is what a span of time was used for.
type Kind string

// The kinds. Spans of Background overlap others, those of Rebuild and Fetch are parts of
// Restart; no others overlap. Without these three, the spans of a run sum to the run, and Down
// follows it.
const (
	Compute    Kind = "compute"
	Write      Kind = "write"      // the program, with the calls of SCR
	Encode     Kind = "encode"     // protecting
	Flush      Kind = "flush"      // while the program waits
	Background Kind = "background" // protecting or a flush while the program continues
	Restart    Kind = "restart"    // SCR_Init, and reading the checkpoint
	Rebuild    Kind = "rebuild"
	Fetch      Kind = "fetch"
	Launch     Kind = "launch" // until the program calls SCR_Init
	End        Kind = "end"    // from the last event of the program to the end of the run
	Other      Kind = "other"  // between two events, of which the log does not say what it was
	Down       Kind = "down"   // after the run, until the next
)

// Span is a time in which a run did something.
type Span struct {
	Kind    Kind      `json:"kind"`
	Start   time.Time `json:"start"`
	End     time.Time `json:"end"`
	Dataset int       `json:"dataset,omitempty"`
	Name    string    `json:"name,omitempty"`
	Failed  string    `json:"failed,omitempty"`

	lost time.Duration // at the end of the span: computed again after a restart
}

// Dataset is one that was written in a run.
type Dataset struct {
	ID         int       `json:"id"`
	Name       string    `json:"name"`
	Checkpoint bool      `json:"checkpoint"`
	Start      time.Time `json:"start"`
	Seconds    float64   `json:"seconds"` // from Start to the end of Complete, without its flush
	Bytes      int64     `json:"bytes"`
	Files      int64     `json:"files"`
	Redundancy int64     `json:"redundancy"` // bytes
	Complete   bool      `json:"complete"`
	Failed     string    `json:"failed,omitempty"`
	Flushed    bool      `json:"flushed"`
	FlushTime  float64   `json:"flush_seconds"`
	Waited     float64   `json:"waited_seconds"` // of FlushTime, the program waited
	// Phases are those that were measured on all ranks, by their types in the log.
	Phases map[string]*eventlog.Spread `json:"phases,omitempty"`
}

// Failure is a node that was lost.
type Failure struct {
	Time time.Time `json:"time"`
	Run  int       `json:"run"` // the run before
	Job  string    `json:"job"`
	Note string    `json:"note"`
}

// Only returns the account of the runs of one job.
func (a *Account) Only(job string) *Account {
	b := &Account{Job: a.Job, Problem: a.Problem}
	for _, run := range a.Runs {
		if run.Job == job {
			b.Runs = append(b.Runs, run)
		}
	}
	for _, f := range a.Failures {
		if f.Job == job {
			b.Failures = append(b.Failures, f)
		}
	}
	return b
}

// Took returns the length of a span.
func (s Span) Took() time.Duration { return max(s.End.Sub(s.Start), 0) }
