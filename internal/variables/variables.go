// Package variables writes and reads checkpoints of programs that name their variables, and have no files of their own.
//
// The names and the order of calls are those of VELOC 1.8, whose programs call this package by libveloc-client.so; programs in Go
// call it by scr.Variables. Each name of a checkpoint is a series (session.Series), and each version of it a dataset. Every
// rank writes one file, NAME-RANK-VERSION.dat, in VELOC's format (file.go), so that VELOC can read it in the prefix
// directory, and this package reads what VELOC has left there (left.go). config.go reads VELOC's configuration.
//
// cmd/libscr and package scr call this package, and it calls internal/session.
package variables

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/goscr/goscr/internal/session"
)

// Selection says which variables a call writes or reads. The values are those of VELOC's constants.
type Selection int

// The selections.
const (
	All  Selection = 0 // all variables; the list of ids is not used
	Some Selection = 1 // those of the list
	Rest Selection = 2 // all but those of the list
)

// anywhere is the group of variables that belong to all names without variables of their own.
const anywhere = ""

// state is what a program does with its variables.
type state int

const (
	idle    state = iota
	writing       // Begin to End
	reading       // RestartBegin to RestartEnd
)

// source is where the file comes from that is read.
type source int

const (
	dataset  source = iota // from the session, which knows of the restart
	leftover               // VELOC has left it in the prefix directory
	others                 // it is in the prefix directory, and of another rank
)

// Variables are those of one rank.
type Variables struct {
	session *session.Session
	rank    int    // of the files
	prefix  string // directory
	veloc   string // directory in which VELOC has left files

	groups map[string]map[int][]byte // memory of the program, by group and id

	state   state
	name    string // of the checkpoint that is written or read
	version int
	path    string // of the caller's file, "" if it is not known yet
	source  source // of what is read
	failed  error  // why the checkpoint cannot be completed
	misfit  error  // why a variable could not be read that the version has whole
}

// New returns the variables of a rank. rank is the number in the names of its files, as a rule that in the session's
// communicator.
func New(s *session.Session, rank int) *Variables {
	prefix, _ := s.Reference()
	return &Variables{session: s, rank: rank, prefix: prefix, veloc: prefix, groups: map[string]map[int][]byte{}}
}

// Single is New for a process without a communicator, whose number no other process has. It has a prefix directory of its own; veloc is the
// directory in which VELOC has left its files.
func Single(s *session.Session, id int, veloc string) *Variables {
	v := New(s, id)
	v.veloc = veloc
	return v
}

// Continue makes another session write and read the variables: that of a communicator which the program has repaired. What was
// being written or read is over.
func (v *Variables) Continue(s *session.Session, rank int) {
	groups := v.groups
	*v = *New(s, rank)
	v.groups = groups
}

// CheckID returns an error if a variable cannot have this id, which has 32 bits in a file.
func CheckID(id int) error {
	if int(int32(id)) != id {
		return fmt.Errorf("variable %d: an id is from %d to %d", id, math.MinInt32, math.MaxInt32)
	}
	return nil
}

// checkVersion returns an error if a version cannot have this number.
func checkVersion(version int) error {
	if version < 0 || version > math.MaxInt32 {
		return fmt.Errorf("version %d: a version is from 0 to %d", version, math.MaxInt32)
	}
	return nil
}

// Protect names a variable. data is its memory. group is the name of the checkpoints that contain it; with "" these are all whose
// name has no group. If the id is protected in the group already, data replaces what it was; with group "" it also
// replaces a variable of that id in any other group.
func (v *Variables) Protect(id int, data []byte, group string) {
	if group == anywhere {
		v.Unprotect(id, anywhere)
	}
	v.Place(id, data, group)
}

// Place is Protect, and leaves variables of other groups as they are.
func (v *Variables) Place(id int, data []byte, group string) {
	if v.groups[group] == nil {
		v.groups[group] = map[int][]byte{}
	}
	v.groups[group][id] = data
}

// Uses reports whether the version that is being written or read is of the variables of a group.
func (v *Variables) Uses(group string) bool {
	if v.state == idle {
		return false
	}
	if len(v.groups[v.name]) > 0 {
		return group == v.name
	}
	return group == anywhere
}

// Unprotect ends Protect, with group "" in all groups. It reports whether there was such a variable.
func (v *Variables) Unprotect(id int, group string) (found bool) {
	for name, list := range v.groups {
		if _, ok := list[id]; ok && (group == anywhere || name == group) {
			delete(list, id)
			found = true
		}
	}
	return found
}

// Clear ends Protect for all variables of a group.
func (v *Variables) Clear(group string) { delete(v.groups, group) }

// of returns the variables that a checkpoint of a name contains.
func (v *Variables) of(name string) map[int][]byte {
	if own := v.groups[name]; len(own) > 0 {
		return own
	}
	return v.groups[anywhere]
}

// series returns the series of a name.
func (v *Variables) series(name string) session.Series {
	return session.Series{Session: v.session, Name: name}
}

