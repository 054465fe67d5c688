// Package status tells how safe a job is now: which checkpoints it has and where, what would
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
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/goscr/goscr/internal/account"
	"github.com/goscr/goscr/internal/dataset"
	"github.com/goscr/goscr/internal/eventlog"
	"github.com/goscr/goscr/internal/prefix"
	"github.com/goscr/goscr/internal/request"
)

// State is whether a job runs.
type State string

// The states.
const (
	Unknown  State = "UNKNOWN" // there is no log, and nothing runs
	Running  State = "RUNNING"
	Died     State = "DIED"
	Finished State = "FINISHED"
)

// Status is what is known of a job. Times are zero and numbers are 0 if they are not known.
type Status struct {
	Job      eventlog.Job `json:"job"`
	State    State        `json:"state"`
	Run      int          `json:"run"`
	Began    time.Time    `json:"began"` // the run
	Sign     time.Time    `json:"sign"`  // the last that the job has logged
	Ended    bool         `json:"ended"` // Sign is the end of the run
	Nodes    string       `json:"nodes"`
	Lost     []Lost       `json:"lost"`
	Scheme   string       `json:"scheme"`
	Bears    int          `json:"bears"`    // nodes of a set that may be lost at once; -1: not known
	Datasets []Dataset    `json:"datasets"` // newest first

	// Seconds of work that would be lost if one node died now, and if all did; nil if there
	// is no checkpoint for that.
	LoseOne *float64 `json:"lose_one"`
	LoseAll *float64 `json:"lose_all"`

	Interval account.Interval `json:"interval"`
	Problem  string           `json:"problem,omitempty"` // what could not be read of the log
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
	Bytes      int64     `json:"bytes"`
	InCache    bool      `json:"cache"`
	Flushing   bool      `json:"flushing"`
	InPrefix   bool      `json:"prefix"`
	Failed     bool      `json:"failed"` // a restart from it has failed
}

// Read finds the status of the job of a prefix directory.
func Read(dir string, now time.Time) (*Status, error) {
	s := &Status{State: Unknown, Bears: -1, Lost: []Lost{}, Datasets: []Dataset{}}
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
		s.Datasets = append(s.Datasets, Dataset{ID: l.ID, Name: l.Name, Checkpoint: l.Flags.Has(dataset.Checkpoint), Begun: l.Dataset.Created(),
			Bytes: l.Dataset.Size(), InCache: l.Is(prefix.InCache), Flushing: l.Is(prefix.Flushing),
			InPrefix: e.Complete && e.Dataset.Same(l.Dataset), Failed: e.Failed})
	}
	for _, e := range x.Entries() {
		if e.Complete && !slices.ContainsFunc(s.Datasets, func(d Dataset) bool { return d.ID == e.ID }) {
			s.Datasets = append(s.Datasets, Dataset{ID: e.ID, Name: e.Name, Checkpoint: e.Flags().Has(dataset.Checkpoint), Begun: e.Created(),
				Bytes: e.Size(), InPrefix: true, Failed: e.Failed})
		}
	}
	slices.SortFunc(s.Datasets, func(a, b Dataset) int { return b.ID - a.ID })
	return nil
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
	s.State = map[account.Outcome]State{account.Open: Running, account.Finished: Finished, account.Died: Died}[last.Outcome]
	s.scheme(last.Protection)
	for _, f := range a.Failures {
		if f.Job == last.Job {
			node, _, _ := strings.Cut(f.Note, ": ")
			s.Lost = append(s.Lost, Lost{f.Time, node})
		}
	}
	s.Interval = a.Only(last.Job).Totals().Interval
	return nil
}

// readLocks finds out whether a run goes on of which the log has no end. Without a file of the
// lock, as where there are no locks between nodes, it is supposed to.
func (s *Status) readLocks(dir string) {
	s.Ended = s.State == Died || s.State == Finished
	_, err := os.Stat(request.LockPath(dir))
	switch alive := request.Alive(dir); {
	case alive && s.State == Unknown:
		s.State = Running
	case !alive && s.State == Running && err == nil && !request.Restarts(dir):
		s.State = Died
	}
}

// scheme reads what INIT_END has logged: "XOR in sets of 4, bears 1".
func (s *Status) scheme(text string) {
	if scheme, bears, ok := strings.Cut(text, ", bears "); ok {
		if n, err := strconv.Atoi(bears); err == nil {
			s.Scheme, s.Bears = scheme, n
			return
		}
	}
	s.Scheme = text
}

// weigh finds out what would be lost.
func (s *Status) weigh(now time.Time) {
	if s.State == Finished {
		return
	}
	if s.State == Died { // nothing is computed any more
		now = s.Sign
	}
	age := func(where func(Dataset) bool) *float64 {
		d := s.Newest(where)
		if d == nil {
			return nil
		}
		seconds := max(now.Sub(d.Begun).Seconds(), 0)
		return &seconds
	}
	s.LoseAll = age(func(d Dataset) bool { return d.InPrefix })
	s.LoseOne = age(func(d Dataset) bool { return d.InPrefix || d.InCache && s.Bears > 0 })
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

// Survives says what a dataset survives.
func (s *Status) Survives(d Dataset) string {
	switch {
	case d.InPrefix:
		return "all nodes can be lost"
	case !d.InCache:
		return "nothing: it is not complete"
	case s.Bears < 0:
		return "without a log it is unknown how many nodes can be lost"
	case s.Bears == 0:
		return "no node can be lost"
	case s.Bears == 1:
		return "any one node can be lost"
	}
	return fmt.Sprintf("any %d nodes can be lost", s.Bears)
}
