package sockets

import (
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"testing"
)

// at makes a place of a node with these networks.
func at(node byte, networks ...string) place {
	p := place{node: [nodeSize]byte{node}}
	for i, n := range networks {
		p.endpoints = append(p.endpoints, endpoint{netip.MustParsePrefix(n), uint16(1000*int(node) + i)})
	}
	return p
}

func TestPlace_Toward(t *testing.T) {
	const loop, containers = "127.0.0.1/8", "172.17.0.1/16"
	for _, c := range []struct {
		what     string
		from, to place
		want     string
	}{
		{"one node", at(1, "10.0.0.1/24", loop), at(1, "10.0.0.1/24", loop), "[127.0.0.1:1001 10.0.0.1:1000]"},
		{"a common network first", at(1, loop, "192.168.0.1/24", "10.0.0.1/24"), at(2, loop, "172.30.0.2/24", "10.0.0.2/24"),
			"[10.0.0.2:2002 172.30.0.2:2001]"},
		{"containers have the same address on all nodes", at(1, containers, "10.0.0.1/24"), at(2, containers, "10.0.0.2/24"), "[10.0.0.2:2001]"},
		{"only a route", at(1, "10.0.1.1/24"), at(2, "10.0.2.2/24"), "[10.0.2.2:2000]"},
		{"IPv6", at(1, "::1/128", "fd00:1::1/64"), at(2, "::1/128", "fd00:1::2/64"), "[[fd00:1::2]:2001]"},
		{"no loopback of another node", at(1, loop), at(2, loop), "[]"},
	} {
		if got := fmt.Sprint(c.from.toward(c.to)); got != c.want {
			t.Errorf("%s: %s, want %s", c.what, got, c.want)
		}
	}
}

func TestPlace_Record(t *testing.T) {
	p := at(7, "10.1.2.3/24", "fd00::5/64", "127.0.0.1/8", "0.0.0.0/0")
	b := p.record()
	got, err := parsePlace(b)
	if err != nil || got.node != p.node || !slices.Equal(got.endpoints, p.endpoints) || len(b) != recordSize {
		t.Errorf("%+v becomes %+v: %v", p, got, err)
	}
	for what, change := range map[string]func(b []byte) []byte{
		"short":              func(b []byte) []byte { return b[1:] },
		"too many addresses": func(b []byte) []byte { b[nodeSize] = mostEndpoints + 1; return b },
		"too long a prefix":  func(b []byte) []byte { b[nodeSize+17] = 129; return b },
	} {
		if _, err := parsePlace(change(slices.Clone(b))); err == nil {
			t.Errorf("%s: no error", what)
		}
	}
}

// Ranks that have addresses of one family only, or one interface, exchange messages.
func TestNew_Families(t *testing.T) {
	for what, keep := range map[string]func(netip.Addr) bool{
		"IPv4":         netip.Addr.Is4,
		"IPv6":         netip.Addr.Is6,
		"not loopback": func(a netip.Addr) bool { return !a.IsLoopback() },
	} {
		t.Run(what, func(t *testing.T) {
			const n = 3
			networks := make([]*network, n)
			var records []byte
			for i := range networks {
				var err error
				networks[i], err = openNetwork(Options{Limit: long})
				must(t, err)
				p := &networks[i].here
				p.endpoints = slices.DeleteFunc(p.endpoints, func(e endpoint) bool { return !keep(e.network.Addr()) })
				if len(p.endpoints) == 0 {
					networks[i].close()
					t.Skip("this machine has no such address")
				}
				records = append(records, p.record()...)
			}
			secret := random(secretSize)
			comms := make([]*Comm, n)
			for i := range comms {
				comms[i] = join(networks[i], i, secret, records, nil)
				t.Cleanup(comms[i].Close)
			}
			for _, err := range each(comms, func(c *Comm) error {
				c.Free()
				return nil
			}) {
				must(t, err)
			}
		})
	}
}

// With an interface, a rank listens on its addresses only.
func TestListen_Interface(t *testing.T) {
	p, listeners, err := listen("lo")
	must(t, err)
	defer closeAll(listeners)
	if len(listeners) == 0 || len(listeners) != len(p.endpoints) {
		t.Errorf("%d sockets listen on %v", len(listeners), p.endpoints)
	}
	for _, e := range p.endpoints {
		if !e.network.Addr().IsLoopback() || e.port == 0 {
			t.Errorf("%v port %d", e.network, e.port)
		}
	}
}

// Where /proc is hidden, ranks of one node find out that they share it.
func TestHiddenNode(t *testing.T) {
	interfaces, err := net.Interfaces()
	if err != nil {
		t.Fatal(err)
	}
	if !slices.ContainsFunc(interfaces, func(i net.Interface) bool { return len(i.HardwareAddr) > 0 }) {
		t.Skip("no interface with a hardware address")
	}
	if a, b := hiddenNode(), hiddenNode(); a != b {
		t.Errorf("%x, then %x", a, b)
	}
}

// A rank at addresses that the node has, too, cannot be reached, and the reason is said.
func TestNetwork_OnlyOwnAddresses(t *testing.T) {
	here := place{endpoints: []endpoint{{netip.MustParsePrefix("10.0.0.1/24"), 5}}}
	there := here
	there.node[0] = 1
	n := &network{here: here}
	p := &peer{net: n, rank: 7, tries: here.toward(there)}
	p.try()
	if err := n.failed; err == nil || !strings.Contains(err.Error(), "rank 7 cannot be reached: it has no address but those of this node") {
		t.Errorf("%v", err)
	}
}
