package scr

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/goscr/goscr/internal/cache"
	"github.com/goscr/goscr/internal/dataset"
	"github.com/goscr/goscr/internal/eventlog"
	"github.com/goscr/goscr/internal/meta"
	"github.com/goscr/goscr/internal/prefix"
	"github.com/goscr/goscr/internal/reddesc"
	"github.com/goscr/goscr/internal/redundancy"
	"github.com/goscr/goscr/internal/report"
	"github.com/goscr/goscr/mpi"
)

// HaveRestart reports whether there is a checkpoint to restart from, and its
// name. The newest in the cache comes first; if there is none, one is fetched
// from the prefix directory.
func (s *Session) HaveRestart() (name string, ok bool, err error) {
	if err := s.expect("HaveRestart", idle); err != nil {
		return "", false, err
	}
	if s.started {
		return "", false, nil
	}
	if err := s.fetchIfNone(); err != nil {
		return "", false, err
	}
	if s.restart == nil {
		s.tellBeginning()
		return "", false, nil
	}
	return s.restart.Name(), true, nil
}

// StartRestart begins to restart from the checkpoint that HaveRestart offered,
// and returns its name. Until CompleteRestart, Route says where its files are.
func (s *Session) StartRestart() (name string, err error) {
	if err := s.expect("StartRestart", idle); err != nil {
		return "", err
	}
	if s.restart == nil {
		return "", s.misplaced("StartRestart", "there is no checkpoint to restart from; HaveRestart says whether there is one")
	}
	s.note(func() error { return prefix.BeginRestart(s.prefix.Dir, s.restart.Dataset) })
	s.state, s.began = restarting, time.Now()
	s.event("RESTART_START", s.restart.Dataset, eventlog.Record{})
	return s.restart.Name(), nil
}

// dropCondemned removes from the cache what an earlier run has died of while it
// read it.
func (s *Session) dropCondemned() error {
	marks := make([]int64, len(s.cache.List()))
	err := s.onRoot(func() error {
		list, err := prefix.Condemned(s.prefix.Dir)
		if err != nil {
			s.log.Warn("%v; a checkpoint that a run has died of may be tried again", err)
		}
		for i, c := range s.cache.List() {
			if list[c.ID()] == c.Name() {
				marks[i] = 1
			}
		}
		return prefix.EndRestart(s.prefix.Dir)
	})
	if err != nil {
		return err
	}
	// Only rank 0 has anything but zeros.
	if err := s.world.Allreduce(marks, mpi.Max); err != nil {
		return err
	}
	found := false
	for i, c := range slices.Clone(s.cache.List()) {
		if marks[i] == 0 {
			continue
		}
		found = true
		s.log.Info("the program died while it read checkpoint %s; it is not used again", c.Name())
		if err := errors.Join(s.forget(c), s.prefix.Failed(c.ID())); err != nil {
			return err
		}
	}
	if !found {
		return nil
	}
	return s.onRoot(func() error { return prefix.Forgive(s.prefix.Dir) })
}

// CompleteRestart ends a restart. valid says whether this rank has read what it
// needs. If any rank says no, the checkpoint is not used again, every rank gets
// an error, and HaveRestart offers the next older one.
func (s *Session) CompleteRestart(valid bool) error {
	if err := s.expect("CompleteRestart", restarting); err != nil {
		return err
	}
	s.state = idle
	s.note(func() error { return prefix.EndRestart(s.prefix.Dir) })
	c := s.restart
	var err error
	if !valid {
		err = fmt.Errorf("the program could not restart from %s", c.Name())
	}
	failed := mpi.Agree(s.world, err)
	s.result("RESTART", "SUCCESS", c.Dataset, s.began, failed)
	if failed == nil {
		s.checkpoint = c.Checkpoint()
		return nil
	}
	s.log.Info("%v; it is not used again", failed)
	s.useless[c.ID()] = true // whatever else fails, not this one again
	if c.cached != nil {
		err = s.forget(c.cached)
	}
	err = errors.Join(err, s.prefix.Failed(c.ID()))
	return errors.Join(failed, err, s.offerNewest())
}

// source is a checkpoint to restart from.
type source struct {
	dataset.Dataset
	cached *cache.Cached // nil if it is read where it is in the prefix directory
}

