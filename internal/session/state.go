package session

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
	"sync"

	"github.com/goscr/goscr/mpi"
)

// state is what the program is doing. It determines which calls are possible.
type state int

const (
	idle          state = iota
	restarting          // StartRestart to CompleteRestart
	checkpointing       // StartCheckpoint to CompleteCheckpoint
	writing             // StartOutput to CompleteOutput
	finished
)

// states has SCR's name for each state, and advice for a program that makes a call which
// is not possible in it.
var states = map[state]struct {
	name   string
	advice Advice
}{
	idle: {"IDLE", "nothing is under way that could be completed; {StartRestart} (if {HaveRestart} offers a checkpoint), " +
		"{StartCheckpoint} and {StartOutput} begin something"},
	restarting:    {"RESTART", "a restart is under way; end it with {CompleteRestart} first"},
	checkpointing: {"CHECKPOINT", "a checkpoint is under way; end it with {CompleteCheckpoint} first"},
	writing:       {"OUTPUT", "an output is under way; end it with {CompleteOutput} first"},
	finished:      {"UNINIT", "the session has been finalized; only a new {Init} can follow"},
}

// ErrDisabled is returned by Init if SCR_ENABLE=0.
var ErrDisabled = errors.New("goscr is turned off by SCR_ENABLE=0")

// ErrHalted is returned, if SCR_HALT_EXIT=1, by a call that has found that the job is to
// halt. The call has finalized the session, and the program should end.
var ErrHalted = errors.New("the job halts here, as SCR_HALT_EXIT=1 says")

// StateError says that a call is not possible in the state that the session is in.
type StateError struct {
	Call   string // Init, or the method of Session that was called
	State  string // SCR's name for the state
	Advice Advice // which calls are possible instead
}

func (e *StateError) Error() string {
	return e.Call + " " + e.In(func(call string) string { return call })
}

// In returns the message without the name of the call that failed. name translates Init, or
// the name of a method of Session, to the program's language.
func (e *StateError) In(name func(call string) string) string {
	return fmt.Sprintf("called in the wrong place (state %s): %s", e.State, e.Advice.In(name))
}

// Advice is a text in which calls are in braces, as in "end it with {CompleteOutput}".
type Advice string

// In returns the text with the name of each call translated by name, and without braces.
func (a Advice) In(name func(call string) string) string {
	return callInBraces().ReplaceAllStringFunc(string(a), func(call string) string { return name(strings.Trim(call, "{}")) })
}

var callInBraces = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`\{\w+\}`) })

// ArgumentError reports an argument or a parameter that is invalid, and is the same on all
// ranks.
type ArgumentError struct{ Text string }

func (e *ArgumentError) Error() string { return e.Text }

// ReturnedError is an error that SCR 3.1 returns to the program, too. SCR 3.1 ends the program
// after any other error, and so does libscr.so with SCR_ABORT_ON_ERROR=1.
type ReturnedError struct{ Err error }

func (e *ReturnedError) Error() string { return e.Err.Error() }

// Unwrap returns the error itself.
func (e *ReturnedError) Unwrap() error { return e.Err }

// returned makes a ReturnedError of an error, and nil of nil.
func returned(err error) error {
	if err == nil {
		return nil
	}
	return &ReturnedError{err}
}

// expect returns an error unless the program is in state want, which call requires.
func (s state) expect(call string, want state) error {
	if s == want {
		return nil
	}
	return s.misplaced(call, states[s].advice)
}

// expectNamed is expect for a call, possible when idle, to which all ranks must give the same name. It is collective.
func (s state) expectNamed(world mpi.Comm, call, name string) error {
	if err := s.expect(call, idle); err != nil {
		return err
	}
	_, err := sameEverywhere(world, name, 0, false)
	return err
}

func (s state) misplaced(call string, advice Advice) error {
	return &StateError{call, states[s].name, advice}
}

// open reports whether a dataset is being written.
func (s state) open() bool { return s == writing || s == checkpointing }

// sameEverywhere checks that all ranks gave the same name and flags, and reports whether
// something is true on any rank. It is collective; the result is agreed.
func sameEverywhere(world mpi.Comm, name string, flags Flags, mine bool) (any bool, err error) {
	called := fmt.Sprintf("%d %s", flags, name)
	text := mpi.BcastBytes(world, []byte(called), 0)
	if string(text) != called {
		err = fmt.Errorf("called with %q (flags and name), rank 0 called it with %q", called, text)
	}
	value := int64(0)
	if mine {
		value = 1
	}
	most, err := mpi.AgreeMaxOne(world, err, value)
	return most == 1, err
}
