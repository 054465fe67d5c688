//go:build mpi

// Libscr is goscr as a library with SCR's own C interface, for programs in C,
// C++ and all languages that can call C. scr.h describes it. This package contains only
// the interface: every function of scr.h (api.c) calls a Go function here, which finds
// the session of the process, calls the method of the same name in internal/session,
// and turns an error into a return code and a line on stderr. start.c and signals.c keep
// Go's runtime from changing the program's process: see docs/go-runtime.md.
package main

/*
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

// The constants of scr.h.
#include "scr.h"

#include "signals.h"

typedef const char goscr_cchar;

extern char **environ;
extern int goscr_halted;
void goscr_cr_keep(const char *text);
*/
import "C"

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"sync"
	"time"
	"unsafe"

	"github.com/goscr/goscr/cr/inside"
	"github.com/goscr/goscr/internal/config"
	"github.com/goscr/goscr/internal/observe/report"
	"github.com/goscr/goscr/internal/session"
	"github.com/goscr/goscr/internal/sys/descriptors"
	"github.com/goscr/goscr/internal/sys/lock"
	"github.com/goscr/goscr/mpi"
	"github.com/goscr/goscr/mpi/system"
)

func main() {}

func init() {
	C.goscr_limits()
	useProcessors()
	if path := C.goscr_path(); path != nil && strings.HasPrefix(filepath.Base(C.GoString(path)), "libscr.") {
		config.Installed(C.GoString(path))
	}
	lock.OnHold = func(descriptor int, held bool) {
		now := C.int(0)
		if held {
			now = 1
		}
		C.goscr_lock_held(C.int(descriptor), now)
	}
	// What Go opens for good when its first timer is set, it opens now.
	time.AfterFunc(time.Hour, func() {}).Stop()
}

// go_started returns at once. A call from C waits until Go has started, and goscr_start
// makes this one to do so.
//
//export go_started
func go_started() {}

// useProcessors sets how many threads may run Go code at a time. One, with which start.c starts Go, is enough for
// calls. With more, threads wait for each other in every garbage collection. While a thread
// copies in the background more are needed: otherwise it and a call would each wait until
// the runtime notices that the other is in C.
func useProcessors() {
	const alone, copying = 1, 4
	n := alone
	if current != nil && current.Copying() {
		n = copying
	}
	if n != runtime.GOMAXPROCS(0) {
		runtime.GOMAXPROCS(n)
	}
}

// refillReserve maps again what Go has used of the memory that is held for it, and warns once
// if the system refuses that.
func refillReserve() {
	if C.goscr_refill() < C.GOSCR_RESERVE {
		logger.WarnOnce("the system refuses this process memory (ulimit -d, ulimit -v, or the sysctl vm.max_map_count or vm.overcommit_memory). "+
			"goscr uses what it holds for that, %d MiB; if this is not enough, the program ends: raise the limit", C.GOSCR_RESERVE*C.GOSCR_PIECE>>20)
	}
}

// failure is the return code of a function that failed.
const failure = C.int(1)

var (
	// one is held during a call, because several threads of a program may call.
	one sync.Mutex

	// current is the session of the process, between SCR_Init and SCR_Finalize.
	current *session.Session
	// job has the ranks of the job, from the start of SCR_Init to the end of SCR_Finalize.
	job mpi.Revocable
	// attempt has the ranks of an SCR_Recover that is under way, or has just failed; nil else.
	attempt mpi.Revocable
	// settings are those that the program made before SCR_Init.
	settings = session.Settings{Environ: getenv, Names: environment}
	// logger prints why a call failed.
	logger = report.Logger{Out: stderr{}}

	// absent says why there is no session; said, whether that was printed.
	absent error = errNotBegun
	said   bool
	// Whether it has been said that a rank cannot continue.
	saidRevoked bool
)

var (
	errNotBegun  = errors.New("the library is not initialized: call SCR_Init first")
	errInitFails = errors.New("SCR_Init has failed, and so does every other call until it succeeds; this line is printed once")
)

