//go:build mpi

// Libscr is goscr as a library with SCR's own C interface, for programs in C,
// C++ and whatever calls C. scr.h describes it. This package is that interface
// and nothing else: every function finds the session of the process, calls the
// method of the same name in package scr, and turns an error into a return code
// and a line on stderr.
package main

/*
#include <stdlib.h>
#include <string.h>

// The declarations of scr.h, which the generated ones must agree with.
#include "scr.h"

typedef const char goscr_cchar;
*/
import "C"

import (
	"errors"
	"fmt"
	"os"
	"runtime/debug"
	"strings"
	"unsafe"

	"github.com/goscr/goscr/internal/report"
	"github.com/goscr/goscr/mpi"
	"github.com/goscr/goscr/mpi/system"
	"github.com/goscr/goscr/scr"
)

func main() {}

// failure is what a function returns when something is wrong.
const failure = C.int(1)

var (
	// The session of the process, between SCR_Init and SCR_Finalize.
	session *scr.Session
	// What the program has set before SCR_Init.
	settings = scr.Settings{Environ: getenv}
	// Says why a call failed.
	logger = report.Logger{Out: os.Stderr}

	version = C.CString(scr.Version)

	// SCR_ENABLE=0 has been met, and said.
	disabled bool

	errNotBegun = errors.New("the library is not initialized: call SCR_Init first")
)

// getenv looks into C's environment, which the program may have changed since
// the process began; Go has a copy from then.
func getenv(name string) (string, bool) {
	key := C.CString(name)
	defer C.free(unsafe.Pointer(key))
	value := C.getenv(key)
	if value == nil {
		return "", false
	}
	return C.GoString(value), true
}

// call runs one function of the interface. Nothing that goes wrong in it gets
// past it but as a return code.
func call(name string, f func() error) (code C.int) {
	defer func() {
		if p := recover(); p != nil {
			logger.Warn("%s: internal error: %v; please report it with these lines: %s", name, p,
				strings.ReplaceAll(string(debug.Stack()), "\n", " | "))
			code = failure
		}
	}()
	err := f()
	if err == nil {
		return C.SCR_SUCCESS
	}
	if session == nil {
		introduce()
	}
	if speaks(err) {
		warn := logger.Warn
		if session != nil {
			warn = session.Warn
		}
		warn("%s: %s", name, inC.Replace(err.Error()))
	}
	var agreed *mpi.AgreedError
	if errors.As(err, &agreed) {
		gather()
	}
	return failure
}

// gather returns when all ranks have called it. A program may end at once when
// a call fails, on a rank that does not know why, and must not take the rank
// with it that is about to say so.
func gather() {
	if world, err := system.World(); err == nil {
		_ = world.Barrier() // whatever it says, the call has failed already
		_ = world.Free()
	}
}

// inC gives functions that a message speaks of the names they have in C.
var inC = strings.NewReplacer("StartOutput", "SCR_Start_output", "CompleteOutput", "SCR_Complete_output",
	"HaveRestart", "SCR_Have_restart", "StartRestart", "SCR_Start_restart", "CompleteRestart", "SCR_Complete_restart",
	"NeedCheckpoint", "SCR_Need_checkpoint", "ShouldExit", "SCR_Should_exit", "Finalize called", "SCR_Finalize called")

// introduce finds out, as far as one can without a session, who speaks.
func introduce() {
	logger.Rank = max(system.Rank(), 0)
	if name, ok := getenv("SCR_NODE_NAME"); ok {
		logger.Node = name
	} else if name, err := os.Hostname(); err == nil {
		logger.Node = name
	} else {
		logger.Node = "unknown node"
	}
}

// speaks reports whether this rank is the one to say what is wrong: the rank
// that met it, and of what all ranks met alike, rank 0.
func speaks(err error) bool {
	var agreed *mpi.AgreedError
	if errors.As(err, &agreed) {
		return agreed.Err != nil
	}
	if errors.Is(err, scr.ErrDisabled) {
		said := disabled
		disabled = true
		return logger.Rank == 0 && !said
	}
	var state *scr.StateError
	var argument *scr.ArgumentError
	if errors.As(err, &state) || errors.As(err, &argument) || errors.Is(err, errNotBegun) {
		return logger.Rank == 0
	}
	return true
}

// begun is an error unless there is a session.
func begun() error {
	switch {
	case session != nil:
		return nil
	case disabled:
		return scr.ErrDisabled
	}
	return errNotBegun
}

// with is call for the collective functions that need a session. wrong is what
// is wrong with the arguments on this rank, nil if nothing is. All ranks then
// return an error: one that did so by itself would leave the others waiting.
func with(name string, wrong error, f func(s *scr.Session) error) C.int {
	return call(name, func() error {
		if err := begun(); err != nil {
			return err
		}
		if err := session.Agree(wrong); err != nil {
			return err
		}
		return f(session)
	})
}

// text returns a string that the program passed.
func text(what string, s *C.goscr_cchar) (string, error) {
	if s == nil {
		return "", fmt.Errorf("%s is NULL", what)
	}
	value := C.GoString(s)
	if len(value) >= scr.MaxFilename {
		return "", fmt.Errorf("%s has %d characters, at most %d are possible (SCR_MAX_FILENAME)", what, len(value), scr.MaxFilename-1)
	}
	return value, nil
}

// store copies a string into a buffer of SCR_MAX_FILENAME bytes.
func store(buffer *C.char, value string) {
	value = value[:min(len(value), scr.MaxFilename-1)]
	out := unsafe.Slice((*byte)(unsafe.Pointer(buffer)), len(value)+1)
	copy(out, value)
	out[len(value)] = 0
}

