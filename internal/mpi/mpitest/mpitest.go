// Package mpitest holds every implementation of mpi.Comm to the same contract.
package mpitest

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math/bits"
	"slices"
	"time"

	"github.com/goscr/goscr/mpi"
)

// Over2GiB is a length that no count of type int in C can hold and that is no
// multiple of anything an MPI may cut messages into.
const Over2GiB = 2<<30 + 5

// Options choose what Run checks besides what is always checked.
type Options struct {
	// Big, if > 0, is the length of a few long messages between ranks 0 and 1.
	// They need twice as much memory, besides what the MPI takes for itself.
	Big int
}

type check struct {
	name string
	run  func(c mpi.Comm) error
}

// Run checks c and calls report on every rank with the same name and verdict
// for each check; it returns the number that failed. It is collective. Each
// check has a communicator of its own, so that none receives a message of an
// earlier one. A Comm that loses messages makes Run hang: the caller limits its
// time.
func Run(c mpi.Comm, opt Options, report func(name string, err error)) int {
	checks := slices.Concat(pointToPoint, nonblocking, collective, communicators, arguments, revocation)
	if opt.Big > 0 {
		checks = append(checks, big(opt.Big)...)
	}
	failed := 0
	for _, k := range checks {
		err := mpi.Agree(c, isolated(c, k.run))
		if err != nil {
			failed++
		}
		report(k.name, err)
	}
	return failed
}

func isolated(c mpi.Comm, run func(c mpi.Comm) error) error {
	return mpi.Try(func() error {
		own := mpi.Dup(c)
		err := run(own)
		own.Free()
		return err
	})
}

// try is mpi.Try for an operation.
func try(operation func()) error {
	return mpi.Try(func() error {
		operation()
		return nil
	})
}

// A check that finds something wrong continues, since the other ranks wait for its
// messages; failures collects its errors.
type failures []error

func (f *failures) add(err error) {
	if err != nil {
		*f = append(*f, err)
	}
}

func (f *failures) expect(ok bool, format string, args ...any) {
	if !ok {
		*f = append(*f, fmt.Errorf(format, args...))
	}
}

func (f *failures) status(s mpi.Status, source, tag, count int) {
	f.expect(s == mpi.Status{Source: source, Tag: tag, Count: count},
		"status is %+v, want source %d, tag %d, %d bytes", s, source, tag, count)
}

func (f failures) err() error { return errors.Join(f...) }

// wait waits for a request and checks the message it received.
func (f *failures) wait(r mpi.Request, source, tag, count int) {
	f.status(r.Wait(), source, tag, count)
}

// word is the 8 bytes at offset 8*i of the message with this seed: each word
// of each message differs from all others.
func word(i int, seed uint64) uint64 {
	return bits.RotateLeft64(uint64(i)*0x9e3779b97f4a7c15+seed*0xd1342543de82ef95, 29)
}

// fill writes the message with this seed.
func fill(buf []byte, seed int) []byte {
	n := len(buf) / 8
	for i := range n {
		binary.LittleEndian.PutUint64(buf[8*i:], word(i, uint64(seed)))
	}
	var last [8]byte
	binary.LittleEndian.PutUint64(last[:], word(n, uint64(seed)))
	copy(buf[8*n:], last[:])
	return buf
}

func message(n, seed int) []byte { return fill(make([]byte, n), seed) }

// same checks that buf is the message with this seed.
func (f *failures) same(buf []byte, seed int) {
	n := len(buf) / 8
	for i := range n {
		if binary.LittleEndian.Uint64(buf[8*i:]) != word(i, uint64(seed)) {
			f.expect(false, "message %d of %d bytes is wrong at byte %d", seed, len(buf), 8*i)
			return
		}
	}
	var last [8]byte
	binary.LittleEndian.PutUint64(last[:], word(n, uint64(seed)))
	f.expect(string(buf[8*n:]) == string(last[:len(buf)-8*n]),
		"message %d of %d bytes is wrong after byte %d", seed, len(buf), 8*n)
}

// sizes of messages, on both sides of where MPIs change their protocol.
var sizes = []int{0, 1, 7, 4096, 65537, 1<<18 + 1}

// late is how long a check waits to see that something does not happen.
const late = 5 * time.Millisecond
