package migrate

import (
	"bytes"
	"errors"
	"fmt"
	"hash/crc32"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/goscr/goscr/hash"
	"github.com/goscr/goscr/internal/node/filemap"
	"github.com/goscr/goscr/internal/node/meta"
	"github.com/goscr/goscr/internal/observe/report"
	"github.com/goscr/goscr/internal/prefix/dataset"
	"github.com/goscr/goscr/internal/redundancy"
	"github.com/goscr/goscr/mpi"
	"github.com/goscr/goscr/mpi/local"
	"github.com/goscr/goscr/test/storagetest"
)

const id = 7

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// cluster is ranks that each have a node, and so a directory, of their own.
type cluster struct {
	t      testing.TB
	dir    string
	size   int
	device string

	unchecked bool // files have no checksums
	spoil     func(m *Migration)
}

func (c *cluster) node(i int) string { return filepath.Join(c.dir, fmt.Sprint(i)) }

func (c *cluster) open(node int) *filemap.Store {
	s, err := filemap.OpenStore(filepath.Join(c.dir, fmt.Sprintf("filemap_%d.scrinfo", node)))
	must(c.t, err)
	return s
}

func contents(rank, file int) []byte {
	return bytes.Repeat([]byte{byte(rank), byte(file), 3}, 100*file+rank)
}

const filesOfRank = 5

func name(rank, file int) string { return fmt.Sprintf("ckpt/rank_%d.%d", rank, file) }

// enter enters files of a rank that are there in the filemap of another node.
func (c *cluster) enter(node, rank int, files ...int) {
	from, s := c.open(rank), c.open(node)
	for _, i := range files {
		path := filepath.Join(c.node(rank), name(rank, i))
		s.Map.AddFile(id, rank, filepath.Join(c.node(node), name(rank, i)), from.Meta(id, rank, path))
	}
	s.SetDataset(id, rank, from.Dataset(id, rank))
	s.SetExpected(id, rank, filesOfRank, c.size)
	must(c.t, errors.Join(s.Fold(), s.Close(), from.Close()))
}

// put puts some files of a rank on a node, as of a part that has all of them.
func (c *cluster) put(node, rank int, files ...int) {
	s := c.open(node)
	s.SetDataset(id, rank, filemap.Description{Dataset: dataset.New(id, "ckpt", dataset.Checkpoint, 1, dataset.Owner{}, time.Unix(1, 0))})
	s.SetExpected(id, rank, filesOfRank, c.size)
	for _, i := range files {
		path := filepath.Join(c.node(node), name(rank, i))
		must(c.t, os.MkdirAll(filepath.Dir(path), 0o700))
		must(c.t, os.WriteFile(path, contents(rank, i), 0o600))
		md := meta.New(name(rank, i), meta.Full, c.size)
		must(c.t, redundancy.File{Path: path, Meta: md}.Record())
		md.SetComplete(true)
		_, err := redundancy.Single{}.Encode(&redundancy.Job{Piece: 100, Unchecked: c.unchecked}, []redundancy.File{{Path: path, Meta: md}})
		must(c.t, err)
		s.Map.AddFile(id, rank, path, md)
	}
	must(c.t, s.Fold())
	must(c.t, s.Close())
}

// have returns which ranks' files are whole and entered as complete on a node.
func (c *cluster) have(node int) (list []string) {
	s := c.open(node)
	defer s.Close()
	for _, rank := range s.Ranks(id) {
		for _, path := range s.Files(id, rank) {
			if s.Meta(id, rank, path).Check(path) != nil {
				continue
			}
			for i := range filesOfRank {
				data, err := os.ReadFile(path)
				must(c.t, err)
				if strings.HasSuffix(path, name(rank, i)) && bytes.Equal(data, contents(rank, i)) {
					list = append(list, fmt.Sprint(rank, ".", i))
				}
			}
		}
	}
	slices.Sort(list)
	return slices.Compact(list)
}

