package mpi

import (
	"errors"
	"fmt"
	"runtime/debug"
	"strings"
)

// Revocable is a communicator whose ranks can end together. A rank that cannot take
// part any more, and leaves others waiting, revokes it, as MPI_Comm_revoke of
// fault-tolerant MPIs does.
//
// From then on no operation returns, on any rank, on it or on a communicator that was
// made from it, not even one that waits already: each panics with a *RevokedError as
// soon as the rank knows. So nothing is done after it, as when a job is killed at that
// instant, for which all that uses a Comm is made: an error could be taken for one of
// what the ranks work on. Guard makes an error of it, for the caller.
type Revocable interface {
	Comm
	// Revoke revokes the communicator; reason says why. It does not wait for others.
	Revoke(reason string)
	// Revoked looks whether a rank has revoked the communicator: a *RevokedError, or
	// nil. It does not wait.
	Revoked() error
}

// MaxReason is the length in bytes to which the reason of a Revoke is cut.
const MaxReason = 480

// RevokedError says which rank has revoked a communicator, and why.
type RevokedError struct {
	Rank   int // in the communicator that was revoked
	Reason string
}

func (e *RevokedError) Error() string {
	return fmt.Sprintf("rank %d cannot go on, and no rank can without it: %s", e.Rank, e.Reason)
}

// PanicError is a panic that Guard has met. It wraps the *RevokedError that all ranks get.
type PanicError struct {
	Revoked error
	Stack   string // one line
}

func (e *PanicError) Error() string {
	return fmt.Sprintf("%v; please report it with these lines: %s", e.Revoked, e.Stack)
}

func (e *PanicError) Unwrap() error { return e.Revoked }

// OpError is the failure of an operation on the rank that returns it, which may leave
// others waiting for the rank. ErrTruncated is none.
type OpError struct {
	Op  string // as MPI calls it
	Err error
}

func (e *OpError) Error() string { return e.Op + ": " + e.Err.Error() }
func (e *OpError) Unwrap() error { return e.Err }

// Guard calls f, which uses c, unless c is revoked. If f panics, or returns an OpError that
// has not been agreed on, c is revoked, and Guard returns an error. It also returns one
// if another rank revokes c.
func Guard(c Revocable, f func() error) error {
	if err := c.Revoked(); err != nil {
		return err
	}
	return GuardLocal(c, f)
}

// GuardLocal is Guard for work without other ranks: it does not look whether one of them has
// revoked c.
func GuardLocal(c Revocable, f func() error) (err error) {
	defer func() {
		switch p := recover().(type) {
		case nil:
		case *RevokedError:
			err = p
		default:
			stack := string(debug.Stack())
			c.Revoke(fmt.Sprintf("internal error: %v", p))
			err = &PanicError{Revoked: c.Revoked(), Stack: strings.ReplaceAll(strings.TrimSpace(stack), "\n", " | ")}
		}
	}()
	err = f()
	var failed *OpError
	var agreed *AgreedError
	if errors.As(err, &failed) && !errors.As(err, &agreed) {
		c.Revoke(err.Error())
	}
	return err
}

// Reason makes one line of why a communicator is revoked, of at most MaxReason bytes.
func Reason(text string) string {
	text = strings.ToValidUTF8(strings.Join(strings.Fields(text), " "), "?")
	if len(text) > MaxReason {
		text = strings.ToValidUTF8(text[:MaxReason-3], "") + "..."
	}
	return text
}
