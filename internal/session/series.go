package session

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/goscr/goscr/internal/lifecycle/restart"
	"github.com/goscr/goscr/internal/prefix"
	"github.com/goscr/goscr/internal/prefix/dataset"
	"github.com/goscr/goscr/mpi"
)

// Series are checkpoints that replace each other, beside those of other series. Each series has as many places in
// the cache as SCR_CACHE_SIZE says, and in the prefix directory as SCR_PREFIX_SIZE says, counts its own
// checkpoints for SCR_FLUSH, and is offered by itself. Its methods are collective.
type Series struct {
	Session *Session
	Name    string
}

// inSeries is a version of a series. The zero value is a dataset without a series.
type inSeries struct {
	series string
	number int
}

// Dataset returns the name of the dataset that is a version of the series.
func (r Series) Dataset(version int) string { return fmt.Sprintf("%s-%d", r.Name, version) }

// Start begins a checkpoint that is a version of the series, like StartOutput.
func (r Series) Start(version int) error {
	const call = "StartVersion"
	return r.Session.call(call, func() error {
		if r.Name == "" || version < 0 {
			return &ArgumentError{fmt.Sprintf("version %d of a series %q: a series needs a name, and a version is at least 0", version, r.Name)}
		}
		if err := r.Session.state.expect(call, idle); err != nil {
			return err
		}
		return r.Session.start(r.Dataset(version), inSeries{r.Name, version}, Checkpoint, writing)
	})
}

// Find offers the newest checkpoint of the series from which all ranks can restart, and returns its version. With most > 0
// that is at most most. Find may be called at any time between datasets.
func (r Series) Find(most int) (version int, ok bool, err error) {
	const call = "FindVersion"
	err = r.Session.call(call, func() error {
		if err := r.find(call, most, func(n int) bool { return most <= 0 || n <= most }); err != nil {
			return err
		}
		if offer := r.Session.restart.Offered(); offer != nil {
			version, ok = offer.Version(), true
		}
		return nil
	})
	return version, ok && err == nil, err
}

// find offers the newest checkpoint of the series of which wanted is true, if there is one. asked is the number on which wanted depends.
func (r Series) find(call string, asked int, wanted func(version int) bool) error {
	s := r.Session
	if err := s.state.expectNamed(s.world, call, r.Dataset(asked)); err != nil {
		return err
	}
	return s.reader.findIn(r.Name, wanted)
}

// StartRestart begins to restart from a version. Until CompleteRestart, Route returns the paths of its files.
func (r Series) StartRestart(version int) error {
	const call = "StartVersionRestart"
	s := r.Session
	return s.call(call, func() error {
		if err := r.find(call, version, func(n int) bool { return n == version }); err != nil {
			return err
		}
		if s.restart.Offered() == nil {
			return mpi.OnRoot(s.world, func() error { return r.missing(version) })
		}
		if _, err := s.reader.start(); err != nil {
			return err
		}
		s.state = restarting
		return nil
	})
}

// missing is the error if there is no such version. Rank 0 calls it.
func (r Series) missing(version int) error {
	there, err := restart.Versions(r.Session.restart, r.Name)
	if err != nil {
		return err
	}
	if len(there) == 0 {
		return fmt.Errorf("there is no version %d of %s, and no other from which all ranks can restart", version, r.Name)
	}
	return fmt.Errorf("there is no version %d of %s from which all ranks can restart; these are there: %s",
		version, r.Name, strings.Trim(fmt.Sprint(there), "[]"))
}

// Known returns the versions that the index of a prefix directory has, whether or not a run can restart from them. It
// is not collective.
func (r Series) Known(dir string) (map[int]bool, error) {
	x, err := prefix.ReadIndex(dir)
	if err != nil {
		return nil, err
	}
	known := map[int]bool{}
	for _, e := range x.Entries() {
		if e.Series() == r.Name {
			known[e.Version()] = true
		}
	}
	return known, nil
}

// Usable returns the versions from which a run can restart in a prefix directory. It is not collective.
func (r Series) Usable(dir string) (list []dataset.Dataset, err error) {
	x, err := prefix.ReadIndex(dir)
	if err != nil {
		return nil, err
	}
	for _, d := range r.Session.prefix.Ours.Of(x).Usable() {
		if d.Series() == r.Name && !d.Compressed() {
			list = append(list, d)
		}
	}
	return list, nil
}

// Remove removes the series from the cache, once all is flushed that is being flushed.
func (r Series) Remove() error {
	const call = "Remove"
	s := r.Session
	return s.call(call, func() error {
		if err := s.state.expectNamed(s.world, call, r.Name); err != nil {
			return err
		}
		if err := s.flusher.WaitAll(); err != nil {
			return err
		}
		of := func(d dataset.Dataset) bool { return d.Series() == r.Name }
		if offer := s.restart.Offered(); offer != nil && of(offer.Dataset) {
			s.restart.Withdraw()
		}
		return s.flusher.DropWhere(of)
	})
}

// Fetches reports whether a run may restart from what the prefix directory has (SCR_RESTART, SCR_FETCH). It is not collective.
func Fetches(s *Session) bool { return s.config.Restart != "NEVER" && s.config.Fetch }

// Chosen returns the name of the dataset from which the user wants this run to restart, "" if there is none. It is the same on all
// ranks, and not collective.
func Chosen(s *Session) string {
	if s.reader.started {
		return ""
	}
	return s.restart.Current.Name
}

// MayBegin returns an error if the user wants no run that starts from the beginning (SCR_RESTART=must), and this one has not
// begun a dataset yet. It is collective.
func MayBegin(s *Session) error {
	if s.reader.started {
		return nil
	}
	return s.call("FindVersion", func() error { return mustRestart(s.world, s.config) })
}

// RankOf returns the rank of the caller in the session. It is not collective.
func RankOf(s *Session) int { return s.world.Rank() }

// Wait waits until nothing is being protected or flushed in the background. It returns an error if the newest dataset should be in the
// prefix directory, and could not be flushed. It is collective.
func Wait(s *Session) error {
	return s.callIn(idle, "Wait", func() error { return s.flusher.WaitAll() })
}

// FromRoot returns on all ranks what f returns on rank 0. It is collective.
func FromRoot(s *Session, f func() ([]int, error)) (list []int, err error) {
	err = s.call("FromRoot", func() error {
		text, err := mpi.BytesFromRoot(s.world, func() ([]byte, error) {
			list, err := f()
			if err != nil {
				return nil, err
			}
			return json.Marshal(list)
		})
		if err != nil {
			return err
		}
		return json.Unmarshal(text, &list)
	})
	return list, err
}