// migration is what rank takes part with.
func (c *cluster) migration(world mpi.Comm, said *report.Logger) *Migration {
	rank := world.Rank()
	s := c.open(rank)
	return &Migration{
		World: world, Log: said, Piece: 32, Maps: s, ID: id, Dir: c.node(rank), Device: c.device,
		Files: func(rank int) (list []redundancy.File) {
			for _, path := range s.Files(id, rank) {
				list = append(list, redundancy.File{Path: path, Meta: s.Meta(id, rank, path)})
			}
			return list
		},
		Delete: func(rank int, files ...redundancy.File) error {
			for _, f := range files {
				if err := os.Remove(f.Path); err != nil && !errors.Is(err, os.ErrNotExist) {
					return err
				}
				s.RemoveFile(id, rank, f.Path)
			}
			return nil
		},
		Forget: func(rank int) { s.RemoveRank(id, rank) },
	}
}

// run runs a migration on all ranks, and returns whose files were refused.
func (c *cluster) run(opt local.Options) (refused []int, err error) {
	answers := make([]bool, c.size)
	_, err = local.Run(c.size, opt, func(world mpi.Comm) error {
		m := c.migration(world, &report.Logger{})
		defer m.Maps.Close()
		if c.spoil != nil {
			c.spoil(m)
		}
		var err error
		if m.Device != "" {
			err = m.Adopt()
		}
		if err == nil {
			answers[world.Rank()], err = m.Run()
		}
		return err
	})
	for rank, answer := range answers {
		if answer {
			refused = append(refused, rank)
		}
	}
	return refused, err
}

func all(rank int) []int { return []int{0, 1, 2, 3, 4} }

func (c *cluster) wantHome(t testing.TB, what string) {
	t.Helper()
	for node := range c.size {
		var want []string
		for i := range filesOfRank {
			want = append(want, fmt.Sprint(node, ".", i))
		}
		if got := c.have(node); !slices.Equal(got, want) {
			t.Errorf("%s: node %d has %v", what, node, got)
		}
	}
}

// placements are where files can be when a job starts again: node -> rank -> files.
var placements = map[string]map[int]map[int][]int{
	"at home":     {0: {0: all(0)}, 1: {1: all(1)}, 2: {2: all(2)}, 3: {3: all(3)}},
	"in a ring":   {0: {1: all(1)}, 1: {2: all(2)}, 2: {3: all(3)}, 3: {0: all(0)}},
	"on one node": {2: {0: all(0), 1: all(1), 2: all(2), 3: all(3)}},
	// As a job leaves them that was killed while they moved.
	"on several nodes": {0: {0: {0, 1}, 1: {0}}, 1: {1: {1, 2}, 0: {2}}, 2: {0: {3, 4}, 2: all(2), 1: {3, 4, 0}}, 3: {3: all(3)}},
}