// getenv looks up a variable in C's environment. Go copied the environment when it started,
// and the program may have changed it since.
func getenv(name string) (string, bool) {
	key := C.CString(name)
	defer C.free(unsafe.Pointer(key))
	value := C.getenv(key)
	if value == nil {
		return "", false
	}
	return C.GoString(value), true
}

// environment returns the names in C's environment.
func environment() []string {
	var names []string
	for p := C.environ; p != nil && *p != nil; p = (**C.char)(unsafe.Add(unsafe.Pointer(p), unsafe.Sizeof(*p))) {
		name, _, _ := strings.Cut(C.GoString(*p), "=")
		names = append(names, name)
	}
	return names
}

// call runs one function of the interface. All errors and panics in it become a return
// code.
func call(name string, f func() error) C.int {
	one.Lock()
	defer one.Unlock()
	descriptors.Hold()
	defer descriptors.Release()
	return run(name, f)
}

// callOften is call for a function that programs call for each of many files. It opens files
// only through package descriptors.
func callOften(name string, f func() error) C.int {
	one.Lock()
	defer one.Unlock()
	return run(name, f)
}

func run(name string, f func() error) (code C.int) {
	if err := guarded(f); err != nil {
		descriptors.Hold()
		defer descriptors.Release()
		code = failure
		_ = guarded(func() error {
			if ends(name, err) && abortOnError() {
				code = C.GOSCR_ABORT
			}
			return nil
		})
		_ = guarded(func() error {
			fail(name, err, code == C.GOSCR_ABORT)
			return nil
		})
	}
	_ = guarded(func() error {
		if j := attempt; j != nil { // the call has had its result
			attempt = nil
			j.Free()
		}
		return nil
	})
	if j := job; current == nil && j != nil {
		job = nil // what fails now revokes nothing
		_ = guarded(func() error {
			j.Free()
			return nil
		})
	}
	_ = guarded(func() error {
		useProcessors()
		refillReserve()
		return nil
	})
	return code
}

// inCall returns the ranks that are in the same call, nil if they are not known.
func inCall() mpi.Revocable {
	if attempt != nil {
		return attempt
	}
	return job
}

// guarded calls f. A panic in it becomes an error, here and in the next call of every other
// rank, so that none waits for this one.
func guarded(f func() error) (err error) {
	defer report.Recover(&err) // where there is no job yet
	ranks := inCall()
	if ranks == nil {
		return mpi.Try(f)
	}
	return mpi.GuardLocal(ranks, f)
}

// fail prints why a function failed, on the rank that met the error. If all ranks have
// agreed on the error, none of them returns before it is printed: a program may call
// MPI_Abort when a call fails, which would end the rank that is about to print. If the job
// is to end, every rank prints an error on which they have not agreed, since no rank knows
// whether another will come to print it.
func fail(name string, err error, end bool) {
	if job == nil {
		introduce()
	}
	keep(name + ": " + message(err))
	var agreed *mpi.AgreedError
	if speaks(err) || end && !errors.As(err, &agreed) {
		warn := logger.Warn
		if current != nil {
			warn = current.Warn
		}
		warn("%s: %s", name, message(err))
	}
	if ranks := inCall(); errors.As(err, &agreed) && ranks != nil {
		ranks.Barrier() // a failure of it changes nothing: the call has failed already
	}
}

// ends reports whether SCR 3.1 ends the program when a call meets this error.
func ends(name string, err error) bool {
	var state *session.StateError
	var here *session.ReturnedError
	switch {
	case errors.Is(err, session.ErrDisabled):
		return name == "SCR_Start_restart"
	case errors.As(err, &state):
		return true
	case errors.As(err, &here), errors.Is(err, session.ErrAmbiguous):
		return false
	}
	switch name {
	case "SCR_Recover": // which it does not have
		return false
	case "SCR_Route_file":
		return current != nil // it can always be called
	case "SCR_Current", "SCR_Drop", "SCR_Delete":
		return errors.Is(err, errNotBegun) || errors.Is(err, errMPIEnded)
	}
	return true
}

