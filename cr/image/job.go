package image

import (
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/goscr/goscr/mpi"
)

// Session is what this package needs of session.Session.
type Session interface {
	HaveRestart() (name string, ok bool, err error)
	StartRestart() (name string, err error)
	CompleteRestart(valid bool) error
	NeedCheckpoint() (bool, error)
	StartCheckpoint() error
	CompleteCheckpoint(valid bool) error
	Directory() (string, error)
	Spoil(err error) error
	Agree(err error) error
	Declined(why error) error
	ShouldExit() (bool, error)
}

// Job protects a program on each rank of a communicator.
type Job struct {
	World   mpi.Comm
	Session Session
	Program *Program
	Pause   time.Duration // between two looks at the programs
	Grace   time.Duration // for a program that is to end
}

// Run starts the programs, from the newest checkpoint that can be used, or from the beginning if there is none. It
// returns nil when all of them have ended with status 0, or have been ended because the job should
// stop; and an error on all ranks, with no program left, if one of them has failed. It is collective.
func (j *Job) Run() error {
	succeeds := false
	defer func() {
		if !succeeds { // also if MPI fails
			j.Program.Kill()
		}
	}()
	err := j.run()
	succeeds = err == nil
	return err
}

func (j *Job) run() error {
	restored, err := j.restart()
	if err != nil {
		return err
	}
	if !restored {
		if err := j.Session.Agree(j.Program.Start()); err != nil {
			return err
		}
	}
	for {
		ended := j.Program.Ended() // before the failures: a program that fails after this is looked at once more
		if err := j.failure(); err != nil {
			return err
		}
		if !mpi.Any(j.World, !ended) {
			return nil
		}
		need, err := j.Session.NeedCheckpoint()
		if err != nil {
			return err
		}
		if need {
			if err := j.checkpoint(); err != nil {
				return err
			}
		}
		stop, err := j.Session.ShouldExit()
		if err != nil {
			return err
		}
		if stop {
			j.Program.End(j.Grace)
			return nil
		}
		time.Sleep(j.Pause)
	}
}

// failure returns an error on all ranks if the program of one has failed; on that rank it is a
// *Failed.
func (j *Job) failure() error {
	own := j.Program.Failure()
	err := j.Session.Agree(own)
	if own != nil && err != nil {
		return own
	}
	return err
}

// restart starts the programs from the newest checkpoint from which all can be started.
func (j *Job) restart() (bool, error) {
	for {
		_, ok, err := j.Session.HaveRestart()
		if err != nil || !ok {
			return false, err
		}
		if _, err := j.Session.StartRestart(); err != nil {
			return false, err
		}
		dir, err := j.Session.Directory()
		if err == nil {
			err = j.Program.Restore(dir)
		}
		if err != nil {
			fmt.Fprintf(os.Stderr, "SCR: rank %d: %v\n", j.World.Rank(), err)
		}
		if j.Session.CompleteRestart(err == nil) == nil {
			return true, nil
		}
		j.Program.Kill() // it runs if another rank's could not be started
	}
}

// checkpoint saves all programs. A checkpoint that fails is no error of the job, unless a program
// does not continue.
func (j *Job) checkpoint() error {
	if err := j.Session.StartCheckpoint(); err != nil {
		return j.Session.Declined(err)
	}
	dir, err := j.Session.Directory()
	if err == nil {
		err = j.Program.Save(dir)
	}
	if err != nil {
		_ = j.Session.Spoil(err)
	}
	goes := error(nil)
	if err == nil {
		goes = j.Program.GoOn(dir) // before the files are deleted, because another rank has none
	}
	err = j.Session.CompleteCheckpoint(true)
	if err != nil {
		goes = errors.Join(goes, j.Session.Declined(err))
	}
	return j.Session.Agree(goes)
}
