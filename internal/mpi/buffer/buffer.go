// Package buffer keeps buffers for messages between the calls of a program. Memory that is
// new to the process costs a page fault for each 4 KiB, and each Alloc and Free a system call.
// A checkpoint needs the same buffers as the one before it.
package buffer

import (
	"sync"

	"github.com/goscr/goscr/mpi"
)

// most limits the bytes that a process keeps. Larger buffers, and those that were not used for
// the longest time, are returned to the system.
const most = 2 << 20

// granule is the unit in which buffers are made, so that messages of nearly the same size
// can use the same one.
const granule = 4096

// shelf holds buffers that nobody uses, the one that was used last at the end. All ranks that
// run in one process share it.
type shelf struct {
	mutex sync.Mutex
	free  [][]byte
	bytes int
	made  int
}

var kept shelf

// Get returns n bytes outside the Go heap, where MPI may keep a pointer to them. Their contents
// are undefined. The caller returns them with Put. If there is no memory, Get panics as mpi.Alloc does.
func Get(n int) []byte { return kept.get(n) }

// Put returns a buffer from Get, of which it must be the whole. The caller must not call it
// before all requests for the buffer are complete. After a panic see Loan.
func Put(buf []byte) { kept.put(buf) }

// Forgetter is a communicator that can say whether it does not touch the buffers of its requests any more, for which
// it was revoked, or cannot send and receive anything.
type Forgetter interface{ ForgetsBuffers() bool }

// Loan is a buffer for messages of one communicator.
type Loan struct {
	Bytes []byte
	comm  mpi.Comm
	done  bool
}

// Lend is Get for messages of c. The caller defers Return, and calls Done before.
func Lend(c mpi.Comm, n int) Loan { return Loan{Bytes: Get(n), comm: c} }

// Done says that all requests for the buffer are complete.
func (l *Loan) Done() { l.done = true }

// Return puts the buffer back. Without Done, after a panic, it does so if the communicator forgets its
// buffers. Else messages may still be written to the buffer, which then stays until the process ends.
func (l *Loan) Return() {
	if f, ok := l.comm.(Forgetter); l.done || ok && f.ForgetsBuffers() {
		Put(l.Bytes)
	}
}

// Release returns all buffers that are kept to the system.
func Release() { kept.release() }

// Made returns how many buffers Get had to make since the process began.
func Made() int {
	kept.mutex.Lock()
	defer kept.mutex.Unlock()
	return kept.made
}

func (s *shelf) get(n int) []byte {
	if n == 0 {
		return nil
	}
	if buf := s.take(n); buf != nil {
		return buf[:n]
	}
	return mpi.Alloc((n + granule - 1) / granule * granule)[:n]
}

// take takes the smallest buffer that is large enough, or returns nil.
func (s *shelf) take(n int) []byte {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	best := -1
	for i, buf := range s.free {
		if len(buf) >= n && (best < 0 || len(buf) < len(s.free[best])) {
			best = i
		}
	}
	if best < 0 {
		s.made++
		return nil
	}
	return s.remove(best)
}

func (s *shelf) remove(i int) []byte {
	buf := s.free[i]
	s.free = append(s.free[:i], s.free[i+1:]...)
	s.bytes -= len(buf)
	return buf
}

func (s *shelf) put(buf []byte) {
	buf = buf[:cap(buf)]
	if len(buf) == 0 {
		return
	}
	if len(buf) > most {
		mpi.Free(buf)
		return
	}
	s.mutex.Lock()
	defer s.mutex.Unlock()
	for s.bytes+len(buf) > most {
		mpi.Free(s.remove(0))
	}
	s.free = append(s.free, buf)
	s.bytes += len(buf)
}

func (s *shelf) release() {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	for len(s.free) > 0 {
		mpi.Free(s.remove(0))
	}
}
