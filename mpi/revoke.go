package mpi

import (
	"errors"
	"fmt"
	"strings"

	"github.com/goscr/goscr/internal/observe/report"
)

// Revocable is a communicator whose ranks can stop together. A rank that can no longer
// take part, so that others would wait for it forever, revokes the communicator, as with
// MPI_Comm_revoke of fault-tolerant MPIs.
//
// After that no operation returns, on any rank, on this communicator or on one that was
// made from it. Each operation, even one that was waiting before, panics with a
// *RevokedError once its rank learns of the revocation. It panics because code that uses a
// Comm could take an error for a failure of its own work, and respond to it. With a panic
// the code does nothing more, as if the job were killed at that instant, and it must be
// prepared for that anyway. Guard turns the panic into an error for the caller.
type Revocable interface {
	Comm
	// Revoke revokes the communicator for the given reason. It does not wait for others.
	Revoke(reason string)
	// Revoked returns a *RevokedError if this rank or, as far as it knows, another one has
	// revoked the communicator, else nil. It does not wait.
	Revoked() error
}

// MaxReason is the length in bytes to which the reason of a Revoke is cut.
const MaxReason = 480

// RevokedError names the rank that has revoked a communicator, and the reason.
type RevokedError struct {
	Rank   int // in the communicator that was revoked
	Reason string
}

func (e *RevokedError) Error() string {
	return fmt.Sprintf("rank %d cannot continue, and no rank can without it: %s", e.Rank, e.Reason)
}

// PanicError is a panic that Guard has recovered from. It wraps the *RevokedError that all
// ranks get.
type PanicError struct {
	Revoked error
	Calls   string // that led to the panic: one line, which asks the user to report it
}

func (e *PanicError) Error() string {
	return fmt.Sprintf("%v; %s", e.Revoked, e.Calls)
}

func (e *PanicError) Unwrap() error { return e.Revoked }

// OpError is the failure of an operation on one rank, which may leave other ranks waiting
// for that rank. The operation panics with it, so that no code takes it for a failure of its
// own work.
type OpError struct {
	Op  string // name of the MPI function
	Err error
}

func (e *OpError) Error() string { return e.Op + ": " + e.Err.Error() }
func (e *OpError) Unwrap() error { return e.Err }

// Guard calls f, which uses c, unless c is revoked. If an operation fails in f, Guard revokes
// c and returns the *OpError. The same is true if f returns one, as Alloc does, on which the
// ranks have not agreed. If f panics otherwise, Guard revokes c and returns a *PanicError. It
// also returns an error if another rank revokes c.
func Guard(c Revocable, f func() error) error {
	if err := c.Revoked(); err != nil {
		return err
	}
	return GuardLocal(c, f)
}

// GuardLocal is Guard for work of one rank: it does not check first whether another rank
// has revoked c.
func GuardLocal(c Revocable, f func() error) (err error) {
	defer func() {
		switch p := recover().(type) {
		case nil:
		case *RevokedError:
			err = p
		case *OpError:
			c.Revoke(p.Error())
			err = p
		default:
			calls := report.Calls()
			c.Revoke(fmt.Sprintf("internal error: %v", p))
			err = &PanicError{Revoked: c.Revoked(), Calls: calls}
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

// Try calls f, and returns the *OpError with which an operation in it has failed, else the
// error of f. It is for a goroutine that has no Guard, and for work without which the caller
// can continue, over another communicator; the rest of goscr lets the failure unwind to Guard.
func Try(f func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			failed, ok := p.(*OpError)
			if !ok {
				panic(p)
			}
			err = failed
		}
	}()
	return f()
}

// Reason converts the reason of a Revoke to one line of at most MaxReason bytes.
func Reason(text string) string {
	text = strings.ToValidUTF8(strings.Join(strings.Fields(text), " "), "?")
	if len(text) > MaxReason {
		text = strings.ToValidUTF8(text[:MaxReason-3], "") + "..."
	}
	return text
}
