//go:build mpi

package main

/*
#include <stddef.h>

typedef const char goscr_cchar;
typedef const int goscr_cint;
*/
import "C"

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"math"
	"os"
	"slices"
	"unsafe"

	"github.com/goscr/goscr/internal/session"
	"github.com/goscr/goscr/internal/variables"
	"github.com/goscr/goscr/mpi/local"
	"github.com/goscr/goscr/mpi/system"
)

var (
	// vars are the variables of the process, from VELOC_Init, or the first call about variables in a session of SCR_Init, to the end of the session.
	vars *variables.Variables
	// alone is whether the session is of this process only: then MPI need not be there.
	alone bool
)

var errNoVariables = errors.New("neither VELOC_Init nor SCR_Init has been called, or it has failed")

// withVariables is call for functions that need the variables.
func withVariables(name string, f func() error) C.int {
	return call(name, func() error {
		switch {
		case current == nil:
			return &session.ArgumentError{Text: errNoVariables.Error()}
		case !alone && !system.Initialized():
			return errMPIEnded
		case vars == nil: // the session is one of SCR_Init
			vars = variables.New(current, job.Rank())
		}
		return ending(f())
	})
}

// group returns the name of a group, "" for NULL.
func group(name *C.goscr_cchar) string {
	if name == nil {
		return ""
	}
	return C.GoString(name)
}

//export go_variables_init
func go_variables_init(comm unsafe.Pointer, id C.uint, path *C.goscr_cchar) C.int {
	return call("VELOC_Init", func() (err error) {
		if current != nil && (vars == nil || alone || comm == nil) {
			return &session.ArgumentError{Text: "VELOC_Init or SCR_Init has been called before: a process has one session at a time"}
		}
		config, wrong := variables.ReadConfig(group(path), getenv)
		for _, name := range slices.Sorted(maps.Keys(config.Parameters)) { // on all ranks in the same order
			wrong = cmp.Or(wrong, settings.Set(name, config.Parameters[name]))
		}
		settings.Err = wrong // Init fails with it on all ranks
		defer func() { settings.Err = nil }()
		if current != nil {
			return recoverIn(comm)
		}
		absent, said, saidRevoked = errInitFails, false, false
		environ := getenv
		if alone = comm == nil; alone {
			job = local.One().Revocable()
			environ = ofSingle(uint(id))
			if dir := variables.SinglePrefix(config.Persistent, int(id)); settings.Err == nil {
				settings.Err = errors.Join(settings.Set("SCR_PREFIX", dir), os.MkdirAll(dir, 0o777))
			}
		} else if job, err = system.Revocable(comm); err != nil {
			return err
		}
		return guarded(func() error {
			introduce()
			current, err = session.Init(job, session.Options{Settings: &settings, Environ: environ, Log: logger.Out, Gate: hasGate, Warnings: config.Ignored, Exclusive: true})
			if err != nil {
				if errors.Is(err, session.ErrDisabled) {
					absent = err
				}
				return ending(err)
			}
			if vars = variables.New(current, job.Rank()); alone {
				vars = variables.Single(current, int(id), config.Persistent)
			}
			return nil
		})
	})
}

// ofSingle returns the environment of a process without a communicator. Others of the same job are beside it.
func ofSingle(id uint) func(name string) (string, bool) {
	return func(name string) (string, bool) {
		if name != "SCR_JOB_ID" {
			return getenv(name)
		}
		job := "single"
		for _, known := range []string{"SCR_JOB_ID", "SLURM_JOB_ID", "SLURM_JOBID", "LSB_JOBID", "PBS_JOBID", "FLUX_JOB_ID"} {
			if value, ok := getenv(known); ok && value != "" {
				job = value
				break
			}
		}
		return fmt.Sprintf("%s-%d", job, id), true
	}
}

//export go_variables_finalize
func go_variables_finalize() C.int {
	return withVariables("VELOC_Finalize", func() error {
		s := current
		current, vars, alone, absent = nil, nil, false, errNotBegun
		return s.Finalize()
	})
}

//export go_variables_protect
func go_variables_protect(id C.int, data unsafe.Pointer, count, size C.size_t, name *C.goscr_cchar) C.int {
	return withVariables("VELOC_Mem_protect", func() error {
		data, err := memory(id, data, count, size)
		if err == nil {
			vars.Protect(int(id), data, group(name))
		}
		return err
	})
}

// memory returns the memory of a variable that the program passed.
func memory(id C.int, data unsafe.Pointer, count, size C.size_t) ([]byte, error) {
	if size > 0 && uint64(count) > math.MaxInt64/uint64(size) {
		return nil, fmt.Errorf("variable %d: %d elements of %d bytes do not fit into memory", id, count, size)
	}
	n := int(count) * int(size)
	if n == 0 {
		return nil, nil
	}
	if data == nil {
		return nil, fmt.Errorf("variable %d: its address is NULL", id)
	}
	return unsafe.Slice((*byte)(data), n), nil
}

//export go_variables_place
func go_variables_place(id C.int, data unsafe.Pointer, size C.size_t, name *C.goscr_cchar) C.int {
	return withVariables("VELOC_Mem_protect", func() error {
		data, err := memory(id, data, 1, size)
		if err == nil {
			vars.Place(int(id), data, group(name))
		}
		return err
	})
}

