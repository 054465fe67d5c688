package session

import (
	"errors"
	"fmt"

	"github.com/goscr/goscr/mpi"
)

// ErrRanks is wrapped by the error of Recover if the communicator has another number of ranks than
// the session, and the program has not said that it can restart so.
var ErrRanks = errors.New("the checkpoints are of another number of ranks")

// Recover takes a session over to a communicator that the program has repaired after ranks have
// died for good: MPI has to continue after that (ULFM: MPIX_Comm_shrink, and MPI_Comm_spawn for new
// ranks). All ranks that are left call it, and a new rank calls Init with the same communicator and
// Options. It returns the session of the repaired communicator, for which HaveRestart offers the
// newest checkpoint that is whole: datasets stay in the cache, and what was lost with a node is
// rebuilt, as by an Init after a new launch. The session that it is called for is over: what it
// was writing, protecting or flushing is cancelled, and what it has completed stays. Ranks that are in
// a call of that session get a *mpi.RevokedError from it, even if it has succeeded on others.
//
// There may be fewer ranks, or more, only if SCR_GLOBAL_RESTART=1 says that the program can restart
// with another number: with fewer, what was lost with a node is not rebuilt, and the newest checkpoint counts that was
// flushed. Else the error wraps ErrRanks, and the new ranks get a *mpi.RevokedError. After
// an error Recover can be called again, with another communicator. It is collective over repaired.
//
// With real MPI, ask system.CanReplace first: most MPIs do not continue after ranks have died.
func (s *Session) Recover(repaired mpi.Comm) (*Session, error) {
	if s.job.over == nil {
		if s.state == finished {
			return nil, s.state.expect("Recover", idle)
		}
		s.job.ranks.Revoke("the program has called Recover")
		s.job.over = s.job.ranks.Revoked()
		s.stop()
	}
	if before, now := s.job.ranks.Size(), repaired.Size(); before != now && !s.config.GlobalRestart {
		return nil, refuse(repaired, fmt.Errorf("%w: %d, and the repaired communicator has %d; with SCR_GLOBAL_RESTART=1 a program says that it can restart with any number", ErrRanks, before, now))
	}
	return Init(repaired, s.job.given)
}

// refuse returns why, and gives it to the ranks that have called Init, which would wait for this one.
func refuse(repaired mpi.Comm, why error) error {
	failed := mpi.Try(func() error {
		ranks, ok := repaired.(mpi.Revocable)
		if !ok {
			ranks = repaired.Revocable()
		}
		ranks.Revoke(why.Error())
		return nil
	})
	return errors.Join(why, failed)
}