// memory is a directory that is synced at once.
func memory(t testing.TB) string {
	dir, err := os.MkdirTemp("/dev/shm", "goscr-test-")
	if err != nil {
		return t.TempDir()
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

func newCluster(t testing.TB, where map[int]map[int][]int) *cluster {
	c := &cluster{t: t, dir: memory(t), size: 4}
	for node, ranks := range where {
		for rank, files := range ranks {
			c.put(node, rank, files...)
		}
	}
	return c
}

func TestRun(t *testing.T) {
	for what, where := range placements {
		c := newCluster(t, where)
		refused, err := c.run(local.Options{})
		if err != nil || refused != nil {
			t.Errorf("%s: %v, refused %v", what, err, refused)
		}
		c.wantHome(t, what)
	}
}

// A job that is killed in place of any message leaves every file somewhere, and the
// next one brings all of them home.
func TestRun_KilledAnywhere(t *testing.T) {
	for what, where := range placements {
		for at := int64(1); ; at += 11 {
			c := newCluster(t, where)
			_, err := c.run(local.Options{KillAt: at})
			left := map[string]bool{}
			for node := range c.size {
				for _, file := range c.have(node) {
					left[file] = true
				}
			}
			if len(left) != c.size*filesOfRank {
				t.Errorf("%s, killed at message %d: %d files are left", what, at, len(left))
			}
			if err == nil {
				break
			}
			if _, err := c.run(local.Options{}); err != nil {
				t.Errorf("%s, killed at message %d: %v", what, at, err)
			}
			c.wantHome(t, fmt.Sprintf("%s, killed at message %d", what, at))
		}
	}
}

// What is not all there, or is not what was written, does not move: it is rebuilt
// where its owner is. Others move all the same.
func TestRun_NotWhole(t *testing.T) {
	for what, harm := range map[string]func(path string) error{
		"gone":    os.Remove,
		"shorter": func(path string) error { return os.Truncate(path, 1) },
		"changed": func(path string) error {
			data, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			data[0] ^= 1
			return os.WriteFile(path, data, 0o600)
		},
	} {
		c := newCluster(t, placements["in a ring"])
		must(t, harm(filepath.Join(c.node(0), name(1, 4))))
		refused, err := c.run(local.Options{})
		if err != nil || refused != nil {
			t.Errorf("%s: %v, refused %v", what, err, refused)
		}
		for _, rank := range []int{0, 2, 3} {
			if got := c.have(rank); len(got) != filesOfRank || got[0] != fmt.Sprint(rank, ".", 0) {
				t.Errorf("%s: node %d has %v", what, rank, got)
			}
		}
		s := c.open(1)
		if s.Whole(id, 1) {
			t.Errorf("%s: rank 1 takes its files to be whole", what)
		}
		must(t, s.Close())
	}
}

// Files without checksums get them when they move, as their bytes are read then.
func TestRun_Unchecked(t *testing.T) {
	c := &cluster{t: t, dir: memory(t), size: 4, unchecked: true}
	for node, ranks := range placements["in a ring"] {
		for rank, files := range ranks {
			c.put(node, rank, files...)
		}
	}
	refused, err := c.run(local.Options{})
	if err != nil || refused != nil {
		t.Errorf("%v, refused %v", err, refused)
	}
	c.wantHome(t, "without checksums")
	s := c.open(2)
	defer s.Close()
	for i := range filesOfRank {
		path := filepath.Join(c.node(2), name(2, i))
		if crc, known := s.Meta(id, 2, path).CRC(); !known || crc != crc32.ChecksumIEEE(contents(2, i)) {
			t.Errorf("file %d: checksum 0x%08x, known %t", i, crc, known)
		}
	}
}

// A file that cannot be read, and has no checksum, stays where it is: what would arrive in its place are zeros.
func TestRun_Unreadable(t *testing.T) {
	c := &cluster{t: t, dir: memory(t), size: 4, unchecked: true}
	for node, ranks := range placements["in a ring"] {
		for rank, files := range ranks {
			c.put(node, rank, files...)
		}
	}
	path := filepath.Join(c.node(0), name(1, 4))
	c.spoil = func(m *Migration) {
		files, calls := m.Files, 0
		m.Files = func(rank int) []redundancy.File {
			if calls++; m.World.Rank() == 0 && rank == 1 && calls > 1 { // it was offered before
				must(t, os.Truncate(path, 1))
			}
			return files(rank)
		}
	}
	refused, err := c.run(local.Options{})
	if err != nil || refused != nil {
		t.Errorf("%v, refused %v", err, refused)
	}
	s := c.open(1)
	defer s.Close()
	if s.Whole(id, 1) {
		t.Error("rank 1 takes its files to be whole")
	}
	if info, err := os.Stat(path); err != nil || info.Size() != 1 {
		t.Errorf("the file is deleted where it was: %v", err)
	}
}

// Files for which there is no room stay where they are.
func TestRun_NoRoom(t *testing.T) {
	if dir := storagetest.Dir(); dir != "" {
		c := &cluster{t: t, dir: dir, size: 4}
		must(t, storagetest.Refuse(unix.ENOSPC, 1))
		var failed *mpi.AgreedError
		if refused, err := c.run(local.Options{}); !errors.As(err, &failed) && len(refused) == 0 {
			t.Errorf("%v, refused %v", err, refused)
		}
		return
	}
	c := newCluster(t, placements["in a ring"])
	storagetest.Again(t, c.dir)
	for node := range c.size {
		if got := c.have(node); len(got) != filesOfRank || got[0] != fmt.Sprint((node+1)%c.size, ".", 0) {
			t.Errorf("node %d has %v", node, got)
		}
	}
}

func TestMissing(t *testing.T) {
	c := newCluster(t, map[int]map[int][]int{0: {1: all(1)}, 1: {2: {0, 1, 3, 4}}, 3: {3: all(3)}})
	_, err := local.Run(c.size, local.Options{}, func(world mpi.Comm) error {
		m := c.migration(world, &report.Logger{})
		defer m.Maps.Close()
		missing, err := m.Missing()
		if want := world.Rank() == 0 || world.Rank() == 2; missing != want {
			return errors.Join(err, fmt.Errorf("missing: %v", missing))
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
}

// On storage that nodes share no file moves: the entries do.
func TestAdopt(t *testing.T) {
	c := &cluster{t: t, dir: t.TempDir(), size: 4, device: "0 /shared"}
	must(t, os.Mkdir(filepath.Join(c.dir, "shared"), 0o700))
	for node := range c.size {
		must(t, os.Symlink("shared", c.node(node)))
	}
	for node := range c.size {
		c.put(node, (node+1)%c.size, all(0)...)
	}
	_, err := local.Run(c.size, local.Options{}, func(world mpi.Comm) error {
		m := c.migration(world, &report.Logger{})
		defer m.Maps.Close()
		if err := m.Adopt(); err != nil {
			return err
		}
		if !m.Maps.Whole(id, world.Rank()) || len(m.Maps.Ranks(id)) != 1 {
			return fmt.Errorf("has entries of %v", m.Maps.Ranks(id))
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
	c.wantHome(t, "adopted")
}

// Where nodes share a directory and nothing says so, a file is neither moved onto itself nor deleted.
func TestRun_SharedDirectory(t *testing.T) {
	for what, put := range map[string]func(c *cluster){
		"other nodes": func(c *cluster) {
			for node := range c.size {
				c.put(node, (node+1)%c.size, all(0)...)
			}
		},
		"a part on each": func(c *cluster) {
			for node := range c.size {
				c.put(node, node, 0, 1)
				c.put((node+1)%c.size, node, 2, 3, 4)
			}
		},
		"entries on both": func(c *cluster) {
			for node := range c.size {
				c.put(node, node, all(0)...)
			}
			for node := range c.size { // the file is the same
				c.enter((node+1)%c.size, node, all(0)...)
			}
		},
	} {
		c := &cluster{t: t, dir: t.TempDir(), size: 4}
		must(t, os.Mkdir(filepath.Join(c.dir, "shared"), 0o700))
		for node := range c.size {
			must(t, os.Symlink("shared", c.node(node)))
		}
		put(c)
		refused, err := c.run(local.Options{})
		if err != nil || len(refused) > 0 {
			t.Errorf("%s: %v, refused %v", what, err, refused)
		}
		c.wantHome(t, what)
	}
}

func TestBatches(t *testing.T) {
	for _, c := range []struct {
		sizes []int64
		most  int64
		want  string
	}{
		{nil, 10, "[]"},
		{[]int64{0, 0, 0}, 10, "[3]"},
		{[]int64{100}, 10, "[1]"},
		{[]int64{4, 6, 1, 100, 0, 10, -1}, 10, "[2 1 1 3]"},
	} {
		var l fileList
		for _, size := range c.sizes {
			md := meta.New("f", meta.Full, 1)
			md.SetSize(size)
			l = append(l, redundancy.File{Meta: md})
		}
		got := []int{}
		for _, b := range l.batches(c.most) {
			got = append(got, len(b))
		}
		if fmt.Sprint(got) != c.want {
			t.Errorf("%v: %v, want %s", c.sizes, got, c.want)
		}
	}
}

func TestMessage(t *testing.T) {
	md := meta.New("a/b", meta.Full, 2)
	md.SetSize(5)
	m := hash.As[message](hash.Marshal(message{Files: -1, Round: 3, Names: []string{"x", "a/b"}, List: fileList{{Meta: md}}, Device: "0 /d"}))
	if got := fmt.Sprint(m.Files, m.Round, m.Names, len(m.List), m.List.bytes(), m.Device); got != "-1 3 [a/b x] 1 50 /d" {
		t.Error(got)
	}
	if err := m.List.place("/cache"); err != nil || m.List[0].Path != "/cache/a/b" {
		t.Error(err, m.List[0].Path)
	}
	// Descriptions lead nowhere but below the directory.
	for _, name := range []string{"", "/etc/passwd", "../x", "a/../../x"} {
		md := meta.New(name, meta.Full, 2)
		md.SetSize(5)
		if (fileList{{Meta: md}}).place("/cache") == nil {
			t.Errorf("%q has a place", name)
		}
	}
	empty := hash.As[message](hash.New())
	if empty.List.place("/cache") != nil || len(empty.Names) != 0 {
		t.Errorf("%+v", empty)
	}
}
