//go:build mpi

package main

/*
#include <stdint.h>
#include "inside.h"
#include "scr.h"

int goscr_has_gate(void);

typedef const char goscr_cchar;
*/
import "C"

import (
	"cmp"
	"errors"
	"fmt"
	"strconv"
	"unsafe"

	"github.com/goscr/goscr/cr/inside"
	"github.com/goscr/goscr/internal/config"
	"github.com/goscr/goscr/internal/session"
	"github.com/goscr/goscr/mpi/system"
)

// callbacks are those that the program has registered.
var callbacks inside.Callbacks

//export go_inc_register
func go_inc_register(event C.int, function C.uintptr_t, previous *C.uintptr_t) C.int {
	return call("SCR_CR_INC_register_callback", func() error {
		before, err := callbacks.Register(inside.Event(event), inside.Function(function))
		*previous = C.uintptr_t(before)
		return err
	})
}

// go_inc_next returns the function to call next in a state, 0 if there is none, and its event.
// event is first -1, and then that of the function which has returned result.
//
//export go_inc_next
func go_inc_next(state C.int, event *C.int, result C.int, begun *C.int) (function C.uintptr_t) {
	call("INC callbacks", func() (err error) {
		s, e := inside.State(state), inside.Event(*event)
		if e >= 0 {
			err = callbacks.Returned(e, s, int(result))
			if s == inside.Prepare {
				err = nil // all ranks return it from the call that was to begin the checkpoint
			}
		} else if !due(s) || !callbacks.Begin(s) {
			return nil
		}
		*begun = 1
		if next, f, ok := callbacks.Next(s, e+1); ok {
			*event, function = C.int(next), C.uintptr_t(f)
		}
		return err
	})
	return function
}

// due reports whether what the program has called is a checkpoint or an outcome: a call in the
// wrong place is neither.
func due(s inside.State) bool {
	if s == inside.Prepare {
		return current != nil && !current.Writing()
	}
	return current == nil || !current.Writing()
}

// place is where the process works while a function of the program saves or restores it.
var place inside.Place

//export go_self_prefix
func go_self_prefix(prefix *C.char) C.int {
	return call("SCR_CR_SELF_PREFIX", func() error {
		value, _, err := settings.Config("SCR_CR_SELF_PREFIX")
		value = cmp.Or(value, inside.SelfPrefix)
		if len(value) >= C.GOSCR_CR_PREFIX_SIZE {
			return fmt.Errorf("%q has %d characters, at most %d are possible", value, len(value), C.GOSCR_CR_PREFIX_SIZE-1)
		}
		store(prefix, value)
		return err
	})
}

//export go_self_begin
func go_self_begin() C.int {
	if current != nil {
		return 0
	}
	return go_init(nil)
}

//export go_self_end
func go_self_end() C.int {
	if current == nil {
		return 0
	}
	return go_finalize()
}

//export go_self_start
func go_self_start(ready C.int) C.int {
	wrong := cmp.Or(inside.Ready(ready).Err(), callbacks.Refused())
	if wrong != nil && current == nil && absent == errNotBegun { // it would be begun if any rank had a function
		return call("SCR_CR_Checkpoint", func() error { return wrong })
	}
	return with("SCR_CR_Checkpoint", wrong, func(s *session.Session) error { return inside.Start(s, &place) })
}

//export go_self_thread
func go_self_thread(thread *C.int, limit *C.double, aborts *C.int) C.int {
	return call("SCR_CR_THREAD", func() error {
		ask := settings.Config
		if current != nil {
			ask = current.Query
		}
		text, _, err := ask("SCR_CR_THREAD")
		seconds, _, wrong := ask("SCR_CR_LIMIT_SECONDS")
		abort, _, bad := ask("SCR_CR_LIMIT_ABORT")
		if err = cmp.Or(err, wrong, bad); err != nil {
			return err
		}
		*thread, *limit, *aborts = 0, 0, 0
		if config.IsYes(abort) {
			*aborts = 1
		}
		if text == "" || config.IsYes(text) {
			*thread = 1
		}
		value, err := strconv.ParseFloat(cmp.Or(seconds, inside.LimitSeconds), 64)
		*limit = C.double(value)
		return err
	})
}

//export go_self_due
func go_self_due() (due C.int) {
	call("a request for a checkpoint", func() error {
		if current == nil || !system.Initialized() {
			return nil
		}
		yes, err := current.Due()
		if yes {
			due = 1
		}
		return err
	})
	return due
}

//export go_self_need
func go_self_need(need *C.int) C.int {
	return answer("a request for a checkpoint", need, func(s *session.Session) (bool, error) {
		if s.Writing() {
			return false, nil
		}
		return s.NeedCheckpoint()
	})
}

