package sockets

import (
	"encoding/binary"
	"fmt"
	"math"

	"github.com/goscr/goscr/mpi"
)

// After the handshake a connection carries frames, each way. A frame begins with a head
// of 32 bytes; integers are little-endian:
//
//	 0   kind      1 byte
//	 1   zeros     3
//	 4   tag       4   SEND, OFFER: of the message. REVOKE, FAIL: the rank that it is about
//	 8   context   8   SEND, OFFER: message space. REVOKE: communicator
//	16   id        8   SEND, OFFER, DATA, TAKE: of the message, counted from 0 by its sender
//	24   size      8   SEND, DATA, REVOKE, FAIL: bytes that follow. OFFER: bytes of the
//	                   message. TAKE: how many of them the receiver wants
//
// Fields that a kind does not use are 0. A short message is sent at once (SEND), and
// acknowledged by TAKE when a receive takes it. A longer one is offered; TAKE asks for it,
// and then it comes as one or more DATA. REVOKE and FAIL carry the reason as text.
type frame struct {
	kind    kind
	tag     uint32
	context uint64
	id      uint64
	size    uint64
}

type kind byte

const (
	kindSend kind = 1 + iota
	kindOffer
	kindTake
	kindData
	kindRevoke
	kindFail
	kindBye // the last one: the sender has left the communicator of New
)

const (
	headSize = 32
	// mostShort is the longest message in bytes that is sent before its receiver asks for it.
	mostShort = 4 << 10
	// mostUntaken is the number of short messages on the way to a rank that no receive has
	// taken. Further ones are offered; so what a rank stores for others is bounded.
	mostUntaken = 16
	// mostData is the longest DATA in bytes. Between two of them go the frames of other messages.
	mostData = 256 << 10
)

// appendTo appends the head of a frame to buf.
func (f frame) appendTo(buf []byte) []byte {
	buf = append(buf, byte(f.kind), 0, 0, 0)
	buf = binary.LittleEndian.AppendUint32(buf, f.tag)
	buf = binary.LittleEndian.AppendUint64(buf, f.context)
	buf = binary.LittleEndian.AppendUint64(buf, f.id)
	return binary.LittleEndian.AppendUint64(buf, f.size)
}

// parseFrame reads the head of a frame.
func parseFrame(b [headSize]byte) (frame, error) {
	f := frame{
		kind:    kind(b[0]),
		tag:     binary.LittleEndian.Uint32(b[4:]),
		context: binary.LittleEndian.Uint64(b[8:]),
		id:      binary.LittleEndian.Uint64(b[16:]),
		size:    binary.LittleEndian.Uint64(b[24:]),
	}
	wrong := func(what string) (frame, error) {
		return frame{}, fmt.Errorf("a frame with %s: % x", what, b[:])
	}
	if b[1] != 0 || b[2] != 0 || b[3] != 0 {
		return wrong("bytes that must be 0")
	}
	var most uint64
	tagged, named, numbered := false, false, false // the fields that the kind has
	switch f.kind {
	case kindSend:
		tagged, named, numbered, most = true, true, true, mostShort
	case kindOffer:
		tagged, named, numbered, most = true, true, true, math.MaxInt
	case kindTake:
		numbered, most = true, math.MaxInt
	case kindData:
		numbered, most = true, mostData
	case kindRevoke:
		tagged, named, most = true, true, mpi.MaxReason
	case kindFail:
		tagged, most = true, mpi.MaxReason
	case kindBye:
	default:
		return wrong("an unknown kind")
	}
	switch {
	case f.size > most:
		return wrong("too large a size")
	case !tagged && f.tag != 0, !named && f.context != 0, !numbered && f.id != 0:
		return wrong("a field that must be 0")
	case f.kind == kindData && f.size == 0:
		return wrong("no data")
	}
	return f, nil
}
