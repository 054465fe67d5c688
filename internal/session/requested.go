package session

import (
	"fmt"
	"os"
	"strconv"

	"github.com/goscr/goscr/hash"
	"github.com/goscr/goscr/internal/job/request"
	"github.com/goscr/goscr/internal/redundancy/reddesc"
	"github.com/goscr/goscr/internal/sys/processes"
	"github.com/goscr/goscr/mpi"
)

// A command may have asked for the checkpoint that the program writes (package request).
// All ranks know what it wants since the checkpoint was begun.

// fulfil does what the commands want that have asked for a checkpoint, once it is complete.
// Failures are reported to the commands, and are no errors of the program.
func (s *Session) fulfil(o *unfinished) {
	if o.wish.Term && o.cached != nil && !s.flusher.Contents.Flushed(o.ID()) {
		s.advisor.Reached(o.Dataset, request.Flushing)
		if err := s.flusher.Flush(o.cached); err != nil {
			s.log.WarnJob("%v; dataset %s stays in the cache, and the program continues", err, o.Name())
			s.advisor.Failed(o.ID(), fmt.Errorf("the checkpoint is in the cache, but could not be flushed, so the program continues: %w", err))
			return
		}
	}
	if o.wish.Term {
		s.advisor.Terminate()
	}
	if o.direct != nil {
		if !s.advisor.Stops() {
			s.advisor.Reached(o.Dataset, request.Finished)
		}
		return
	}
	s.settle()
}

// poll finishes flushes in the background, and records that for the commands that have asked
// for the checkpoint.
func (s *Session) poll() error {
	err := s.flusher.Poll()
	s.settle()
	return err
}

// settle records how far the checkpoint is that a command has asked for. Rank 0 does so.
func (s *Session) settle() {
	id := s.advisor.Requested()
	c := s.cache.Find(id)
	switch {
	case id == 0 || s.output != nil && s.output.ID() == id:
	case c == nil: // it had to make room for another one, once its flush had ended
		s.advisor.Gone(id)
	case s.flusher.Flushing(id):
		s.advisor.Reached(c.Dataset, request.Flushing)
	case s.flusher.Protector.Dataset() == c: // a lost node would lose it
	case s.advisor.Stops(): // it is finished when they do: see stopAll
	default:
		s.advisor.Reached(c.Dataset, request.Finished)
	}
}

// stopAll stops the processes of all ranks, at the same place of the program, after the
// checkpoint o. It returns when they are continued, or, if they wait at the gate for debuggers,
// before that. If they cannot be stopped, the program continues.
func (s *Session) stopAll(o *unfinished) error {
	if s.flusher.Flushing(o.ID()) { // threads of the processes may copy it
		if err := s.flusher.Flush(o.cached); err != nil {
			s.log.WarnJob("%v; dataset %s stays in the cache", err, o.Name())
		}
	}
	node, err := s.protection.groups.Comm(reddesc.Node)
	if err != nil {
		return err
	}
	gate := s.haveGates(o)
	if err := mpi.Agree(s.world, s.recordStop(node, gate)); err != nil {
		s.advisor.Failed(o.ID(), fmt.Errorf("the checkpoint is complete, but the ranks continue: %w", err))
		s.log.WarnJob("the ranks do not stop: %v", err)
		return nil
	}
	how := "stop"
	if gate {
		how = "wait for debuggers"
	}
	s.log.Info("all ranks %s after dataset %d (%s); scr_checkpoint --continue lets them continue", how, o.ID(), o.Name())
	s.advisor.Reached(o.Dataset, request.Finished)
	s.world.Barrier()
	if s.job.waits = gate; gate {
		return nil
	}
	if s.job.pause != nil {
		s.job.pause()
	} else if err := processes.Stop(); err != nil {
		s.log.Warn("the process does not stop: %v", err)
	}
	s.goesOn(node)
	return nil
}

// haveGates reports whether debuggers are to be attached after a checkpoint, and all ranks wait for
// them by themselves. It is collective.
func (s *Session) haveGates(o *unfinished) bool {
	if !o.wish.Attach {
		return false
	}
	return mpi.All(s.world, s.job.gate != nil && s.job.gate())
}

// Gate reports whether the process is to wait for a debugger now, because of scr_checkpoint
// --attach. It need not wait any longer when the file at the path record is gone. The caller calls
// LeaveGate after that. Gate is not collective.
func (s *Session) Gate() (record string, waits bool) {
	return request.StoppedPath(s.prefix.Dir, s.config.NodeName), s.job.waits
}

// LeaveGate ends what Gate has begun. It is not collective.
func (s *Session) LeaveGate() error {
	if !s.job.waits {
		return nil
	}
	s.job.waits = false
	return request.LeaveGate(s.prefix.Dir, s.config.NodeName, os.Getpid())
}

// goesOn removes the record of the processes of the caller's node, in case something other
// than scr_checkpoint has continued them. One rank of the node does it.
func (s *Session) goesOn(node mpi.Comm) {
	if node.Rank() != 0 {
		return
	}
	if err := request.ForgetStopped(s.prefix.Dir, s.config.NodeName); err != nil {
		s.log.Warn("%v", err)
	}
}

// recordStop records the processes of the caller's node. It is collective over the node.
func (s *Session) recordStop(node mpi.Comm, gate bool) error {
	mine := hash.New()
	mine.At("0", strconv.Itoa(os.Getpid()))
	all, err := hash.Exchange(mine, node)
	if err != nil || node.Rank() != 0 {
		return err
	}
	var pids []int
	for _, from := range all.All() {
		pids = append(pids, from.Ints()...)
	}
	return request.RecordStopped(s.prefix.Dir, s.config.NodeName, pids, gate)
}