//export SCR_Init
func SCR_Init() C.int {
	return call("SCR_Init", func() error {
		if session != nil {
			return &scr.StateError{Call: "SCR_Init", Advice: "the library is initialized already"}
		}
		world, err := system.World()
		if err != nil {
			return err
		}
		defer world.Free()
		introduce()
		disabled = false
		session, err = scr.Init(world, scr.Options{Settings: &settings, Environ: getenv})
		return err
	})
}

//export SCR_Finalize
func SCR_Finalize() C.int {
	return with("SCR_Finalize", nil, func(s *scr.Session) error {
		err := s.Finalize()
		var misuse *scr.StateError
		if !errors.As(err, &misuse) {
			session = nil
		}
		return err
	})
}

//export SCR_Get_version
func SCR_Get_version() *C.char { return version }

//export SCR_Config
func SCR_Config(config *C.goscr_cchar) *C.goscr_cchar {
	var result *C.char
	call("SCR_Config", func() error {
		line, err := text("the setting", config)
		if err != nil {
			return &scr.ArgumentError{Text: err.Error()}
		}
		var value string
		var ok bool
		if session != nil {
			value, ok, err = session.Query(line)
		} else {
			value, ok, err = settings.Config(line)
		}
		if ok {
			result = C.CString(value) // the program frees it
		}
		if err != nil {
			err = &scr.ArgumentError{Text: err.Error()} // all ranks give the same text
		}
		return err
	})
	return result
}

//export SCR_Route_file
func SCR_Route_file(name *C.goscr_cchar, file *C.char) C.int {
	return call("SCR_Route_file", func() error {
		given, wrong := text("the name of the file", name)
		if file == nil {
			wrong = errors.New("the buffer for the path is NULL")
		} else {
			// A program that goes on in spite of an error writes where it meant to.
			store(file, given)
		}
		if err := begun(); err != nil {
			return err
		}
		if wrong != nil {
			return session.Spoil(wrong)
		}
		path, err := session.Route(given)
		if err == nil {
			store(file, path)
		}
		return err
	})
}

//export SCR_Have_restart
func SCR_Have_restart(flag *C.int, name *C.char) C.int {
	return answer("SCR_Have_restart", flag, func(s *scr.Session) (bool, error) {
		checkpoint, ok, err := s.HaveRestart()
		if ok && err == nil && name != nil {
			store(name, checkpoint)
		}
		return ok, err
	})
}

//export SCR_Start_restart
func SCR_Start_restart(name *C.char) C.int {
	return with("SCR_Start_restart", nil, func(s *scr.Session) error {
		checkpoint, err := s.StartRestart()
		if err == nil && name != nil {
			store(name, checkpoint)
		}
		return err
	})
}

//export SCR_Complete_restart
func SCR_Complete_restart(valid C.int) C.int {
	return with("SCR_Complete_restart", nil, func(s *scr.Session) error { return s.CompleteRestart(valid != 0) })
}

// answer is with for a question, whose answer goes to flag.
func answer(call string, flag *C.int, ask func(s *scr.Session) (bool, error)) C.int {
	var wrong error
	if flag == nil {
		wrong = errors.New("flag is NULL")
	} else {
		*flag = 0
	}
	return with(call, wrong, func(s *scr.Session) error {
		yes, err := ask(s)
		if yes && err == nil {
			*flag = 1
		}
		return err
	})
}

//export SCR_Need_checkpoint
func SCR_Need_checkpoint(flag *C.int) C.int {
	return answer("SCR_Need_checkpoint", flag, (*scr.Session).NeedCheckpoint)
}

//export SCR_Should_exit
func SCR_Should_exit(flag *C.int) C.int {
	return answer("SCR_Should_exit", flag, (*scr.Session).ShouldExit)
}

//export SCR_Start_output
func SCR_Start_output(name *C.goscr_cchar, flags C.int) C.int {
	var given string
	var wrong error
	if name != nil {
		given, wrong = text("the name of the dataset", name)
	}
	return with("SCR_Start_output", wrong, func(s *scr.Session) error { return s.StartOutput(given, scr.Flags(flags)) })
}

//export SCR_Complete_output
func SCR_Complete_output(valid C.int) C.int {
	return with("SCR_Complete_output", nil, func(s *scr.Session) error { return s.CompleteOutput(valid != 0) })
}

//export SCR_Start_checkpoint
func SCR_Start_checkpoint() C.int {
	return with("SCR_Start_checkpoint", nil, func(s *scr.Session) error { return s.StartOutput("", scr.Checkpoint) })
}

//export SCR_Complete_checkpoint
func SCR_Complete_checkpoint(valid C.int) C.int {
	return with("SCR_Complete_checkpoint", nil, func(s *scr.Session) error { return s.CompleteOutput(valid != 0) })
}

// named runs what is done to a dataset of a name.
func named(call string, name *C.goscr_cchar, f func(s *scr.Session, name string) error) C.int {
	given, wrong := text("the name of the dataset", name)
	return with(call, wrong, func(s *scr.Session) error { return f(s, given) })
}

//export SCR_Current
func SCR_Current(name *C.goscr_cchar) C.int {
	return named("SCR_Current", name, (*scr.Session).Current)
}

//export SCR_Drop
func SCR_Drop(name *C.goscr_cchar) C.int {
	return named("SCR_Drop", name, (*scr.Session).Drop)
}

//export SCR_Delete
func SCR_Delete(name *C.goscr_cchar) C.int {
	return named("SCR_Delete", name, (*scr.Session).Delete)
}