// abortOnError returns the value of SCR_ABORT_ON_ERROR: that in the environment if the
// configuration files cannot be read.
func abortOnError() bool {
	ask := settings.Config
	if current != nil {
		ask = current.Query
	}
	text, _, err := ask("SCR_ABORT_ON_ERROR")
	if err != nil {
		text, _ = getenv("SCR_ABORT_ON_ERROR")
	}
	return config.IsYes(text)
}

// keep stores why the last call has failed, for SCR_Get_error.
func keep(text string) {
	c := C.CString(text)
	defer C.free(unsafe.Pointer(c))
	C.goscr_cr_keep(c)
}

// message returns the text that follows the name of the function that failed. A StateError
// names other functions, whose names in C differ from those in Go.
func message(err error) string {
	var state *session.StateError
	if errors.As(err, &state) {
		return strings.Replace(err.Error(), state.Error(), state.In(nameInC), 1)
	}
	return err.Error()
}

// nameInC returns the name in C of a method of session.Session: SCR_Start_output for
// StartOutput.
func nameInC(call string) string {
	if call == "Route" {
		return "SCR_Route_file"
	}
	return "SCR_" + call[:1] + strings.ToLower(secondWord().ReplaceAllString(call[1:], "_$0"))
}

var secondWord = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile("[A-Z]") })

// introduce sets the rank and the node that the logger prints, for errors without a
// session.
func introduce() {
	if job != nil {
		logger.Rank = job.Rank()
	} else {
		logger.Rank = system.Rank()
		if logger.Rank < 0 {
			logger.Rank = system.Launched(func(name string) string { value, _ := getenv(name); return value })
		}
	}
	if name, ok := getenv("SCR_NODE_NAME"); ok && name != "" {
		logger.Node = name
	} else if name, err := os.Hostname(); err == nil {
		logger.Node = name
	} else {
		logger.Node = "unknown node"
	}
}

// speaks reports whether this rank prints an error. The rank that met it does, or rank 0 if
// all ranks met the same error.
func speaks(err error) bool {
	var agreed *mpi.AgreedError
	if errors.As(err, &agreed) {
		return agreed.Err != nil
	}
	var revoked *mpi.RevokedError
	if errors.As(err, &revoked) {
		before := saidRevoked
		saidRevoked = true
		return !before
	}
	if errors.Is(err, session.ErrDisabled) || errors.Is(err, errInitFails) {
		before := said
		said = true
		return logger.Rank == 0 && !before
	}
	var apart *system.ApartError
	if errors.As(err, &apart) {
		return apart.First
	}
	var unfit *system.UnfitError
	if errors.As(err, &unfit) {
		return unfit.First
	}
	if errors.Is(err, session.ErrRanks) {
		return inCall().Rank() == 0
	}
	var state *session.StateError
	var argument *session.ArgumentError
	if errors.As(err, &state) || errors.As(err, &argument) || errors.Is(err, errNotBegun) || errors.Is(err, errMPIEnded) || errors.Is(err, system.ErrInactive) ||
		errors.Is(err, session.ErrAmbiguous) || errors.Is(err, inside.ErrNoCheckpoint) {
		return logger.Rank == 0
	}
	return true
}

// errMPIEnded is the error of calls between MPI_Finalize and SCR_Finalize. MPI would abort
// the program if it were called again.
var errMPIEnded = errors.New("MPI_Finalize has been called: SCR_Finalize has to come before it; checkpoints since the last flush stay in the cache")

