// Package hash is the tree of strings in which goscr keeps everything it
// stores or sends that is not a checkpoint file (SCR Developer's Manual, "Hash").
//
// A Hash maps keys to hashes; a value is a key whose hash is empty:
//
//	RANK
//	  0
//	    FILES
//	      2
//
// reads "rank 0 has 2 files". All methods that only read accept a nil *Hash
// and treat it as an empty one, so that lookups can be chained without
// checking each step. A Hash is not safe for concurrent use.
//
// A key ends at a NUL byte, which packed hashes cannot contain: "a\x00b" is the
// key "a" wherever a key is given.
//
// The package also converts between hashes and structs (record.go), encodes hashes for
// messages and files (format.go, file.go), and locks files that several processes update
// (lock.go).
package hash

import (
	"fmt"
	"iter"
	"slices"
	"strconv"
	"strings"
)

// Hash is a tree of strings. The zero value is an empty hash.
//
// Most hashes hold one key or a handful, and a rank with 10,000 files has
// several hundred thousand of them, so a hash is a list; only one with many
// keys gets an index.
type Hash struct {
	elements []element      // sorted by key if there is no index
	index    map[string]int // position in elements; nil up to indexAbove elements
}

type element struct {
	key   string
	child *Hash
}

// Up to this number of keys there is no index: comparing them one by one takes hardly longer, and
// the description of a file, of which there may be very many, has fewer keys.
const indexAbove = 24

// find returns the position of key in h.elements, -1 if it is not there.
func (h *Hash) find(key string) int {
	if h == nil {
		return -1
	}
	key = cut(key)
	if h.index != nil {
		if i, ok := h.index[key]; ok {
			return i
		}
		return -1
	}
	for i := range h.elements {
		if h.elements[i].key == key {
			return i
		}
	}
	return -1
}

// cut ends a key at the first NUL, as C does.
func cut(key string) string {
	if end := strings.IndexByte(key, 0); end >= 0 {
		return key[:end]
	}
	return key
}

// New returns an empty hash.
func New() *Hash { return &Hash{} }

// Size is the number of keys in h.
func (h *Hash) Size() int {
	if h == nil {
		return 0
	}
	return len(h.elements)
}

// Get returns the hash under a path of keys, nil if there is none.
func (h *Hash) Get(keys ...string) *Hash {
	for _, key := range keys {
		i := h.find(key)
		if i < 0 {
			return nil
		}
		h = h.elements[i].child
	}
	return h
}

// Has reports whether there is a hash under a path of keys.
func (h *Hash) Has(keys ...string) bool { return h.Get(keys...) != nil }

// Set puts child under key in place of what was there, and returns child. A
// nil child stands for an empty hash.
func (h *Hash) Set(key string, child *Hash) *Hash {
	if child == nil {
		child = New()
	}
	if i := h.find(key); i >= 0 {
		h.elements[i].child = child
		return child
	}
	h.add(cut(key), child)
	return child
}

// add adds a key that h does not have.
func (h *Hash) add(key string, child *Hash) {
	n := len(h.elements)
	h.elements = append(h.elements, element{key, child})
	switch {
	case h.index != nil:
		h.index[key] = n
	case n >= indexAbove:
		h.index = make(map[string]int, 2*n)
		for i, e := range h.elements {
			h.index[e.key] = i
		}
	default:
		for at := n; at > 0 && h.elements[at-1].key > key; at-- {
			h.elements[at], h.elements[at-1] = h.elements[at-1], h.elements[at]
		}
	}
}

// children makes hashes to be added to one parent, several at a time: most trees have many small
// ones.
type children struct {
	made []Hash
	left int // how many more there will be
}

// next returns an empty hash.
func (c *children) next() *Hash {
	const most = 64 // at a time, since a count that is read may be wrong
	if len(c.made) == 0 {
		c.made = make([]Hash, max(min(c.left, most), 1))
		c.left -= len(c.made)
	}
	h := &c.made[0]
	c.made = c.made[1:]
	return h
}

