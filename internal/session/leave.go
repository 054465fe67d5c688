package session

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/goscr/goscr/internal/lifecycle/mover"
	"github.com/goscr/goscr/internal/node/cache"
	"github.com/goscr/goscr/internal/node/remains"
	"github.com/goscr/goscr/internal/sys/lock"
	"github.com/goscr/goscr/mpi"
)

// leaveCache says what stays on the nodes when the program has called Finalize, or removes it
// with SCR_CACHE_KEEP=0. The cache is closed on all ranks. It is no error if something cannot
// be removed. It is collective.
func (s *Session) leaveCache() {
	if s.config.CacheKeep {
		sayWhatStays(s)
		return
	}
	first := s.cache.Config.Node.Rank() == 0
	control := s.cache.ControlDir()
	var left remains.Job
	var why error
	if first {
		why = s.endMover(control)
		var stores []string
		for _, store := range s.protection.stores {
			if !store.Shared {
				stores = append(stores, filepath.Join(store.Base, s.config.UserName, filepath.Base(control)))
			}
		}
		if left = remains.At(control, stores...); why == nil && left.Needed() != "" {
			why = errors.New(left.Needed())
		}
	}
	// The caches of all nodes stay if that of one is needed.
	why = mpi.Agree(s.world, why)
	if why == nil {
		if first {
			why = errors.Join(left.Remove(false), left.RemoveShared())
		}
		why = mpi.Agree(s.world, why)
	}
	if why != nil {
		s.log.WarnJob("the caches stay on the nodes, in spite of SCR_CACHE_KEEP=0: %v", why)
		return
	}
	s.log.Info("the caches of the nodes are removed, since SCR_CACHE_KEEP=0")
}

// sayWhatStays names the datasets that stay in the caches of the nodes. They take memory, if the caches are there, so that counts as a warning.
func sayWhatStays(s *Session) {
	var names []string
	tell, where := s.log.Info, "in the caches of the nodes"
	for _, c := range s.cache.List() {
		names = append(names, c.Name())
		if cache.InMemory(c.Desc.Store) {
			tell, where = s.log.WarnJob, "in the memory of the nodes ("+c.Desc.Store+")"
		}
	}
	verb := "stay"
	if len(names) == 1 {
		verb = "stays"
	}
	if len(names) > 0 {
		tell("%s %s %s, for the next run on them; scr_clean --jobid %s on each node removes this, SCR_CACHE_KEEP=0 does so in SCR_Finalize",
			strings.Join(names, ", "), verb, where, s.config.JobID)
	}
}

// endMover waits until scr_transfer, which was told to end, has ended. It is an error if it
// will not: scr_run's stays for the next run, and after SCR_FLUSH_POSTSTAGE it still copies.
func (s *Session) endMover(control string) error {
	path := filepath.Join(control, mover.LockName)
	switch {
	case !lock.Held(path):
		return nil
	case mover.Stays(control):
		return fmt.Errorf("%s, scr_transfer, stays for the next run; scr_clean removes them when the job is over", lock.Holder(path))
	case s.config.FlushPoststage:
		return fmt.Errorf("%s copies files to the prefix directory; scr_clean removes them afterwards", lock.Holder(path))
	}
	l, err := lock.Wait(path)
	l.Release()
	return err
}
