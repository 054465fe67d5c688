package session

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/goscr/goscr/hash"
	"github.com/goscr/goscr/test/sample"
)

// rename changes the name of a file of rank 0 in every description of it.
func rename(h *hash.Hash, from, to string) {
	for key, under := range h.All() {
		if key == "FILE" && under.Size() == 1 && under.Has(from) {
			under.Unset(from)
			under.Set(to, nil)
		} else {
			rename(under, from, to)
		}
	}
}

// Names in what is read from the nodes do not lead anywhere but into the
// directory of the dataset, whatever they have been changed to.
func TestTampered_NamesInTheCache(t *testing.T) {
	t.Parallel()
	const from = "ckpt.2/rank_0"
	for _, to := range sample.Of(t, []string{"../../outside", "/tmp/goscr-ot", "ckpt.2/../../"}, 1, sample.Every) {
		if len(to) != len(from) {
			t.Fatal(to)
		}
		outside := func(c *cluster) {
			t.Helper()
			for _, path := range []string{c.cached("a", 2, "../../outside"), c.cached("b", 2, "../../outside"), "/tmp/goscr-ot"} {
				if _, err := os.Lstat(path); !os.IsNotExist(err) {
					t.Errorf("%s: %v", path, err)
				}
			}
		}
		filemap := func(c *cluster, node string) string {
			return filepath.Join(c.node(node), "cntl/user/scr.job/filemap_0.scrinfo")
		}
		t.Run("redundancy file "+to, func(t *testing.T) {
			c := newCluster(t)
			c.job(four, steps(1, 2))
			path := c.cached("b", 2, ".scr/2_of_4_in_0.xor")
			c.change(path, func(data []byte) []byte {
				h, n, err := hash.ReadFrom(bytes.NewReader(data), int64(len(data)))
				if err != nil {
					t.Fatal(err)
				}
				rename(h.Get("PARTNER"), from, to)
				head := h.Encode()
				if int64(len(head)) != n || bytes.Equal(head, data[:n]) {
					t.Fatalf("header of %d bytes, was %d", len(head), n)
				}
				return append(head, data[n:]...)
			})
			c.lose("a")
			// It cannot be rebuilt from that; what matters is that nothing is harmed.
			c.job(four, func(s *Session, rank int) error {
				_, err := offered(s)
				return err
			})
			outside(c)
			c.job(four, steps(9))
			c.job(four, restarts(9))
		})
		t.Run("description in a filemap "+to, func(t *testing.T) {
			c := newCluster(t)
			c.job(four, steps(1, 2))
			c.edit(filemap(c, "a"), func(h *hash.Hash) {
				before := h.Clone()
				rename(h, from, to)
				if h.Equal(before) {
					t.Fatal("not changed")
				}
			})
			c.job([]string{"b", "a", "c", "d"}, restarts(2)) // a has to send them to b
			c.says("did not arrive")
			c.says("rebuilt from redundancy")
			outside(c)
		})
		t.Run("path in a filemap "+to, func(t *testing.T) {
			c := newCluster(t)
			c.job(four, steps(1, 2))
			victim := filepath.Join(c.root, "victim")
			if err := os.WriteFile(victim, []byte("precious"), 0o600); err != nil {
				t.Fatal(err)
			}
			c.edit(filemap(c, "a"), func(h *hash.Hash) {
				files := h.Get("RANK", "0", "DSET", "2", "FILE")
				md := files.Get(c.cached("a", 2, from))
				files.Unset(c.cached("a", 2, from))
				files.Set(victim, md)
				files.Set(c.cached("a", 2, "../../../../../../victim"), md.Clone())
			})
			c.job(four, restarts(2))
			c.says("rebuilt from redundancy")
			c.job(four, steps(3, 4, 5))
			if data, err := os.ReadFile(victim); string(data) != "precious" {
				t.Errorf("%q, %v", data, err)
			}
		})
	}
}