// fileName returns the name of a rank's file of a version.
func fileName(name string, rank, version int) string {
	return fmt.Sprintf("%s-%d-%d.dat", name, rank, version)
}

// CheckName returns an error if a checkpoint cannot have this name.
func CheckName(name string) error {
	const most = 127
	plain := func(r rune) bool {
		return r == '_' || r == '.' || '0' <= r && r <= '9' || 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z'
	}
	if name == "" || len(name) > most || strings.ContainsFunc(name, func(r rune) bool { return !plain(r) }) {
		return fmt.Errorf("the name %q of a checkpoint: it must have letters, digits, _ and . only, and at most %d of them", name, most)
	}
	return nil
}

// expect returns an error unless the program is in a state.
func (v *Variables) expect(want state) error {
	if v.state == want {
		return nil
	}
	switch v.state {
	case writing:
		return fmt.Errorf("version %d of %s is being written: end it first", v.version, v.name)
	case reading:
		return fmt.Errorf("version %d of %s is being read: end it first", v.version, v.name)
	}
	if want == writing {
		return errors.New("no checkpoint is being written: begin one first")
	}
	return errors.New("no checkpoint is being read: begin a restart first")
}

// Checkpoint writes all variables of a name as one version of it. It is collective.
func (v *Variables) Checkpoint(name string, version int) error {
	if err := v.Begin(name, version); err != nil {
		return err
	}
	err := v.Write(All, nil)
	return errors.Join(err, v.End(err == nil))
}

// Begin begins to write a version of a name. It is collective.
func (v *Variables) Begin(name string, version int) error {
	if err := v.session.Agree(cmp.Or(CheckName(name), checkVersion(version), v.expect(idle))); err != nil {
		return err
	}
	if err := v.series(name).Start(version); err != nil {
		return err
	}
	v.state, v.name, v.version, v.path, v.failed = writing, name, version, "", nil
	return nil
}

// File returns the path of the caller's file of the version that is being written or read. It is not collective.
func (v *Variables) File() (string, error) {
	if v.state == idle {
		return "", errors.New("no checkpoint is being written or read, so there is no file: begin one, or a restart, first")
	}
	if v.path != "" {
		return v.path, nil
	}
	path, err := v.session.Route(filepath.Join(v.prefix, fileName(v.name, v.rank, v.version)))
	if err == nil {
		v.path = path
	}
	return path, err
}

// Write writes variables of the version that Begin has begun to the caller's file, in place of what the file had. It is not collective.
func (v *Variables) Write(which Selection, ids []int) error {
	if err := v.expect(writing); err != nil {
		return err
	}
	path, err := v.File()
	if err == nil {
		err = v.write(path, which, ids)
	}
	if err != nil {
		v.failed = err
	}
	return err
}

func (v *Variables) write(path string, which Selection, ids []int) error {
	all := v.of(v.name)
	if len(all) > mostEntries {
		return fmt.Errorf("%s has %d variables: a checkpoint has at most %d", v.name, len(all), mostEntries)
	}
	if which == Some {
		for _, id := range ids {
			if _, ok := all[id]; !ok {
				return fmt.Errorf("variable %d is not protected for %s", id, v.name)
			}
		}
	}
	var list []variable
	for _, id := range slices.Sorted(maps.Keys(all)) {
		if which.has(ids, id) {
			list = append(list, variable{id, all[id]})
		}
	}
	if len(list) == 0 {
		return fmt.Errorf("no variable is selected for %s, or none is protected", v.name)
	}
	return write(path, list)
}

// has reports whether a selection has an id.
func (s Selection) has(ids []int, id int) bool {
	return s == All || slices.Contains(ids, id) == (s == Some)
}

// End completes the version that Begin has begun: it is protected against the loss of nodes, and flushed if that is due. valid says whether
// the caller's file is. If it is not on all ranks, the version is deleted, and that is an error. It is collective.
func (v *Variables) End(valid bool) error {
	if err := v.session.Agree(v.expect(writing)); err != nil {
		return err
	}
	failed := v.failed
	if valid && failed == nil && v.path == "" {
		failed = fmt.Errorf("version %d of %s has nothing from this rank: write its variables, or a file of its own, before the end", v.version, v.name)
		v.session.Warn("%v", failed)
	}
	v.state, v.path, v.failed = idle, "", nil
	return v.session.CompleteOutput(valid && failed == nil)
}

// Find returns the newest version of a name from which all ranks can restart, at most most if that is not 0. It is
// collective.
func (v *Variables) Find(name string, most int) (version int, ok bool, err error) {
	if err := v.session.Agree(errors.Join(CheckName(name), v.expect(idle))); err != nil {
		return 0, false, err
	}
	version, ok, err = v.series(name).Find(most)
	if err != nil {
		return 0, false, err
	}
	least := 0
	if ok {
		least = version + 1
	}
	if ok && session.Chosen(v.session) == v.series(name).Dataset(version) {
		return version, true, nil
	}
	if left, found, err := v.findLeft(name, least, most); found || err != nil {
		return left, found, err
	}
	if !ok {
		return 0, false, session.MayBegin(v.session)
	}
	return version, ok, nil
}