// with is call for collective functions, which need a session. wrong is the error in the
// arguments of this rank, nil if there is none. If any rank has such an error, all ranks
// return one: if a rank returned alone, the others would wait for it.
func with(name string, wrong error, f func(s *session.Session) error) C.int {
	return call(name, func() error {
		if current == nil {
			return absent
		}
		if !system.Initialized() {
			return errMPIEnded
		}
		if err := current.Agree(wrong); err != nil {
			if name == "SCR_Should_exit" {
				err = &session.ReturnedError{Err: err}
			}
			return err
		}
		return ending(f(current))
	})
}

// ending handles session.ErrHalted: the session has ended, and api.c ends the program.
func ending(err error) error {
	if errors.Is(err, session.ErrHalted) {
		C.goscr_halted = 1
		current, vars, absent, err = nil, nil, errNotBegun, nil
	}
	return err
}

// text returns a string that the program passed, also with an error.
func text(what string, s *C.goscr_cchar) (string, error) {
	if s == nil {
		return "", fmt.Errorf("%s is NULL", what)
	}
	value := C.GoString(s)
	if len(value) >= session.MaxFilename {
		return value, fmt.Errorf("%s has %d characters, at most %d are possible (SCR_MAX_FILENAME)", what, len(value), session.MaxFilename-1)
	}
	return value, nil
}

// store copies a string into a buffer of SCR_MAX_FILENAME bytes.
func store(buffer *C.char, value string) {
	value = value[:min(len(value), session.MaxFilename-1)]
	out := unsafe.Slice((*byte)(unsafe.Pointer(buffer)), len(value)+1)
	copy(out, value)
	out[len(value)] = 0
}

//export go_init
func go_init(comm unsafe.Pointer) C.int {
	name := "SCR_Init"
	if comm != nil {
		name = "SCR_Init_comm"
	}
	return call(name, func() (err error) {
		if current != nil {
			return &session.StateError{Call: "Init", State: "IDLE", Advice: "the library is already initialized; end it with {Finalize} first"}
		}
		absent, said, saidRevoked = errInitFails, false, false
		if job, err = system.Revocable(comm); err != nil {
			return err
		}
		return guarded(func() error {
			introduce()
			current, err = session.Init(job, session.Options{Settings: &settings, Environ: getenv, Log: logger.Out, Gate: hasGate, Exclusive: true})
			if errors.Is(err, session.ErrDisabled) {
				absent = err
			}
			return ending(err)
		})
	})
}

//export go_finalize
func go_finalize() C.int {
	return call("SCR_Finalize", func() error {
		s := current
		if s == nil {
			return absent
		}
		if !system.Initialized() {
			return errMPIEnded
		}
		current, vars, absent = nil, nil, errNotBegun
		return s.Finalize()
	})
}

//export go_config
func go_config(text *C.goscr_cchar, code *C.int) *C.goscr_cchar {
	var result *C.char
	*code = call("SCR_Config", func() error {
		if text == nil || errors.Is(absent, session.ErrDisabled) {
			return nil
		}
		line := C.GoString(text)
		var value string
		var ok bool
		var err error
		if current != nil {
			value, ok, err = current.Query(line)
		} else {
			value, ok, err = settings.Config(line)
		}
		if ok {
			result = C.CString(value) // the program frees it
		}
		if err != nil && !errors.Is(err, session.ErrAmbiguous) {
			err = &session.ArgumentError{Text: err.Error()} // all ranks give the same text
		}
		return err
	})
	return result
}

//export go_route_file
func go_route_file(name *C.goscr_cchar, file *C.char) C.int {
	return callOften("SCR_Route_file", func() error {
		given, wrong := text("the name of the file", name)
		if file == nil {
			wrong = errors.New("the buffer for the path is NULL")
		} else if unsafe.Pointer(file) != unsafe.Pointer(name) { // else the name is there
			// A program that ignores the error opens the file under its own name.
			store(file, given)
		}
		if current == nil && absent == errNotBegun && wrong == nil {
			return nil // as in SCR 3.1: a program that does not use the library now opens the file under its own name
		}
		if current == nil {
			return absent
		}
		if wrong != nil {
			if name == nil || file == nil {
				wrong = &session.ReturnedError{Err: wrong}
			}
			return current.Spoil(wrong)
		}
		path, err := current.Route(given)
		if err == nil {
			store(file, path)
		}
		return err
	})
}

