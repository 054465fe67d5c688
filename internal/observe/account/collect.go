package account

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/goscr/goscr/internal/job/halt"
	"github.com/goscr/goscr/internal/observe/eventlog"
)

// most is how many runs, datasets and spans are collected. A log with more is not one that
// a job has written, or has to be rotated.
const most = 4_000_000

// ErrTooLarge is the error of a log with more than that.
var ErrTooLarge = errors.New("the log is too large for one report")

// Collector makes an Account of records, which have to be in the order in which they were
// logged.
type Collector struct {
	account Account
	open    map[string]*Run // by the id of the job: the newest
	size    int
}

// NewCollector returns a Collector without records.
func NewCollector() *Collector { return &Collector{open: map[string]*Run{}} }

// collecting is what is under way in a run.
type collecting struct {
	loop     bool      // scr_run has started it
	begun    bool      // SCR_Init was called
	over     bool      // RUN_END, or without scr_run the end of the program, is in the log
	stopped  bool      // SCR_Finalize was called
	halt     string    // why the job was told to stop
	compute  time.Time // the program computes since; zero: it does not
	computed int       // how often it has begun to
	output   *Dataset  // that is being written
	flushes  map[int]flushing
	byID     map[int]*Dataset
	writes   map[int]Span // from the end of a dataset's Start to when all ranks had written it, if that was measured
	behind   time.Time    // the end of the newest protection that went on behind the program
}

// flushing is a flush that has begun.
type flushing struct {
	start    time.Time
	computed int // how often the program had begun to compute
}

// Add adds a record.
func (c *Collector) Add(r eventlog.Record) error {
	if c.size++; c.size > most {
		return ErrTooLarge
	}
	if j := &c.account.Job; r.Job.ID != "" {
		*j = eventlog.Job{ID: r.Job.ID, Name: or(r.Job.Name, j.Name), User: or(r.Job.User, j.User),
			Cluster: or(r.Job.Cluster, j.Cluster), Prefix: or(r.Job.Prefix, j.Prefix)}
	}
	run := c.run(r)
	if r.Type == eventlog.NodeFail && !r.Transfer && r.Spread == nil {
		f := Failure{Time: r.Time, Job: r.Job.ID, Note: r.Note}
		if run != nil {
			f.Run = run.Number
		}
		c.account.Failures = append(c.account.Failures, f)
		return nil
	}
	if run == nil {
		return nil // of a log whose beginning is gone
	}
	if r.Time.After(run.End) && !run.state.over {
		run.End = r.Time
	}
	switch {
	case r.Spread != nil:
		run.phase(r)
	case r.Transfer:
		run.transfer(r)
	default:
		run.event(r)
	}
	return nil
}

func or(a, b string) string {
	if a == "" {
		return b
	}
	return a
}

// run returns the run that a record is about: a new one if it begins one.
func (c *Collector) run(r eventlog.Record) *Run {
	run := c.open[r.Job.ID]
	switch r.Type {
	case eventlog.RunStart:
		return c.begin(r, true)
	case eventlog.InitStart, "START":
		if run == nil || !run.state.loop || run.state.begun || run.state.over {
			run = c.begin(r, false)
		}
		run.state.begun = true
	}
	return run
}

func (c *Collector) begin(r eventlog.Record, loop bool) *Run {
	if before := c.open[r.Job.ID]; before != nil {
		before.close()
		if before.Outcome == Died && r.Time.After(before.End) {
			before.Spans = append(before.Spans, Span{Kind: Down, Start: before.End, End: r.Time})
		}
	}
	run := &Run{Job: r.Job.ID, Number: len(c.account.Runs) + 1, Start: r.Time, End: r.Time, Outcome: Open, state: collecting{
		loop: loop, flushes: map[int]flushing{}, byID: map[int]*Dataset{}, writes: map[int]Span{}}}
	run.usedNodes(r.Run)
	c.open[r.Job.ID] = run
	c.account.Runs = append(c.account.Runs, run)
	return run
}

// usedNodes is what a record says of the nodes of a run. The program, which comes last, knows
// best.
func (run *Run) usedNodes(r *eventlog.Run) {
	if r != nil && r.Nodes > 0 {
		run.Nodes, run.NodeList = r.Nodes, r.NodeList
	}
	if r != nil && r.Ranks > 0 {
		run.Ranks = r.Ranks
	}
}

// close ends a run after which another has begun.
func (run *Run) close() {
	s := &run.state
	if !s.over {
		s.over = true
		run.Outcome = Died
		if s.stopped || s.halt != "" {
			run.Outcome, run.Why = Finished, or(run.Why, s.halt)
		}
	}
	run.stopComputing(run.End)
}

