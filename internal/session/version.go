package session

import (
	"fmt"
	"strings"

	"github.com/goscr/goscr/mpi"
)

// inSeries is a dataset of a series: of checkpoints that replace each other, beside those of other series. Each series
// has as many places in the cache as SCR_CACHE_SIZE says, and counts its own checkpoints for SCR_FLUSH. The zero value is a
// dataset without a series.
type inSeries struct {
	series string
	number int
}

// VersionName returns the name of the dataset that is a version of a series.
func VersionName(series string, number int) string { return fmt.Sprintf("%s-%d", series, number) }

// StartVersion begins a checkpoint that is a version of a series, like StartOutput. Its name is VersionName.
func (s *Session) StartVersion(series string, number int) error {
	return s.call("StartVersion", func() error {
		if series == "" || number < 0 {
			return &ArgumentError{fmt.Sprintf("version %d of a series %q: a series needs a name, and a version is at least 0", number, series)}
		}
		return s.start("StartVersion", VersionName(series, number), inSeries{series, number}, Checkpoint, writing)
	})
}

// FindVersion offers the newest checkpoint of a series from which all ranks can restart, and returns its number. With most > 0
// its number is at most most. It may be called at any time between datasets. StartVersionRestart begins to read it.
func (s *Session) FindVersion(series string, most int) (number int, ok bool, err error) {
	err = s.call("FindVersion", func() error {
		if err := s.findVersion("FindVersion", series, most, func(n int) bool { return most <= 0 || n <= most }); err != nil {
			return err
		}
		if offer := s.restart.Offered(); offer != nil {
			number, ok = offer.Version(), true
		}
		return nil
	})
	return number, ok && err == nil, err
}

// findVersion offers the newest checkpoint of a series of which wanted is true, if there is one. asked is what wanted depends on.
func (s *Session) findVersion(call, series string, asked int, wanted func(n int) bool) error {
	if err := s.state.expect(call, idle); err != nil {
		return err
	}
	if _, err := sameEverywhere(s.world, VersionName(series, asked), 0, false); err != nil {
		return err
	}
	if err := s.offerRestart(s.restart.FindIn(series, wanted)); err != nil {
		return err
	}
	s.numbers.asked = s.numbers.asked || s.restart.Offered() != nil
	return nil
}

// StartVersionRestart begins to restart from a version of a series. Until CompleteRestart, Route returns the paths of its files.
func (s *Session) StartVersionRestart(series string, number int) error {
	return s.call("StartVersionRestart", func() error {
		if err := s.findVersion("StartVersionRestart", series, number, func(n int) bool { return n == number }); err != nil {
			return err
		}
		if s.restart.Offered() == nil {
			return mpi.OnRoot(s.world, func() error { return s.noVersion(series, number) })
		}
		_, err := s.startRestart()
		return err
	})
}

// noVersion is the error if there is no such version of a series. Rank 0 calls it.
func (s *Session) noVersion(series string, number int) error {
	there, err := s.restart.Versions(series)
	if err != nil {
		return err
	}
	if len(there) == 0 {
		return fmt.Errorf("there is no version %d of %s, and no other from which all ranks can restart", number, series)
	}
	return fmt.Errorf("there is no version %d of %s from which all ranks can restart; these are there: %s", number, series, strings.Trim(fmt.Sprint(there), "[]"))
}

// Wait waits until nothing is being protected or flushed in the background, and returns an error if the newest dataset is not protected.
func (s *Session) Wait() error {
	return s.call("Wait", func() error {
		if err := s.state.expect("Wait", idle); err != nil {
			return err
		}
		return s.flusher.WaitAll()
	})
}
