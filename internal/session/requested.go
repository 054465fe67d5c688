package session

import (
	"fmt"
	"os"
	"strconv"

	"github.com/goscr/goscr/hash"
	"github.com/goscr/goscr/internal/job/advice"
	"github.com/goscr/goscr/internal/job/request"
	"github.com/goscr/goscr/internal/lifecycle/flush"
	"github.com/goscr/goscr/internal/node/cache"
	"github.com/goscr/goscr/internal/sys/processes"
	"github.com/goscr/goscr/mpi"
)

// requests answers commands that have asked for a checkpoint (package request), and does what they want after it.
// All ranks know that since the checkpoint was begun.
type requests struct {
	*common
	node    mpi.Comm // the ranks on the caller's node
	cache   *cache.Cache
	flusher *flush.Flusher
	advisor *advice.Advisor
	pause   func()      // nil but in tests, see Options
	gate    func() bool // see Options
	waits   bool        // at the gate, see Gate
}

// fulfil does what the commands want that have asked for a checkpoint, once it is complete.
// Failures are reported to the commands, and are no errors of the program.
func (r *requests) fulfil(o *unfinished) {
	if o.wish.Term && o.cached != nil && !o.cached.Flushed() {
		r.advisor.Reached(o.Dataset, request.Flushing)
		if err := r.flusher.Flush(o.cached); err != nil {
			r.log.WarnJob("%v; dataset %s stays in the cache, and the program continues", err, o.Name())
			r.advisor.Failed(o.ID(), fmt.Errorf("the checkpoint is in the cache, but could not be flushed, so the program continues: %w", err))
			return
		}
	}
	if o.wish.Term {
		r.advisor.Terminate()
	}
	if o.direct != nil {
		if !r.advisor.Stops() {
			r.advisor.Reached(o.Dataset, request.Finished)
		}
		return
	}
	r.recordProgress()
}

// poll finishes flushes in the background, and records that for the commands that have asked
// for the checkpoint.
func (r *requests) poll() error {
	err := r.flusher.Poll()
	r.recordProgress()
	return err
}

// recordProgress records how far the checkpoint is that a command has asked for. Rank 0 does so.
func (r *requests) recordProgress() {
	id := r.advisor.Requested()
	c := r.cache.Find(id)
	switch {
	case id == 0:
	case c == nil: // it had to make room for another one, once its flush had ended
		r.advisor.Gone(id)
	case c.Flushing():
		r.advisor.Reached(c.Dataset, request.Flushing)
	case c.Protecting(): // a lost node would lose it
	case r.advisor.Stops(): // it is finished when they do: see stopAll
	default:
		r.advisor.Reached(c.Dataset, request.Finished)
	}
}

// stopAll stops the processes of all ranks, at the same place of the program, after the
// checkpoint o. It returns when they are continued, or, if they wait at the gate for debuggers,
// before that. If they cannot be stopped, the program continues.
func (r *requests) stopAll(o *unfinished) {
	if o.cached != nil && o.cached.Flushing() { // threads of the processes may copy it
		if err := r.flusher.Flush(o.cached); err != nil {
			r.log.WarnJob("%v; dataset %s stays in the cache", err, o.Name())
		}
	}
	gate := o.wish.Attach && mpi.All(r.world, r.gate != nil && r.gate()) // all ranks wait for debuggers by themselves
	if err := mpi.Agree(r.world, r.recordStop(gate)); err != nil {
		r.advisor.Failed(o.ID(), fmt.Errorf("the checkpoint is complete, but the ranks continue: %w", err))
		r.log.WarnJob("the ranks do not stop: %v", err)
		return
	}
	how := "stop"
	if gate {
		how = "wait for debuggers"
	}
	r.log.Info("all ranks %s after dataset %d (%s); scr_checkpoint --continue lets them continue", how, o.ID(), o.Name())
	r.advisor.Reached(o.Dataset, request.Finished)
	r.world.Barrier()
	if r.waits = gate; gate {
		return
	}
	if r.pause != nil {
		r.pause()
	} else if err := processes.Stop(); err != nil {
		r.log.Warn("the process does not stop: %v", err)
	}
	if r.node.Rank() != 0 {
		return
	}
	if err := request.ForgetStopped(r.prefix.Dir, r.config.NodeName); err != nil { // something other than scr_checkpoint may have continued them
		r.log.Warn("%v", err)
	}
}

// recordStop records the processes of the caller's node. It is collective over the node.
func (r *requests) recordStop(gate bool) error {
	mine := hash.New()
	mine.At("0", strconv.Itoa(os.Getpid()))
	all, err := hash.Exchange(mine, r.node)
	if err != nil || r.node.Rank() != 0 {
		return err
	}
	var pids []int
	for _, from := range all.All() {
		pids = append(pids, from.Ints()...)
	}
	return request.RecordStopped(r.prefix.Dir, r.config.NodeName, pids, gate)
}

// Gate reports whether the process is to wait for a debugger now, because of scr_checkpoint
// --attach. It need not wait any longer when the file at the path record is gone. The caller calls
// LeaveGate after that. Gate is not collective.
func (s *Session) Gate() (record string, waits bool) {
	return request.StoppedPath(s.prefix.Dir, s.config.NodeName), s.requests.waits
}

// LeaveGate ends what Gate has begun. It is not collective.
func (s *Session) LeaveGate() error {
	if !s.requests.waits {
		return nil
	}
	s.requests.waits = false
	return request.LeaveGate(s.prefix.Dir, s.config.NodeName, os.Getpid())
}