// stopComputing ends a time of computing that the log does not end.
func (run *Run) stopComputing(at time.Time) {
	if start := run.state.compute; !start.IsZero() && at.After(start) {
		run.Spans = append(run.Spans, Span{Kind: Compute, Start: start, End: at})
	}
	run.state.compute = time.Time{}
}

// stopWriting ends the writing of a dataset that the run did not complete.
func (run *Run) stopWriting() {
	d := run.state.output
	if d == nil {
		return
	}
	s := Span{Kind: Write, Start: d.Start, End: run.End, Dataset: d.ID, Name: d.Name}
	if run.Outcome != Open {
		s.Failed = "the run ended before"
	}
	run.Spans = append(run.Spans, s)
	run.state.output = nil
}

// event adds an event of a run.
func (run *Run) event(r eventlog.Record) {
	s := &run.state
	what, result, _ := cutLast(r.Type)
	switch r.Type {
	case eventlog.InitStart:
		_, after, _ := strings.Cut(r.Note, ", ")
		if n, err := strconv.Atoi(strings.TrimSuffix(strings.TrimSuffix(after, "s"), " rank")); err == nil {
			run.Ranks = n
		}
	case eventlog.InitEnd, eventlog.RestartSuccess:
		run.span(Restart, r)
		if r.Type == eventlog.InitEnd {
			run.Protection = r.Note
		}
		if r.Type == eventlog.RestartSuccess && len(run.Datasets) == 0 { // later it reads what it has written
			run.From = r.Name
		}
	case eventlog.Nodes:
		run.usedNodes(r.Run)
	case eventlog.InitFail:
		run.Why = r.Note
	case eventlog.ComputeStart:
		s.compute = r.Time
		s.computed++
	case eventlog.ComputeEnd:
		run.span(Compute, r)
		s.compute = time.Time{}
	case eventlog.CheckpointStart, eventlog.OutputStart:
		s.output = run.dataset(r)
		s.output.Start, s.output.Checkpoint = r.Time, what == "CHECKPOINT"
	case eventlog.CheckpointEnd, eventlog.OutputEnd, eventlog.CheckpointFail, eventlog.OutputFail:
		run.completed(r, result == "FAIL")
	case eventlog.FlushStart:
		s.flushes[r.Dataset] = flushing{r.Time, s.computed}
	case eventlog.FlushSuccess, eventlog.FlushFail:
		run.flushed(r, result == "FAIL")
	case eventlog.RebuildSuccess, eventlog.RebuildFail:
		run.span(Rebuild, r)
	case eventlog.FetchSuccess, eventlog.FetchFail:
		run.span(Fetch, r)
	case eventlog.Halt:
		s.halt = r.Note
		if r.Note == halt.Finalized { // by which a log of SCR 3.1 ends
			s.stopped = true
		} else {
			run.Halted = r.Note
		}
	case eventlog.FinalizeEnd, eventlog.FinalizeFail:
		s.stopped = true
		if !s.loop {
			run.ended(r.Time, Finished, s.halt)
		}
	case eventlog.RunEnd:
		run.runEnded(r)
	}
}

// cutLast cuts the type of an event at its last underscore.
func cutLast(text string) (before, after string, found bool) {
	i := strings.LastIndexByte(text, '_')
	if i < 0 {
		return text, "", false
	}
	return text[:i], text[i+1:], true
}

func (run *Run) ended(at time.Time, outcome Outcome, why string) {
	run.state.over, run.Outcome, run.End = true, outcome, at
	run.Why = or(why, run.Why)
	run.stopComputing(at)
}

// runEnded is the end of a run as scr_run saw it.
func (run *Run) runEnded(r eventlog.Record) {
	outcome := Died
	if e := r.Run; e != nil {
		run.Status, run.Signal = e.Status, e.Signal
		if e.Nodes > 0 {
			run.Nodes = e.Nodes
		}
		if e.Status != nil && *e.Status == 0 {
			outcome = Finished
		}
	}
	if run.state.stopped || run.state.halt != "" {
		outcome = Finished
	}
	run.ended(r.Time, outcome, r.Note)
}

