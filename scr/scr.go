package scr

import (
	"errors"
	"strings"

	"github.com/goscr/goscr/internal/session"
	"github.com/goscr/goscr/internal/variables"
	"github.com/goscr/goscr/mpi"
)

// Flags say what a dataset is for. They can be combined.
type Flags int

// The flags of a dataset.
const (
	Checkpoint Flags = Flags(session.Checkpoint) // the program can restart from it
	Output     Flags = Flags(session.Output)     // it is always copied to the prefix directory
)

// Errors that programs tell apart, with errors.Is.
var (
	// ErrDisabled is the error of Init if SCR_ENABLE=0: the program runs without checkpoints.
	ErrDisabled = session.ErrDisabled
	// ErrHalted is the error, if SCR_HALT_EXIT=1, of a call that has found that the job is to
	// halt. The call has finalized the session, and the program should end.
	ErrHalted = session.ErrHalted
	// ErrNoLoop is the error of Migrate and RestartFrom if the job does not run under scr_run:
	// nothing would start it again.
	ErrNoLoop = session.ErrNoLoop
	// ErrRanks is the error of Recover if the communicator has another number of ranks than the
	// session, and the program has not said by SCR_GLOBAL_RESTART=1 that it can restart so.
	ErrRanks = session.ErrRanks
	// ErrAmbiguous is the error of Parameter if there are several values.
	ErrAmbiguous = session.ErrAmbiguous
)

// Session is a rank's use of goscr between Init and Finalize. Its methods are collective, except
// Parameter, Migrate and RestartFrom.
type Session struct {
	s    *session.Session
	vars *variables.Variables // nil until Variables is called
}

// Init begins a session on the ranks of world. It duplicates world; if a rank cannot continue
// later, world is not affected, unless it is an mpi.Revocable: then it is revoked. Init makes
// datasets of earlier runs in the cache usable: it moves files to the nodes where their
// ranks now run, and rebuilds files that were lost with a node.
func Init(world mpi.Comm, opt Options) (*Session, error) {
	settings, err := opt.settings()
	if err != nil {
		return nil, err
	}
	return of(session.Init(world, session.Options{Settings: settings, Environ: opt.Environ, Log: opt.Log}))
}

func of(s *session.Session, err error) (*Session, error) {
	if s == nil {
		return nil, named(err)
	}
	return &Session{s: s}, named(err)
}

// Finalize ends the session in any state. It flushes outputs that are not in the prefix
// directory yet, and the newest checkpoint, unless flushing is turned off. A dataset
// that was begun and not completed is deleted, and that is an error.
func (s *Session) Finalize() error { return named(s.s.Finalize()) }

// NeedCheckpoint advises whether to write a checkpoint now. The program calls it whenever it
// could write one. The result follows Options.CheckpointInterval, CheckpointTime and
// CheckpointOverhead; if none of them is set, the best interval for the time between failures,
// if that is known (SCR_MTBF_SECONDS). It is true if scr_checkpoint has asked for a
// checkpoint, and always while the job should stop.
func (s *Session) NeedCheckpoint() (yes bool, err error) {
	yes, err = s.s.NeedCheckpoint()
	return yes, named(err)
}

// ShouldExit reports whether the job should stop now, because a user has asked for it with
// scr_halt, or because the allocation ends soon.
func (s *Session) ShouldExit() (yes bool, err error) {
	yes, err = s.s.ShouldExit()
	return yes, named(err)
}

// Agree returns an error on all ranks if any rank passes one, so that all ranks of a program can
// respond in the same way to a failure on one of them.
func (s *Session) Agree(err error) error { return named(s.s.Agree(err)) }

// Current makes the dataset called name the one to restart from: Restart offers it in this
// run, until the program begins a dataset, and in the next run. Current deletes datasets from
// the cache that would be offered before it. It returns an error if there is no dataset of that name.
func (s *Session) Current(name string) error { return named(s.s.Current(name)) }