//export go_self_declined
func go_self_declined() C.int {
	return call("a request for a checkpoint", func() error {
		if current == nil {
			return nil
		}
		return current.Declined(errors.New(C.GoString(C.SCR_Get_error()))) // of the call that has failed
	})
}

//export go_self_take_back
func go_self_take_back(why *C.char) C.int {
	return call("a request for a checkpoint", func() error {
		if current == nil {
			return nil
		}
		return current.TakeBack(errors.New(C.GoString(why)))
	})
}

//export go_self_complete
func go_self_complete(result C.int, command *C.char, handle *C.char, seq *C.int) C.int {
	return with("SCR_CR_Checkpoint", nil, func(s *session.Session) error {
		restart := ""
		if command != nil {
			restart = C.GoString(command)
		}
		if result == C.GOSCR_CR_RESTLESS {
			_ = s.Spoil(errors.New(C.GoString(C.SCR_Get_error()))) // what libscr_cr.so has failed to do
			result = 0
		}
		err := inside.Complete(s, &place, int(result), restart, &drained)
		if err == nil {
			reference, number := s.Reference()
			store(handle, reference)
			*seq = C.int(number)
		}
		return err
	})
}

//export go_self_went_on
func go_self_went_on(result C.int) C.int {
	return call("SCR_CR_Checkpoint", func() error { return inside.WentOn(int(result)) })
}

//export go_self_start_restart
func go_self_start_restart(has C.int, found *C.int) C.int {
	return with("restart", nil, func(s *session.Session) error {
		ok, err := inside.StartRestart(s, &place, has != 0, &drained)
		if ok {
			*found = 1
		} else {
			*found = 0
		}
		return err
	})
}

//export go_self_complete_restart
func go_self_complete_restart(result C.int) C.int {
	return with("restart", nil, func(s *session.Session) error { return inside.CompleteRestart(s, &place, int(result), &drained) })
}

// here is call for a function that needs a session and is not collective.
func here(name string, f func(s *session.Session) error) C.int {
	return call(name, func() error {
		if current == nil {
			return absent
		}
		return f(current)
	})
}

//export go_self_restart_from
func go_self_restart_from(handle *C.goscr_cchar, seq C.int) C.int {
	given, wrong := text("the handle", handle)
	return here("SCR_CR_Restart", func(s *session.Session) error {
		if wrong != nil {
			return wrong
		}
		return s.RestartFrom(given, int(seq))
	})
}

//export go_self_migrate
func go_self_migrate(ranks unsafe.Pointer, hosts **C.goscr_cchar, near unsafe.Pointer, n C.int) C.int {
	to := make([]session.Destination, n)
	for i, rank := range ranksOf(ranks, n) {
		to[i] = session.Destination{Rank: rank, Host: C.GoString(unsafe.Slice(hosts, n)[i]), Near: int(unsafe.Slice((*C.int)(near), n)[i])}
	}
	return here("SCR_CR_Migrate", func(s *session.Session) error { return s.Migrate(to) })
}

//export go_self_reference
func go_self_reference(prefix *C.char, debug *C.int) C.int {
	return here("SCR_CR_DEBUG", func(s *session.Session) error {
		reference, _ := s.Reference()
		store(prefix, reference)
		value, _, err := s.Query("SCR_CR_DEBUG")
		*debug = 0
		if config.IsYes(value) {
			*debug = 1
		}
		return err
	})
}

// go_gate_waits reports whether the process is to wait for a debugger now.
//
//export go_gate_waits
func go_gate_waits(record *C.char) (waits C.int) {
	here("scr_checkpoint --attach", func(s *session.Session) error {
		path, yes := s.Gate()
		if yes {
			store(record, path)
			waits = 1
		}
		return nil
	})
	return waits
}

//export go_gate_left
func go_gate_left() C.int {
	return here("scr_checkpoint --attach", (*session.Session).LeaveGate)
}

// hasGate reports whether the program has libscr_cr.so, which waits for debuggers.
func hasGate() bool { return C.goscr_has_gate() != 0 }

// go_debug_absent says that nobody waits for a debugger, although that was asked for.
//
//export go_debug_absent
func go_debug_absent() {
	here("SCR_CR_DEBUG", func(s *session.Session) error {
		value, _, err := s.Query("SCR_CR_DEBUG")
		if config.IsYes(value) && logger.Rank == 0 {
			s.Warn("SCR_CR_DEBUG=1: the ranks do not wait for a debugger, since the program is not linked with libscr_cr.so; LD_PRELOAD does as well")
		}
		return err
	})
}
