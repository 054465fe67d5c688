package session

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"

	"github.com/goscr/goscr/internal/job/request"
	"github.com/goscr/goscr/internal/job/run/migration"
	"github.com/goscr/goscr/internal/job/run/recovery"
	"github.com/goscr/goscr/internal/prefix"
	"github.com/goscr/goscr/internal/prefix/snapshot"
)

// ErrNoLoop is the error if the job does not run under scr_run: nothing would start it again.
var ErrNoLoop = errors.New("the job does not run under scr_run, so nothing starts it again")

// RestartFrom asks scr_run to end the run, and to begin the next one from a checkpoint: that of
// number seq in the prefix directory reference, as Reference returns them. It returns when scr_run
// has been asked, which ends the processes soon afterwards. Any rank may call it; it is not
// collective.
func (s *Session) RestartFrom(reference string, seq int) error {
	return s.local("RestartFrom", func() error {
		if filepath.Clean(reference) != filepath.Clean(s.prefix.Dir) {
			return fmt.Errorf("%q is not the reference to this job's checkpoints, which is %s", reference, s.prefix.Dir)
		}
		list, err := snapshot.List(s.prefix.Dir)
		if err != nil {
			return err
		}
		for _, c := range list {
			if c.Seq == seq && c.Problem == "" {
				return askLoop(s.prefix.Dir, migration.Request{Restart: c.Name})
			}
		}
		return fmt.Errorf("%s has no checkpoint %d from which the job can be restarted", reference, seq)
	})
}

// Destination says where a rank is to go.
type Destination struct {
	Rank int
	Host string // a node
	Near int    // if Host is "": the node of this rank; less than 0: see Migrate
}

// Migrate asks scr_run to move ranks to other nodes. Ranks for which neither a host nor another rank is
// named go to spare nodes if this is so of all, and else stay where they are. scr_run asks for a checkpoint,
// ends the run after it and starts the next one. Migrate returns when scr_run has been asked. Any rank may
// call it; it is not collective.
func (s *Session) Migrate(to []Destination) error {
	return s.local("Migrate", func() error {
		hosts, err := prefix.ReadRanks(prefix.RanksFile(s.prefix.Dir))
		if err != nil && slices.ContainsFunc(to, func(d Destination) bool { return d.Host == "" && d.Near >= 0 }) {
			return err
		}
		w, err := wish(to, hosts)
		if err != nil {
			return err
		}
		return askLoop(s.prefix.Dir, migration.Request{Wish: w})
	})
}

// wish is what scr_run is asked for. hosts is the node of each rank now.
func wish(to []Destination, hosts []string) (w recovery.Wish, err error) {
	var unnamed []int
	for _, d := range to {
		switch {
		case d.Host != "":
		case d.Near >= len(hosts):
			return w, fmt.Errorf("there is no rank %d", d.Near)
		case d.Near >= 0:
			d.Host = hosts[d.Near]
		default:
			unnamed = append(unnamed, d.Rank)
			continue
		}
		w.Ranks, w.Onto = append(w.Ranks, d.Rank), append(w.Onto, d.Host)
	}
	if len(w.Ranks) == 0 {
		w.Ranks = unnamed
	}
	return w, nil
}

// askLoop asks the scr_run that runs the job in a prefix directory.
func askLoop(dir string, r migration.Request) error {
	if !request.Restarts(dir) {
		return ErrNoLoop
	}
	_, err := migration.Ask(dir, r)
	return err
}

// TakeBack answers all requests of commands for a checkpoint with an error, of whatever state: a rank
// calls it that cannot take part, while the others wait for it. It is not collective, and any rank may call it.
func (s *Session) TakeBack(why error) error {
	return s.local("TakeBack", func() error { return request.Refuse(s.prefix.Dir, s.config.JobID, why.Error()) })
}
