package quiet

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
)

// Any, in place of a source or a tag, stands for all.
const Any = -1

// Message is a message that was received before the program has asked for it.
type Message struct {
	Space  int64 // which communicator it was sent over, as all its ranks number it
	Source int   // rank in that communicator
	Tag    int   // at least 0
	Data   []byte
}

// Drained holds the messages of a rank that have been received before the program has asked for
// them. They came before all that MPI still delivers, so a receive or a probe looks here first.
// The zero value holds none. It is for one goroutine at a time.
type Drained struct {
	list   []Message // in the order in which MPI would match them
	copies []Message // of messages that the program's receives have got, and that it has not seen
	begun  []Send    // calls in which the program was, and after a restart those that it has not repeated
}

// Send is a call that sends, and has not returned to the program when it was saved: the message is sent, and
// the program, which repeats the call after a restart, does not know.
type Send struct {
	Kind  int   // which call of MPI
	Space int64 // of which communicator
	To    int   // rank in that communicator
	Tag   int
	Bytes int64
}

// Copy adds a message to the snapshot only: a receive of the program has got it, in the order of
// these calls, and after a restart the program begins that receive again.
func (d *Drained) Copy(m Message) { d.copies = append(d.copies, m) }

// Begun adds a call to the snapshot.
func (d *Drained) Begun(s Send) { d.begun = append(d.begun, s) }

// Repeated reports whether a call of the program repeats one that the snapshot has, which it removes.
func (d *Drained) Repeated(s Send) bool {
	i := slices.Index(d.begun, s)
	if i >= 0 {
		d.begun = slices.Delete(d.begun, i, i+1)
	}
	return i >= 0
}

// Sends returns how many calls have not been repeated.
func (d *Drained) Sends() int { return len(d.begun) }

// Empty reports whether a snapshot needs nothing of this.
func (d *Drained) Empty() bool { return len(d.list)+len(d.copies)+len(d.begun) == 0 }

// Forget removes what is for the snapshot only, but for calls before the first `sends`, which the program has not
// repeated since it was restarted.
func (d *Drained) Forget(sends int) {
	d.copies = nil
	d.begun = d.begun[:min(sends, len(d.begun))]
}

// Add adds a message that MPI has delivered after all others that are held.
func (d *Drained) Add(m Message) { d.list = append(d.list, m) }

// Len returns the number of messages.
func (d *Drained) Len() int { return len(d.list) }

// All returns the messages in their order, for a snapshot: added again in this order, they are
// matched in the same way.
func (d *Drained) All() []Message { return d.list }

// Probe returns the message that a receive gets from a source with a tag, either of which may be
// Any: the first that was sent, if several of a source fit. The message stays.
func (d *Drained) Probe(space int64, source, tag int) (m Message, ok bool) {
	if i := d.find(space, source, tag); i >= 0 {
		return d.list[i], true
	}
	return Message{}, false
}

// Receive is Probe for a receive: the message goes. It does so, too, if it is longer than the
// buffer of the program, as with MPI, where the receive ends with an error.
func (d *Drained) Receive(space int64, source, tag int) (m Message, ok bool) {
	i := d.find(space, source, tag)
	if i < 0 {
		return Message{}, false
	}
	m = d.list[i]
	d.list = slices.Delete(d.list, i, i+1)
	return m, true
}

func (d *Drained) find(space int64, source, tag int) int {
	for i, m := range d.list {
		if m.Space == space && (source == Any || m.Source == source) && (tag == Any || m.Tag == tag) {
			return i
		}
	}
	return -1
}

