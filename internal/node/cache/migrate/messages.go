package migrate

import (
	"fmt"
	"path/filepath"
	"strconv"

	"github.com/goscr/goscr/hash"
	"github.com/goscr/goscr/internal/node/meta"
	"github.com/goscr/goscr/internal/redundancy"
	"github.com/goscr/goscr/mpi"
)

// message is a message between ranks, sent as a hash. These are the kinds of messages, and
// the meaning of their fields, where FILES is a number of files:
//
//	          offer           request    files to come   answer     on shared storage
//	FILES     of the part                                arrived    of the part
//	ROUND     to send them
//	NAME / …  whole files     requested
//	FILE / i                             descriptions               descriptions of whole files
//	DEVICE                                                          the storage that has them
//	PLACE / name                         identities
//
// The answer to the identities has the NAMEs of the files that its sender has itself (same.go).
type message struct {
	Files  int               `hash:"FILES"` // -1 if that is not known
	Round  int               `hash:"ROUND"`
	Names  []string          `hash:"NAME,omitempty,set"`
	List   fileList          `hash:"FILE,omitempty"`
	Device string            `hash:"DEVICE,omitempty"`
	Places map[string]string `hash:"PLACE,omitempty"` // by names: the identities of files
}

// exchange sends each rank its message, and returns the messages that the caller gets, by
// their senders. It is collective; the error is agreed.
func exchange(c mpi.Comm, send map[int]message) (map[int]message, error) {
	h := hash.New()
	for rank, m := range send {
		h.Set(strconv.Itoa(rank), hash.Marshal(m))
	}
	h, err := hash.Exchange(h, c)
	if err != nil {
		return nil, err
	}
	received := map[int]message{}
	for _, rank := range h.Ints() {
		received[rank] = hash.As[message](h.Get(strconv.Itoa(rank)))
	}
	return received, nil
}

// swap sends a message to one rank and returns one from another. Either rank may be -1, for
// no message.
func swap(c mpi.Comm, m message, to, from int) message {
	var h *hash.Hash
	switch {
	case to >= 0 && from >= 0:
		h = hash.Sendrecv(hash.Marshal(m), to, from, c)
	case to >= 0:
		hash.Send(hash.Marshal(m), to, c)
	default:
		h = hash.Recv(from, c)
	}
	return hash.As[message](h)
}

// fileList is a list of files of a rank. Files from messages have no paths until place sets
// them.
type fileList []redundancy.File

// MarshalHash returns the descriptions of the files by their numbers.
func (l fileList) MarshalHash() *hash.Hash {
	h := hash.New()
	for i, f := range l {
		h.Set(strconv.Itoa(i), f.Meta.Hash())
	}
	return h
}

// UnmarshalHash reads the result of MarshalHash.
func (l *fileList) UnmarshalHash(h *hash.Hash) {
	for i := range h.Size() {
		*l = append(*l, redundancy.File{Meta: meta.FromHash(h.Get(strconv.Itoa(i)))})
	}
}

// place sets the paths of files, below a directory.
func (l fileList) place(dir string) error {
	for i, f := range l {
		if f.Meta.File() == "" || f.Meta.Size() < 0 {
			return fmt.Errorf("file %d has no usable name or size", i)
		}
		l[i].Path = filepath.Join(dir, f.Meta.File())
	}
	return nil
}

// bytes returns the sum of the sizes of the files.
func (l fileList) bytes() (sum int64) {
	for _, f := range l {
		sum += max(f.Meta.Size(), 0)
	}
	return sum
}

// batches divides files into batches of at most most bytes; a larger file is a batch of its
// own. Sender and receiver compute the same batches.
func (l fileList) batches(most int64) []fileList {
	var list []fileList
	begin, size := 0, int64(0)
	for i, f := range l {
		n := max(f.Meta.Size(), 0)
		if i > begin && size+n > most {
			list = append(list, l[begin:i])
			begin, size = i, 0
		}
		size += n
	}
	if begin < len(l) {
		list = append(list, l[begin:])
	}
	return list
}