// grow makes room for n more keys.
func (h *Hash) grow(n int) {
	const most = 64 // as above
	h.elements = slices.Grow(h.elements, min(n, most))
}

// At returns the hash under a path of keys, and makes those that are missing.
func (h *Hash) At(keys ...string) *Hash {
	for _, key := range keys {
		next := h.Get(key)
		if next == nil {
			next = h.Set(key, nil)
		}
		h = next
	}
	return h
}

// Unset removes key.
func (h *Hash) Unset(key string) {
	i := h.find(key)
	if i < 0 {
		return
	}
	last := len(h.elements) - 1
	switch {
	case h.index == nil:
		copy(h.elements[i:], h.elements[i+1:])
	case i != last:
		h.elements[i] = h.elements[last]
		h.index[h.elements[i].key] = i
	}
	h.elements[last] = element{}
	h.elements = h.elements[:last]
	delete(h.index, cut(key))
}

// UnsetAll removes all keys.
func (h *Hash) UnsetAll() { *h = Hash{} }

// SetKV returns the hash under key, value and makes it if need be. Other
// values of key stay: SetKV("RANK", "0") and SetKV("RANK", "1") give a hash
// with two ranks. To replace a value see SetValue.
func (h *Hash) SetKV(key, value string) *Hash { return h.At(key, value) }

// GetKV returns the hash under key, value, nil if there is none.
func (h *Hash) GetKV(key, value string) *Hash { return h.Get(key, value) }

// UnsetKV removes value from key, and key if that leaves it empty.
func (h *Hash) UnsetKV(key, value string) {
	under := h.Get(key)
	under.Unset(value)
	if under != nil && under.Size() == 0 {
		h.Unset(key)
	}
}

// SetKVInt is SetKV for a number.
func (h *Hash) SetKVInt(key string, value int) *Hash { return h.SetKV(key, strconv.Itoa(value)) }

// GetKVInt is GetKV for a number.
func (h *Hash) GetKVInt(key string, value int) *Hash { return h.GetKV(key, strconv.Itoa(value)) }

// UnsetKVInt is UnsetKV for a number.
func (h *Hash) UnsetKVInt(key string, value int) { h.UnsetKV(key, strconv.Itoa(value)) }

// NewValues returns a hash with one value for each key. pairs are a key, its value, the next key
// and so on; a last key without a value is ignored. It is faster than SetValue for each.
func NewValues(pairs ...string) *Hash {
	h := New()
	values := make([]single, len(pairs)/2)
	h.grow(2 * len(values)) // room for as many again, because more values usually follow
	for i := range values {
		h.setValue(pairs[2*i], pairs[2*i+1], &values[i])
	}
	return h
}

// SetValue makes value the only value of key.
func (h *Hash) SetValue(key, value string) { h.setValue(key, value, &single{}) }

func (h *Hash) setValue(key, value string, v *single) {
	v.of.elements = v.element[:]
	v.element[0] = element{cut(value), &v.end}
	h.Set(key, &v.of)
}

// single is what is under a key with one value.
type single struct {
	of, end Hash
	element [1]element
}

// SetInt makes value the only value of key.
func (h *Hash) SetInt(key string, value int64) { h.SetValue(key, strconv.FormatInt(value, 10)) }

// Value returns the value of key; ok is false unless key has exactly one.
func (h *Hash) Value(key string) (string, bool) {
	under := h.Get(key)
	if under.Size() != 1 {
		return "", false
	}
	return under.elements[0].key, true
}

// Text returns the value of key, "" if it has none.
func (h *Hash) Text(key string) string {
	value, _ := h.Value(key)
	return value
}

// Int returns the value of key as a number; ok is false unless key has exactly
// one value and that is a decimal number.
func (h *Hash) Int(key string) (int64, bool) {
	value, ok := h.Value(key)
	if !ok {
		return 0, false
	}
	n, err := strconv.ParseInt(value, 10, 64)
	return n, err == nil
}

