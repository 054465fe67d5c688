package handover

import (
	"crypto/rand"
	"crypto/subtle"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/goscr/goscr/hash"
	"github.com/goscr/goscr/internal/node/filemap"
)

// Send offers the parts of ranks of dataset id, and sends them to the receiver. All their
// files must be on the node, whole.
func (n Node) Send(id int, ranks []int) (Done, error) {
	maps, bad, err := filemap.ReadDir(n.Control)
	if err != nil {
		return Done{}, fmt.Errorf("control directory: %w", err)
	}
	// The other node would take a checksum of what it gets for the right one.
	maps.Distrust(n.booted(), func(of, rank int, path string) {
		if of != id || !slices.Contains(ranks, rank) {
			return
		}
		bad = append(bad, fmt.Errorf("%s had no checksum yet when the node started again", path))
	})
	list, paths, done, err := n.describe(maps, id, ranks)
	if err != nil {
		return Done{}, errors.Join(append(bad, err)...)
	}
	l, err := net.Listen("tcp", ":0")
	if err != nil {
		return Done{}, err
	}
	defer l.Close()
	key := rand.Text()
	if err := n.offer(l, key); err != nil {
		return Done{}, err
	}
	defer os.Remove(n.Offer)
	c, err := await(l, key)
	if err != nil {
		return Done{}, fmt.Errorf("nobody has fetched the files: %w", err)
	}
	defer c.Close()
	if err := c.say(hash.Marshal(list).Encode()); err != nil {
		return Done{}, err
	}
	for i, path := range paths {
		if err := c.sendFile(path.path, path.size); err != nil {
			return Done{}, fmt.Errorf("file %d of %d: %w", i+1, len(paths), err)
		}
	}
	answer, err := c.hear()
	if err == nil && len(answer) > 0 {
		err = fmt.Errorf("the other node: %s", answer)
	}
	return done, err
}

func (n Node) booted() time.Time {
	if n.Booted.IsZero() {
		return filemap.Booted()
	}
	return n.Booted
}

// sized is a file to send.
type sized struct {
	path string
	size int64
}

// describe describes the parts of ranks, and lists their files in the same order.
func (n Node) describe(maps *filemap.Map, id int, ranks []int) (parts, []sized, Done, error) {
	list := parts{map[int]part{}}
	var files []sized
	done := Done{Ranks: ranks, Bytes: map[int]int64{}}
	for _, rank := range ranks {
		d := maps.Dataset(id, rank)
		if !d.Complete() {
			return list, nil, done, fmt.Errorf("dataset %d of rank %d is not complete on this node", id, rank)
		}
		if err := maps.Check(id, rank); err != nil {
			return list, nil, done, fmt.Errorf("dataset %d of rank %d: %w", id, rank, err)
		}
		p := part{Desc: d, Reddesc: maps.Reddesc(id, rank)}
		p.Expected, p.Ranks = maps.Expected(id, rank)
		var err error
		if p.location, err = n.locate(d.Dir); err != nil {
			return list, nil, done, err
		}
		for _, path := range maps.Files(id, rank) {
			at, err := n.locate(path)
			if err != nil {
				return list, nil, done, err
			}
			md := maps.Meta(id, rank, path)
			p.Files = append(p.Files, file{at, md})
			files = append(files, sized{path, md.Size()})
			done.Bytes[rank] += md.Size()
		}
		list.Ranks[rank] = p
	}
	return list, files, done, nil
}

// locate returns the location of a path.
func (n Node) locate(path string) (location, error) {
	for i, dir := range n.Caches {
		if rel, err := filepath.Rel(dir, path); err == nil && filepath.IsLocal(rel) {
			return location{&i, rel}, nil
		}
	}
	return location{}, fmt.Errorf("%s is in none of the caches %q", path, n.Caches)
}

// offer writes where the receiver finds the sender.
func (n Node) offer(l net.Listener, key string) error {
	_, port, err := net.SplitHostPort(l.Addr().String())
	if err != nil {
		return err
	}
	o := offer{Key: key}
	for _, host := range hosts() {
		o.Addresses = append(o.Addresses, net.JoinHostPort(host, port))
	}
	if err := os.Remove(n.Offer); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return hash.ReplaceFile(n.Offer, hash.Marshal(o).Encode(), 0o600)
}

// hosts returns the addresses of this node. That of the node itself comes last: the
// receiver may run on it, if both are simulated.
func hosts() (list []string) {
	var own []string
	all, _ := net.InterfaceAddrs()
	for _, a := range all {
		ip, ok := a.(*net.IPNet)
		switch {
		case !ok || ip.IP.IsLinkLocalUnicast():
		case ip.IP.IsLoopback():
			own = append(own, ip.IP.String())
		default:
			list = append(list, ip.IP.String())
		}
	}
	return append(list, own...)
}

// await accepts the receiver, which knows the key.
func await(l net.Listener, key string) (*link, error) {
	limit := time.Now().Add(patience)
	for {
		if t, ok := l.(*net.TCPListener); ok {
			if err := t.SetDeadline(limit); err != nil {
				return nil, err
			}
		}
		conn, err := l.Accept()
		if err != nil {
			return nil, err
		}
		c := newLink(conn)
		if told, err := c.hear(); err == nil && subtle.ConstantTimeCompare(told, []byte(key)) == 1 {
			return c, nil
		}
		c.Close() // somebody else
	}
}

// sendFile sends the bytes of a file.
func (l *link) sendFile(path string, size int64) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	buf := make([]byte, 1<<20)
	for left := size; left > 0; {
		n, err := f.Read(buf[:min(left, int64(len(buf)))])
		if err == io.EOF {
			err = fmt.Errorf("%s has become shorter", path)
		}
		if err != nil {
			return err
		}
		if _, err := l.Write(buf[:n]); err != nil {
			return err
		}
		left -= int64(n)
	}
	return nil
}