// Report says what the store has, a line for each communicator and source: how many messages,
// and with which tags.
func (d *Drained) Report() []string {
	type from struct {
		space  int64
		source int
	}
	tags := map[from]map[int]int{}
	for _, m := range slices.Concat(d.copies, d.list) {
		f := from{m.Space, m.Source}
		if tags[f] == nil {
			tags[f] = map[int]int{}
		}
		tags[f][m.Tag]++
	}
	var lines []string
	for f, counts := range tags {
		var words []string
		all := 0
		for _, tag := range slices.Sorted(maps.Keys(counts)) {
			words = append(words, fmt.Sprintf("%d with tag %d", counts[tag], tag))
			all += counts[tag]
		}
		where := "MPI_COMM_WORLD"
		if f.space != World {
			where = "another communicator"
		}
		lines = append(lines, fmt.Sprintf("%d of rank %d over %s (%s)", all, f.source, where, strings.Join(words, ", ")))
	}
	slices.Sort(lines)
	return lines
}

// World is the number of the communicator of all ranks.
const World = 1

// The file of messages in the directory of a rank: a magic, and for each message 0 as 4 bytes, the space as 8
// bytes, source and tag as 4 bytes each, the number of bytes as 8, and the bytes. For a call that sends: its
// kind as 4 bytes, more than 0, the space, the rank to which it sends, the tag and the number of bytes,
// without them. Numbers are little-endian.
const (
	magic      = "SCRMSG2\n"
	headerSize = 28
	lastKind   = 5 // as libscr_cr.so numbers its calls
)

var errMessages = errors.New("is no file of messages, or is damaged")

// Save writes the messages to a file.
func (d *Drained) Save(path string) (err error) {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	if _, err := f.WriteString(magic); err != nil {
		return err
	}
	for _, m := range slices.Concat(d.copies, d.list) {
		h := header(0, m.Space, m.Source, m.Tag, int64(len(m.Data)))
		if _, err := f.Write(append(h, m.Data...)); err != nil {
			return err
		}
	}
	for _, s := range d.begun {
		if _, err := f.Write(header(s.Kind, s.Space, s.To, s.Tag, s.Bytes)); err != nil {
			return err
		}
	}
	return nil
}

func header(kind int, space int64, peer, tag int, n int64) []byte {
	h := binary.LittleEndian.AppendUint32(nil, uint32(kind))
	h = binary.LittleEndian.AppendUint64(h, uint64(space))
	h = binary.LittleEndian.AppendUint32(h, uint32(peer))
	h = binary.LittleEndian.AppendUint32(h, uint32(tag))
	return binary.LittleEndian.AppendUint64(h, uint64(n))
}

// Load replaces the messages and the calls by those of a file that Save has written; without the file
// there are none. If the file cannot be used, nothing changes.
func (d *Drained) Load(path string) error {
	data, err := os.ReadFile(path)
	if errors.Is(err, os.ErrNotExist) {
		*d = Drained{}
		return nil
	}
	if err != nil {
		return err
	}
	loaded, ok := parse(data)
	if !ok {
		return fmt.Errorf("%s: %w", path, errMessages)
	}
	*d = loaded
	return nil
}

func parse(data []byte) (d Drained, whole bool) {
	rest, ok := bytes.CutPrefix(data, []byte(magic))
	if !ok {
		return d, false
	}
	for len(rest) > 0 {
		if len(rest) < headerSize {
			return d, false
		}
		kind, space := int(int32(binary.LittleEndian.Uint32(rest))), int64(binary.LittleEndian.Uint64(rest[4:]))
		peer, tag := int(int32(binary.LittleEndian.Uint32(rest[12:]))), int(int32(binary.LittleEndian.Uint32(rest[16:])))
		n := binary.LittleEndian.Uint64(rest[20:])
		rest = rest[headerSize:]
		if kind < 0 || kind > lastKind || peer < 0 || tag < 0 || (kind == 0 && n > uint64(len(rest))) {
			return d, false
		}
		if kind > 0 {
			d.Begun(Send{kind, space, peer, tag, int64(n)})
			continue
		}
		d.Add(Message{space, peer, tag, rest[:n:n]})
		rest = rest[n:]
	}
	return d, true
}
