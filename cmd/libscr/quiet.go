//go:build mpi

package main

/*
#include <stdint.h>
#include <stdlib.h>
#include "inside.h"

typedef const char goscr_cchar;
*/
import "C"

import (
	"fmt"
	"unsafe"

	"github.com/goscr/goscr/cr/quiet"
	"github.com/goscr/goscr/internal/config"
	"github.com/goscr/goscr/mpi"
	"github.com/goscr/goscr/mpi/system"
)

// drained are the messages that libscr_cr.so has received for the program.
var drained quiet.Drained

//export go_quiet_store
func go_quiet_store(space C.int64_t, source, tag C.int, data unsafe.Pointer, n C.int64_t) C.int {
	return call("a message", func() error {
		m := quiet.Message{Space: int64(space), Source: int(source), Tag: int(tag), Data: make([]byte, n)}
		copy(m.Data, unsafe.Slice((*byte)(data), n))
		drained.Add(m)
		return nil
	})
}

//export go_quiet_stored
func go_quiet_stored(space C.int64_t, source, tag *C.int, take C.int, data *unsafe.Pointer, n *C.int64_t) (found C.int) {
	call("a message", func() error {
		find := drained.Probe
		if take != 0 {
			find = drained.Receive
		}
		m, ok := find(int64(space), int(*source), int(*tag))
		if !ok {
			return nil
		}
		found = 1
		*source, *tag, *n = C.int(m.Source), C.int(m.Tag), C.int64_t(len(m.Data))
		if take != 0 {
			*data = C.CBytes(m.Data)
		}
		return nil
	})
	return found
}

//export go_quiet_copy
func go_quiet_copy(space C.int64_t, source, tag C.int, data unsafe.Pointer, n C.int64_t) C.int {
	return call("a message", func() error {
		m := quiet.Message{Space: int64(space), Source: int(source), Tag: int(tag), Data: make([]byte, n)}
		copy(m.Data, unsafe.Slice((*byte)(data), n))
		drained.Copy(m)
		return nil
	})
}

//export go_quiet_begun
func go_quiet_begun(kind C.int, space C.int64_t, to, tag C.int, n C.int64_t) C.int {
	return call("a message", func() error {
		drained.Begun(quiet.Send{Kind: int(kind), Space: int64(space), To: int(to), Tag: int(tag), Bytes: int64(n)})
		return nil
	})
}

//export go_quiet_repeated
func go_quiet_repeated(kind C.int, space C.int64_t, to, tag C.int, n C.int64_t) (yes C.int) {
	call("a message", func() error {
		if drained.Repeated(quiet.Send{Kind: int(kind), Space: int64(space), To: int(to), Tag: int(tag), Bytes: int64(n)}) {
			yes = 1
		}
		return nil
	})
	return yes
}

//export go_quiet_sends
func go_quiet_sends() (n C.int) {
	call("a message", func() error {
		n = C.int(drained.Sends())
		return nil
	})
	return n
}

//export go_quiet_forget
func go_quiet_forget(sends C.int) C.int {
	return call("a message", func() error {
		drained.Forget(int(sends))
		return nil
	})
}

//export go_quiet_held
func go_quiet_held() (n C.int) {
	call("a message", func() error {
		n = C.int(drained.Len())
		return nil
	})
	return n
}

//export go_quiet_bookmarks
func go_quiet_bookmarks(name *C.goscr_cchar, comm, world unsafe.Pointer, n C.int, sent, received unsafe.Pointer, promised *C.uint64_t, size C.int, unknown *C.char) C.int {
	return call(C.GoString(name), func() error {
		c, err := system.FromHandle(comm)
		if err != nil {
			return err
		}
		var wrong error
		if unknown != nil {
			wrong = fmt.Errorf("%s, so it is not known how many messages are in transit", C.GoString(unknown))
		}
		err = mpi.Agree(c, wrong)
		if err == nil {
			err = bookmarks(c, ranksOf(world, n), unsafe.Slice((*uint64)(sent), size), unsafe.Slice((*uint64)(received), size),
				unsafe.Slice((*uint64)(unsafe.Pointer(promised)), size))
		}
		c.Free()
		return err
	})
}

// ranksOf are the ranks in the job of those of a communicator, which C has.
func ranksOf(world unsafe.Pointer, n C.int) []int {
	ranks := make([]int, n)
	for i := range ranks {
		if ranks[i] = i; world != nil {
			ranks[i] = int(unsafe.Slice((*C.int)(world), n)[i])
		}
	}
	return ranks
}

// bookmarks exchanges the bookmarks of the ranks of c, and enters what is promised.
func bookmarks(c mpi.Comm, ranks []int, sent, received, promised []uint64) error {
	b := quiet.NewBookmarks(len(ranks))
	for i, rank := range ranks {
		b.Sent[i], b.Received[i] = sent[rank], received[rank]
	}
	if err := mpi.Agree(c, b.Exchange(c)); err != nil {
		return err
	}
	missing, err := b.Missing()
	for i, n := range missing {
		promised[ranks[i]] = received[ranks[i]] + n
	}
	return mpi.Agree(c, err)
}

//export go_quiet_in_flight
func go_quiet_in_flight(name *C.goscr_cchar) C.int {
	return call(C.GoString(name), func() error {
		warn := logger.Warn
		if current != nil {
			warn = current.Warn
		}
		for _, line := range drained.Report() {
			warn("%s: in transit, and not received by rank %d: %s", C.GoString(name), logger.Rank, line)
		}
		return nil
	})
}

//export go_quiet_checks
func go_quiet_checks() (yes C.int) {
	call("SCR_CHECK_IN_FLIGHT", func() error {
		ask := settings.Config
		if current != nil {
			ask = current.Query
		}
		text, _, err := ask("SCR_CHECK_IN_FLIGHT")
		if config.IsYes(text) {
			yes = 1
		}
		return err
	})
	return yes
}
