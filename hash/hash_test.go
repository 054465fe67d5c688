package hash

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

// tree makes a hash of paths whose keys are separated by slashes.
func tree(paths ...string) *Hash {
	h := New()
	for _, path := range paths {
		h.At(strings.Split(path, "/")...)
	}
	return h
}

// paths is the inverse of tree: the paths of all leaves, in order.
func paths(h *Hash) []string {
	var list []string
	for key, child := range h.All() {
		if child.Size() == 0 {
			list = append(list, key)
		}
		for _, path := range paths(child) {
			list = append(list, key+"/"+path)
		}
	}
	return list
}

// random makes a tree of some width and depth.
func random(rnd *rand.Rand, width, depth int) *Hash {
	h := New()
	for range rnd.IntN(width + 1) {
		key := make([]byte, rnd.IntN(12))
		for i := range key {
			key[i] = byte(1 + rnd.IntN(255))
		}
		child := h.At(string(key))
		if depth > 1 {
			child.Merge(random(rnd, width, depth-1))
		}
	}
	return h
}

func wantTree(t *testing.T, h *Hash, want ...string) {
	t.Helper()
	if got := paths(h); !slices.Equal(got, want) {
		t.Errorf("tree %q, want %q", got, want)
	}
}

func TestSetGetUnset(t *testing.T) {
	h := New()
	child := tree("x")
	if h.Set("a", child) != child || h.Get("a") != child {
		t.Error("Set or Get of a child")
	}
	if h.Set("b", nil) == nil || h.Get("b").Size() != 0 {
		t.Error("a nil child is an empty hash")
	}
	h.At("a", "y", "z")
	h.At("a", "y", "z") // leaves what is there
	wantTree(t, h, "a/x", "a/y/z", "b")
	if !h.Has("a", "y") || h.Has("a", "z") || h.Has("c", "d") {
		t.Error("Has")
	}
	if h.Get() != h || h.At() != h {
		t.Error("a path without keys is the hash itself")
	}
	h.Set("a", nil)
	wantTree(t, h, "a", "b")
	h.Unset("a")
	h.Unset("not there")
	wantTree(t, h, "b")
	h.UnsetAll()
	wantTree(t, h)
	h.Set("", nil).Set(" ", nil) // any text is a key
	wantTree(t, h, "/ ")
}

func TestNilIsEmpty(t *testing.T) {
	var h *Hash
	h.Unset("a")
	h.UnsetKV("a", "b")
	if h.Size() != 0 || h.Get("a", "b") != nil || h.Has("a") || h.Keys() != nil || h.Ints() != nil ||
		h.Text("a") != "" || h.GetKV("a", "b") != nil || h.GetKVInt("a", 1) != nil || h.Getf("%s", "a") != nil {
		t.Error("something in a nil hash")
	}
	if _, ok := h.Value("a"); ok {
		t.Error("value in a nil hash")
	}
	for range h.All() {
		t.Error("element in a nil hash")
	}
	if !h.Equal(New()) || !New().Equal(h) || !h.Equal(nil) || h.Equal(tree("a")) {
		t.Error("Equal with nil")
	}
	if c := h.Clone(); c == nil || c.Size() != 0 {
		t.Error("Clone of nil")
	}
	if h.PackSize() != 4 || len(h.Pack(nil)) != 4 {
		t.Error("Pack of nil")
	}
	g := tree("a")
	g.Merge(nil)
	wantTree(t, g, "a")
}

func TestKV(t *testing.T) {
	h := New()
	h.SetKV("RANK", "0").SetValue("FILES", "2")
	h.SetKVInt("RANK", 1).SetInt("FILES", -3)
	h.SetKV("RANK", "0").SetValue("SIZE", "10") // finds what is there
	wantTree(t, h, "RANK/0/FILES/2", "RANK/0/SIZE/10", "RANK/1/FILES/-3")
	if h.GetKV("RANK", "0") != h.GetKVInt("RANK", 0) || h.GetKV("RANK", "2") != nil {
		t.Error("GetKV")
	}
	h.UnsetKV("RANK", "0")
	wantTree(t, h, "RANK/1/FILES/-3")
	h.UnsetKVInt("RANK", 7)
	h.UnsetKV("NODE", "1")
	wantTree(t, h, "RANK/1/FILES/-3")
	h.UnsetKVInt("RANK", 1)
	wantTree(t, h) // RANK went with its last value
}

