// Package status finds out how safe a job is now: which checkpoints it has and where, what would
// be lost if nodes died, and whether it runs.
//
// It reads what the job writes in any case: the index and flush.scr of the prefix directory,
// and the log; and it asks whether rank 0, or scr_run, holds its lock. Without a log it does
// not know of runs.
package status

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/goscr/goscr/internal/job/request"
	"github.com/goscr/goscr/internal/observe/account"
	"github.com/goscr/goscr/internal/observe/eventlog"
	"github.com/goscr/goscr/internal/observe/report"
	"github.com/goscr/goscr/internal/prefix"
	"github.com/goscr/goscr/internal/prefix/dataset"
	"github.com/goscr/goscr/internal/redundancy/reddesc"
	"github.com/goscr/goscr/internal/sys/trust"
)

// State is whether a job runs.
type State string

// The states.
const (
	Unknown  State = "UNKNOWN" // there is no log, and nothing runs
	Running  State = "RUNNING"
	Died     State = "DIED"
	Stopped  State = "STOPPED" // somebody has asked it to end, by scr_halt, a time limit or a signal
	Finished State = "FINISHED"
)

// Status is what is known of a job. Times are zero and numbers are 0 if they are not known.
type Status struct {
	Job      eventlog.Job `json:"job"`
	State    State        `json:"state"`
	Run      int          `json:"run"`
	Began    time.Time    `json:"began"`            // the run
	Sign     time.Time    `json:"sign"`             // the last that the job has logged
	Ended    bool         `json:"ended"`            // Sign is the end of the run
	Halted   string       `json:"halted,omitempty"` // why a run that is STOPPED was asked to end
	Nodes    string       `json:"nodes"`
	Lost     []Lost       `json:"lost"`
	Datasets []Dataset    `json:"datasets"` // newest first
	// NextFlush is the next checkpoint that is to be flushed, nil if there is none, or the
	// job does not run.
	NextFlush *NextFlush `json:"next_flush"`

	// Seconds of work that would be lost if one node died now, and if all did; nil if there
	// is no checkpoint for that. Without a log they are the age of the checkpoint: no more can be lost.
	LoseOne *float64 `json:"lose_one"`
	LoseAll *float64 `json:"lose_all"`

	Interval account.Interval `json:"interval"`
	Problem  string           `json:"problem,omitempty"` // what could not be read of the log
	// Unseen says why it cannot be known whether a job runs, "" if it can.
	Unseen string `json:"unseen,omitempty"`

	// Asked are the nodes of the newest checkpoint that were asked whether they can be used, after a run that
	// has died, and Gone those of them that cannot. Read asks none: see NeedsNodes.
	Asked []string `json:"asked"`
	Gone  []string `json:"gone,omitempty"`
	// Recorded is when the record of what is in the caches of the nodes was last changed, nil if it has nothing there.
	Recorded *time.Time `json:"caches_recorded,omitempty"`

	runs struct {
		log *account.Account // nil if there is none
		any bool             // a job has begun here
	}
}

// Lost is a node that cannot be used any more.
type Lost struct {
	Time time.Time `json:"time"`
	Node string    `json:"node"`
}

// Dataset is one that is in the cache or in the prefix directory.
type Dataset struct {
	ID         int       `json:"id"`
	Name       string    `json:"name"`
	Checkpoint bool      `json:"checkpoint"`
	Begun      time.Time `json:"begun"`
	Number     int       `json:"number"` // of the checkpoint, from 1
	Bytes      int64     `json:"bytes"`
	InCache    bool      `json:"cache"`
	Exposed    bool      `json:"exposed"` // in the cache, and not protected yet, or not any more
	Flushing   bool      `json:"flushing"`
	Copied     *float64  `json:"copied,omitempty"` // the part that is flushed, from 0 to 1, while it is being flushed
	InPrefix   bool      `json:"prefix"`
	Failed     bool      `json:"failed"`           // a restart from it has failed
	Chosen     bool      `json:"chosen,omitempty"` // a user has asked that the next run restarts from it
	// How it is protected in the cache, and how many nodes may be lost at once; "" and -1 if
	// that is not known. A dataset keeps the scheme with which it was written.
	Scheme    string `json:"scheme"`
	Tolerates int    `json:"bears"`
	// When all its files were last read and found right, in the cache or by a fetch, and when it was
	// flushed.
	bare     bool       // Exposed, although it was protected once
	Verified *time.Time `json:"verified,omitempty"`
	Flushed  *time.Time `json:"flushed,omitempty"`
}