// Drop removes the dataset called name from the index and the cache, so that no restart uses
// it. Its files in the prefix directory stay. Drop returns nil if there is no such dataset.
func (s *Session) Drop(name string) error { return named(s.s.Drop(name)) }

// Delete removes the dataset called name, its files, and directories that become empty, from the
// prefix directory and from the cache. It returns nil if there is no such dataset.
func (s *Session) Delete(name string) error { return named(s.s.Delete(name)) }

// Parameter returns the value that the environment, a configuration file or the program has
// set for a parameter, not a default. ok is false if none has. A field of an item is asked for in the form
// "CKPT=1 TYPE". It is not collective.
func (s *Session) Parameter(name string) (value string, ok bool, err error) { return s.s.Query(name) }

// Recover takes a session over to a communicator that the program has repaired after ranks
// have died for good: MPI has to continue after that (ULFM: MPIX_Comm_shrink, and MPI_Comm_spawn
// for new ranks). All ranks that are left call it, and a new rank calls Init with the same
// communicator and Options. It returns the session of the repaired communicator, for which
// Restart offers the newest checkpoint that is whole: datasets stay in the cache, and what
// was lost with a node is rebuilt. The session that it is called for is over: what it was writing, protecting or
// flushing is cancelled, and what it has completed stays. Ranks that are in a call of that session get a
// *mpi.RevokedError from it, even if it has succeeded on others.
//
// There may be fewer ranks, or more, only if SCR_GLOBAL_RESTART=1 says that the program can restart
// with another number: with fewer, what was lost with a node is not rebuilt, and the newest checkpoint counts that was
// flushed. Else the error wraps ErrRanks, and the new ranks get a
// *mpi.RevokedError. After an error Recover can be called again, with another communicator.
// It is collective over repaired.
//
// With real MPI, ask system.CanReplace first: most MPIs do not continue after ranks have died.
func (s *Session) Recover(repaired mpi.Comm) (*Session, error) { return of(s.s.Recover(repaired)) }

// Destination says where a rank is to go.
type Destination struct {
	Rank int
	Host string // a node
	Near int    // if Host is "": the node of this rank; less than 0: see Migrate
}

// Migrate asks scr_run to move ranks to other nodes. Ranks for which neither a host nor another rank is
// named go to spare nodes if this is so of all, and else stay where they are. scr_run asks
// for a checkpoint, ends the run after it and starts the next one. Migrate returns
// when scr_run has been asked. Any rank may call it; it is not collective.
func (s *Session) Migrate(to []Destination) error {
	list := make([]session.Destination, len(to))
	for i, d := range to {
		list[i] = session.Destination(d)
	}
	return named(s.s.Migrate(list))
}

// RestartFrom asks scr_run to end the run, and to begin the next one from the dataset of this number in
// a prefix directory. It returns when scr_run has been asked, which ends the processes
// soon afterwards. Any rank may call it; it is not collective.
func (s *Session) RestartFrom(prefix string, dataset int) error {
	return named(s.s.RestartFrom(prefix, dataset))
}

// named returns an error with the names that calls have in this package where it says that a call is not possible
// now, and other errors as they are.
func named(err error) error {
	var state *session.StateError
	if !errors.As(err, &state) {
		return err
	}
	name := func(call string) string {
		if here, ok := names[call]; ok {
			return here
		}
		return call
	}
	text := "scr: " + name(state.Call) + ": " + state.In(name)
	return &callError{strings.Replace(err.Error(), state.Error(), text, 1), err}
}

// callError is an error whose text has the names of this package.
type callError struct {
	text string
	err  error
}

func (e *callError) Error() string { return e.text }

func (e *callError) Unwrap() error { return e.err }

// names are the calls of this package by those of the session.
var names = map[string]string{
	"StartOutput": "Session.Begin", "StartCheckpoint": "Session.Begin", "CompleteOutput": "Dataset.Complete", "CompleteCheckpoint": "Dataset.Complete",
	"HaveRestart": "Session.Restart", "StartRestart": "Session.Restart", "CompleteRestart": "Dataset.Complete",
}
