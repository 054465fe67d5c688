package scr

import (
	"fmt"
	"reflect"
	"unsafe"

	"github.com/goscr/goscr/internal/session"
	"github.com/goscr/goscr/internal/variables"
)

// Variables are variables of a rank that goscr writes and reads, for programs that have no code for files of their own.
// Protect names them. Each name of a checkpoint has versions of its own, and its own places in the cache (SCR_CACHE_SIZE) and in
// the prefix directory (SCR_PREFIX_SIZE), so that some variables can be written more often than others. A version is a
// dataset called NAME-VERSION, and the file of a rank NAME-RANK-VERSION.dat, in the format of VELOC 1.8.
//
// Its methods are collective, except Unprotect and Size.
type Variables struct {
	v     *variables.Variables
	group string
}

// Variables returns the variables of this rank. The session keeps them; every call returns the same.
func (s *Session) Variables() *Variables {
	if s.vars == nil {
		s.vars = variables.New(s.s, session.RankOf(s.s))
	}
	return &Variables{v: s.vars}
}

// Group returns the variables that only checkpoints of this name contain, in place of those that belong to all names.
func (v *Variables) Group(name string) *Variables { return &Variables{v.v, name} }

// Protect names the elements of a slice as variable id. If the id is protected already, data takes its place: a program calls Protect again
// when it has made another slice. T must be of a fixed size, without pointers, slices, maps, strings and the like; else
// Protect returns an error. The id must have 32 bits. It is not collective.
func Protect[T any](v *Variables, id int, data []T) error {
	if at, ok := pointer(reflect.TypeFor[T]()); ok {
		return fmt.Errorf("scr: Protect: variable %d: %v has no fixed size: it contains a %v", id, reflect.TypeFor[T](), at)
	}
	if err := variables.CheckID(id); err != nil {
		return fmt.Errorf("scr: Protect: %w", err)
	}
	var element T
	memory := unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(data))), len(data)*int(unsafe.Sizeof(element)))
	v.v.Protect(id, memory, v.group)
	return nil
}

// ProtectValue is Protect for a single value.
func ProtectValue[T any](v *Variables, id int, value *T) error {
	return Protect(v, id, unsafe.Slice(value, 1))
}

// pointer returns a type within t whose values are not all in the memory of t.
func pointer(t reflect.Type) (reflect.Type, bool) {
	switch t.Kind() {
	case reflect.Bool, reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64, reflect.Uint, reflect.Uint8, reflect.Uint16,
		reflect.Uint32, reflect.Uint64, reflect.Float32, reflect.Float64, reflect.Complex64, reflect.Complex128:
		return nil, false
	case reflect.Array:
		return pointer(t.Elem())
	case reflect.Struct:
		for i := range t.NumField() {
			if at, ok := pointer(t.Field(i).Type); ok {
				return at, true
			}
		}
		return nil, false
	}
	return t, true
}

// Unprotect ends Protect, and reports whether the id was protected.
func (v *Variables) Unprotect(id int) bool { return v.v.Unprotect(id, v.group) }

// Checkpoint writes the variables as a version of a name. The version must be at least 0; as a rule it is the step.
func (v *Variables) Checkpoint(name string, version int) error {
	return named(v.v.Checkpoint(name, version))
}

// Newest returns the newest version of a name from which all ranks can restart, and with most > 0 the newest that is at most most. ok is false if
// there is none.
func (v *Variables) Newest(name string, most int) (version int, ok bool, err error) {
	version, ok, err = v.v.Find(name, most)
	return version, ok, named(err)
}

// Restart reads a version into the variables. Each must have at least the size that it had; a variable that the version lacks stays as
// it is. If a rank cannot read its variables, no rank's variables are changed, and all ranks get an error.
func (v *Variables) Restart(name string, version int) error { return named(v.v.Restart(name, version)) }

// Begin begins to restart from a version, so that Size can be called before the slices are made. Read reads the variables,
// and End ends the restart.
func (v *Variables) Begin(name string, version int) error {
	return named(v.v.RestartBegin(name, version))
}

// Size returns the size in bytes that a variable has in the version that Begin has begun to read. ok is false if it has none.
func (v *Variables) Size(id int) (bytes int64, ok bool, err error) {
	bytes, ok, err = v.v.Size(id)
	return bytes, ok, named(err)
}

// Read reads the variables of the version that Begin has begun to read. It is not collective.
func (v *Variables) Read() error { return named(v.v.Read(variables.All, nil)) }

// End ends a restart. valid says whether this rank has read what it needs.
func (v *Variables) End(valid bool) error { return named(v.v.RestartEnd(valid)) }

// Wait waits until the versions that were written are protected, and flushed if they are to be.
func (v *Variables) Wait() error { return named(v.v.Wait()) }