//export go_have_restart
func go_have_restart(flag *C.int, name *C.char) C.int {
	return answer("SCR_Have_restart", flag, func(s *session.Session) (bool, error) {
		checkpoint, ok, err := s.HaveRestart()
		if ok && err == nil && name != nil {
			store(name, checkpoint)
		}
		return ok, err
	})
}

//export go_start_restart
func go_start_restart(name *C.char) C.int {
	return with("SCR_Start_restart", nil, func(s *session.Session) error {
		checkpoint, err := s.StartRestart()
		if err == nil && name != nil {
			store(name, checkpoint)
		}
		return err
	})
}

//export go_complete_restart
func go_complete_restart(valid C.int) C.int {
	return with("SCR_Complete_restart", nil, func(s *session.Session) error { return s.CompleteRestart(valid != 0) })
}

// answer is with for a function that stores 0 or 1 in flag.
func answer(call string, flag *C.int, ask func(s *session.Session) (bool, error)) C.int {
	var wrong error
	if flag == nil {
		wrong = errors.New("flag is NULL")
	} else {
		*flag = 0
	}
	return with(call, wrong, func(s *session.Session) error {
		yes, err := ask(s)
		if yes && err == nil {
			*flag = 1
		}
		return err
	})
}

//export go_need_checkpoint
func go_need_checkpoint(flag *C.int) C.int {
	return answer("SCR_Need_checkpoint", flag, (*session.Session).NeedCheckpoint)
}

//export go_should_exit
func go_should_exit(flag *C.int) C.int {
	return answer("SCR_Should_exit", flag, (*session.Session).ShouldExit)
}

//export go_start_output
func go_start_output(name *C.goscr_cchar, flags C.int) C.int {
	var given string
	var wrong error
	if name != nil {
		given, wrong = text("the name of the dataset", name)
	}
	return with("SCR_Start_output", cmp.Or(wrong, callbacks.Refused()), func(s *session.Session) error { return s.StartOutput(given, session.Flags(flags)) })
}

//export go_complete_output
func go_complete_output(valid C.int) C.int {
	return with("SCR_Complete_output", nil, func(s *session.Session) error { return s.CompleteOutput(valid != 0) })
}

//export go_start_checkpoint
func go_start_checkpoint() C.int {
	return with("SCR_Start_checkpoint", callbacks.Refused(), func(s *session.Session) error { return s.StartCheckpoint() })
}

//export go_complete_checkpoint
func go_complete_checkpoint(valid C.int) C.int {
	return with("SCR_Complete_checkpoint", nil, func(s *session.Session) error { return s.CompleteCheckpoint(valid != 0) })
}

// named is with for a function whose argument is the name of a dataset.
func named(call string, name *C.goscr_cchar, f func(s *session.Session, name string) error) C.int {
	given, wrong := text("the name of the dataset", name)
	return with(call, wrong, func(s *session.Session) error { return f(s, given) })
}

//export go_current
func go_current(name *C.goscr_cchar) C.int {
	return named("SCR_Current", name, func(s *session.Session, name string) error {
		err := s.Current(name)
		if unknown := new(session.UnknownError); !errors.As(err, &unknown) {
			return err
		}
		// As in SCR 3.1 that is no error: the program may have restarted from files of its own.
		if logger.Rank == 0 {
			s.Warn("SCR_Current: %v", err)
		}
		return nil
	})
}

//export go_drop
func go_drop(name *C.goscr_cchar) C.int {
	return named("SCR_Drop", name, (*session.Session).Drop)
}

//export go_delete
func go_delete(name *C.goscr_cchar) C.int {
	return named("SCR_Delete", name, (*session.Session).Delete)
}