// span adds the time that a record reports.
func (run *Run) span(kind Kind, r eventlog.Record) {
	if r.Start.IsZero() || r.Seconds == nil || !(*r.Seconds >= 0 && *r.Seconds < 1e9) {
		return
	}
	s := Span{Kind: kind, Start: r.Start, End: r.Start.Add(time.Duration(*r.Seconds * float64(time.Second))), Dataset: r.Dataset, Name: r.Name}
	if strings.HasSuffix(r.Type, "_FAIL") {
		s.Failed = or(r.Note, "failed")
	}
	run.Spans = append(run.Spans, s)
}

// dataset returns the dataset of a record, which is entered if it is new.
func (run *Run) dataset(r eventlog.Record) *Dataset {
	d := run.state.byID[r.Dataset]
	if d == nil || r.Name != "" && d.Name != r.Name {
		d = &Dataset{ID: r.Dataset, Name: r.Name, Start: r.Time}
		run.state.byID[r.Dataset] = d
		run.Datasets = append(run.Datasets, d)
	}
	return d
}

// completed is the end of a dataset's Complete. What is known of its protection follows.
func (run *Run) completed(r eventlog.Record, failed bool) {
	d := run.dataset(r)
	run.state.output = nil
	d.Checkpoint = strings.HasPrefix(r.Type, "CHECKPOINT")
	if !r.Start.IsZero() {
		d.Start = r.Start
	}
	if r.Seconds != nil {
		d.Seconds = min(max(*r.Seconds, 0), longestTime)
	}
	d.Complete = !failed
	if failed {
		d.Failed = or(r.Note, "failed")
	}
	run.span(Write, r)
}

// transfer adds a transfer of a run.
func (run *Run) transfer(r eventlog.Record) {
	d := run.state.byID[r.Dataset]
	if d == nil {
		return
	}
	if r.Bytes != nil {
		d.Bytes = *r.Bytes
	}
	if r.Files != nil {
		d.Files = *r.Files
	}
	switch r.Type {
	case eventlog.Encode:
		if writes, known := run.state.writes[r.Dataset]; known {
			run.behind(r, writes)
			return
		}
		// The time of protecting is the end of that of writing.
		for i := len(run.Spans) - 1; i >= 0; i-- {
			if s := &run.Spans[i]; s.Kind == Write && s.Dataset == r.Dataset {
				if r.Start.After(s.Start) && r.Start.Before(s.End) {
					run.Spans = append(run.Spans, Span{Kind: Encode, Start: r.Start, End: s.End, Dataset: d.ID, Name: d.Name})
					run.Spans[i].End = r.Start
				}
				break
			}
		}
	case eventlog.Flush, eventlog.Scavenge:
		d.Flushed = true
	}
}

// behind adds the protection of a dataset that went on after its Complete. In Start the program may
// have waited for the protection of an earlier one, and what followed the writing in Complete was
// mostly such a wait.
func (run *Run) behind(r eventlog.Record, writes Span) {
	for i := range run.Spans {
		s := &run.Spans[i]
		if s.Kind != Write || s.Dataset != r.Dataset {
			continue
		}
		begin, end := s.Start, s.End
		s.Start = earlier(later(begin, earlier(writes.Start, run.state.behind)), end)
		s.End = later(s.Start, earlier(end, writes.End))
		for _, wait := range [][2]time.Time{{begin, s.Start}, {s.End, end}} {
			if wait[0].Before(wait[1]) {
				run.Spans = append(run.Spans, Span{Kind: Encode, Start: wait[0], End: wait[1], Dataset: r.Dataset, Name: r.Name})
			}
		}
		break
	}
	before := len(run.Spans)
	run.span(Background, r)
	for _, s := range run.Spans[before:] {
		run.state.behind = later(run.state.behind, s.End)
	}
}

// flushed is the end of a flush.
func (run *Run) flushed(r eventlog.Record, failed bool) {
	begun, known := run.state.flushes[r.Dataset]
	delete(run.state.flushes, r.Dataset)
	kind := Flush
	if known && begun.computed != run.state.computed {
		kind = Background
	}
	run.span(kind, r)
	d := run.state.byID[r.Dataset]
	if d == nil {
		return
	}
	d.Flushed = d.Flushed || !failed
	if r.Seconds != nil {
		d.FlushTime = min(max(*r.Seconds, 0), longestTime)
		if kind == Flush {
			d.Waited = d.FlushTime
		}
	}
}

