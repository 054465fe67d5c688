package variables

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/goscr/goscr/internal/session"
)

// findLeft returns the newest version of a name that VELOC has left in the prefix directory for all ranks, from least to most; 0 is no
// limit. What goscr has written there counts only if the index says so, and is not considered here. It is collective.
func (v *Variables) findLeft(name string, least, most int) (version int, ok bool, err error) {
	if !session.Fetches(v.session) {
		return 0, false, nil
	}
	list, err := session.FromRoot(v.session, func() ([]int, error) { return v.listLeft(name, least, most) })
	if err != nil {
		return 0, false, err
	}
	for _, version := range slices.Backward(list) {
		if v.areWhole(name, version) {
			return version, true, nil
		}
	}
	return 0, false, nil
}

// listLeft returns the versions of which VELOC has left the caller's file, in ascending order.
func (v *Variables) listLeft(name string, least, most int) (list []int, err error) {
	known, err := v.series(name).Known(v.prefix)
	if err != nil {
		return nil, err
	}
	entries, err := os.ReadDir(v.veloc)
	if err != nil {
		return nil, err
	}
	start := fmt.Sprintf("%s-%d-", name, v.rank)
	for _, e := range entries {
		text, named := strings.CutPrefix(e.Name(), start)
		text, data := strings.CutSuffix(text, ".dat")
		version, err := strconv.Atoi(text)
		plain := named && data && err == nil && e.Name() == fileName(name, v.rank, version) // not 007, and not +7
		if plain && version >= least && (most <= 0 || version <= most) && !known[version] {
			list = append(list, version)
		}
	}
	slices.Sort(list)
	return list, nil
}

// isLeft reports whether VELOC has left whole files of a version for all ranks. It is collective.
func (v *Variables) isLeft(name string, version int) bool {
	if !session.Fetches(v.session) {
		return false
	}
	ours, err := session.FromRoot(v.session, func() ([]int, error) {
		known, err := v.series(name).Known(v.prefix)
		if known[version] {
			return []int{version}, err
		}
		return nil, err
	})
	return err == nil && len(ours) == 0 && v.areWhole(name, version)
}

// FindOf is Find for the file of another rank in the prefix directory: of a program that has another number of ranks now. It is not
// collective.
func (v *Variables) FindOf(rank int, name string, most int) (version int, ok bool, err error) {
	if err := errors.Join(CheckName(name), v.expect(idle)); err != nil {
		return 0, false, err
	}
	other := v.other(rank)
	list, err := other.listOf(name)
	if err != nil {
		return 0, false, err
	}
	for _, version := range slices.Backward(list) {
		if most > 0 && version > most {
			continue
		}
		if s, err := openSaved(other.persistentPath(name, version)); err == nil {
			s.close()
			return version, true, nil
		}
	}
	return 0, false, nil
}

// listOf returns the versions of which the prefix directory should have the caller's file, in ascending order.
func (v *Variables) listOf(name string) ([]int, error) {
	if !session.Fetches(v.session) {
		return nil, nil
	}
	list, err := v.listLeft(name, 0, 0)
	if err != nil {
		return nil, err
	}
	usable, err := v.series(name).Usable(v.prefix)
	for _, d := range usable {
		list = append(list, d.Version())
	}
	slices.Sort(list)
	return list, err
}

// RestartBeginOf is RestartBegin for the file of another rank in the prefix directory. It is not collective, and RestartEnd is not either then.
func (v *Variables) RestartBeginOf(rank int, name string, version int) error {
	if err := errors.Join(CheckName(name), v.expect(idle)); err != nil {
		return err
	}
	other := v.other(rank)
	list, err := other.listOf(name)
	if err != nil {
		return err
	}
	if !slices.Contains(list, version) {
		return fmt.Errorf("there is no version %d of %s of rank %d in %s", version, name, rank, other.prefix)
	}
	file, err := openSaved(other.persistentPath(name, version))
	if err != nil {
		return err
	}
	file.close()
	v.state, v.name, v.version, v.path, v.source = reading, name, version, other.persistentPath(name, version), others
	v.misfit = nil
	return nil
}

// areWhole reports whether all ranks have a whole file of a version in the prefix directory. It is collective.
func (v *Variables) areWhole(name string, version int) bool {
	s, err := openSaved(v.leftPath(name, version))
	if err == nil {
		s.close()
	}
	return v.session.Agree(err) == nil
}

// other returns the variables of another rank, or of another process without a communicator, for reading in the prefix directory.
func (v *Variables) other(rank int) *Variables {
	o := *v
	o.rank = rank
	if v.prefix != v.veloc {
		o.prefix = SinglePrefix(v.veloc, rank)
	}
	return &o
}

// persistentPath returns the path of the caller's file of a version that is in the index, or that VELOC has left.
func (v *Variables) persistentPath(name string, version int) string {
	path := filepath.Join(v.prefix, fileName(name, v.rank, version))
	if _, err := os.Lstat(path); err != nil {
		return v.leftPath(name, version)
	}
	return path
}

// leftPath returns the path of the caller's file of a version that VELOC has left.
func (v *Variables) leftPath(name string, version int) string {
	return filepath.Join(v.veloc, fileName(name, v.rank, version))
}
