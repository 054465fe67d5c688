package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/goscr/goscr/internal/mpi/mpitest"
	"github.com/goscr/goscr/internal/session"
	"github.com/goscr/goscr/mpi"
)

// mortal is a communicator whose rank may die in any operation.
type mortal struct {
	mpi.Comm
	ranks mpi.Revocable
}

func (m mortal) Revoke(reason string) { m.ranks.Revoke(reason) }
func (m mortal) Revoked() error       { return m.ranks.Revoked() }

// errDead is what the session of a rank that dies gets.
var errDead = errors.New("the rank has died")

// ranks returns the communicator for Init of a run that recovers.
func (p *program) ranks() mpi.Comm {
	own := p.world.Revocable()
	if p.rank != p.Recover.Rank {
		return own
	}
	operations := int64(0)
	return mortal{mpitest.Faulty(own, func(string) {
		if p.dying {
			if operations++; operations == p.Recover.At {
				panic(errDead)
			}
		}
	}), own}
}

// interrupted reports whether a call has failed because a rank has died.
func (p *program) interrupted(err error) bool {
	var revoked *mpi.RevokedError
	return p.Recover != nil && errors.As(err, &revoked)
}

// recover lets the run continue. The ranks whose calls have succeeded before the other one died call it as well.
func (p *program) recover(died error) error {
	p.dying = false
	next := mpi.Dup(p.world)
	dead := errors.As(died, new(*mpi.PanicError))
	var err error
	if dead && p.Recover.Lost {
		err = os.RemoveAll(filepath.Join(p.Root, "node", p.Nodes[p.rank]))
	}
	any := mpi.Any(p.world, dead) // then no rank is in the op any more
	if err != nil {
		return err
	}
	what := "recovers"
	if any {
		what = "died"
	}
	p.tell(what, nil, "")
	if dead {
		p.s, err = session.Init(next, session.Options{Environ: lookup(environment(p.Root, p.Recover.Node, p.Env))})
	} else {
		p.s, err = p.s.Recover(next)
	}
	if err != nil {
		return fmt.Errorf("recovery: %w", err)
	}
	p.tell("ready", nil, "")
	p.step, p.refused = 0, nil
	return p.restart()
}
