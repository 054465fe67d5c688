package redundancy

import (
	"bytes"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/goscr/goscr/hash"
	"github.com/goscr/goscr/internal/node/meta"
	"github.com/goscr/goscr/internal/prefix/dataset"
	"github.com/goscr/goscr/mpi"
	"github.com/goscr/goscr/mpi/local"
)

func member(rank int, sizes ...int64) Member {
	m := Member{Rank: rank}
	for _, size := range sizes {
		md := meta.New("a", meta.Full, 9)
		md.SetSize(size)
		m.Files = append(m.Files, md)
	}
	return m
}

func someHeader() *Header {
	left := member(3, 10, 20)
	return &Header{
		Dataset: dataset.New(1, "c", dataset.Checkpoint, 1, dataset.Owner{}, time.Unix(0, 0)),
		Ranks:   9, Members: []int{3, 5, 7}, Current: member(5, 4), Left: []*Member{&left, nil},
		Chunk: 30, Chunks: 2, Block: 16, checksums: []uint32{1, 2, 3, 4},
	}
}

func TestHeader_IsDecodedAsItWasEncoded(t *testing.T) {
	copies := someHeader()
	copies.Chunk, copies.Chunks, copies.Copies = 0, 0, []int64{30}
	for _, want := range []*Header{someHeader(), copies} {
		got, err := decodeHeader(want.encode())
		if err != nil || !got.encode().Equal(want.encode()) || !reflect.DeepEqual(got.Sections(), want.Sections()) {
			t.Errorf("%+v, want %+v (%v)", got, want, err)
		}
		members := want.describe()
		file := want.fields().EncodeWith(members)
		if !bytes.Equal(file, want.encode().Encode()) || len(file) != want.fields().EncodedSize()+members.size() {
			t.Errorf("with packed descriptions it is %q", file)
		}
	}
}

// Each member gets the descriptions of its neighbours to the left; one whose own has another size than before gets an error.
func TestDescriptions(t *testing.T) {
	for _, longer := range []int{-1, 1} {
		const n, k = 4, 2
		_, err := local.Run(n, local.Options{}, func(c mpi.Comm) error {
			me := c.Rank()
			of := func(rank int) Member { return member(rank, int64(10*rank)) }
			set := &Set{Comm: c, Ranks: []int{0, 1, 2, 3}}
			d, own := spaceFor(set, k, of(me)), of(me)
			if me == longer {
				own.Files = append(own.Files, own.Files[0])
			}
			if err := d.exchange(set, own); err != nil {
				return err
			}
			for i := range k + 1 {
				from := (me - i + n) % n
				key, want := keyCurrent, of(from).encode().Pack(nil)
				if i > 0 {
					key = partnerKey(i)
				}
				if from != longer && !bytes.Equal(d[key], want) {
					t.Errorf("rank %d has %q of rank %d", me, d[key], from)
				}
			}
			return nil
		})
		if longer < 0 && err != nil || longer >= 0 && (err == nil || !strings.Contains(err.Error(), "description of files of rank 1 has")) {
			t.Error(err)
		}
	}
}

// Open returns an error for a header whose fields contradict each other.
func TestHeader_Contradictions(t *testing.T) {
	for want, change := range map[string]func(h *hash.Hash){
		`the set has "4" members`:        func(h *hash.Hash) { h.Get("GROUP").SetInt("RANKS", 4) },
		"member 1 of the set":            func(h *hash.Hash) { h.SetInt("RANKS", 4) },
		"2 files recorded":               func(h *hash.Hash) { h.Get("CURRENT").SetInt("FILES", 2) },
		"no usable name":                 func(h *hash.Hash) { h.Get("CURRENT", "FILE", "0").SetValue("FILE", "../a") },
		"neighbour 1 to the left":        func(h *hash.Hash) { h.Get("PARTNER").Unset("FILES") },
		`copy 0 has "31" bytes`:          func(h *hash.Hash) { h.At("COPY").SetInt("0", 31) },
		`copy 1 has "" bytes`:            func(h *hash.Hash) { h.At("COPY").SetInt("0", 30); h.At("COPY").Set("x", nil) },
		"is not the checksum of a block": func(h *hash.Hash) { h.SetValue("BLOCKCRC", "0000000g") },
		"a section has -1 bytes":         func(h *hash.Hash) { h.SetInt("CHUNK", -1) },
		"a section has 9999 bytes":       func(h *hash.Hash) { h.SetInt("CHUNK", 9999) },
		"bytes and sections of 32":       func(h *hash.Hash) { h.SetInt("CHUNK", 16) },
	} {
		h := someHeader().encode()
		change(h)
		path := filepath.Join(t.TempDir(), "1_of_3_in_3.xor")
		if err := os.WriteFile(path, append(h.Encode(), make([]byte, 60)...), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := Open(path); err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), path) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}

// The header that SCR writes (SCR Developer Guide, "XOR") has no checksums.
func TestHeader_OfSCR(t *testing.T) {
	x := someHeader().encode()
	for _, key := range []string{"CHUNKS", "BLOCK", "BLOCKCRC"} {
		x.Unset(key)
	}
	h, err := decodeHeader(x)
	if err != nil || h.Chunks != 1 || h.Block != 0 || len(h.Sections()) != 1 || h.Left[0].Rank != 3 || h.Left[0].Size() != 30 {
		t.Errorf("%+v, %v", h, err)
	}
}

// Any tree is a header or is refused; one that is accepted can be written again, and its
// sections have places within the file.
func FuzzHeader(f *testing.F) {
	copies := someHeader()
	copies.Chunk, copies.Chunks, copies.Copies = 0, 0, []int64{30}
	for _, h := range []*Header{someHeader(), copies} {
		f.Add(h.encode().Pack(nil))
	}
	f.Fuzz(func(t *testing.T, packed []byte) {
		x, _, err := hash.Unpack(packed)
		if err != nil {
			return
		}
		h, err := decodeHeader(x)
		if err != nil {
			return
		}
		again, err := decodeHeader(h.encode())
		if err != nil || !again.encode().Equal(h.encode()) {
			t.Fatalf("%v is another when read again (%v): %v", h, err, again)
		}
		for _, md := range h.Current.Files {
			if !filepath.IsLocal(md.File()) {
				t.Fatalf("file %q", md.File())
			}
		}
		const limit = 1 << 20
		l, err := h.layout(limit)
		if err != nil {
			return
		}
		end := int64(0)
		for _, s := range l.sections {
			if s.start != end || s.size < 0 || s.first < 0 {
				t.Fatalf("section %+v after %d", s, end)
			}
			end += s.size
		}
		if end != l.size || end > limit || l.blocks < 0 || l.blocks > limit {
			t.Fatalf("layout %+v", l)
		}
	})
}
