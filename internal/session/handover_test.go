package session

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/goscr/goscr/internal/node/filemap"
	"github.com/goscr/goscr/internal/node/handover"
)

// handoverNode is a node for a handover. The paths of caches differ between the nodes of a
// cluster.
func (c *cluster) handoverNode(node string) handover.Node {
	return handover.Node{
		Control: filepath.Join(c.node(node), "cntl/user/scr.job"),
		Caches:  []string{filepath.Join(c.node(node), "other/user/scr.job"), filepath.Join(c.node(node), "cache/user/scr.job")},
		Offer:   c.prefix(".scr/handover.0"),
	}
}

// handOver copies the files of ranks from a node to another.
func (c *cluster) handOver(from, to string, id int, ranks ...int) (sent, received handover.Done, err error) {
	c.t.Helper()
	failed := make(chan error)
	go func() {
		var err error
		sent, err = c.handoverNode(from).Send(id, ranks)
		failed <- err
	}()
	received, err = c.handoverNode(to).Receive(id)
	return sent, received, errors.Join(err, <-failed)
}

// The files of a node that is lost afterwards are where its ranks run now, although no
// other node has any redundancy. Ranks of the same node that run elsewhere fetch theirs.
func TestHandover(t *testing.T) {
	t.Parallel()
	for what, nodes := range map[string][]string{
		"both ranks on the new node": {"a", "d", "d", "c"},
		"one of them on another":     {"a", "d", "c", "c"},
		"on the nodes as before":     {"a", "b", "b", "c"},
	} {
		t.Run(what, func(t *testing.T) {
			c := newCluster(t, "SCR_COPY_TYPE=SINGLE")
			c.job([]string{"a", "b", "b", "c"}, steps(1, 2))
			sent, received, err := c.handOver("b", "d", 2, 1, 2)
			if err != nil {
				t.Fatal(err)
			}
			if sent.Bytes[1] == 0 || sent.Bytes[1] != received.Bytes[1] || sent.Bytes[2] != received.Bytes[2] {
				t.Errorf("sent %v, received %v", sent, received)
			}
			// All bytes were read, so from now on a byte that has changed is noticed.
			maps, _, err := filemap.ReadDir(c.handoverNode("d").Control)
			if err != nil {
				t.Fatal(err)
			}
			files := 0
			for _, rank := range []int{1, 2} {
				for _, path := range maps.Files(2, rank) {
					files++
					if _, known := maps.Meta(2, rank, path).CRC(); !known {
						t.Errorf("%s has no checksum", path)
					}
				}
			}
			if files == 0 {
				t.Error("no files have arrived")
			}
			if nodes[1] == "d" {
				c.lose("b")
			}
			c.job(nodes, restarts(2))
		})
	}
}

// Nothing is handed over that is not whole, and what has arrived in part is not used.
func TestHandover_Damaged(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "SCR_COPY_TYPE=SINGLE", "SCR_CRC_ON_DELETE=1")
	c.job([]string{"a", "b", "b", "c"}, steps(1, 2))
	found := false
	err := filepath.Walk(filepath.Dir(c.cached("b", 2, "")), func(path string, info os.FileInfo, err error) error {
		if err == nil && !found && strings.Contains(path, "scr.dataset.2") && strings.HasSuffix(path, "rank_2") && info.Size() > 0 {
			found = true
			c.change(path, flip)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if !found {
		t.Fatal("rank 2 has no file")
	}
	if _, _, err := c.handOver("b", "d", 2, 1, 2); err == nil || !strings.Contains(err.Error(), "checksum") {
		t.Errorf("a corrupt file: %v", err)
	}
	c.lose("b")
	c.job([]string{"a", "d", "d", "c"}, restarts(0))
}

func TestHandover_Bad(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "SCR_COPY_TYPE=SINGLE")
	c.job(four, steps(1))
	for what, send := range map[string]func(n handover.Node) error{
		"no such dataset": func(n handover.Node) error { _, err := n.Send(7, []int{1}); return err },
		"no such rank":    func(n handover.Node) error { _, err := n.Send(1, []int{9}); return err },
		"other caches":    func(n handover.Node) error { n.Caches = n.Caches[:1]; _, err := n.Send(1, []int{1}); return err },
		"the node has started again, and the files had no checksums": func(n handover.Node) error {
			n.Booted = time.Now().Add(time.Hour)
			_, err := n.Send(1, []int{1})
			return err
		},
		"no node": func(n handover.Node) error { n.Control += "x"; _, err := n.Send(1, []int{1}); return err },
	} {
		if err := send(c.handoverNode(four[1])); err == nil {
			t.Errorf("%s: no error", what)
		}
	}
}
