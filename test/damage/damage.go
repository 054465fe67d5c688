// Package damage changes what is in files of goscr, by chance and yet the same for the same
// random numbers. A change of a hash or of a journal gets the checksum that fits it, so that
// it is not found by the checksum but reaches the code behind it.
package damage

import (
	"bytes"
	"encoding/binary"
	"hash/crc32"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/goscr/goscr/hash"
)

// Damager changes files.
type Damager struct {
	Random *rand.Rand
	Paths  []string // that names may be changed to, beside many others: of files that must stay as they are
}

// Change returns other contents for the file of a name: of a hash another tree, of a
// journal another record; of other files, and at times of these too, other bytes.
func (d *Damager) Change(name string, data []byte) []byte {
	data = slices.Clone(data)
	if d.Random.IntN(8) > 0 {
		if h, n, err := hash.ReadFrom(bytes.NewReader(data), int64(len(data))); err == nil {
			d.tree(h)
			return append(h.Encode(), data[n:]...)
		}
		if strings.HasSuffix(filepath.Base(name), ".journal") {
			if changed, ok := d.journal(data); ok {
				return changed
			}
		}
	}
	return d.bytes(data)
}

// bytes changes bytes, without a checksum that fits.
func (d *Damager) bytes(data []byte) []byte {
	r := d.Random
	switch r.IntN(7) {
	case 0:
		return nil
	case 1:
		return data[:r.IntN(len(data)+1)]
	case 2:
		for range 1 + r.IntN(2000) {
			data = append(data, byte(r.Uint32()))
		}
	case 3:
		return make([]byte, len(data))
	case 4: // a count or a size at the beginning
		for i := 4; i < min(len(data), 28); i++ {
			if r.IntN(3) == 0 {
				data[i] = byte(r.Uint32())
			}
		}
	default:
		for range 1 + r.IntN(4) {
			if len(data) > 0 {
				data[r.IntN(len(data))] ^= 1 << r.IntN(8)
			}
		}
	}
	return data
}

// journal changes a record of a journal: length, CRC-32 and a packed hash each.
func (d *Damager) journal(data []byte) (changed []byte, ok bool) {
	var records []*hash.Hash
	for len(data) >= 8 {
		length := int64(binary.BigEndian.Uint32(data))
		if length > int64(len(data)-8) {
			break
		}
		h, _, err := hash.Unpack(data[8 : 8+length])
		if err != nil {
			break
		}
		records = append(records, h)
		data = data[8+length:]
	}
	if len(records) == 0 {
		return nil, false
	}
	i := d.Random.IntN(len(records))
	switch d.Random.IntN(5) {
	case 0:
		records = slices.Delete(records, i, i+1)
	case 1:
		records = append(records, records[i])
	default:
		d.tree(records[i])
	}
	for _, h := range records {
		packed := h.Pack(nil)
		changed = binary.BigEndian.AppendUint32(changed, uint32(len(packed)))
		changed = binary.BigEndian.AppendUint32(changed, crc32.ChecksumIEEE(packed))
		changed = append(changed, packed...)
	}
	return changed, true
}

// tree changes a few places of a tree.
func (d *Damager) tree(h *hash.Hash) {
	for range 1 + d.Random.IntN(3) {
		d.place(h)
	}
}

// place changes one place.
func (d *Damager) place(root *hash.Hash) {
	r := d.Random
	at, key := d.choose(root)
	if key == "" {
		root.SetValue("KEY", d.text("value"))
		return
	}
	child := at.Get(key)
	switch r.IntN(12) {
	case 0:
		at.Unset(key)
	case 1: // another name, or the value of a field
		at.Unset(key)
		at.Set(d.text(key), child)
	case 2:
		at.Set(d.text(key), child.Clone())
	case 3:
		child.UnsetAll()
	case 4:
		at.SetValue(key, d.text(key))
	case 5: // a tree somewhere else
		other, name := d.choose(root)
		if name != "" {
			other.Set(key, child.Clone())
		}
	case 6: // two fields change places
		other, name := d.choose(root)
		if name != "" {
			a, b := child.Clone(), other.Get(name).Clone()
			at.Set(key, b)
			other.Set(name, a)
		}
	case 7:
		deep := child
		for range 1 + r.IntN(200) {
			deep = deep.At("a")
		}
	case 8:
		for i := range 1 + r.IntN(300) {
			child.At(strconv.Itoa(i))
		}
	default: // a value, which is a key without anything below it
		if one, value, ok := leaf(child); ok {
			one.Unset(value)
			one.Set(d.text(value), nil)
			return
		}
		at.Unset(key)
		at.Set(d.text(key), child)
	}
}

// choose returns a place in a tree: a hash, and a key in it; "" if there is none.
func (d *Damager) choose(h *hash.Hash) (at *hash.Hash, key string) {
	for {
		keys := h.Keys()
		if len(keys) == 0 {
			return at, key
		}
		at, key = h, keys[d.Random.IntN(len(keys))]
		if d.Random.IntN(6) == 0 {
			return at, key
		}
		h = h.Get(key)
	}
}

// leaf returns the only value of a field.
func leaf(h *hash.Hash) (at *hash.Hash, value string, ok bool) {
	keys := h.Keys()
	if len(keys) != 1 || h.Get(keys[0]).Size() > 0 {
		return nil, "", false
	}
	return h, keys[0], true
}

// text is something else in the place of a text, often of the same kind.
func (d *Damager) text(old string) string {
	r := d.Random
	if n, err := strconv.ParseInt(old, 0, 64); err == nil && r.IntN(4) > 0 {
		numbers := []int64{0, 1, -1, n + 1, n - 1, 2 * n, -n, 3, 1 << 16, 1 << 31, 1<<31 - 1, 1 << 32, 1 << 53, 1<<62 + 1, -1 << 63, 1<<63 - 1}
		return strconv.FormatInt(numbers[r.IntN(len(numbers))], 10)
	}
	texts := []string{"", "0", "1", "-1", "99999999999999999999", "1e9", "0x", ".", "..", "../../outside/file", "/", "../" + old, old + "/..", old + "x", "a/../../../b",
		"\x01\n\x1b[31m", strings.Repeat("x", 300), strings.Repeat("y/", 600), ".scr/index.scr", "%s%n", "CKPT"}
	texts = append(texts, d.Paths...)
	if dir := filepath.Dir(old); dir != "." {
		texts = append(texts, filepath.Join(dir, "../../../../../../outside/file"), dir)
	}
	return texts[r.IntN(len(texts))]
}
