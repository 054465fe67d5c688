package scr

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"time"

	"github.com/goscr/goscr/internal/cache"
	"github.com/goscr/goscr/internal/dataset"
	"github.com/goscr/goscr/internal/prefix"
	"github.com/goscr/goscr/internal/redundancy"
	"github.com/goscr/goscr/internal/report"
	"github.com/goscr/goscr/internal/transfer"
	"github.com/goscr/goscr/meta"
	"github.com/goscr/goscr/mpi"
	"github.com/goscr/goscr/reddesc"
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
	s.state = restarting
	return s.restart.Name(), nil
}

// CompleteRestart ends a restart. valid says whether this rank has read what it
// needs. If any rank says no, the checkpoint is not used again, every rank gets
// an error, and HaveRestart offers the next older one.
func (s *Session) CompleteRestart(valid bool) error {
	if err := s.expect("CompleteRestart", restarting); err != nil {
		return err
	}
	s.state = idle
	c := s.restart
	var err error
	if !valid {
		err = fmt.Errorf("the program could not restart from %s", c.Name())
	}
	failed := mpi.Agree(s.world, err)
	if failed == nil {
		s.checkpoint = c.Checkpoint()
		return nil
	}
	s.log.Info("%v; it is not used again", failed)
	err = s.forget(c)
	s.offer(s.newestCheckpoint()) // whatever else fails, not this one again
	return errors.Join(failed, err, s.prefix.Failed(c.ID()))
}

// offer makes a checkpoint the one to restart from, or none.
func (s *Session) offer(c *cache.Cached) {
	s.restart, s.byPath, s.byName = c, nil, nil
	if c == nil {
		return
	}
	s.checkpoint = c.Checkpoint()
	s.byPath, s.byName = map[string]string{}, map[string][]string{}
	for _, f := range s.cache.Files(c.ID()) {
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
		c, err := s.fetch(d)
		if err == nil {
			s.offer(c)
			if err := s.prefix.Fetched(d); err != nil && s.world.Rank() == 0 {
				s.log.Warn("that checkpoint %s was fetched cannot be recorded: %v", d.Name(), err)
			}
			return nil
		}
		if s.world.Rank() == 0 {
			s.log.Warn("checkpoint %s cannot be fetched: %v", d.Name(), err)
		}
		below = d.ID()
		var size *prefix.RanksError
		if s.anywhere(err, func(err error) bool { return errors.As(err, &size) }) {
			continue // a run of the right size can use it
		}
		var bad *unusableError
		if !s.anywhere(err, func(err error) bool { return errors.As(err, &bad) }) {
			continue // a run with room in its cache can use it
		}
		if err := s.prefix.Failed(d.ID()); err != nil && s.world.Rank() == 0 {
			s.log.Warn("checkpoint %s cannot be marked as failed, so the next run will try it again: %v", d.Name(), err)
		}
	}
}

// unusableError says that a checkpoint in the prefix directory is not what was
// written, and not just of no use to this run.
type unusableError struct{ error }

func (e *unusableError) Unwrap() error { return e.error }

// fetch brings one checkpoint from the prefix directory to the cache, where it
// is protected as if the program had just written it.
func (s *Session) fetch(d dataset.Dataset) (*cache.Cached, error) {
	start := time.Now()
	s.log.Info("checkpoint %s: fetch from %s begins", d.Name(), s.prefix.Dir)
	d, files, err := s.prefix.List(d.ID())
	if err != nil {
		return nil, &unusableError{err}
	}
	if err := s.makeRoom(); err != nil {
		return nil, err
	}
	d.SetComplete(false) // in the cache it is not, yet
	c, err := s.cache.Create(d, reddesc.Pick(s.descs, max(d.Checkpoint(), 1)))
	if err != nil {
		return nil, err
	}
	copier := transfer.NewCopier(s.prefix.Buffer)
	var failed error
	for _, f := range files {
		path, err := s.cache.Add(c, f.Meta)
		if err == nil {
			err = copier.Copy(f.Path, path, f.Meta)
			if ofSource(err, f.Path) {
				err = &unusableError{err}
			}
		}
		if err != nil {
			failed = err
			break
		}
	}
	if err := s.cache.Complete(c, failed); err != nil {
		return nil, err
	}
	s.flushed[c.ID()] = true
	s.id = max(s.id, c.ID())
	seconds := time.Since(start).Seconds()
	s.log.Info("checkpoint %s: fetched %s in %.3f s", d.Name(), report.Bytes(d.Size()), seconds)
	return c, nil
}

// ofSource reports whether an error of a copy is one of the file copied, and not
// of the copy.
func ofSource(err error, path string) bool {
	var corrupt *redundancy.CorruptError
	var of *fs.PathError
	return errors.As(err, &corrupt) || errors.As(err, &of) && of.Path == path
}