func TestValues(t *testing.T) {
	h := tree("none", "two/a", "two/b", "deep/x/y", "word/ten", "hex/0x10", "big/99999999999999999999")
	h.SetValue("text", "a b")
	h.SetInt("number", -1<<63)
	h.SetInt("number", 1<<63-1)
	for _, test := range []struct {
		key, value string
		ok         bool
		number     int64
		isNumber   bool
	}{
		{"none", "", false, 0, false},
		{"missing", "", false, 0, false},
		{"two", "", false, 0, false},
		{"deep", "x", true, 0, false},
		{"text", "a b", true, 0, false},
		{"number", "9223372036854775807", true, 1<<63 - 1, true},
		{"word", "ten", true, 0, false},
		{"hex", "0x10", true, 0, false},
	} {
		value, ok := h.Value(test.key)
		if value != test.value || ok != test.ok || h.Text(test.key) != test.value {
			t.Errorf("%s: value %q, %v", test.key, value, ok)
		}
		n, ok := h.Int(test.key)
		if ok != test.isNumber || ok && n != test.number {
			t.Errorf("%s: number %d, %v", test.key, n, ok)
		}
	}
	if _, ok := h.Int("big"); ok {
		t.Error("a number that does not fit is one")
	}
	h.SetValue("two", "c")
	wantTree(t, tree("two/c"), "two/c")
	if h.Text("two") != "c" {
		t.Error("SetValue left other values")
	}
}

// NewValues makes the same hash as SetValue for each, and what is done to one value later leaves
// the others alone.
func TestNewValues(t *testing.T) {
	wantTree(t, NewValues())
	h := NewValues("a", "1", "b", "2", "a", "3", "c\x00d", "4\x005")
	wantTree(t, h, "a/3", "b/2", "c/4")
	h.Get("a").Set("more", nil)
	h.SetValue("b", "5")
	h.SetKV("c", "6")
	wantTree(t, h, "a/3", "a/more", "b/5", "c/4", "c/6")
	h.Unset("a")
	h.SetValue("e", "7")
	wantTree(t, h, "b/5", "c/4", "c/6", "e/7")
}

func TestSortedIteration(t *testing.T) {
	h := tree("10", "9", "-1", "b", "a", "9/x", "+5", "1.0")
	if got := h.Keys(); !slices.Equal(got, []string{"+5", "-1", "1.0", "10", "9", "a", "b"}) {
		t.Errorf("keys %q", got)
	}
	h.Unset("+5")
	if got := h.Ints(); !slices.Equal(got, []int{-1, 9, 10}) {
		t.Errorf("ints %d", got)
	}
	var seen []string
	for key := range h.All() {
		seen = append(seen, key)
		if key == "10" {
			break
		}
	}
	if !slices.Equal(seen, []string{"-1", "1.0", "10"}) {
		t.Errorf("iteration that breaks off saw %q", seen)
	}
	seen = nil
	for key := range h.All() {
		seen = append(seen, key)
		h.Unset("9") // what is removed on the way is not seen
		h.Set("new"+key, nil)
	}
	if !slices.Equal(seen, []string{"-1", "1.0", "10", "a", "b"}) {
		t.Errorf("iteration that changes the hash saw %q", seen)
	}
}

// A hash of any number of keys is what a map of them is, whatever was set and
// unset before.
func TestLikeAMap(t *testing.T) {
	for _, space := range []int{3, 12, 13, 14, 30, 300} {
		rnd := rand.New(rand.NewPCG(1, uint64(space)))
		h, m := New(), map[string]*Hash{}
		for step := range 5000 {
			key := fmt.Sprint(rnd.IntN(space))
			switch {
			case rnd.IntN(400) == 0:
				h.UnsetAll()
				clear(m)
			case rnd.IntN(2) == 0:
				m[key] = h.Set(key, nil)
			default:
				h.Unset(key)
				delete(m, key)
			}
			if h.Size() != len(m) {
				t.Fatalf("%d keys, step %d: size %d, want %d", space, step, h.Size(), len(m))
			}
			for i := range space {
				if key := fmt.Sprint(i); h.Get(key) != m[key] {
					t.Fatalf("%d keys, step %d: key %s", space, step, key)
				}
			}
		}
	}
}

func TestMerge(t *testing.T) {
	h := tree("a/x", "b/1")
	other := tree("a/y/z", "b/2", "c")
	h.Merge(other)
	wantTree(t, h, "a/x", "a/y/z", "b/1", "b/2", "c")
	wantTree(t, other, "a/y/z", "b/2", "c")
	h.At("a", "y", "z", "only in h")
	wantTree(t, other, "a/y/z", "b/2", "c") // nothing is shared
	before := h.Clone()
	h.Merge(h)
	if !h.Equal(before) {
		t.Error("a hash merged into itself changed")
	}
}

