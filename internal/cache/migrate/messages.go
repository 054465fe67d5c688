package migrate

import (
	"fmt"
	"path/filepath"
	"strconv"

	"github.com/goscr/goscr/hash"
	"github.com/goscr/goscr/internal/meta"
	"github.com/goscr/goscr/internal/redundancy"
	"github.com/goscr/goscr/mpi"
)

// What ranks tell each other, as hashes on the way:
//
//	offer      FILES  = n         that the part has in all, if that is known
//	           FILE   / <name>    of those that are whole at the sender
//	           ROUND  = r         in which the sender can send them
//	request    FILE   / <name>    of those to be sent
//	fileList   FILE   / <i> / …   descriptions of files in the order in which they come
//	answer     OK                 if all has arrived
//	shared     DEVICE = name      of the storage
//	           FILES  = n
//	           PATH   / <path> / …   descriptions of those that are whole
const (
	keyFiles  = "FILES"
	keyFile   = "FILE"
	keyRound  = "ROUND"
	keyOK     = "OK"
	keyDevice = "DEVICE"
	keyPath   = "PATH"
)

// offer is what a rank tells the owner of files that it has.
type offer struct {
	files int      // that the owner's part has in all, -1 if that is not known
	names []string // of those that are whole
	round int      // in which they can be sent
}

func (o offer) encode() *hash.Hash {
	h := request{names: o.names}.encode()
	if o.files >= 0 {
		h.SetInt(keyFiles, int64(o.files))
	}
	h.SetInt(keyRound, int64(o.round))
	return h
}

func decodeOffer(h *hash.Hash) offer {
	o := offer{files: -1, names: decodeRequest(h).names}
	if n, ok := h.Int(keyFiles); ok {
		o.files = int(n)
	}
	round, _ := h.Int(keyRound)
	o.round = int(round)
	return o
}

// request asks a rank that has offered files for some of them.
type request struct{ names []string }

func (r request) encode() *hash.Hash {
	h := hash.New()
	for _, name := range r.names {
		h.At(keyFile, name)
	}
	return h
}

func decodeRequest(h *hash.Hash) request { return request{h.Get(keyFile).Keys()} }

// fileList describes files that are about to be sent. Where they arrive, they have
// no paths before place gives them some.
type fileList []redundancy.File

func (l fileList) encode() *hash.Hash {
	h := hash.New()
	for i, f := range l {
		h.At(keyFile).Set(strconv.Itoa(i), f.Meta.Hash())
	}
	return h
}

func decodeFileList(h *hash.Hash) fileList {
	files := h.Get(keyFile)
	l := make(fileList, files.Size())
	for i := range l {
		l[i].Meta = meta.FromHash(files.Get(strconv.Itoa(i)))
	}
	return l
}

// place gives files their paths below a directory.
func (l fileList) place(dir string) error {
	for i, f := range l {
		if f.Meta.File() == "" || f.Meta.Size() < 0 {
			return fmt.Errorf("file %d has no usable name or size", i)
		}
		l[i].Path = filepath.Join(dir, f.Meta.File())
	}
	return nil
}

// bytes is the sum of the sizes of the files.
func (l fileList) bytes() (sum int64) {
	for _, f := range l {
		sum += max(f.Meta.Size(), 0)
	}
	return sum
}

// batches divides files into batches that have at most so many bytes, or are one
// file. Sender and receiver come to the same ones.
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

// answer says whether what was sent has arrived.
type answer struct{ ok bool }

func (a answer) encode() *hash.Hash {
	h := hash.New()
	if a.ok {
		h.At(keyOK)
	}
	return h
}

func decodeAnswer(h *hash.Hash) answer { return answer{h.Has(keyOK)} }

// shared is what a rank tells the owner of files on storage that both may see.
type shared struct {
	device string
	files  int // that the owner's part has in all
	whole  []redundancy.File
}

func (s shared) encode() *hash.Hash {
	h := hash.New()
	h.SetValue(keyDevice, s.device)
	h.SetInt(keyFiles, int64(s.files))
	for _, f := range s.whole {
		h.At(keyPath).Set(f.Path, f.Meta.Clone().Hash())
	}
	return h
}

func decodeShared(h *hash.Hash) shared {
	files, _ := h.Int(keyFiles)
	s := shared{device: h.Text(keyDevice), files: int(files)}
	for path, md := range h.Get(keyPath).All() {
		s.whole = append(s.whole, redundancy.File{Path: path, Meta: meta.FromHash(md)})
	}
	return s
}

// exchange sends each rank what there is for it, and returns what others have sent
// to the caller. It is collective.
func exchange[T interface{ encode() *hash.Hash }](c mpi.Comm, send map[int]T, decode func(*hash.Hash) T) (map[int]T, error) {
	h := hash.New()
	for rank, message := range send {
		h.Set(strconv.Itoa(rank), message.encode())
	}
	h, err := hash.Exchange(h, c)
	if err != nil {
		return nil, err
	}
	received := map[int]T{}
	for _, rank := range h.Ints() {
		received[rank] = decode(h.Get(strconv.Itoa(rank)))
	}
	return received, nil
}

// swap sends a message to one rank and returns that of another; either may be -1.
func swap[T interface{ encode() *hash.Hash }](c mpi.Comm, message T, to, from int, decode func(*hash.Hash) T) (received T, err error) {
	var h *hash.Hash
	switch {
	case to >= 0 && from >= 0:
		h, err = hash.Sendrecv(message.encode(), to, from, c)
	case to >= 0:
		return received, hash.Send(message.encode(), to, c)
	default:
		h, err = hash.Recv(from, c)
	}
	if err != nil {
		return received, err
	}
	return decode(h), nil
}