// phase adds a phase as all ranks took it.
func (run *Run) phase(r eventlog.Record) {
	d := run.state.byID[r.Dataset]
	if d == nil {
		return
	}
	if d.Phases == nil {
		d.Phases = map[string]*eventlog.Spread{}
	}
	d.Phases[r.Type] = r.Spread
	if r.Type == eventlog.Write {
		took := r.Spread.Most
		if route := d.Phases[eventlog.Route]; route != nil {
			took += route.Most
		}
		run.state.writes[r.Dataset] = Span{Start: r.Start, End: r.Start.Add(time.Duration(min(max(took, 0), longestTime) * float64(time.Second)))}
	}
	if r.Type == eventlog.Encode && r.Bytes != nil {
		d.Redundancy = *r.Bytes
	}
}

// Account returns what was collected. now ends what is open.
func (c *Collector) Account(now time.Time) *Account {
	a := c.account
	for _, run := range a.Runs {
		if run.Outcome == Open && c.open[run.Job] != run {
			run.close()
		}
		if run.state.stopped && run.Outcome == Open {
			run.Outcome = Finished
		}
		run.stopComputing(run.End)
		run.stopWriting()
		for id, f := range run.state.flushes {
			s := Span{Kind: Background, Start: f.start, End: run.End, Dataset: id}
			if run.Outcome != Open {
				s.Failed = "the run ended before"
			} else if now.After(s.End) {
				s.End = now
			}
			if d := run.state.byID[id]; d != nil {
				s.Name = d.Name
			}
			run.Spans = append(run.Spans, s)
		}
		run.fill()
	}
	markLost(a.Runs)
	return &a
}

// markLost finds, for each run that has restarted, what earlier ones had computed after the
// checkpoint was begun.
func markLost(runs []*Run) {
	for i, run := range runs {
		if i == 0 || !run.state.begun {
			continue
		}
		since, known := begun(runs[:i], run)
		if !known {
			continue
		}
		for _, before := range runs[:i] {
			if before.Job != run.Job && run.From == "" {
				continue // another job began again, as it may have been told to
			}
			for k := range before.Spans {
				s := &before.Spans[k]
				if after := s.End.Sub(later(s.Start, since)); s.Kind == Compute && after > s.lost {
					s.lost = after
				}
			}
		}
	}
}

func earlier(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// begun returns when the checkpoint from which a run has restarted was begun, or the time 0
// if the run has begun again after one that died.
func begun(earlier []*Run, run *Run) (time.Time, bool) {
	if run.From == "" {
		last := earlier[len(earlier)-1]
		return time.Time{}, last.Job == run.Job && last.Outcome == Died && len(run.Datasets) > 0
	}
	for _, e := range slices.Backward(earlier) {
		for _, d := range slices.Backward(e.Datasets) {
			if d.Name == run.From && d.Complete {
				return d.Start, true
			}
		}
	}
	return time.Time{}, false
}

// Initialised reports whether a run got through SCR_Init: one whose launch has failed did not, and has computed nothing.
// What its log has of it then is only the time until its end.
func (r *Run) Initialised() bool {
	return r.Protection != "" || len(r.Datasets) > 0 || slices.ContainsFunc(r.Spans, func(s Span) bool {
		return s.Kind != Launch && s.Kind != End && s.Kind != Down
	})
}

// ready returns when a run has restarted, and continues with its work.
func (r *Run) ready() time.Time {
	at := r.Start
	for _, s := range r.Spans {
		read := s.Kind == Restart && (len(r.Datasets) == 0 || s.Start.Before(r.Datasets[0].Start)) // later it reads what it has written
		if s.Kind == Launch || read {
			at = later(at, s.End)
		}
	}
	return at
}

// WorkSince returns how long the runs have worked from a time in one of them, as that at which a checkpoint was begun, until
// another: without the time between runs, and without what runs have repeated. ok is false if the account does not say that, as of a
// run whose log has no checkpoint that it restarted from: the program may have begun again, or have read one by itself.
func (a *Account) WorkSince(begin, until time.Time) (work time.Duration, ok bool) {
	for i, run := range slices.Backward(a.Runs) {
		if !run.Initialised() || run.Start.After(until) {
			continue
		}
		if run.Outcome != Open || i < len(a.Runs)-1 {
			until = earlier(until, run.End)
		}
		if !begin.Before(run.Start) {
			return work + max(until.Sub(begin), 0), true
		}
		if run.From == "" || i == 0 {
			break
		}
		work += max(until.Sub(run.ready()), 0)
		if until, ok = begun(a.Runs[:i], run); !ok || !until.After(begin) { // the latter: it has restarted from this one, or from an older one
			return work, ok
		}
	}
	return 0, false
}

// String describes a failure.
func (f Failure) String() string {
	return fmt.Sprintf("%s (run %d): %s", f.Time.Format(time.DateTime), f.Run, f.Note)
}
