package sockets

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/goscr/goscr/internal/sys/descriptors"
)

// endpoint is a port of a network to which a rank's node is connected.
type endpoint struct {
	network netip.Prefix // with the node's own address in it
	port    uint16
}

// place is where a rank can be reached.
type place struct {
	node      [nodeSize]byte // the same for ranks that reach each other over the loopback
	endpoints []endpoint
}

// A place is exchanged in a record of recordSize bytes: node, number of endpoints, and for
// each its address as 16 bytes, the length of its network's prefix in bits of 128, 1, and
// its port, 2, big-endian.
const (
	nodeSize      = 16
	endpointSize  = 19
	mostEndpoints = 8
	recordSize    = nodeSize + 1 + mostEndpoints*endpointSize
)

func (p place) record() []byte {
	b := append(make([]byte, 0, recordSize), p.node[:]...)
	b = append(b, byte(len(p.endpoints)))
	for _, e := range p.endpoints {
		a, bits := e.network.Addr().As16(), e.network.Bits()
		if e.network.Addr().Is4() {
			bits += 96
		}
		b = append(append(b, a[:]...), byte(bits))
		b = binary.BigEndian.AppendUint16(b, e.port)
	}
	return b[:recordSize]
}

func parsePlace(b []byte) (p place, err error) {
	if len(b) != recordSize || b[nodeSize] > mostEndpoints {
		return p, errors.New("a damaged list of addresses")
	}
	copy(p.node[:], b)
	for i := range int(b[nodeSize]) {
		e := b[nodeSize+1+i*endpointSize:]
		addr, bits := netip.AddrFrom16([16]byte(e[:16])), int(e[16])
		if addr.Is4In6() {
			addr, bits = addr.Unmap(), bits-96
		}
		network := netip.PrefixFrom(addr, bits)
		if !network.IsValid() {
			return p, fmt.Errorf("a damaged list of addresses: %v/%d", addr, bits)
		}
		p.endpoints = append(p.endpoints, endpoint{network, binary.BigEndian.Uint16(e[17:])})
	}
	return p, nil
}

// toward returns the addresses at which the rank at p can reach the one at q, the best
// first: the loopback on one node; else networks that both are connected to; then others,
// to which there may be a route.
func (p place) toward(q place) []netip.AddrPort {
	var loops, near, far []netip.AddrPort
	for _, e := range q.endpoints {
		to := netip.AddrPortFrom(e.network.Addr(), e.port)
		shared, own := false, false
		for _, mine := range p.endpoints {
			own = own || mine.network.Addr() == to.Addr()
			shared = shared || mine.network.Contains(to.Addr())
		}
		switch {
		case p.node == q.node:
			if to.Addr().IsLoopback() {
				loops = append(loops, to)
			} else {
				near = append(near, to)
			}
		case to.Addr().IsLoopback(), own:
			// On this node another process listens there. Many nodes give the network of
			// their containers the same address.
		case shared:
			near = append(near, to)
		default:
			far = append(far, to)
		}
	}
	return append(append(loops, near...), far...)
}

// listen returns sockets that listen, and where they can be reached: on all interfaces, or
// on the addresses of the interface of that name.
func listen(name string) (p place, listeners []int, err error) {
	p.node = thisNode()
	networks, err := addresses(name)
	if err != nil {
		return p, nil, err
	}
	defer func() {
		if err != nil {
			closeAll(listeners)
			listeners = nil
		}
	}()
	if name == "" {
		fd, port, err := listenOn(netip.IPv6Unspecified())
		if err != nil { // a node without IPv6
			fd, port, err = listenOn(netip.IPv4Unspecified())
		}
		if err != nil {
			return p, nil, err
		}
		listeners = append(listeners, fd)
		for _, n := range networks {
			p.endpoints = append(p.endpoints, endpoint{n, port})
		}
		return p, listeners, nil
	}
	for _, n := range networks {
		fd, port, err := listenOn(n.Addr())
		if err != nil {
			return p, listeners, err
		}
		listeners = append(listeners, fd)
		p.endpoints = append(p.endpoints, endpoint{n, port})
	}
	return p, listeners, nil
}

func closeAll(fds []int) {
	for _, fd := range fds {
		_ = unix.Close(fd)
	}
}

// addresses returns the addresses of this node, IPv4 first, or of the interface of that
// name. Link-local ones are left out, because they mean nothing without an interface.
func addresses(name string) ([]netip.Prefix, error) {
	descriptors.Hold() // package net asks the kernel over a socket of its own
	defer descriptors.Release()
	all, err := net.Interfaces()
	if err != nil {
		return nil, fmt.Errorf("cannot list the network interfaces: %w", err)
	}
	var four, six []netip.Prefix
	var names []string
	found := name == ""
	for _, i := range all {
		names = append(names, i.Name)
		if name != "" && i.Name != name {
			continue
		}
		found = true
		if i.Flags&net.FlagUp == 0 {
			continue
		}
		list, err := i.Addrs()
		if err != nil {
			return nil, fmt.Errorf("cannot list the addresses of network interface %s: %w", i.Name, err)
		}
		for _, a := range list {
			n, err := netip.ParsePrefix(a.String())
			switch {
			case err != nil || n.Addr().IsLinkLocalUnicast():
			case n.Addr().Is4():
				four = append(four, n)
			default:
				six = append(six, n)
			}
		}
	}
	switch {
	case !found:
		return nil, fmt.Errorf("there is no network interface %s; there are %s", name, strings.Join(names, ", "))
	case len(four)+len(six) == 0 && name != "":
		return nil, fmt.Errorf("network interface %s is down or has no address", name)
	case len(four)+len(six) == 0:
		return nil, errors.New("no network interface is up and has an address")
	}
	// Neither family takes all places.
	both := append(four[:min(len(four), max(mostEndpoints/2, mostEndpoints-len(six)))], six...)
	return both[:min(len(both), mostEndpoints)], nil
}

// thisNode identifies the kernel and its network namespace.
func thisNode() (node [nodeSize]byte) {
	boot, _ := readFile("/proc/sys/kernel/random/boot_id")
	space, _ := os.Readlink("/proc/self/ns/net")
	if boot == "" || space == "" {
		return hiddenNode()
	}
	sum := sha256.Sum256([]byte(boot + space))
	copy(node[:], sum[:])
	return node
}

// hiddenNode is thisNode where /proc is hidden: the number that the kernel has given to the network
// namespace since it started, and the hardware addresses, which other machines do not have. If there are none, the
// result is the same as no other rank's: they do not use the loopback.
func hiddenNode() (node [nodeSize]byte) {
	copy(node[:], random(nodeSize))
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return node
	}
	defer unix.Close(fd)
	cookie, err := unix.GetsockoptUint64(fd, unix.SOL_SOCKET, unix.SO_NETNS_COOKIE)
	if err != nil {
		return node
	}
	interfaces, _ := net.Interfaces()
	id := binary.BigEndian.AppendUint64(nil, cookie)
	hardware := 0
	for _, i := range interfaces {
		id = append(id, i.HardwareAddr...)
		hardware += len(i.HardwareAddr)
	}
	if hardware > 0 {
		sum := sha256.Sum256(id)
		copy(node[:], sum[:])
	}
	return node
}

func readFile(name string) (string, error) {
	f, err := descriptors.Open(name)
	if err != nil {
		return "", err
	}
	defer f.Close()
	buf := make([]byte, 100)
	n, err := f.Read(buf)
	return string(buf[:n]), err
}
