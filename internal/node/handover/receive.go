package handover

import (
	"bytes"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"maps"
	"net"
	"os"
	"path/filepath"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"github.com/goscr/goscr/hash"
	"github.com/goscr/goscr/internal/node/cache"
	"github.com/goscr/goscr/internal/node/filemap"
	"github.com/goscr/goscr/internal/node/meta"
	"github.com/goscr/goscr/internal/sys/sparse"
	"github.com/goscr/goscr/internal/sys/trust"
)

// Receive fetches what the sender of the same offer sends, and enters it in a filemap of
// its own, which the next run reads. dataset is the id of the dataset.
func (n Node) Receive(dataset int) (Done, error) {
	c, err := n.connect()
	if err != nil {
		return Done{}, err
	}
	defer c.Close()
	list, err := c.hearHash()
	if err != nil {
		return Done{}, fmt.Errorf("from the other node: %w", err)
	}
	done, err := n.store(c, dataset, hash.As[parts](list))
	answer := ""
	if err != nil {
		answer = err.Error()
	}
	return done, errors.Join(err, c.say([]byte(answer)))
}

// connect waits for the offer and connects to the sender.
func (n Node) connect() (*link, error) {
	const often = 20 * time.Millisecond
	var last error
	for limit := time.Now().Add(patience); time.Now().Before(limit); time.Sleep(often) {
		h, info, err := hash.ReadOwned(n.Offer)
		if errors.Is(err, fs.ErrNotExist) {
			last = errors.New("the other node has not offered any files")
			continue
		}
		if err == nil { // what comes from there is written to the cache
			err = trust.Users{}.Check(n.Offer, info)
		}
		if err != nil {
			return nil, err
		}
		o := hash.As[offer](h)
		for _, address := range o.Addresses {
			conn, err := net.DialTimeout("tcp", address, 5*time.Second)
			if err != nil {
				last = err
				continue
			}
			c := newLink(conn)
			return c, c.say([]byte(o.Key))
		}
	}
	return nil, last
}

// place returns the path of a location on this node, which is in the cache of the job.
func (n Node) place(at location) (string, error) {
	i := -1
	if at.Store != nil {
		i = *at.Store
	}
	if i < 0 || i >= len(n.Caches) || !filepath.IsLocal(at.Name) {
		return "", fmt.Errorf("%q in cache %d is no path of the job", at.Name, i)
	}
	return filepath.Join(n.Caches[i], at.Name), nil
}

// store stores the files of all ranks.
func (n Node) store(c *link, dataset int, list parts) (Done, error) {
	done := Done{Ranks: slices.Sorted(maps.Keys(list.Ranks)), Bytes: map[int]int64{}}
	if len(done.Ranks) == 0 {
		return done, errors.New("the other node has nothing to send")
	}
	for _, dir := range append([]string{n.Control}, n.Caches...) {
		// The last two elements are the user and the job.
		user := filepath.Dir(dir)
		if err := cache.MakePrivate(filepath.Dir(user), filepath.Base(user), filepath.Base(dir)); err != nil {
			return done, err
		}
	}
	// The name is in the pattern of filemaps, and is not that of a rank of a node.
	s, err := filemap.OpenStore(filepath.Join(n.Control, fmt.Sprintf("filemap_from_%d.scrinfo", done.Ranks[0])))
	if err != nil {
		return done, err
	}
	for _, rank := range done.Ranks {
		bytes, err := n.storePart(c, s, dataset, rank, list.Ranks[rank])
		if err != nil {
			return done, errors.Join(fmt.Errorf("rank %d: %w", rank, err), s.Close())
		}
		done.Bytes[rank] = bytes
	}
	return done, errors.Join(s.Fold(), s.Close())
}

// storePart stores the files of a rank, each of which is in the filemap before it is made.
func (n Node) storePart(c *link, s *filemap.Store, dataset, rank int, p part) (bytes int64, err error) {
	d := p.Desc
	if d.Dir, err = n.place(p.location); err != nil {
		return 0, err
	}
	if d.ID() != dataset {
		return 0, fmt.Errorf("the other node sends dataset %d instead of %d", d.ID(), dataset)
	}
	type arrived struct {
		path string
		md   meta.Meta
	}
	var files []arrived
	for _, f := range p.Files {
		path, err := n.place(f.location)
		if err != nil {
			return bytes, err
		}
		md := f.Meta
		pending := md.Clone()
		pending.SetComplete(false)
		if err := s.AddFile(dataset, rank, path, pending); err != nil {
			return bytes, err
		}
		if err := c.receiveFile(path, md); err != nil {
			return bytes, err
		}
		files = append(files, arrived{path, md})
		bytes += md.Size()
	}
	for _, f := range files {
		if err := s.AddFile(dataset, rank, f.path, f.md); err != nil {
			return bytes, err
		}
	}
	s.SetDataset(dataset, rank, d)
	s.SetReddesc(dataset, rank, p.Reddesc.Clone())
	s.SetExpected(dataset, rank, p.Expected, p.Ranks)
	return bytes, s.Check(dataset, rank)
}

// receiveFile writes a file to its medium, and compares its checksum.
func (l *link) receiveFile(path string, md meta.Meta) (err error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	f, err := openEarlier(path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	sum := crc32.NewIEEE()
	to := &comparing{f: f}
	if _, err := io.CopyN(io.MultiWriter(to, sum), l.r, md.Size()); err != nil {
		return err
	}
	if err := to.end(); err != nil {
		return err
	}
	want, known := md.CRC()
	if known && sum.Sum32() != want {
		return fmt.Errorf("%s: checksum 0x%08x, was written with 0x%08x", path, sum.Sum32(), want)
	}
	if !known && md.Type() == meta.Full {
		md.SetCRC(sum.Sum32())
	}
	if err := trust.Sync(f); err != nil || !md.Recorded() {
		return err
	}
	return md.Restore("", path)
}

// openEarlier opens a file to be written, which an earlier attempt may have left.
func openEarlier(path string) (*os.File, error) {
	const flags = os.O_RDWR | os.O_CREATE | unix.O_NOFOLLOW
	f, err := os.OpenFile(path, flags, 0o600)
	if errors.Is(err, fs.ErrPermission) {
		if err := os.Chmod(path, 0o600); err != nil {
			return nil, err
		}
		return os.OpenFile(path, flags, 0o600)
	}
	return f, err
}

// comparing writes to a file from the first byte that is another than the file has. Where nodes
// share the directory, the file may be the one that is being sent: it must not be truncated
// while it is read.
type comparing struct {
	f     *os.File
	at    int64
	other bool // than the file has
	holes bool // for zeros: the file may end before at
}

func (c *comparing) Write(p []byte) (int, error) {
	if !c.other {
		there := make([]byte, len(p))
		if n, err := c.f.ReadAt(there, c.at); n == len(p) && (err == nil || err == io.EOF) && bytes.Equal(there, p) {
			c.at += int64(n)
			return n, nil
		}
		c.other = true
		if err := c.f.Truncate(c.at); err != nil {
			return 0, err
		}
	}
	skipped, err := sparse.Write(c.f, p, c.at, c.at)
	if err != nil {
		return 0, err
	}
	c.at, c.holes = c.at+int64(len(p)), c.holes || skipped
	return len(p), nil
}

// end truncates the file behind what was written, or makes it as long.
func (c *comparing) end() error {
	if c.other && !c.holes {
		return nil
	}
	return c.f.Truncate(c.at)
}
