package session

import (
	"cmp"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"github.com/goscr/goscr/internal/lifecycle/mover"
	"github.com/goscr/goscr/internal/mpi/buffer"
	"github.com/goscr/goscr/internal/node/cache"
	"github.com/goscr/goscr/internal/node/remains"
	"github.com/goscr/goscr/internal/observe/eventlog"
	"github.com/goscr/goscr/internal/observe/report"
	"github.com/goscr/goscr/internal/prefix"
	"github.com/goscr/goscr/internal/prefix/dataset"
	"github.com/goscr/goscr/internal/redundancy/reddesc"
	"github.com/goscr/goscr/internal/sys/lock"
	"github.com/goscr/goscr/mpi"
)

// Finalize ends the session in any state. It flushes outputs that are not in the prefix
// directory yet, and the newest checkpoint, unless flushing is turned off. If the program
// has begun a restart or a dataset and not completed it, Finalize deletes the dataset and
// returns a *StateError.
func (s *Session) Finalize() error {
	return s.call("Finalize", func() error {
		if s.state == finished {
			return s.state.expect("Finalize", idle)
		}
		unfinished := s.state.expect("Finalize", idle)
		switch {
		case s.state.open():
			s.writer.abandon(unfinished)
		case s.state == restarting:
			s.events.computed()
			s.reader.abandon(unfinished)
		default:
			s.events.computed()
		}
		s.state = idle
		s.advisor.Sum()
		err := s.end(s.advisor.Finalized, unfinished == nil)
		return errors.Join(unfinished, returned(err))
	})
}

// haltIfAsked ends the session, and returns ErrHalted, if SCR_HALT_EXIT=1 and there is a
// reason for the job to stop.
func (s *Session) haltIfAsked() error {
	if !s.config.HaltExit {
		return nil
	}
	reason := s.advisor.Stop()
	if reason == "" {
		return nil
	}
	s.log.WarnJob("the job ends here, since SCR_HALT_EXIT=1 and %s (scr_halt --list shows what was asked for, scr_halt --remove takes it back)", reason)
	// The job ends even if MPI fails.
	if err := mpi.Try(func() error { return s.end(s.advisor.Halted, false) }); err != nil {
		s.log.WarnJob("%v", err)
	}
	return ErrHalted
}

// end flushes datasets, calls record on rank 0, which records how the run has ended, and
// closes the session. finalized is whether the program has called Finalize, and completed
// what it had begun. end continues after an error, and returns the first.
func (s *Session) end(record func() error, finalized bool) error {
	start := time.Now()
	flushed := s.flusher.Finish(s.numbers.written)
	recorded := mpi.OnRoot(s.world, func() error {
		report.Forget(filepath.Join(s.prefix.Dir, prefix.Metadata))
		return record()
	})
	s.events.Result(eventlog.FinalizeEnd, eventlog.FinalizeFail, dataset.Dataset{}, start, flushed)
	s.requests.recordProgress()
	s.advisor.StopAnswering("the program has ended without another checkpoint")
	s.state = finished
	closed := mpi.Agree(s.world, s.cache.Close())
	if finalized && flushed == nil && recorded == nil && closed == nil {
		l := leftovers{&s.common, s.cache, s.protection.stores}
		l.leave()
	}
	s.free()
	return cmp.Or(flushed, recorded, closed)
}

// free frees the communicators of the session and the buffers that are kept for messages, also after Init has failed. It is
// collective.
func (s *Session) free() {
	s.events.Close()
	if s.flusher != nil {
		s.flusher.Protector.Free()
	}
	if s.cache != nil {
		s.cache.Free()
	}
	if s.protection != nil {
		s.protection.free()
	}
	if !s.job.given.Exclusive {
		s.world.Free()
	}
	buffer.Release()
}

// leftovers are what stays in the caches of the nodes when the program has called Finalize.
type leftovers struct {
	*common
	cache  *cache.Cache
	stores []*reddesc.Store
}

// leave says what stays on the nodes when the program has called Finalize, or removes it
// with SCR_CACHE_KEEP=0. The cache is closed on all ranks. It is no error if something cannot
// be removed. It is collective.
func (l *leftovers) leave() {
	if l.config.CacheKeep {
		l.say()
		return
	}
	first := l.cache.Config.Node.Rank() == 0
	control := l.cache.ControlDir()
	var left remains.Job
	var why error
	if first {
		why = l.endMover(control)
		var stores []string
		for _, store := range l.stores {
			if !store.Shared {
				stores = append(stores, filepath.Join(store.Base, l.config.UserName, filepath.Base(control)))
			}
		}
		if left = remains.At(control, stores...); why == nil && left.Needed() != "" {
			why = errors.New(left.Needed())
		}
	}
	// The caches of all nodes stay if that of one is needed.
	why = mpi.Agree(l.world, why)
	if why == nil {
		if first {
			why = errors.Join(left.Remove(false), left.RemoveShared())
		}
		why = mpi.Agree(l.world, why)
	}
	if why != nil {
		l.log.WarnJob("the caches stay on the nodes, in spite of SCR_CACHE_KEEP=0: %v", why)
		return
	}
	l.log.Info("the caches of the nodes are removed, since SCR_CACHE_KEEP=0")
}

// say names the datasets that stay in the caches of the nodes. They take memory, if the caches are there, so that counts as a warning.
func (l *leftovers) say() {
	var names []string
	tell, where := l.log.Info, "in the caches of the nodes"
	for _, c := range l.cache.List() {
		names = append(names, c.Name())
		if cache.InMemory(c.Desc.Store) {
			tell, where = l.log.WarnJob, "in the memory of the nodes ("+c.Desc.Store+")"
		}
	}
	verb := "stay"
	if len(names) == 1 {
		verb = "stays"
	}
	if len(names) > 0 {
		tell("%s %s %s, for the next run on them; scr_clean --jobid %s on each node removes this, SCR_CACHE_KEEP=0 does so in SCR_Finalize",
			strings.Join(names, ", "), verb, where, l.config.JobID)
	}
}

// endMover waits until scr_transfer, which was told to end, has ended. It is an error if it
// will not: scr_run's stays for the next run, and after SCR_FLUSH_POSTSTAGE it still copies.
func (l *leftovers) endMover(control string) error {
	path := filepath.Join(control, mover.LockName)
	switch {
	case !lock.Held(path):
		return nil
	case mover.Stays(control):
		return fmt.Errorf("%s, scr_transfer, stays for the next run; scr_clean removes them when the job is over", lock.Holder(path))
	case l.config.FlushPoststage:
		return fmt.Errorf("%s copies files to the prefix directory; scr_clean removes them afterwards", lock.Holder(path))
	}
	held, err := lock.Wait(path)
	held.Release()
	return err
}
