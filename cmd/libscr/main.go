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
	if speaks(err) {
		logger.Warn("%s: %v", name, err)
	}
	return failure
}

// speaks reports whether this rank is the one to say what is wrong: the rank
// that met it, and of what all ranks met alike, rank 0.
func speaks(err error) bool {
	var agreed *mpi.AgreedError
	if errors.As(err, &agreed) {
		return agreed.Err != nil
	}
	var misuse *scr.StateError
	if errors.As(err, &misuse) || errors.Is(err, scr.ErrDisabled) {
		return logger.Rank == 0
	}
	return true
}

// with is call for the functions that need a session.
func with(name string, f func(s *scr.Session) error) C.int {
	return call(name, func() error {
		if session == nil {
			return errNotBegun
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
		logger.Rank = world.Rank()
		if logger.Node, err = os.Hostname(); err != nil {
			logger.Node = "unknown node"
		}
		if name, ok := getenv("SCR_NODE_NAME"); ok {
			logger.Node = name
		}
		session, err = scr.Init(world, scr.Options{Settings: &settings, Environ: getenv})
		return err
	})
}

//export SCR_Finalize
func SCR_Finalize() C.int {
	return with("SCR_Finalize", func(s *scr.Session) error {
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
			return err
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
		return err
	})
	return result
}

//export SCR_Route_file
func SCR_Route_file(name *C.goscr_cchar, file *C.char) C.int {
	return call("SCR_Route_file", func() error {
		if file == nil {
			return errors.New("the buffer for the path is NULL")
		}
		store(file, "")
		given, err := text("the name of the file", name)
		if err != nil {
			return err
		}
		// A program that goes on in spite of an error writes where it meant to.
		store(file, given)
		if session == nil {
			return errNotBegun
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
	return with("SCR_Have_restart", func(s *scr.Session) error {
		if flag == nil {
			return errors.New("flag is NULL")
		}
		*flag = 0
		checkpoint, ok, err := s.HaveRestart()
		if ok && err == nil {
			*flag = 1
			if name != nil {
				store(name, checkpoint)
			}
		}
		return err
	})
}

//export SCR_Start_restart
func SCR_Start_restart(name *C.char) C.int {
	return with("SCR_Start_restart", func(s *scr.Session) error {
		checkpoint, err := s.StartRestart()
		if err == nil && name != nil {
			store(name, checkpoint)
		}
		return err
	})
}

//export SCR_Complete_restart
func SCR_Complete_restart(valid C.int) C.int {
	return with("SCR_Complete_restart", func(s *scr.Session) error { return s.CompleteRestart(valid != 0) })
}

// answer stores the result of a question.
func answer(flag *C.int, ask func() (bool, error)) error {
	if flag == nil {
		return errors.New("flag is NULL")
	}
	*flag = 0
	yes, err := ask()
	if yes && err == nil {
		*flag = 1
	}
	return err
}

//export SCR_Need_checkpoint
func SCR_Need_checkpoint(flag *C.int) C.int {
	return with("SCR_Need_checkpoint", func(s *scr.Session) error { return answer(flag, s.NeedCheckpoint) })
}

//export SCR_Should_exit
func SCR_Should_exit(flag *C.int) C.int {
	return with("SCR_Should_exit", func(s *scr.Session) error { return answer(flag, s.ShouldExit) })
}

//export SCR_Start_output
func SCR_Start_output(name *C.goscr_cchar, flags C.int) C.int {
	return with("SCR_Start_output", func(s *scr.Session) error {
		given, err := "", error(nil)
		if name != nil {
			given, err = text("the name of the dataset", name)
		}
		if err == nil {
			err = s.StartOutput(given, scr.Flags(flags))
		}
		return err
	})
}

//export SCR_Complete_output
func SCR_Complete_output(valid C.int) C.int {
	return with("SCR_Complete_output", func(s *scr.Session) error { return s.CompleteOutput(valid != 0) })
}

//export SCR_Start_checkpoint
func SCR_Start_checkpoint() C.int {
	return with("SCR_Start_checkpoint", func(s *scr.Session) error { return s.StartOutput("", scr.Checkpoint) })
}

//export SCR_Complete_checkpoint
func SCR_Complete_checkpoint(valid C.int) C.int {
	return with("SCR_Complete_checkpoint", func(s *scr.Session) error { return s.CompleteOutput(valid != 0) })
}

// named runs what is done to a dataset of a name.
func named(call string, name *C.goscr_cchar, f func(s *scr.Session, name string) error) C.int {
	return with(call, func(s *scr.Session) error {
		given, err := text("the name of the dataset", name)
		if err == nil {
			err = f(s, given)
		}
		return err
	})
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