// NextFlush is a checkpoint that the program has not written yet.
type NextFlush struct {
	In   int    `json:"in"`   // how many checkpoints from now; 1: the next one
	Name string `json:"name"` // if names of checkpoints continue as they did; "" if that cannot be seen
}

// Read finds the status of the job of a prefix directory.
func Read(dir string, now time.Time) (*Status, error) {
	s := &Status{State: Unknown, Lost: []Lost{}, Datasets: []Dataset{}, Asked: []string{}}
	if _, err := os.Stat(dir); err != nil {
		return nil, err
	}
	if err := s.readPlaces(dir); err != nil {
		return nil, err
	}
	if err := s.readLog(dir); err != nil {
		return nil, err
	}
	s.readLocks(dir)
	s.NextFlush = s.nextFlush(dir)
	s.weigh(now)
	return s, nil
}

// readPlaces reads where datasets are.
func (s *Status) readPlaces(dir string) error {
	if err := prefix.CheckIndex(dir); err != nil {
		return err
	}
	x, err := prefix.ReadIndex(dir)
	if err != nil {
		return err
	}
	cached, err := prefix.Locations(dir)
	if err != nil {
		return err
	}
	for _, l := range cached {
		e := x.ByID(l.ID)
		d := describe(l.Dataset, l.ID, l.Name, l.Flags())
		d.Exposed = l.Is(prefix.Exposed)
		d.bare = d.Exposed && l.Protected != "" // which is entered when it is protected, and stays
		d.InCache, d.Flushing, d.InPrefix, d.Failed = l.Is(prefix.InCache), l.Is(prefix.Flushing), e.Complete && e.Dataset.Same(l.Dataset), e.Failed
		if d.Flushing {
			if part, known := prefix.Copied(dir, l.Dataset); known {
				d.Copied = &part
			}
		}
		d.Scheme, d.Tolerates = reddesc.CutTolerated(l.Protected)
		d.verified(l.Verified)
		if d.InPrefix {
			d.arrived(x, e)
		}
		s.Datasets = append(s.Datasets, d)
	}
	for _, e := range x.Entries() {
		if e.Complete && !slices.ContainsFunc(s.Datasets, func(d Dataset) bool { return d.ID == e.ID }) {
			d := describe(e.Dataset, e.ID, e.Name, e.Flags())
			d.InPrefix, d.Failed = true, e.Failed
			d.arrived(x, e)
			s.Datasets = append(s.Datasets, d)
		}
	}
	slices.SortFunc(s.Datasets, func(a, b Dataset) int { return b.ID - a.ID })
	if at := prefix.LocationsChanged(dir); !at.IsZero() && slices.ContainsFunc(s.Datasets, func(d Dataset) bool { return d.InCache }) {
		s.Recorded = &at
	}
	if choice, ok := prefix.Chosen(x); ok && choice.Holds(x, cached, nil) {
		for i := range s.Datasets {
			s.Datasets[i].Chosen = s.Datasets[i].ID == choice.Of.ID
		}
	}
	_, err = os.Stat(prefix.NodesFile(dir)) // SCR_Init writes it, before there is a checkpoint
	s.runs.any = err == nil
	return nil
}

func describe(d dataset.Dataset, id int, name string, flags dataset.Flags) Dataset {
	return Dataset{ID: id, Name: name, Checkpoint: flags.Has(dataset.Checkpoint), Begun: d.Created(), Number: d.Checkpoint(), Bytes: d.Size(), Tolerates: -1}
}

// arrived enters what the index says of a dataset in the prefix directory.
func (d *Dataset) arrived(x *prefix.Index, e prefix.Entry) {
	if at := e.FlushedAt(); !at.IsZero() {
		d.Flushed = &at
	}
}