// offer makes a checkpoint in the cache the one to restart from, or none.
func (s *Session) offer(c *cache.Cached) {
	if c == nil {
		s.restart, s.byPath, s.byName = nil, nil, nil
		return
	}
	s.offerFiles(&source{c.Dataset, c}, s.cache.Files(c.ID()))
}

// offerFiles makes a checkpoint with the caller's files the one to restart from.
func (s *Session) offerFiles(c *source, files []redundancy.File) {
	s.restart = c
	s.checkpoint = c.Checkpoint()
	s.byPath, s.byName = map[string]string{}, map[string][]string{}
	for _, f := range files {
		if f.Meta.Type() != meta.Full {
			continue
		}
		s.byPath[f.Meta.File()] = f.Path
		base := filepath.Base(f.Path)
		s.byName[base] = append(s.byName[base], f.Path)
	}
}

func (s *Session) routeRestart(name string) (string, error) {
	if rel, err := s.belowPrefix(name); err == nil {
		if path, ok := s.byPath[rel]; ok {
			return path, nil
		}
		// In the prefix directory any rank can read any file.
		path := filepath.Join(s.prefix.Dir, rel)
		if info, err := os.Stat(path); s.restart.cached == nil && err == nil && info.Mode().IsRegular() {
			return path, nil
		}
	}
	switch paths := s.byName[filepath.Base(name)]; len(paths) {
	case 1:
		return paths[0], nil
	case 0:
		return "", fmt.Errorf("rank %d has no file %s in checkpoint %s", s.world.Rank(), name, s.restart.Name())
	default:
		return "", fmt.Errorf("rank %d has %d files named %s in checkpoint %s: give the path with which it was written",
			s.world.Rank(), len(paths), filepath.Base(name), s.restart.Name())
	}
}

// fetchIfNone fetches a checkpoint from the prefix directory if the cache has
// none: the one marked current first, then backwards. One that turns out not to
// be what was written is marked, and not tried again by any run, so that it
// cannot stop a job from starting over and over.
func (s *Session) fetchIfNone() error {
	if s.restart != nil || !s.config.Bool("SCR_FETCH") {
		return nil
	}
	for below := 0; ; {
		d, ok, err := s.prefix.Candidate(below)
		if err != nil || !ok {
			return err
		}
		if s.try(d) {
			return nil
		}
		if below == 0 {
			s.note(func() error { return s.tellNewer(d) })
		}
		below = d.ID()
	}
}

// tellNewer says which checkpoints are passed over, since the current one, which cannot
// be used, was before them.
func (s *Session) tellNewer(current dataset.Dataset) error {
	newer, err := prefix.Newer(s.prefix.Dir, current.ID())
	if len(newer) > 0 {
		s.log.Warn("newer than %s, which was made the current checkpoint, and not tried: %s; to restart from one, scr_index --current NAME",
			current.Name(), strings.Join(newer, ", "))
	}
	return err
}

// try fetches a checkpoint to restart from it, and reports whether there now is
// one. What keeps it from that is said, and recorded where it lasts.
func (s *Session) try(d dataset.Dataset) bool {
	if s.useless[d.ID()] {
		return false
	}
	start := time.Now()
	s.event("FETCH_START", d, eventlog.Record{Note: s.prefix.Dir})
	err := s.fetch(d)
	s.result("FETCH", "SUCCESS", d, start, err)
	if err == nil {
		if c := s.restart.cached; c != nil {
			s.moved("FETCH", c.Dataset, s.prefix.Dir, c.Desc.Store, start)
		}
		if err := s.prefix.Fetched(d); err != nil && s.world.Rank() == 0 {
			s.log.Warn("that checkpoint %s was fetched cannot be recorded: %v", d.Name(), err)
		}
		return true
	}
	if s.world.Rank() == 0 {
		s.log.Warn("checkpoint %s cannot be fetched: %v", d.Name(), err)
	}
	var size *prefix.RanksError
	if s.anywhere(err, func(err error) bool { return errors.As(err, &size) }) {
		return false // a run of the right size can use it
	}
	var compressed *compressedError
	if s.anywhere(err, func(err error) bool { return errors.As(err, &compressed) }) {
		return false // a run that fetches it can use it
	}
	var bad *unusableError
	if !s.anywhere(err, func(err error) bool { return errors.As(err, &bad) }) {
		return false // a run with room in its cache can use it
	}
	if err := s.prefix.Failed(d.ID()); err != nil && s.world.Rank() == 0 {
		s.log.Warn("checkpoint %s cannot be marked as failed, so the next run will try it again: %v", d.Name(), err)
	}
	return false
}

