package quiet

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
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
	list []Message // in the order in which MPI would match them
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
	for _, m := range d.list {
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

// The file of messages in the directory of a rank: a magic, and for each message the space as 8
// bytes, source and tag as 4 bytes each, the number of bytes as 8, and the bytes. Numbers are
// little-endian.
const (
	magic      = "SCRMSG1\n"
	headerSize = 24
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
	for _, m := range d.list {
		h := binary.LittleEndian.AppendUint64(nil, uint64(m.Space))
		h = binary.LittleEndian.AppendUint32(h, uint32(m.Source))
		h = binary.LittleEndian.AppendUint32(h, uint32(m.Tag))
		h = binary.LittleEndian.AppendUint64(h, uint64(len(m.Data)))
		if _, err := f.Write(append(h, m.Data...)); err != nil {
			return err
		}
	}
	return nil
}

// Load replaces the messages by those of a file that Save has written; without the file there
// are none. If the file cannot be used, nothing changes.
func (d *Drained) Load(path string) error {
	data, err := os.ReadFile(path)
	if errors.Is(err, os.ErrNotExist) {
		d.list = nil
		return nil
	}
	if err != nil {
		return err
	}
	rest, ok := strings.CutPrefix(string(data), magic)
	var list []Message
	for ok && rest != "" {
		var h [headerSize]byte
		if _, err := io.ReadFull(strings.NewReader(rest), h[:]); err != nil {
			return fmt.Errorf("%s: %w", path, errMessages)
		}
		m := Message{Space: int64(binary.LittleEndian.Uint64(h[:])), Source: int(int32(binary.LittleEndian.Uint32(h[8:]))),
			Tag: int(int32(binary.LittleEndian.Uint32(h[12:])))}
		n := binary.LittleEndian.Uint64(h[16:])
		rest = rest[headerSize:]
		if n > uint64(len(rest)) || m.Source < 0 || m.Tag < 0 {
			return fmt.Errorf("%s: %w", path, errMessages)
		}
		m.Data = []byte(rest[:n])
		list, rest = append(list, m), rest[n:]
	}
	if !ok {
		return fmt.Errorf("%s: %w", path, errMessages)
	}
	d.list = list
	return nil
}
