package reddesc_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/goscr/goscr/internal/redundancy/reddesc"
	"github.com/goscr/goscr/mpi"
	"github.com/goscr/goscr/mpi/local"
	"github.com/goscr/goscr/xor"
)

// links has the bytes that each node sends to each other one.
type links struct {
	mu   sync.Mutex
	sent map[[2]int]int64
}

// counted is a communicator of a set whose messages count as those of a link.
type counted struct {
	mpi.Comm
	nodes []int // of the members
	links *links
}

func (c counted) Isend(buf []byte, dst, tag int) mpi.Request {
	c.links.mu.Lock()
	c.links.sent[[2]int{c.nodes[c.Rank()], c.nodes[dst]}] += int64(len(buf))
	c.links.mu.Unlock()
	return c.Comm.Isend(buf, dst, tag)
}

// An encoding sends as much over the link of each node as a shard has, in each direction, however
// the sets lie in the racks, and the link of each rack carries as much as that of any other.
// With 16 nodes, the members of a set are 16/size nodes apart, times the distance. What leaves a rack is what the
// last node of each set in it sends: everything, if the members of a set are in different racks.
func TestLinks(t *testing.T) {
	const (
		nodes, rack = 16, 4
		shard       = 105 << 10 // bytes; times 3 it is divisible by 15, 7 and 3, the numbers of chunks
	)
	for _, test := range []struct {
		hop, size int
		group     string
		uplink    int // shards that leave a rack, and enter it
	}{
		{1, 16, reddesc.Node, 1},
		{1, 8, reddesc.Node, 2},
		{2, 8, reddesc.Node, rack},
		{rack, 16, reddesc.Node, rack},
		{1, 4, reddesc.Node, rack},
		{1, 4, "RACK", rack},
	} {
		t.Run(fmt.Sprintf("%s, hop %d, sets of %d", test.group, test.hop, test.size), func(t *testing.T) {
			seen := &links{sent: map[[2]int]int64{}}
			_, err := local.Run(nodes, local.Options{}, func(world mpi.Comm) error {
				me := world.Rank()
				g := reddesc.NewGroups(world, fmt.Sprint(me))
				g.Add("RACK", fmt.Sprint(me/rack))
				d, _, err := reddesc.Create(g, reddesc.Params{Type: "XOR", Group: test.group, SetSize: test.size, Hop: test.hop})
				if err != nil {
					return err
				}
				data := make([]byte, 3*shard)
				for i := range data {
					data[i] = byte(rand.Uint32())
				}
				_, err = xor.EncodeRank(counted{d.Set.Comm, d.Set.Ranks, seen}, bytes.NewReader(data), int64(len(data)), &xor.Buffer{Bytes: make([]byte, len(data))})
				return err
			})
			if err != nil {
				t.Fatal(err)
			}
			out, in := map[int]int64{}, map[int]int64{}
			up, down := map[int]int64{}, map[int]int64{}
			for ends, n := range seen.sent {
				from, to := ends[0], ends[1]
				out[from] += n
				in[to] += n
				if from/rack != to/rack {
					up[from/rack] += n
					down[to/rack] += n
				}
			}
			for node := range nodes {
				if out[node] != 3*shard || in[node] != 3*shard {
					t.Errorf("node %d sends %d bytes and receives %d; want %d", node, out[node], in[node], 3*shard)
				}
			}
			for r := range nodes / rack {
				if want := int64(3 * shard * test.uplink); up[r] != want || down[r] != want {
					t.Errorf("%d bytes leave rack %d, and %d enter it; want %d", up[r], r, down[r], want)
				}
			}
		})
	}
}
