package session

import (
	"bytes"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/goscr/goscr/hash"
	"github.com/goscr/goscr/test/sample"
)

// damage is what can happen to a redundancy file.
type damage struct {
	name   string
	damage func(c *cluster, path string)
}

var ways = []damage{
	{"missing", func(c *cluster, path string) { c.must(os.Remove(path)) }},
	{"a bit", func(c *cluster, path string) { c.change(path, func(d []byte) []byte { d[len(d)-1] ^= 1; return d }) }},
	{"truncated", func(c *cluster, path string) { c.change(path, cut) }},
	{"empty", func(c *cluster, path string) { c.change(path, func([]byte) []byte { return nil }) }},
	{"header", func(c *cluster, path string) { c.change(path, func(d []byte) []byte { d[60] ^= 1; return d }) }},
	{"of another dataset", func(c *cluster, path string) {
		c.header(path, func(h *hash.Hash) { h.At("DSET").SetValue("ID", "1") })
	}},
	{"says another size of a file", func(c *cluster, path string) {
		c.header(path, func(h *hash.Hash) {
			files := h.Get("CURRENT", "FILE")
			if files.Size() == 0 {
				c.t.Skip("this header lists no file of the program, so there is no size to change")
			}
			for _, md := range files.All() {
				if n, _ := md.Int("SIZE"); n > 0 {
					md.SetInt("SIZE", n^1)
				}
			}
		})
	}},
	{"directory", func(c *cluster, path string) {
		c.must(os.Remove(path))
		c.must(os.MkdirAll(filepath.Join(path, "full"), 0o700))
	}},
	{"its directory", func(c *cluster, path string) { c.must(os.RemoveAll(filepath.Dir(path))) }},
}

func (c *cluster) must(err error) {
	c.t.Helper()
	if err != nil {
		c.t.Fatal(err)
	}
}

// header changes the header of a redundancy file, and makes its checksum right.
func (c *cluster) header(path string, f func(h *hash.Hash)) {
	c.t.Helper()
	c.change(path, func(data []byte) []byte {
		h, start, err := hash.ReadFrom(bytes.NewReader(data), int64(len(data)))
		c.must(err)
		before := h.Encode()
		f(h)
		if after := h.Encode(); bytes.Equal(before, after) {
			c.t.Fatalf("%s has not changed", path)
		}
		return append(h.Encode(), data[start:]...)
	})
}

// redundant is the path of the redundancy file of a node of one rank.
func (c *cluster) redundant(node string, id int) string {
	return c.glob(c.cached(node, id, ".scr/*"))
}

// Whatever happens to the redundancy of however many nodes, a checkpoint whose files are
// all there is used, and protected again.
func TestExposed_RedundancyIsMadeAgain(t *testing.T) {
	t.Parallel()
	schemes := map[string][]string{
		"XOR":     {"SCR_COPY_TYPE=XOR"},
		"PARTNER": {"SCR_COPY_TYPE=PARTNER"},
		"RS":      {"SCR_COPY_TYPE=RS", "SCR_SET_FAILURES=2"},
	}
	type exposed struct {
		scheme string
		way    damage
		nodes  string
		again  []string
	}
	var cases []exposed
	for _, scheme := range slices.Sorted(maps.Keys(schemes)) {
		for _, way := range ways {
			cases = append(cases, exposed{scheme, way, "abcd", four}, exposed{scheme, way, "ab", on(1, "b", "a", "d", "c")})
		}
	}
	for _, x := range sample.Of(t, cases, 5, 18) {
		t.Run(fmt.Sprintf("%s/%s/%s", x.scheme, x.way.name, x.nodes), func(t *testing.T) {
			t.Parallel()
			c := newCluster(t, schemes[x.scheme]...)
			c.job(four, steps(1, 2))
			for _, node := range strings.Split(x.nodes, "") {
				x.way.damage(c, c.redundant(node, 2))
			}
			c.job(x.again, restarts(2))
			c.says(fmt.Sprintf("redundancy was made again, %d of 4 ranks had lost theirs", len(x.nodes)))
			c.job(x.again, restarts(2))
			c.says("as it was in the cache")
			c.lose("c")
			c.job(x.again, restarts(2))
			c.says("rebuilt from redundancy, 1 of 4 ranks")
		})
	}
}

// A file of the program that turns out to be corrupt while the redundancy of another node is
// lost: nothing is made again from it. RS rebuilds both, XOR neither.
func TestExposed_AndCorrupt(t *testing.T) {
	t.Parallel()
	for scheme, step := range map[string]int{"RS": 2, "XOR": 1} {
		t.Run(scheme, func(t *testing.T) {
			c := newCluster(t, "SCR_COPY_TYPE="+scheme, "SCR_SET_FAILURES=2")
			c.job(four, steps(1, 2))
			c.must(os.Remove(c.redundant("b", 2)))
			c.change(c.cached("a", 2, "ckpt.2/rank_0"), flip)
			c.job(four, restarts(step))
			c.lose("d")
			c.job(four, restarts(step))
		})
	}
}

// One set has lost files, and another one redundancy only.
func TestExposed_OtherSet(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "SCR_SET_SIZE=2", "SCR_DEBUG=1")
	c.job(four, steps(1, 2))
	c.must(os.Remove(c.cached("a", 2, "ckpt.2/rank_0")))
	c.must(os.Remove(c.redundant("d", 2)))
	c.job(four, restarts(2))
	c.says("rebuilt from redundancy, 1 of 4 ranks had lost files; redundancy of 1 other was made again")
	c.lose("c")
	c.job(four, restarts(2))
}

// A job of another size flushes what has all its files.
func TestExposed_OtherNumberOfRanks(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	c.job(four, steps(1, 2))
	for _, node := range four {
		c.must(os.Remove(c.redundant(node, 2)))
	}
	c.set("SCR_FLUSH_ON_RESTART=1", "SCR_FETCH_BYPASS=1", "SCR_FLUSH=1")
	c.job(on(2, "a", "b", "c", "d"), func(s *Session, _ int) error {
		got, err := offered(s)
		if err == nil && got != name(2) {
			err = fmt.Errorf("offered %q", got)
		}
		return err
	})
}