// Keys returns the keys of h in sorted order.
func (h *Hash) Keys() []string {
	if h == nil {
		return nil
	}
	keys := make([]string, len(h.elements))
	for i, e := range h.elements {
		keys[i] = e.key
	}
	slices.Sort(keys)
	return keys
}

// All iterates over the keys of h in sorted order.
func (h *Hash) All() iter.Seq2[string, *Hash] {
	return func(yield func(string, *Hash) bool) {
		if h.Size() == 1 { // values, mostly
			yield(h.elements[0].key, h.elements[0].child)
			return
		}
		for _, key := range h.Keys() {
			if child := h.Get(key); child != nil && !yield(key, child) {
				return
			}
		}
	}
}

// Ints returns those keys of h that are decimal numbers, smallest first.
func (h *Hash) Ints() []int {
	if h == nil {
		return nil
	}
	var list []int
	for _, e := range h.elements {
		if n, err := strconv.Atoi(e.key); err == nil {
			list = append(list, n)
		}
	}
	slices.Sort(list)
	return list
}

// Merge copies all of other into h, down to the leaves. Keys that only h has stay.
func (h *Hash) Merge(other *Hash) {
	if other == nil {
		return
	}
	if h.Size() == 0 {
		other.copyTo(h)
		return
	}
	for _, e := range other.elements {
		h.At(e.key).Merge(e.child)
	}
}

// Clone returns a copy that shares nothing with h.
func (h *Hash) Clone() *Hash {
	c := New()
	h.copyTo(c)
	return c
}

// copyTo copies all of h into c, which is empty.
func (h *Hash) copyTo(c *Hash) {
	if h.Size() == 0 {
		return
	}
	made := children{left: len(h.elements)}
	c.elements = make([]element, 0, len(h.elements))
	for _, e := range h.elements {
		child := made.next()
		e.child.copyTo(child)
		c.add(e.key, child)
	}
}

// Equal reports whether two trees have the same keys all the way down.
func (h *Hash) Equal(other *Hash) bool {
	if h.Size() != other.Size() {
		return false
	}
	if h == nil {
		return true
	}
	for _, e := range h.elements {
		if i := other.find(e.key); i < 0 || !e.child.Equal(other.elements[i].child) {
			return false
		}
	}
	return true
}

// Setf puts child under the path that format and args describe, as in
//
//	h.Setf(child, "%s %d %s %d", "RANK", 0, "CKPT", 10)
//
// A nil child adds the path and changes nothing under it. Keys are
// separated by single spaces in format; a key that comes from an argument may
// itself hold spaces.
func (h *Hash) Setf(child *Hash, format string, args ...any) (*Hash, error) {
	keys, err := path(format, args)
	if err != nil {
		return nil, err
	}
	if child == nil {
		return h.At(keys...), nil
	}
	last := len(keys) - 1
	return h.At(keys[:last]...).Set(keys[last], child), nil
}

// Getf returns the hash under the path that format and args describe, nil if
// there is none.
func (h *Hash) Getf(format string, args ...any) *Hash {
	keys, err := path(format, args)
	if err != nil {
		return nil
	}
	return h.Get(keys...)
}

// cVerbs are the length modifiers of C's printf, which callers of the original
// write and Go does not know.
var cVerbs = strings.NewReplacer("%ld", "%d", "%lld", "%d", "%lu", "%d", "%llu", "%d", "%u", "%d", "%lf", "%f")

func path(format string, args []any) ([]string, error) {
	var keys []string
	for _, word := range strings.Split(cVerbs.Replace(format), " ") {
		verbs := strings.Count(word, "%") - 2*strings.Count(word, "%%")
		if verbs > len(args) {
			return nil, fmt.Errorf("format %q asks for more arguments than were given", format)
		}
		keys = append(keys, fmt.Sprintf(word, args[:verbs]...))
		args = args[verbs:]
	}
	if len(args) > 0 {
		return nil, fmt.Errorf("format %q leaves %d arguments over", format, len(args))
	}
	return keys, nil
}