//export go_variables_uses
func go_variables_uses(name *C.goscr_cchar, flag *C.int) C.int {
	return withVariables("VELOC_Mem_protect", func() error {
		*flag = 0
		if vars.Uses(group(name)) {
			*flag = 1
		}
		return nil
	})
}

//export go_variables_unprotect
func go_variables_unprotect(id C.int, name *C.goscr_cchar) C.int {
	return withVariables("VELOC_Mem_unprotect", func() error {
		if !vars.Unprotect(int(id), group(name)) {
			return fmt.Errorf("variable %d is not protected", id)
		}
		return nil
	})
}

//export go_variables_clear
func go_variables_clear(name *C.goscr_cchar) C.int {
	return withVariables("VELOC_Mem_clear", func() error {
		vars.Clear(group(name))
		return nil
	})
}

//export go_variables_begin
func go_variables_begin(name *C.goscr_cchar, version C.int) C.int {
	return withVariables("VELOC_Checkpoint_begin", func() error { return vars.Begin(group(name), int(version)) })
}

// list returns ids that the program passed.
func list(ids *C.goscr_cint, n C.int) ([]int, error) {
	if n < 0 || n > 0 && ids == nil {
		return nil, fmt.Errorf("a list of %d ids, or its address is NULL", n)
	}
	var all []int
	for _, id := range unsafe.Slice(ids, int(n)) {
		all = append(all, int(id))
	}
	return all, nil
}

// selected calls f with a selection that the program passed.
func selected(call string, which C.int, ids *C.goscr_cint, n C.int, f func(variables.Selection, []int) error) C.int {
	return withVariables(call, func() error {
		if which < 0 || which > 2 {
			return fmt.Errorf("mode %d: it is 0, 1 or 2", which)
		}
		all, err := list(ids, n)
		if err != nil {
			return err
		}
		return f(variables.Selection(which), all)
	})
}

//export go_variables_write
func go_variables_write(which C.int, ids *C.goscr_cint, n C.int) C.int {
	return selected("VELOC_Checkpoint_selective", which, ids, n, func(w variables.Selection, ids []int) error { return vars.Write(w, ids) })
}

//export go_variables_end
func go_variables_end(valid C.int) C.int {
	return withVariables("VELOC_Checkpoint_end", func() error { return vars.End(valid != 0) })
}

//export go_variables_checkpoint
func go_variables_checkpoint(name *C.goscr_cchar, version C.int) C.int {
	return withVariables("VELOC_Checkpoint", func() error { return vars.Checkpoint(group(name), int(version)) })
}

//export go_variables_file
func go_variables_file(file *C.char) C.int {
	return withVariables("VELOC_Route_file", func() error {
		path, err := vars.File()
		store(file, path)
		return err
	})
}

//export go_variables_wait
func go_variables_wait() C.int {
	return withVariables("VELOC_Checkpoint_wait", func() error { return vars.Wait() })
}

//export go_variables_finished
func go_variables_finished(flag *C.int) C.int {
	return withVariables("VELOC_Checkpoint_finished", func() error {
		*flag = 0
		if vars.Finished() {
			*flag = 1
		}
		return nil
	})
}

//export go_variables_remove
func go_variables_remove(name *C.goscr_cchar) C.int {
	return withVariables("VELOC_Cleanup", func() error { return vars.Remove(group(name)) })
}

//export go_variables_find
func go_variables_find(name *C.goscr_cchar, most, rank C.int, version *C.int) C.int {
	return withVariables("VELOC_Restart_test", func() error {
		*version = -1
		find := func() (int, bool, error) { return vars.Find(group(name), int(most)) }
		if rank >= 0 {
			find = func() (int, bool, error) { return vars.FindOf(int(rank), group(name), int(most)) }
		}
		n, ok, err := find()
		if ok && err == nil {
			*version = C.int(n)
		}
		return err
	})
}

//export go_variables_restart_begin
func go_variables_restart_begin(name *C.goscr_cchar, version, rank C.int) C.int {
	return withVariables("VELOC_Restart_begin", func() error {
		if rank >= 0 {
			return vars.RestartBeginOf(int(rank), group(name), int(version))
		}
		return vars.RestartBegin(group(name), int(version))
	})
}

//export go_variables_size
func go_variables_size(id C.int, size *C.longlong) C.int {
	return withVariables("VELOC_Recover_size", func() error {
		*size = -1
		n, ok, err := vars.Size(int(id))
		if ok && err == nil {
			*size = C.longlong(n)
		}
		return err
	})
}

//export go_variables_read
func go_variables_read(which C.int, ids *C.goscr_cint, n C.int) C.int {
	return selected("VELOC_Recover_selective", which, ids, n, func(w variables.Selection, ids []int) error { return vars.Read(w, ids) })
}

//export go_variables_restart_end
func go_variables_restart_end(valid C.int) C.int {
	return withVariables("VELOC_Restart_end", func() error { return vars.RestartEnd(valid != 0) })
}

//export go_variables_read_all
func go_variables_read_all() C.int {
	return withVariables("VELOC_Restart", func() error { return vars.ReadAll() })
}

//export go_variables_restart
func go_variables_restart(name *C.goscr_cchar, version C.int) C.int {
	return withVariables("VELOC_Restart", func() error { return vars.Restart(group(name), int(version)) })
}
