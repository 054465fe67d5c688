package cache

import (
	"cmp"
	"fmt"

	"github.com/goscr/goscr/internal/observe/report"
	"github.com/goscr/goscr/internal/redundancy/reddesc"
	"github.com/goscr/goscr/internal/sys/probe"
	"github.com/goscr/goscr/mpi"
)

// sharing finds out which nodes see the directory of each store. A store that all nodes share
// is used as one, whether or not a setting says so. It is an error if only some share one of
// which no setting says so, or if some do not see what a setting says that they share.
//
// The first rank of each node makes probes, looks for those of others once all are there, and
// removes its own.
type sharing struct {
	world  mpi.Comm
	run    probe.Run
	places []*place
	log    *report.Logger

	// counts has to be summed over all ranks when probes are made: by place, the nodes that can make none, since a run
	// that only restarts may need no room and no permission; then the nodes.
	counts []int64
	seen   []int64 // two of each place, 1: some node sees another one's probe; some node does not see all
	with   []int   // by place: the first rank of another node whose probe the caller sees, or -1
}

func newSharing(world, node mpi.Comm, places []*place, log *report.Logger, run probe.Run) *sharing {
	if node.Size() == world.Size() {
		places = nil
	}
	s := &sharing{world: world, run: run, places: places, log: log,
		counts: make([]int64, len(places)+1), seen: make([]int64, 2*len(places)), with: make([]int, len(places))}
	s.counts[len(places)] = one(node.Rank() == 0)
	return s
}

// nodes returns the number of nodes, once counts is summed.
func (s *sharing) nodes() int { return int(s.counts[len(s.places)]) }

// put makes the caller's probes. counts has to be summed afterwards.
func (s *sharing) put() (err error) {
	for i, x := range s.places {
		e := s.run.Put(x.dir, s.world.Rank())
		if noRoom(e) || e != nil && !x.store.Shared {
			s.log.Warn("no file can be made in %s, so it is not known whether nodes share that directory: %v", x.dir, e)
			s.counts[i], e = 1, nil
		}
		err = cmp.Or(err, e)
	}
	return err
}

func (s *sharing) remove() {
	for _, x := range s.places {
		s.run.Remove(x.dir, s.world.Rank())
	}
}

// look looks for the probes of others. seen has to be agreed afterwards. node is the name of the caller's node.
func (s *sharing) look(node string) (err error) {
	for i, x := range s.places {
		s.with[i] = -1
		if s.counts[i] > 0 {
			continue
		}
		if x.store.Shared {
			if e := s.run.Sees(x.dir, x.store.Leader); e != nil {
				err = cmp.Or(err, fmt.Errorf("STORE=%s: node %s does not see what rank %d makes there: %w; leave GROUP and VIEW out if each node has its own",
					x.store.Name, node, x.store.Leader, e))
			}
			continue
		}
		ranks, e := s.run.Seen(x.dir)
		err = cmp.Or(err, e)
		for _, rank := range ranks {
			if rank != s.world.Rank() {
				s.with[i], s.seen[2*i] = rank, 1
			}
		}
		if len(ranks) < s.nodes() {
			s.seen[2*i+1] = 1
		}
	}
	return err
}

// apply changes the stores that all nodes share. node has the ranks of the caller's. It is collective; the result is agreed.
func (s *sharing) apply(node mpi.Comm) error {
	for i, x := range s.places {
		switch some, all := s.seen[2*i] == 1, s.seen[2*i+1] == 0; {
		case some && all:
			s.log.WarnJob("all nodes share %s, so it is used as one store of all ranks, without redundancy, as STORE=%s GROUP=%s says; storage in each node is faster, and "+
				"%s names it", x.store.Base, x.store.Name, reddesc.World, x.store.SetBy)
			x.store.ShareAmongAll(s.world)
		case some:
			var err error
			if node.Rank() == 0 && s.with[i] >= 0 {
				err = fmt.Errorf("node %s and the node of rank %d share the directory %s, and not all nodes do: name one that each node has for itself with %s, "+
					"or say which share it (STORE=%s GROUP=, and GROUPS= lines)", s.log.Node, s.with[i], x.store.Base, x.store.SetBy, x.store.Name)
			}
			return mpi.Agree(s.world, err)
		}
	}
	return nil
}