func (d *Dataset) verified(at time.Time) {
	if !at.IsZero() && (d.Verified == nil || at.After(*d.Verified)) {
		d.Verified = &at
	}
}

// nextFlush finds which checkpoint is to be flushed next.
func (s *Status) nextFlush(dir string) *NextFlush {
	every, _ := prefix.Every(dir)
	if every <= 0 || s.State != Running {
		return nil
	}
	var names []string // newest first
	var numbers []int  // of the checkpoints; some in between may have left the cache without a flush
	for _, d := range s.Datasets {
		if d.Checkpoint {
			names, numbers = append(names, d.Name), append(numbers, d.Number)
		}
	}
	if len(numbers) == 0 {
		return &NextFlush{In: every}
	}
	next := &NextFlush{In: every - numbers[0]%every}
	next.Name = extrapolate(names, numbers, next.In)
	return next
}

// extrapolate returns the name of the n-th checkpoint after the first of those with these names and
// numbers, the newest first, if from one checkpoint to the next the last number in the name always
// increases by the same step, and nothing else in it changes; else "".
func extrapolate(names []string, numbers []int, n int) string {
	if len(names) < 2 {
		return ""
	}
	var values []int // in the names
	var head, tail string
	for i, name := range names {
		end := strings.LastIndexAny(name, "0123456789") + 1
		start := len(strings.TrimRight(name[:end], "0123456789"))
		value, err := strconv.Atoi(name[start:end])
		if err != nil || strconv.Itoa(value) != name[start:end] { // a width of its own
			return ""
		}
		if i > 0 && (name[:start] != head || name[end:] != tail || numbers[i] >= numbers[i-1]) {
			return ""
		}
		head, tail = name[:start], name[end:]
		values = append(values, value)
	}
	step := (values[0] - values[1]) / (numbers[0] - numbers[1])
	for i := range len(values) - 1 {
		if values[i]-values[i+1] != step*(numbers[i]-numbers[i+1]) {
			return ""
		}
	}
	if step <= 0 {
		return ""
	}
	return head + strconv.Itoa(values[0]+n*step) + tail
}

// readLog reads what the log says of the newest run.
func (s *Status) readLog(dir string) error {
	a, err := account.Read(dir)
	var broken *account.BrokenError
	switch {
	case errors.As(err, &broken) || errors.Is(err, account.ErrEmpty) || errors.Is(err, fs.ErrNotExist):
		if a == nil {
			if broken != nil {
				s.Problem = err.Error()
			}
			return nil
		}
	case err != nil:
		return err
	}
	s.Problem = a.Problem
	last := a.Runs[len(a.Runs)-1]
	s.Job, s.Run, s.Began, s.Sign, s.Nodes = a.Job, last.Number, last.Start, last.End, last.NodeList
	if s.Nodes == "" && last.Nodes > 0 {
		s.Nodes = strconv.Itoa(last.Nodes)
	}
	s.Job.ID = last.Job
	s.runs.log = a
	s.State = map[account.Outcome]State{account.Open: Running, account.Finished: Finished, account.Died: Died}[last.Outcome]
	if s.State == Finished && last.Halted != "" {
		s.State, s.Halted = Stopped, last.Halted
	}
	for _, f := range a.Failures {
		if f.Job == last.Job {
			node, _, _ := strings.Cut(f.Note, ": ")
			s.Lost = append(s.Lost, Lost{f.Time, node})
		}
	}
	s.Interval = a.Only(last.Job).Totals().Interval
	return nil
}

// readLocks finds out whether a run continues whose end is not in the log, and whether another may
// follow one that has ended. Without a file of the lock, as where there are no locks between nodes,
// a run without an end is supposed to continue.
func (s *Status) readLocks(dir string) {
	s.Ended = s.State != Running && s.State != Unknown
	_, err := os.Stat(request.LockPath(dir))
	if e := request.Unseen(dir); e != nil {
		user := "another user"
		if info, err := os.Stat(filepath.Dir(request.LockPath(dir))); err == nil {
			user = trust.Name(trust.OwnerOf(info))
		}
		s.Unseen = fmt.Sprintf("whether a job runs here cannot be seen: only %s and root can (%v)", user, e)
		if s.Ended {
			s.Unseen = "" // the log says so; scr_run may start another run
		}
		return
	}
	switch alive := request.Alive(dir); {
	case alive && s.State == Unknown:
		s.State = Running
	case s.Ended && request.Restarts(dir): // scr_run is about to start the next run, or to end the job
		s.State, s.Ended, s.Halted = Running, false, ""
	case !alive && s.State == Running && err == nil && !request.Restarts(dir):
		s.State = Died
	}
}

