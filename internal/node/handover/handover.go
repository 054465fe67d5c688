// Package handover copies files of ranks from the cache of one node straight to the cache
// of another. It is for nodes on which no rank runs any more: ranks fetch files from nodes
// that take part in a run by MPI (package migrate).
//
// One process sends and one receives. The sender listens, and writes its addresses and a
// key into a file of the prefix directory, which only the user can read. The receiver
// connects to it:
//
//	receiver → sender   the key
//	sender → receiver   a hash that describes the parts of the ranks, and all their files
//	receiver → sender   "" once all files are on their medium and in a filemap, else an error
//
// The files stay where they were: if the next run starts elsewhere after all, it finds
// them there.
//
//	handover.go  what both do
//	send.go      the sender
//	receive.go   the receiver
package handover

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"time"

	"github.com/goscr/goscr/hash"
	"github.com/goscr/goscr/internal/node/filemap"
	"github.com/goscr/goscr/internal/node/meta"
)

// Node is one of the two nodes.
type Node struct {
	Control string    // control directory of the job
	Caches  []string  // directories that hold the datasets of the job, in the same order on both nodes
	Offer   string    // path of the file by which the two find each other
	Booted  time.Time // when the node has started; zero: filemap.Booted
}

// Done is what was copied.
type Done struct {
	Ranks []int
	Bytes map[int]int64 // by rank
}

// patience is for how long one of the two waits for a sign of the other.
const patience = time.Minute

// The offer of a sender:
//
//	ADDRESS / <host:port>
//	KEY = <text>
type offer struct {
	Addresses []string `hash:"ADDRESS,set"`
	Key       string   `hash:"KEY"`
}

// The description of what it sends:
//
//	RANK / <rank> / FILES = n
//	                RANKS = n
//	                DATADESC / …, REDDESC / …      as in a filemap
//	                FILE / <n> / STORE = <index of a directory in Caches>
//	                             NAME  = <path below that>
//	                             META / …
//	                STORE, NAME                    of the directory that has the directory of the dataset
type parts struct {
	Ranks map[int]part `hash:"RANK"`
}

type part struct {
	Expected int                 `hash:"FILES"`
	Ranks    int                 `hash:"RANKS"`
	Desc     filemap.Description `hash:"DATADESC"`
	Reddesc  *hash.Hash          `hash:"REDDESC"`
	Files    []file              `hash:"FILE,omitempty"`
	location
}

type file struct {
	location
	Meta meta.Meta `hash:"META"`
}

// location is a path on any node: the path of the cache may differ between nodes.
type location struct {
	Store *int   `hash:"STORE"`
	Name  string `hash:"NAME"`
}

// mostText is the most bytes of a key, an answer or a description. More is no message of
// ours.
const mostText = 64 << 20

// link is a connection. It fails if nothing moves for as long as patience.
type link struct {
	net.Conn
	r *bufio.Reader
}

func newLink(c net.Conn) *link {
	l := &link{Conn: c}
	l.r = bufio.NewReaderSize(reader{c}, 1<<20)
	return l
}

// reader sets a limit for each read, so that a link that moves has no limit.
type reader struct{ net.Conn }

func (r reader) Read(p []byte) (int, error) {
	_ = r.SetReadDeadline(time.Now().Add(patience)) // if it fails there is only no limit
	return r.Conn.Read(p)
}

func (l *link) Write(p []byte) (int, error) {
	_ = l.SetWriteDeadline(time.Now().Add(patience))
	return l.Conn.Write(p)
}

// say sends a text with its length.
func (l *link) say(text []byte) error {
	_, err := l.Write(append(binary.BigEndian.AppendUint64(nil, uint64(len(text))), text...))
	return err
}

// hear receives a text that say has sent.
func (l *link) hear() ([]byte, error) {
	var size uint64
	if err := binary.Read(l.r, binary.BigEndian, &size); err != nil {
		return nil, err
	}
	if size > mostText {
		return nil, fmt.Errorf("a message of %d bytes", size)
	}
	text := make([]byte, size)
	_, err := io.ReadFull(l.r, text)
	return text, err
}

func (l *link) hearHash() (*hash.Hash, error) {
	text, err := l.hear()
	if err != nil {
		return nil, err
	}
	return hash.Decode(text)
}