// Restart reads all variables of a version. If it cannot be read on all ranks, no memory of the program is changed on any. It
// is collective.
func (v *Variables) Restart(name string, version int) error {
	if err := v.RestartBegin(name, version); err != nil {
		return err
	}
	err := v.ReadAll()
	ended := v.RestartEnd(err == nil)
	if v.misfit != nil {
		return cmp.Or(err, ended) // they say the same
	}
	return errors.Join(err, ended)
}

// ReadAll reads all variables of the version that RestartBegin has begun to read. If that is not possible on all ranks, no memory of the
// program is changed on any. It is collective.
func (v *Variables) ReadAll() error {
	if err := v.session.Agree(v.expect(reading)); err != nil {
		return err
	}
	saved, err := v.open(All, nil)
	if saved != nil {
		defer saved.close()
	}
	if err = v.session.Agree(err); err != nil {
		return err
	}
	v.misfit = saved.fits(v.of(v.name))
	if err := v.session.Agree(v.misfit); err != nil {
		v.misfit = err // also on ranks whose own memory fits
		return err
	}
	return v.session.Agree(saved.read(v.of(v.name)))
}

// RestartBegin begins to read a version. It is collective.
func (v *Variables) RestartBegin(name string, version int) error {
	if err := v.session.Agree(cmp.Or(CheckName(name), checkVersion(version), v.expect(idle))); err != nil {
		return err
	}
	path := ""
	err := v.series(name).StartRestart(version)
	left := err != nil && v.isLeft(name, version)
	if left {
		path = v.leftPath(name, version)
	} else if err != nil {
		return err
	}
	v.state, v.name, v.version, v.path, v.source, v.misfit = reading, name, version, path, dataset, nil
	if left {
		v.source = leftover
	}
	return nil
}

// Size returns the size in bytes of a variable in the version that is being read, and whether that has it. It is not collective.
func (v *Variables) Size(id int) (size int64, ok bool, err error) {
	if err := v.expect(reading); err != nil {
		return 0, false, err
	}
	saved, err := v.open(All, nil)
	if err != nil {
		return 0, false, err
	}
	defer saved.close()
	for _, e := range saved.entries {
		if e.id == id {
			return e.size, true, nil
		}
	}
	return 0, false, nil
}

// Read reads variables of the version that RestartBegin has begun to read. If one is not protected, or is larger than
// its memory, no memory is changed. It is not collective.
func (v *Variables) Read(which Selection, ids []int) error {
	if err := v.expect(reading); err != nil {
		return err
	}
	saved, err := v.open(which, ids)
	if err != nil {
		return err
	}
	defer saved.close()
	if v.misfit = saved.fits(v.of(v.name)); v.misfit != nil {
		return v.misfit
	}
	return saved.read(v.of(v.name))
}

// open opens the caller's file of the version that is being read, for the variables of a selection.
func (v *Variables) open(which Selection, ids []int) (*saved, error) {
	path, err := v.File()
	if err != nil {
		return nil, err
	}
	s, err := openSaved(path)
	if err != nil {
		return nil, err
	}
	s.entries = slices.DeleteFunc(s.entries, func(e entry) bool { return !which.has(ids, e.id) })
	return s, nil
}

// RestartEnd ends RestartBegin. valid says whether the caller could restart. If it is false on any rank, that is an error, and the version is
// not offered again, unless only the memory of the program did not fit: a corrected program can restart from it. It is collective.
func (v *Variables) RestartEnd(valid bool) error {
	wrong := v.expect(reading)
	alone := wrong == nil && v.source == others // no other rank takes part
	if !alone {
		if err := v.session.Agree(wrong); err != nil {
			return err
		}
	}
	v.state, v.path = idle, ""
	var err error
	switch {
	case valid:
	case v.misfit != nil:
		err = v.misfit
	default:
		err = fmt.Errorf("the program could not restart from version %d of %s", v.version, v.name)
		if v.source == leftover {
			err = fmt.Errorf("%w, which VELOC has left in %s: remove its files, so that no run is offered it", err, v.veloc)
		}
	}
	if alone {
		return err
	}
	var failed error
	if v.source == dataset {
		failed = v.session.CompleteRestart(valid || v.misfit != nil)
	}
	return cmp.Or(failed, v.session.Agree(err))
}

// Wait waits until all versions are protected and flushed that are to be. It is collective.
func (v *Variables) Wait() error { return session.Wait(v.session) }

// Finished reports whether the caller's part of Wait is done. It is not collective.
func (v *Variables) Finished() bool { return !v.session.Copying() }

// Remove removes all versions of a name from the cache, once they are flushed that are to be. It is collective.
func (v *Variables) Remove(name string) error {
	if err := v.session.Agree(errors.Join(CheckName(name), v.expect(idle))); err != nil {
		return err
	}
	return v.series(name).Remove()
}

// exists reports whether a directory is there.
func exists(dir string) error {
	info, err := os.Stat(dir)
	if err == nil && !info.IsDir() {
		err = fmt.Errorf("%s is no directory", dir)
	}
	return err
}
