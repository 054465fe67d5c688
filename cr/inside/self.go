package inside

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/goscr/goscr/cr/quiet"
)

// SelfPrefix is what the names of the three functions begin with, unless SCR_CR_SELF_PREFIX says
// something else: opal_crs_self_user_checkpoint, _continue and _restart.
const SelfPrefix = "opal_crs_self_user"

// LimitSeconds is the default of SCR_CR_LIMIT_SECONDS.
const LimitSeconds = "600"

// Ready says whether the functions of a rank can be called for a checkpoint.
type Ready int

// Why they can not; only IsReady is no error.
const (
	HasNone   Ready = iota
	IsReady         // they can
	StillRuns       // a call that took too long has not returned
	Ends            // the rank is in MPI_Finalize
	NoCall          // the rank was to make a call of MPI, and has made none
	Matched         // the program has messages of MPI_Mprobe that it has not received
)

// Err returns why functions cannot be called.
func (r Ready) Err() error {
	switch r {
	case IsReady:
		return nil
	case StillRuns:
		return errors.New("the program's function, which took too long before, has not returned yet")
	case Ends:
		return errors.New("the program is in MPI_Finalize")
	case NoCall:
		return errors.New("the program has made no call of MPI in SCR_CR_LIMIT_SECONDS in which its function could run (SCR_CR_THREAD=0); if it computes longer between calls, set more seconds")
	case Matched:
		return errors.New("the program has a message of MPI_Mprobe or MPI_Improbe that it has not received: no checkpoint can have it")
	}
	return ErrNoCheckpoint
}

// messagesFile has the messages in transit, in the directory in which the program's function
// writes. A program's file of this name would be overwritten if there are any.
const messagesFile = "goscr.messages"

// late is what C returns for a function that has not ended in time.
const late = -2147483647

// returned is the error for a result of a function of the program; what is its name.
func returned(what string, result int) error {
	switch result {
	case 0:
		return nil
	case late:
		return fmt.Errorf("the program's %s function has not returned within SCR_CR_LIMIT_SECONDS; if it needs longer, set more seconds", what)
	}
	return fmt.Errorf("the program's %s function returned %d", what, result)
}

// Errors of ranks that do not have a function which is needed.
var (
	ErrNoCheckpoint = errors.New("the program has no function that saves it: " + SelfPrefix + "_checkpoint, exported " +
		"(-Wl,--export-dynamic), another name by SCR_CR_SELF_PREFIX, or one that is registered")
	errNoRestart = errors.New("there is a checkpoint, and the program has no function that restores it, " + SelfPrefix + "_restart")
)

// Session is what this package needs of session.Session.
type Session interface {
	StartCheckpoint() error
	CompleteCheckpoint(valid bool) error
	HaveRestart() (name string, ok bool, err error)
	StartRestart() (name string, err error)
	CompleteRestart(valid bool) error
	Directory() (string, error)
	SetRestartCommand(command string) error
	Spoil(err error) error
	Agree(err error) error
	Warn(format string, args ...any)
}

// Place is the working directory of the process, and the way back to the one it had.
type Place struct {
	back   int // a descriptor
	inside bool
}

// enter makes dir the working directory.
func (p *Place) enter(dir string) error {
	fd, err := unix.Open(".", unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("the working directory: %w", err)
	}
	if err := unix.Chdir(dir); err != nil {
		unix.Close(fd)
		return fmt.Errorf("%s: %w", dir, err)
	}
	p.back, p.inside = fd, true
	return nil
}

// leave makes the working directory what it was before enter.
func (p *Place) leave() error {
	if !p.inside {
		return nil
	}
	p.inside = false
	defer unix.Close(p.back)
	if err := unix.Fchdir(p.back); err != nil {
		return fmt.Errorf("the way back to the working directory: %w", err)
	}
	return nil
}

// Start begins a checkpoint that the program writes in a directory of the rank, which is the
// working directory when Start returns. If a rank cannot work there, there is no checkpoint. It is
// collective.
func Start(s Session, p *Place) error {
	if err := s.StartCheckpoint(); err != nil {
		return err
	}
	err := s.Agree(enterDirectory(s, p))
	if err == nil {
		return nil
	}
	back := p.leave()
	_ = s.CompleteCheckpoint(false) // it fails on all ranks, because of err
	return errors.Join(err, back)
}

func enterDirectory(s Session, p *Place) error {
	dir, err := s.Directory()
	if err != nil {
		return err
	}
	return p.enter(dir)
}

// Complete ends the checkpoint that Start began. result is that of the program's function: one
// that is not 0 on any rank makes the checkpoint fail on all. command is how the program restarts,
// "" if it has not said so. messages are those in transit, which a restart delivers. It is collective.
func Complete(s Session, p *Place, result int, command string, messages *quiet.Drained) error {
	var unsaved error
	if p.inside && !messages.Empty() {
		unsaved = messages.Save(messagesFile)
	}
	back := p.leave()
	if wrong := returned("checkpoint", result); wrong != nil {
		_ = s.Spoil(wrong)
	} else if unsaved != nil {
		_ = s.Spoil(fmt.Errorf("messages in transit cannot be saved: %w", unsaved))
	} else if back != nil {
		_ = s.Spoil(back)
	}
	if err := s.SetRestartCommand(command); err != nil {
		return err // and so does every other call
	}
	return s.CompleteCheckpoint(true)
}

// WentOn takes the result of the function that is called after each checkpoint, which cannot
// change anything any more.
func WentOn(result int) error { return returned("continue", result) }

// StartRestart begins a restart from the newest checkpoint whose directory and messages all ranks
// can use, and makes the directory in which the rank has written its files the working directory.
// ok is false if there is no such checkpoint. If a rank has no function for it, the run begins
// without a restart, and all checkpoints stay. messages become those that were in transit. It is
// collective.
func StartRestart(s Session, p *Place, has bool, messages *quiet.Drained) (ok bool, err error) {
	for {
		name, ok, err := s.HaveRestart()
		if err != nil || !ok {
			return false, err
		}
		var wrong error
		if !has {
			wrong = errNoRestart
		}
		if err := s.Agree(wrong); err != nil {
			return false, err
		}
		if _, err := s.StartRestart(); err != nil {
			return false, err
		}
		wrong = enterDirectory(s, p)
		if wrong == nil {
			wrong = messages.Load(messagesFile)
		}
		if s.Agree(wrong) == nil {
			return true, nil
		}
		if wrong = errors.Join(wrong, p.leave()); wrong != nil {
			s.Warn("this rank cannot restart from %s: %v", name, wrong)
		}
		*messages = quiet.Drained{}
		_ = s.CompleteRestart(false) // an error on all ranks; what is offered then is older
	}
}

// CompleteRestart ends the restart. result is that of the program's function. If it is not 0 on
// any rank, the checkpoint is not used again, its messages are dropped, and StartRestart begins
// with an older one. It is collective.
func CompleteRestart(s Session, p *Place, result int, messages *quiet.Drained) error {
	back := p.leave()
	err := s.CompleteRestart(result == 0 && back == nil)
	if err != nil {
		*messages = quiet.Drained{}
	}
	if result != 0 && err != nil {
		err = fmt.Errorf("the program's restart function returned %d: %w", result, err)
	}
	return errors.Join(err, back)
}