func TestCloneAndEqual(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	for range 50 {
		h := random(rnd, 8, 4)
		c := h.Clone()
		if !c.Equal(h) || !h.Equal(c) {
			t.Fatal("clone differs")
		}
		// One more leaf anywhere makes a difference both ways.
		at := c
		for at.Size() > 0 && rnd.IntN(3) > 0 {
			at = at.Get(at.Keys()[rnd.IntN(at.Size())])
		}
		at.Set("another", nil)
		if c.Equal(h) || h.Equal(c) {
			t.Fatal("trees that differ are equal")
		}
	}
	if tree("a", "b").Equal(tree("a", "c")) || tree("a/b").Equal(tree("a/c")) {
		t.Error("trees of the same size that differ are equal")
	}
}

func TestSetfGetf(t *testing.T) {
	h := New()
	for _, test := range []struct {
		format string
		args   []any
		want   string // "": an error
	}{
		{"RANK", nil, "RANK"},
		{"%s %d %s %d", []any{"RANK", 0, "CKPT", 10}, "RANK/0/CKPT/10"},
		{"%s %ld %lu %llu %u", []any{"a", 1, 2, 3, 4}, "a/1/2/3/4"},
		{"FILE %s", []any{"a name with blanks"}, "FILE/a name with blanks"},
		{"%d_of_%d x", []any{1, 2}, "1_of_2/x"},
		{"100%% %s", []any{"y"}, "100%/y"},
		{"%s %s", []any{"a"}, ""},
		{"%s", []any{"a", "b"}, ""},
	} {
		got, err := h.Setf(nil, test.format, test.args...)
		if test.want == "" {
			if err == nil || h.Getf(test.format, test.args...) != nil {
				t.Errorf("%q with %v is a path", test.format, test.args)
			}
			continue
		}
		want := h.Get(strings.Split(test.want, "/")...)
		if err != nil || got == nil || got != want || h.Getf(test.format, test.args...) != want {
			t.Errorf("%q with %v: %v, tree %q", test.format, test.args, err, paths(h))
		}
	}
	h = tree("a/1/x")
	child := tree("y")
	if _, err := h.Setf(nil, "a %d", 1); err != nil || !h.Has("a", "1", "x") {
		t.Error("Setf of nil removed something")
	}
	if got, err := h.Setf(child, "a %d", 1); got != child || err != nil {
		t.Errorf("%v, %v", got, err)
	}
	wantTree(t, h, "a/1/y")
}

// What is in memory is what will be read back, so a key ends where its form in
// files does.
func TestKeysEndAtNUL(t *testing.T) {
	h := New()
	h.Set("a\x00b", nil).SetValue("k", "v\x00w")
	h.At("a\x00c", "d")
	wantTree(t, h, "a/d", "a/k/v")
	if !h.Has("a\x00z") || h.Get("a").Text("k\x00") != "v" {
		t.Error("a key with a NUL is another key")
	}
	if got, err := Decode(h.Encode()); err != nil || !got.Equal(h) {
		t.Errorf("read back: %v", err)
	}
	h.Unset("a\x00y")
	wantTree(t, h)
	for i := range 30 { // with an index too
		h.Set(fmt.Sprintf("%d\x00x", i), nil)
	}
	h.Unset("3\x00y")
	if h.Has("3") || !h.Has("29") || h.Size() != 29 {
		t.Error("Unset of a key with a NUL")
	}
}

func TestPrint(t *testing.T) {
	h := tree("RANK/0/FILES/2", "RANK/1", "LIST/a", "LIST/b", "DEEP/x/y/z", "LEAF")
	for _, test := range []struct {
		print func(*strings.Builder) error
		want  string
	}{
		{func(b *strings.Builder) error { return h.Print(b, 0) }, `DEEP
  x
    y
      z
LEAF
LIST
  a
  b
RANK
  0
    FILES
      2
  1
`},
		{func(b *strings.Builder) error { return h.PrintKV(b, 2) }, `  DEEP
    x
      y = z
  LEAF
  LIST
    a
    b
  RANK
    0
      FILES = 2
    1
`},
		{func(b *strings.Builder) error { return New().Print(b, 4) }, ""},
		{func(b *strings.Builder) error { return (*Hash)(nil).PrintKV(b, 4) }, ""},
	} {
		var b strings.Builder
		if err := test.print(&b); err != nil || b.String() != test.want {
			t.Errorf("%v\n%s\nwant\n%s", err, b.String(), test.want)
		}
	}
	if err := h.Print(full{}, 0); err == nil {
		t.Error("no error from a device that is full")
	}
}

type full struct{}

func (full) Write([]byte) (int, error) { return 0, fmt.Errorf("full") }