// unusableError says that a checkpoint in the prefix directory is not what was
// written, and not just of no use to this run.
type unusableError struct{ error }

func (e *unusableError) Unwrap() error { return e.error }

// compressedError says that a checkpoint cannot be read where it is, since the
// program would have to decompress it.
type compressedError struct{ name string }

func (e *compressedError) Error() string {
	return fmt.Sprintf("its files are compressed, and cannot be read where they are: start again without SCR_FETCH_BYPASS, "+
		"SCR_GLOBAL_RESTART and SCR_CACHE_BYPASS, or run scr_index --expand '%s' first", e.name)
}

// fetch makes a checkpoint in the prefix directory the one to restart from: it is
// brought to the cache, and protected there as if the program had just written it,
// or read where it is.
func (s *Session) fetch(d dataset.Dataset) error {
	start := time.Now()
	l, err := s.prefix.List(d.ID())
	if err != nil {
		return &unusableError{err}
	}
	d = l.Dataset
	desc := s.descriptor(d.Flags(), d.Checkpoint())
	if s.inPlace(d, desc) && d.Compressed() {
		return &compressedError{d.Name()}
	}
	if s.inPlace(d, desc) {
		var own []redundancy.File // known only to a job of the same size
		if l.Ranks == s.world.Size() {
			own = l.Files
		}
		s.offerFiles(&source{Dataset: d}, own)
		s.id = max(s.id, d.ID())
		s.log.Info("checkpoint %s: %s are read where they are in %s", d.Name(), report.Bytes(d.Size()), s.prefix.Dir)
		return nil
	}
	if l.Ranks != s.world.Size() {
		return &prefix.RanksError{Name: "checkpoint " + d.Name(), Ranks: l.Ranks, Size: s.world.Size()}
	}
	s.log.Info("checkpoint %s: fetch from %s begins", d.Name(), s.prefix.Dir)
	if err := s.makeRoom(s.store(desc.Store)); err != nil {
		return err
	}
	d.SetComplete(false) // in the cache it is not, yet
	d.SetCompressed(false)
	c, err := s.cache.Create(d, desc)
	if err != nil {
		return err
	}
	failed := s.prefix.InTurn(s.config.Int("SCR_FETCH_WIDTH"), func() error { return s.bring(c, l.Files) })
	if err := s.cache.Complete(c, failed); err != nil {
		return err
	}
	s.flushed[c.ID()] = true
	s.id = max(s.id, c.ID())
	s.offer(c)
	seconds := time.Since(start).Seconds()
	s.log.Info("checkpoint %s: fetched %s in %.3f s", d.Name(), report.Bytes(d.Size()), seconds)
	return nil
}

// inPlace reports whether a checkpoint in the prefix directory is to be read there.
// What the program wrote there itself may have files of several ranks, which the
// cache has no place for.
func (s *Session) inPlace(d dataset.Dataset, desc *reddesc.Descriptor) bool {
	return d.Bypass() || desc.Bypass || s.config.Bool("SCR_FETCH_BYPASS") || s.config.Bool("SCR_GLOBAL_RESTART")
}

// bring copies files of the prefix directory to where a dataset in the cache has
// them.
func (s *Session) bring(c *cache.Cached, files []redundancy.File) error {
	copier := s.prefix.Copier()
	s.prefix.Follow(copier, fmt.Sprintf("checkpoint %s: fetched", c.Name()), prefix.Parts{0: files}.Bytes())
	for _, f := range files {
		md := f.Meta.Clone()
		md.SetAsWritten() // as it is in the cache
		path, err := s.cache.Add(c, md)
		if err == nil {
			err = copier.Fetch(f.Path, path, f.Meta)
			if ofSource(err, f.Path) {
				err = &unusableError{err}
			}
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// ofSource reports whether an error of a copy is one of the file copied, and not
// of the copy.
func ofSource(err error, path string) bool {
	var corrupt *redundancy.CorruptError
	var of *fs.PathError
	return errors.As(err, &corrupt) || errors.As(err, &of) && of.Path == path
}
