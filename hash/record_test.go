package hash

import (
	"bytes"
	"fmt"
	"reflect"
	"testing"
	"time"
)

// crc is a number with a text of its own.
type crc uint32

func (x crc) MarshalText() ([]byte, error) { return fmt.Appendf(nil, "0x%08x", uint32(x)), nil }

func (x *crc) UnmarshalText(text []byte) error {
	_, err := fmt.Sscanf(string(text), "0x%08x", (*uint32)(x))
	return err
}

// pair is a record with a tree of its own.
type pair struct{ a, b string }

func (p pair) MarshalHash() *Hash { return NewValues("A", p.a, "B", p.b) }

func (p *pair) UnmarshalHash(h *Hash) { p.a, p.b = h.Text("A"), h.Text("B") }

type inner struct {
	Size int64 `hash:"SIZE"`
	Flag bool  `hash:"FLAG,omitempty"`
}

type Common struct {
	Name string `hash:"NAME"`
}

type all struct {
	Common
	Int     int               `hash:"INT"`
	Small   int8              `hash:"SMALL,omitempty"`
	Uint    uint64            `hash:"UINT,omitempty"`
	Bool    bool              `hash:"BOOL"`
	Text    string            `hash:"TEXT,omitempty"`
	Time    time.Time         `hash:"TIME,omitempty"`
	Began   time.Time         `hash:"BEGAN,omitempty,seconds"`
	Took    time.Duration     `hash:"TOOK,omitempty"`
	Limit   time.Duration     `hash:"LIMIT,omitempty,seconds"`
	CRC     crc               `hash:"CRC,omitempty"`
	Inner   inner             `hash:"INNER,omitempty"`
	Pointer *inner            `hash:"POINTER"`
	Known   *int              `hash:"KNOWN"`
	Pair    pair              `hash:"PAIR,omitempty"`
	Tree    *Hash             `hash:"TREE"`
	Ranks   map[int]inner     `hash:"RANK,omitempty"`
	Env     map[string]string `hash:"ENV,omitempty"`
	Words   []string          `hash:"WORD,omitempty"`
	Files   []inner           `hash:"FILE,omitempty"`
	Set     []string          `hash:"SET,omitempty,set"`
	Numbers []int             `hash:"NUMBER,omitempty,set"`
}

func example() all {
	seven := 7
	tree := New()
	tree.SetKV("A", "B")
	return all{
		Common: Common{"n"}, Int: -3, Small: 4, Uint: 1 << 63, Bool: true, Text: "t", Time: time.UnixMicro(1234567), Began: time.Unix(99, 0),
		Took: 1500 * time.Microsecond, Limit: 90 * time.Second, CRC: 0xab, Inner: inner{5, true}, Pointer: &inner{6, false}, Known: &seven,
		Pair: pair{"x", "y"}, Tree: tree, Ranks: map[int]inner{0: {1, false}, 12: {2, true}}, Env: map[string]string{"A": "1", "B": ""},
		Words: []string{"ls", "-l", "ls"}, Files: []inner{{3, false}, {4, true}}, Set: []string{"a", "b"}, Numbers: []int{2, 10},
	}
}

func TestRecord(t *testing.T) {
	want := `BEGAN = 99
BOOL = 1
CRC = 0x000000ab
ENV
  A = 1
  B
FILE
  0
    SIZE = 3
  1
    FLAG = 1
    SIZE = 4
INNER
  FLAG = 1
  SIZE = 5
INT = -3
KNOWN = 7
LIMIT = 90
NAME = n
NUMBER
  10
  2
PAIR
  A = x
  B = y
POINTER
  SIZE = 6
RANK
  0
    SIZE = 1
  12
    FLAG = 1
    SIZE = 2
SET
  a
  b
SMALL = 4
TEXT = t
TIME = 1234567
TOOK = 1500
TREE
  A = B
UINT = 9223372036854775808
WORD
  0 = ls
  1 = -l
  2 = ls
`
	record := example()
	h := Marshal(record)
	var out bytes.Buffer
	h.PrintKV(&out, 0)
	// A value that is an empty text is a key of an empty key.
	if got := bytes.ReplaceAll(out.Bytes(), []byte("B = \n"), []byte("B\n")); string(got) != want {
		t.Errorf("%s\nwant\n%s", got, want)
	}
	if got := As[all](h); !reflect.DeepEqual(got, record) {
		t.Errorf("%+v\nwant\n%+v", got, record)
	}
	if got := As[all](nil); !reflect.DeepEqual(got, all{Ranks: map[int]inner{}, Env: map[string]string{}}) {
		t.Errorf("from nothing: %+v", got)
	}
}

// Values that are missing or wrong leave the fields as they were.
func TestRecord_Wrong(t *testing.T) {
	h := New()
	for _, key := range []string{"INT", "UINT", "TIME", "TOOK", "CRC", "KNOWN"} {
		h.SetValue(key, "x")
	}
	h.SetValue("SMALL", "128")
	h.SetKV("TEXT", "one")
	h.SetKV("TEXT", "two")
	h.At("BOOL")
	want := example()
	got := example()
	Unmarshal(h, &got)
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%+v\nwant\n%+v", got, want)
	}
	h.SetValue("BOOL", "yes") // no other text than 1 is true
	if Unmarshal(h, &got); got.Bool {
		t.Error("yes is true")
	}
	h.At("RANK", "007")
	h.At("RANK", "x")
	h.At("FILE", "1")
	h.At("NUMBER", "x")
	h.At("NUMBER", "3")
	if got := As[all](h); len(got.Ranks) != 0 || len(got.Files) != 0 || !reflect.DeepEqual(got.Numbers, []int{3}) {
		t.Errorf("%+v", got)
	}
}

