package schemetest

import (
	"errors"
	"maps"
	"os"
	"slices"
	"strconv"
	"testing"

	"github.com/goscr/goscr/hash"
	"github.com/goscr/goscr/internal/redundancy"
	"github.com/goscr/goscr/mpi/local"
)

const largerFiles = "files larger than the redundancy is for"

// Header changes the header of a survivor's redundancy file to one whose parts
// contradict each other, though its checksum is right. Recover has to refuse it
// on all members; it must not wait for what does not come.
func Header(t *testing.T, scheme redundancy.Scheme, n int) {
	// Each returns by how many bytes the file has to grow to fit.
	changes := map[string]func(h *hash.Hash) (more int64){
		"larger": func(h *hash.Hash) int64 {
			key := "CHUNK"
			if copies := h.Get("COPY"); copies != nil {
				h, key = copies, "0"
			}
			was, _ := h.Int(key)
			h.SetInt(key, was+3*piece)
			return 3 * piece
		},
		"copies in place of chunks": func(h *hash.Hash) int64 {
			if h.Has("COPY") {
				return 0
			}
			size, _ := h.Int("CHUNK")
			n, several := h.Int("CHUNKS")
			if !several {
				n = 1
			}
			for i := range n {
				h.At("COPY").SetInt(strconv.FormatInt(i, 10), size)
			}
			h.SetInt("CHUNK", 1<<60)
			return 0
		},
		largerFiles: func(h *hash.Hash) int64 {
			for _, file := range h.Get("CURRENT", "FILE").All() {
				file.SetInt("SIZE", 1<<40)
			}
			return 0
		},
		"no files of the neighbours": func(h *hash.Hash) int64 {
			for _, key := range []string{"PARTNER", "PARTNER2"} {
				h.Unset(key)
			}
			return 0
		},
	}
	for _, name := range slices.Sorted(maps.Keys(changes)) {
		for m := range n {
			c := newCluster(t, scheme, n, sizes["primes"], 4)
			c.encode()
			_, made := redundancy.Split(c.files[m])
			data, err := os.ReadFile(made[0].Path)
			must(t, err)
			f, err := os.Open(made[0].Path)
			must(t, err)
			h, start, err := hash.ReadFrom(f, 1<<30)
			must(t, err)
			must(t, f.Close())
			was := h.Clone()
			more := changes[name](h)
			if h.Equal(was) {
				continue
			}
			changed := append(h.Encode(), data[start:]...)
			must(t, os.WriteFile(made[0].Path, append(changed, make([]byte, more)...), 0o600))
			if err := c.recover([]int{(m + n - 1) % n}, local.Options{}); err == nil {
				t.Errorf("%s at member %d was not noticed", name, m)
			} else if errors.Is(err, local.ErrDeadlock) {
				t.Errorf("%s at member %d: %v", name, m, err)
			} else if name == largerFiles && !errors.Is(err, redundancy.ErrCorrupt) {
				t.Errorf("%s at member %d is not counted as a loss of the member: %v", name, m, err)
			}
		}
	}
}