// weigh finds out what would be lost.
func (s *Status) weigh(now time.Time) {
	if s.State == Finished {
		return
	}
	if s.unfinished() && s.runs.log != nil { // nothing is computed any more
		now = s.worked()
	}
	age := func(where func(Dataset) bool) *float64 {
		d := s.Newest(where)
		if d == nil {
			return nil
		}
		lost := max(now.Sub(d.Begun), 0)
		if s.runs.log != nil {
			if work, ok := s.runs.log.WorkSince(d.Begun, now); ok {
				lost = work
			}
		}
		seconds := lost.Seconds()
		return &seconds
	}
	s.LoseAll = age(func(d Dataset) bool { return d.InPrefix })
	s.LoseOne = age(Dataset.safe)
}

// worked returns the last sign of the last run that may have computed something.
func (s *Status) worked() time.Time {
	for _, run := range slices.Backward(s.runs.log.Runs) {
		if run.Initialised() {
			return run.End
		}
	}
	return s.Sign
}

// Alike reports whether the run, the state and the datasets are the same as in t. How far flushes
// are may differ.
func (s *Status) Alike(t *Status) bool {
	places := func(s *Status) (list []Dataset) {
		for _, d := range s.Datasets {
			d.Copied, d.Verified, d.Flushed = nil, nil, nil
			list = append(list, d)
		}
		return list
	}
	return s.State == t.State && s.Run == t.Run && slices.Equal(places(s), places(t))
}

// Empty reports whether nothing is known of a job.
func (s *Status) Empty() bool {
	return s.State == Unknown && s.Unseen == "" && len(s.Datasets) == 0 && !s.runs.any
}

// Newest returns the newest checkpoint of which a condition holds and from which no restart
// has failed, nil if there is none.
func (s *Status) Newest(where func(Dataset) bool) *Dataset {
	for i := range s.Datasets {
		if d := &s.Datasets[i]; d.Checkpoint && !d.Failed && where(*d) {
			return d
		}
	}
	return nil
}

// NeedsNodes returns the checkpoint to which the next run can go back only with the caches of its nodes, nil if the
// job runs, or if the newest one is in the prefix directory.
func (s *Status) NeedsNodes() *Dataset {
	if newest := s.Newest(func(d Dataset) bool { return d.InCache || d.InPrefix }); s.unfinished() && newest != nil && !newest.InPrefix {
		return newest
	}
	return nil
}

// unfinished reports whether the last run has ended before it had done everything, so that another is to follow; or may
// have, as nobody knows without a log.
func (s *Status) unfinished() bool {
	return s.State == Died || s.State == Stopped || s.State == Unknown && s.Unseen == "" && !s.Empty()
}

// safe reports whether a dataset survives the loss of any node.
func (d Dataset) safe() bool { return d.InPrefix || d.InCache && !d.Exposed && d.Tolerates > 0 }

// bearsNodes is the number of nodes whose loss a dataset in the cache survives.
func (d *Dataset) bearsNodes() string {
	if d.Tolerates == 1 {
		return "one node"
	}
	return report.Count(d.Tolerates, "node")
}

// Survives says what a dataset survives.
func (d *Dataset) Survives() string {
	switch {
	case d.InPrefix:
		return "survives the loss of all nodes"
	case !d.InCache:
		return "it is not complete"
	case d.bare:
		return "does not survive the loss of a node: files or redundancy of it are lost, and are not rebuilt"
	case d.Exposed:
		return "does not survive the loss of a node until it is protected"
	case d.Tolerates < 0:
		return "it is unknown whether it survives the loss of a node"
	case d.Tolerates == 0:
		return "does not survive the loss of a node"
	}
	return "survives the loss of any " + d.bearsNodes()
}