// What another version has written below the records of a hash stays.
func TestSetFields(t *testing.T) {
	record := example()
	h := Marshal(record)
	h.SetValue("NEW", "1")
	h.Get("INNER").SetValue("NEW", "1")
	h.Get("POINTER").SetValue("NEW", "1")
	h.Get("RANK", "12").SetValue("NEW", "1")
	h.At("RANK", "all")
	want := h.Clone()
	want.Unset("TEXT")
	want.Unset("KNOWN")
	want.Get("RANK").Unset("0")
	want.SetInt("INT", 8)
	record.Text, record.Known, record.Int = "", nil, 8
	delete(record.Ranks, 0)
	if h.SetFields(&record); !h.Equal(want) {
		t.Errorf("%s\nwant\n%s", text(h), text(want))
	}
}

func text(h *Hash) string {
	var out bytes.Buffer
	h.PrintKV(&out, 0)
	return out.String()
}

type kept struct {
	ID   int    `hash:"ID,omitempty"`
	Name string `hash:"NAME,omitempty"`
	Rest *Hash  `hash:",rest"`
}

func TestRecord_Rest(t *testing.T) {
	h := NewValues("ID", "3", "NEW", "1", "NAME", "")
	h.At("TREE", "A", "B")
	k := As[kept](h)
	if got := Marshal(k); !got.Equal(h) {
		t.Errorf("%s\nwant\n%s", text(got), text(h))
	}
	if k.ID != 3 || k.Rest.Has("ID") || !k.Rest.Has("NAME") {
		t.Errorf("%d, and the rest is\n%s", k.ID, text(k.Rest))
	}
	h.SetValue("ID", "x")
	k = As[kept](h)
	if got := Marshal(k); k.ID != 0 || !got.Equal(h) {
		t.Errorf("%d\n%s\nwant\n%s", k.ID, text(got), text(h))
	}
	k.ID = 4
	if got := Marshal(k).Text("ID"); got != "4" {
		t.Errorf("%q in place of what could not be read, want 4", got)
	}
	h.Get("TREE").Unset("A")
	if !k.Rest.Has("TREE", "A", "B") {
		t.Error("the rest changes with the hash that was read")
	}
	if k := As[kept](NewValues("ID", "3")); k.Rest != nil {
		t.Error("an empty rest is not nil")
	}
}

// Mistakes in tags and types panic.
func TestRecord_Mistakes(t *testing.T) {
	for _, record := range []any{
		&struct {
			A int `hash:"A,omitempyt"`
		}{1},
		&struct {
			A int `hash:""`
		}{1},
		&struct {
			A *Hash `hash:"A,rest"`
		}{},
		&struct {
			A float64 `hash:"A"`
		}{1},
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%T: no panic", record)
				}
			}()
			Marshal(record)
		}()
	}
}

// A record that was read from any hash is the same when it is written and read again.
func FuzzRecord(f *testing.F) {
	f.Add(Marshal(example()).Pack(nil))
	f.Add(NewValues("INT", "+5", "NAME", "", "TIME", "-1", "BOOL", "2").Pack(nil))
	list := New()
	list.At("FILE", "0")
	list.At("RANK", "-1", "SIZE", "9")
	list.At("NUMBER", "03")
	f.Add(list.Pack(nil))
	f.Fuzz(func(t *testing.T, data []byte) {
		h, _, err := Unpack(data)
		if err != nil {
			return
		}
		first := Marshal(As[all](h))
		if second := Marshal(As[all](first)); !second.Equal(first) {
			t.Errorf("%s\nthen\n%s", text(first), text(second))
		}
		if again := Marshal(As[kept](h)); !sameBut(again, h, "ID") {
			t.Errorf("with a rest\n%s\nwant\n%s", text(again), text(h))
		}
	})
}

// sameBut reports whether two hashes are equal but for the text of a number.
func sameBut(a, b *Hash, key string) bool {
	a, b = a.Clone(), b.Clone()
	x, xOK := a.Int(key)
	if y, yOK := b.Int(key); x != y || xOK != yOK {
		return false
	}
	if xOK {
		a.Unset(key)
		b.Unset(key)
	}
	return a.Equal(b)
}

type benchFile struct {
	File string `hash:"FILE"`
	Type string `hash:"TYPE"`
	Size int64  `hash:"SIZE"`
	Mode int    `hash:"MODE"`
}

func BenchmarkMarshal(b *testing.B) {
	f := benchFile{"dir/name", "FULL", 1 << 20, 420}
	b.ReportAllocs()
	for b.Loop() {
		Marshal(&f)
	}
}

func BenchmarkMarshalByHand(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		h := NewValues("FILE", "dir/name", "TYPE", "FULL")
		h.SetInt("SIZE", 1<<20)
		h.SetInt("MODE", 420)
	}
}

func BenchmarkUnmarshal(b *testing.B) {
	h := Marshal(&benchFile{"dir/name", "FULL", 1 << 20, 420})
	b.ReportAllocs()
	for b.Loop() {
		As[benchFile](h)
	}
}

// A time that is longer than a Duration can be is not of its type: it must not become a short one.
func TestRecord_TooLong(t *testing.T) {
	type record struct {
		Took time.Duration `hash:"TOOK,seconds"`
	}
	for _, text := range []string{"9223372037", "-9223372037", "9223372036854775807", "-9223372036854775808"} {
		h := New()
		h.SetValue("TOOK", text)
		r := record{Took: time.Hour}
		if Unmarshal(h, &r); r.Took != time.Hour {
			t.Errorf("%s s is %v", text, r.Took)
		}
	}
	h := New()
	h.SetValue("TOOK", "9223372036")
	if r := As[record](h); r.Took != 9223372036*time.Second {
		t.Errorf("the longest is %v", r.Took)
	}
}
