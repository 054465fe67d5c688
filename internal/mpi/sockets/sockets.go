// Package sockets implements mpi.Comm over TCP, for work that continues while the program uses
// MPI for itself, which most programs allow on one thread only.
//
// New is collective over a communicator of any kind, over which the ranks exchange where they
// listen, and a secret. Ranks are connected when they first exchange messages. A connection
// counts only when both sides have proved that they know the secret; what follows is not
// encrypted. A rank has one goroutine and three descriptors, and one more for each peer.
//
//	sockets.go     New, and leaving
//	comm.go        mpi.Comm, and what waits
//	network.go     the state of a rank, and the goroutine that moves data
//	peer.go        another rank: connecting to it, messages to and from it
//	link.go        a connection: handshake, frames that come in
//	handshake.go   the proofs
//	frame.go       the format of what is sent
//	message.go     messages and receives, and which fit each other
//	socket.go      system calls
//	address.go     where a rank can be reached
//
// A rank that waits for a message is connected to its sender, or to all ranks of the communicator
// if it may come from any. If a connection ends, or the other side does not answer for
// Options.Limit, all ranks that are connected get an error and tell others. After that
// each operation panics: its *mpi.OpError says which rank has lost which.
//
// Unlike other implementations of mpi.Comm, Revoke may be called by any goroutine, to end
// operations that continue in another one. After a revocation or an error nothing uses the buffers
// of operations that have not ended.
package sockets

import (
	"time"

	"github.com/goscr/goscr/mpi"
)

// Options say how ranks are connected.
type Options struct {
	// Interface is the name of the network interface over which the ranks are connected, as
	// ib0. If it is empty, they use the first network that both are connected to, then one
	// to which there is a route.
	Interface string
	// Limit is how long a peer may not answer. 0: a minute.
	Limit time.Duration
	// Before, unless nil, is called in the goroutine that moves data, before that begins. It may
	// lock the goroutine to its thread and lower the priority of the thread.
	Before func()
}

// Comm is the communicator that New returns.
type Comm struct{ *comm }

// New returns a communicator of the ranks of c, which needs c no more. It is collective over
// c. The error is agreed.
func New(c mpi.Comm, opt Options) (*Comm, error) {
	if opt.Limit <= 0 {
		opt.Limit = time.Minute
	}
	n, err := openNetwork(opt)
	begun := false
	defer func() {
		if n != nil && !begun { // also if c fails
			n.close()
		}
	}()
	if err := mpi.Agree(c, err); err != nil {
		return nil, err
	}
	own := n.here.record()
	var all []byte
	if c.Rank() == 0 {
		all = make([]byte, secretSize+c.Size()*recordSize)
	}
	c.Gather(own, all[min(len(all), secretSize):], 0)
	if c.Rank() == 0 {
		copy(all, random(secretSize))
	}
	all = mpi.BcastBytes(c, all, 0)
	begun = true
	return join(n, c.Rank(), all[:secretSize], all[secretSize:], opt.Before), nil
}

// join makes the communicator of all ranks of a network.
func join(n *network, me int, secret, records []byte, before func()) *Comm {
	members := make([]int, len(records)/recordSize)
	for rank := range members {
		members[rank] = rank
	}
	x := newContext(0, members, nil)
	n.box.enter(x) // before another rank can send anything
	n.begin(me, secret, records, before)
	return &Comm{&comm{net: n, context: x, rank: me}}
}

// Free ends the communicator, and all that were made from it. It is collective. When it returns
// or panics, all descriptors are closed.
func (c *Comm) Free() {
	defer c.Close()
	// Connections may still be being made that no operation waits for. When all ranks have
	// come to the second barrier there are none.
	for range 2 {
		c.Barrier()
		check("free", c.net.settled())
	}
	check("free", c.net.leave())
}

// Failed returns why no operation succeeds any more, nil if that is not so. Any goroutine may call it.
func (c *Comm) Failed() error {
	c.net.mu.Lock()
	defer c.net.mu.Unlock()
	return c.net.failed
}

// Close ends the communicator at once. Ranks that have connections to this one get an error unless
// they have called Free. It is not collective. Any goroutine may call it.
func (c *Comm) Close() { c.net.close() }
