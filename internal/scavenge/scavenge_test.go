package scavenge_test

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/goscr/goscr/internal/prefix"
	"github.com/goscr/goscr/internal/scavenge"
	"github.com/goscr/goscr/mpi"
	"github.com/goscr/goscr/mpi/local"
	"github.com/goscr/goscr/scr"
)

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// cluster is nodes with storage of their own and a prefix directory. Jobs run on
// them with the library; what is tested comes after.
type cluster struct {
	t    testing.TB
	root string
	env  map[string]string

	mu  sync.Mutex
	log bytes.Buffer
}

func newCluster(t testing.TB, env ...string) *cluster {
	t.Helper()
	base := "/dev/shm"
	if _, err := os.Stat(base); err != nil {
		base = ""
	}
	root, err := os.MkdirTemp(base, "goscr-test-")
	must(t, err)
	t.Cleanup(func() { os.RemoveAll(root) })
	c := &cluster{t: t, root: root, env: map[string]string{
		"SCR_PREFIX": filepath.Join(root, "prefix"), "SCR_USER_NAME": "user", "SCR_JOB_ID": "job", "SCR_FLUSH": "0",
		"SCR_CACHE_SIZE": "3", "SCR_MPI_BUF_SIZE": "1k", "SCR_FILE_BUF_SIZE": "1k", "SCR_SET_SIZE": "4", "PWD": root,
	}}
	for _, e := range env {
		name, value, _ := strings.Cut(e, "=")
		c.env[name] = value
	}
	return c
}

func (c *cluster) Write(p []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.log.Write(p)
}

func (c *cluster) prefix() string          { return filepath.Join(c.root, "prefix") }
func (c *cluster) path(name string) string { return filepath.Join(c.prefix(), name) }
func (c *cluster) node(name string) string { return filepath.Join(c.root, "node", name) }
func (c *cluster) lose(names ...string) {
	for _, name := range names {
		must(c.t, os.RemoveAll(c.node(name)))
	}
}

// job runs f on ranks of which rank r is on nodes[r]. It ends as if killed.
func (c *cluster) job(nodes []string, f func(s *scr.Session, rank int) error) {
	c.t.Helper()
	_, err := local.Run(len(nodes), local.Options{Timeout: time.Minute}, func(world mpi.Comm) error {
		node := nodes[world.Rank()]
		s, err := scr.Init(world, scr.Options{Log: c, Environ: func(name string) (string, bool) {
			switch name {
			case "SCR_NODE_NAME":
				return node, true
			case "SCR_CACHE_BASE", "SCR_CNTL_BASE":
				return c.node(node), true
			}
			value, ok := c.env[name]
			return value, ok
		}})
		if err != nil {
			return err
		}
		return f(s, world.Rank())
	})
	if err != nil {
		c.t.Fatalf("%v\n%s", err, c.log.String())
	}
}

var four = []string{"a", "b", "c", "d"}

type file struct {
	name string
	data []byte
	mode os.FileMode
	time time.Time
}

// contents are the files of a rank in a step: of very different sizes, some
// empty, some ranks with none.
func contents(step, rank int) []file {
	random := rand.New(rand.NewPCG(uint64(step), uint64(rank)))
	var files []file
	for i := range []int{2, 1, 3, 0, 1}[rank%5] {
		f := file{name: fmt.Sprintf("ckpt.%d/rank_%d/file %d", step, rank, i), mode: []os.FileMode{0o600, 0o444}[i%2],
			time: time.Unix(1e9+int64(step), int64(rank*10+i)), data: make([]byte, random.IntN(20_000)*((i+1)%3))}
		for k := range f.data {
			f.data[k] = byte(random.Uint32())
		}
		files = append(files, f)
	}
	return files
}

func name(step int) string { return fmt.Sprintf("ckpt.%d", step) }

func (c *cluster) output(step int, flags scr.Flags) func(s *scr.Session, rank int) error {
	return func(s *scr.Session, rank int) error {
		if err := s.StartOutput(name(step), flags); err != nil {
			return err
		}
		for _, f := range contents(step, rank) {
			path, err := s.Route(c.path(f.name))
			if err == nil {
				err = errors.Join(os.WriteFile(path, f.data, 0o600), os.Chtimes(path, f.time, f.time), os.Chmod(path, f.mode))
			}
			if err != nil {
				return err
			}
		}
		return s.CompleteOutput(true)
	}
}

// write is a job that writes checkpoints and is killed.
func (c *cluster) write(nodes []string, steps ...int) {
	c.t.Helper()
	c.job(nodes, func(s *scr.Session, rank int) error {
		for _, step := range steps {
			if err := c.output(step, scr.Checkpoint)(s, rank); err != nil {
				return err
			}
		}
		return nil
	})
}

// restarts is a job on other nodes that finds the checkpoint of a step, all of
// it. 0 is none.
func (c *cluster) restarts(ranks, step int) {
	c.t.Helper()
	c.lose(four...)
	nodes := make([]string, ranks)
	for r := range nodes {
		nodes[r] = fmt.Sprint("new", r)
	}
	defer c.lose(nodes...)
	c.job(nodes, func(s *scr.Session, rank int) error {
		got, ok, err := s.HaveRestart()
		if err != nil || ok != (step > 0) || ok && got != name(step) {
			return fmt.Errorf("offered %q, want that of step %d (%v)", got, step, err)
		}
		if !ok {
			return nil
		}
		if _, err := s.StartRestart(); err != nil {
			return err
		}
		for _, f := range contents(step, rank) {
			path, e := s.Route(c.path(f.name))
			if e == nil {
				e = same(path, f)
			}
			err = errors.Join(err, e)
		}
		if err := s.Agree(err); err != nil {
			return err
		}
		return s.CompleteRestart(true)
	})
}

func same(path string, f file) error {
	data, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	info, err := os.Lstat(path)
	switch {
	case err != nil:
		return err
	case !bytes.Equal(data, f.data):
		return fmt.Errorf("%s: other bytes than were written", path)
	case info.Mode() != f.mode || !info.ModTime().Equal(f.time):
		return fmt.Errorf("%s: mode %v and time %v, was written with %v and %v", path, info.Mode(), info.ModTime(), f.mode, f.time)
	}
	return nil
}

// warnings collects what is said on the way.
type warnings struct{ list []string }

func (w *warnings) add(err error) { w.list = append(w.list, err.Error()) }

func (w *warnings) say(t testing.TB, text string) {
	t.Helper()
	if !strings.Contains(strings.Join(w.list, "\n"), text) {
		t.Errorf("nothing says %q: %q", text, w.list)
	}
}

func (c *cluster) control(node string) string { return filepath.Join(c.node(node), "user/scr.job") }

func (c *cluster) cached(node string, id int, file string) string {
	return filepath.Join(c.control(node), fmt.Sprintf("scr.dataset.%d", id), file)
}

// copy is scr_copy on a node.
func (c *cluster) copy(node string, id int, change ...func(*scavenge.Copy)) (scavenge.Copied, *warnings, error) {
	w := &warnings{}
	x := scavenge.Copy{Control: c.control(node), Prefix: c.prefix(), ID: id, Buffer: 1000, Warn: w.add}
	for _, f := range change {
		f(&x)
	}
	done, err := x.Run()
	return done, w, err
}

func (c *cluster) copies(id int, nodes ...string) {
	c.t.Helper()
	for _, node := range nodes {
		if _, w, err := c.copy(node, id); err != nil || len(w.list) > 0 {
			c.t.Fatalf("node %s: %v %q", node, err, w.list)
		}
	}
}

func (c *cluster) build(id int) (scavenge.Built, *warnings, error) {
	w := &warnings{}
	b, err := scavenge.Build(c.prefix(), id, w.add)
	return b, w, err
}

func (c *cluster) builds(id int) scavenge.Built {
	c.t.Helper()
	b, w, err := c.build(id)
	if err != nil {
		c.t.Fatalf("%v %q", err, w.list)
	}
	return b
}

func (c *cluster) meta(id int, file string) string {
	return filepath.Join(prefix.Dir(c.prefix(), id), file)
}

// change replaces what a file holds, and leaves mode and times alone.
func change(t testing.TB, path string, f func([]byte) []byte) {
	t.Helper()
	data, err := os.ReadFile(path)
	must(t, err)
	info, err := os.Stat(path)
	must(t, err)
	must(t, errors.Join(os.Chmod(path, 0o600), os.WriteFile(path, f(data), 0o600), os.Chmod(path, info.Mode()),
		os.Chtimes(path, info.ModTime(), info.ModTime())))
}

func flip(data []byte) []byte {
	data[len(data)/2] ^= 4
	return data
}

var schemes = map[string]struct {
	env    []string
	bears  int
	ranks  int
	sorted []string
}{
	"XOR":     {env: []string{"SCR_COPY_TYPE=XOR"}, bears: 1},
	"PARTNER": {env: []string{"SCR_COPY_TYPE=PARTNER"}, bears: 1},
	"RS":      {env: []string{"SCR_COPY_TYPE=RS"}, bears: 2},
}

// Whatever nodes are lost that the scheme bears, the next job restarts from what
// the others had.
func TestScavenge_NodesLost(t *testing.T) {
	for kind, scheme := range schemes {
		for first := range four {
			for second := range four {
				lost := []string{four[first]}
				if second != first {
					if scheme.bears < 2 || second < first {
						continue
					}
					lost = append(lost, four[second])
				}
				t.Run(fmt.Sprint(kind, lost), func(t *testing.T) {
					c := newCluster(t, scheme.env...)
					c.write(four, 1, 2)
					c.lose(lost...)
					for _, n := range four {
						if !slices.Contains(lost, n) {
							c.copies(2, n)
						}
					}
					if b := c.builds(2); len(b.Rebuilt) != len(lost) {
						t.Errorf("rebuilt %v", b.Rebuilt)
					}
					c.restarts(4, 2)
				})
			}
		}
	}
}

func TestScavenge_SeveralRanksOnANode(t *testing.T) {
	nodes := []string{"a", "a", "b", "b", "b", "c", "c", "d", "d"}
	for kind, scheme := range schemes {
		t.Run(kind, func(t *testing.T) {
			c := newCluster(t, append(scheme.env, "SCR_SET_SIZE=3")...)
			c.write(nodes, 1)
			c.lose("b")
			c.copies(1, "a", "c", "d")
			if b := c.builds(1); len(b.Rebuilt) != 3 {
				t.Errorf("rebuilt %v", b.Rebuilt)
			}
			c.restarts(len(nodes), 1)
		})
	}
}

func TestScavenge_NothingLost(t *testing.T) {
	c := newCluster(t)
	c.write(four, 1)
	c.copies(1, four...)
	if b := c.builds(1); len(b.Rebuilt) != 0 || b.There {
		t.Errorf("%+v", b)
	}
	if left, _ := filepath.Glob(c.meta(1, "*.xor")); len(left) > 0 {
		t.Errorf("%v is of no more use", left)
	}
	if left, _ := filepath.Glob(c.path("ckpt.1/*/.scr*")); len(left) > 0 {
		t.Errorf("%v is left", left)
	}
	c.restarts(4, 1)
}

func TestScavenge_TooMuchLost(t *testing.T) {
	for kind, scheme := range schemes {
		t.Run(kind, func(t *testing.T) {
			c := newCluster(t, scheme.env...)
			c.write(four, 1, 2)
			c.copies(1, four...)
			c.builds(1)
			nodes := four[:3-scheme.bears]
			if kind == "PARTNER" { // bears the loss of two that are no neighbours
				nodes = four[2:]
			}
			c.copies(2, nodes...)
			b, _, err := c.build(2)
			if err == nil || !strings.Contains(err.Error(), "are missing") || !strings.Contains(err.Error(), "cannot be rebuilt") {
				t.Errorf("%+v, %v", b, err)
			}
			x, err := prefix.ReadIndex(c.prefix())
			must(t, err)
			if e := x.Entries()[0]; e.ID != 2 || e.Complete {
				t.Errorf("index: %+v", e)
			}
			c.restarts(4, 1)
		})
	}
}

func TestScavenge_Single(t *testing.T) {
	c := newCluster(t, "SCR_COPY_TYPE=SINGLE")
	c.write(four, 1)
	c.copies(1, four[1:]...)
	if _, _, err := c.build(1); err == nil || !strings.Contains(err.Error(), "no redundancy files") {
		t.Error(err)
	}
	c.copies(1, four[0])
	c.builds(1)
	c.restarts(4, 1)
}

// Twice, in any order, and after it was cut short.
func TestScavenge_Again(t *testing.T) {
	c := newCluster(t)
	c.write(four, 1)
	c.copies(1, "a", "b")
	if _, _, err := c.build(1); err == nil {
		t.Error("built from two of four nodes")
	}
	// A node's copy was killed: a file has another's name, a list is missing.
	must(t, os.Remove(c.meta(1, "1.scrfilemap")))
	must(t, os.MkdirAll(c.path("ckpt.1/rank_2"), 0o700))
	must(t, os.WriteFile(c.path("ckpt.1/rank_2/.scr.1.2.1.tmp"), []byte("part"), 0o600))
	done, _, err := c.copy("a", 1)
	if must(t, err); done.Files != 0 || done.Kept == 0 {
		t.Errorf("%+v was copied again", done)
	}
	c.copies(1, "b", "c")
	c.builds(1)
	done, _, err = c.copy("d", 1)
	if must(t, err); !done.There {
		t.Errorf("%+v", done)
	}
	if b := c.builds(1); !b.There {
		t.Errorf("%+v", b)
	}
	c.restarts(4, 1)
}

// A file that is there but not what was written is copied again if that is
// asked for.
func TestCopy_Reread(t *testing.T) {
	c := newCluster(t)
	c.write(four, 1)
	c.copies(1, "a")
	change(t, c.path(contents(1, 0)[1].name), flip)
	done, _, err := c.copy("a", 1)
	if must(t, err); done.Files != 0 {
		t.Errorf("%+v", done)
	}
	done, _, err = c.copy("a", 1, func(x *scavenge.Copy) { x.Reread = true })
	if must(t, err); done.Files != 1 {
		t.Errorf("%+v", done)
	}
}

// A file that is corrupt in the cache is not brought as if it were whole, and
// comes back from the others.
func TestCopy_CorruptInTheCache(t *testing.T) {
	c := newCluster(t)
	c.write(four, 1)
	change(t, c.cached("c", 1, contents(1, 2)[0].name), flip)
	_, w, err := c.copy("c", 1)
	if err == nil {
		t.Error("a corrupt file was copied")
	}
	w.say(t, "corrupt")
	c.copies(1, "a", "b", "d")
	if b := c.builds(1); len(b.Rebuilt) != 1 {
		t.Errorf("%+v", b.Rebuilt)
	}
	c.restarts(4, 1)
}

// Files that become corrupt after they were copied.
func TestBuild_CorruptOnTheWay(t *testing.T) {
	for kind, scheme := range schemes {
		t.Run(kind, func(t *testing.T) {
			c := newCluster(t, scheme.env...)
			c.write(four, 1)
			lost, bad := "a", 1
			c.lose(lost)
			c.copies(1, "b", "c", "d")
			f := contents(1, bad)[0]
			change(t, c.path(f.name), flip)
			b, w, err := c.build(1)
			switch kind {
			case "RS": // two are lost, then
				must(t, err)
				w.say(t, f.name)
				if len(b.Rebuilt) != 2 {
					t.Errorf("%+v", b.Rebuilt)
				}
			case "XOR":
				if err == nil {
					t.Error("rebuilt from a corrupt file")
				}
				w.say(t, f.name)
				return
			case "PARTNER": // the copy is another file
				must(t, err)
				return
			}
			c.restarts(4, 1)
		})
	}
}

// With PARTNER, a node brings the files of its neighbour from its copies.
func TestCopy_Partner(t *testing.T) {
	for _, how := range []string{"down", "partner"} {
		c := newCluster(t, "SCR_COPY_TYPE=PARTNER")
		c.write(four, 1)
		c.lose("b")
		done, _, err := c.copy("a", 1)
		if must(t, err); fmt.Sprint(done.Partners) != "[d]" {
			t.Errorf("partners %v", done.Partners)
		}
		for _, n := range []string{"c", "d"} {
			done, _, err := c.copy(n, 1, func(x *scavenge.Copy) {
				if how == "down" {
					x.Down = []string{"x", "b"}
				} else {
					x.Partner = n == "c"
				}
			})
			if must(t, err); n == "c" && fmt.Sprint(done.Ranks) != "[2 1]" {
				t.Errorf("%s: %+v", how, done)
			}
		}
		if b := c.builds(1); len(b.Rebuilt) != 0 {
			t.Errorf("%+v had to be rebuilt", b.Rebuilt)
		}
		c.restarts(4, 1)
	}
}

// Outputs and checkpoints; what is older does not become the one to restart from.
func TestScavenge_MoreThanOne(t *testing.T) {
	c := newCluster(t)
	c.write(four, 1, 2, 3)
	c.lose("d")
	for _, id := range []int{3, 1, 2} {
		c.copies(id, "a", "b", "c")
		c.builds(id)
	}
	x, err := prefix.ReadIndex(c.prefix())
	must(t, err)
	if x.Current() != name(3) || len(x.Entries()) != 3 {
		t.Errorf("current %q of %v", x.Current(), x.Entries())
	}
	c.restarts(4, 3)
}

// A dataset that was flushed but for the index is entered, and not copied.
func TestBuild_FlushedButForTheIndex(t *testing.T) {
	c := newCluster(t, "SCR_FLUSH=1")
	c.write(four, 1, 2)
	x, err := prefix.ReadIndex(c.prefix())
	must(t, err)
	e, _ := x.Find(name(2))
	must(t, prefix.Incomplete(c.prefix(), e.Dataset))
	if b := c.builds(2); !b.There {
		t.Errorf("%+v", b)
	}
	c.restarts(4, 2)
}

// What an earlier dataset of the same number has left is not mixed with it.
func TestScavenge_NumberUsedAgain(t *testing.T) {
	c := newCluster(t)
	c.write(four, 1)
	c.copies(1, four...)
	must(t, os.RemoveAll(c.path(".scr/index.scr")))
	c.lose(four...)
	c.job(four, c.output(7, scr.Checkpoint)) // dataset 1 again
	c.copies(1, "a")
	if left, _ := filepath.Glob(c.meta(1, "*.scrfilemap")); len(left) != 1 {
		t.Errorf("%v", left)
	}
	if _, _, err := c.build(1); err == nil {
		t.Error("built from one node of four")
	}
	c.copies(1, "b", "c")
	c.builds(1)
	c.restarts(4, 7)
}

func TestCopy_Refuses(t *testing.T) {
	c := newCluster(t)
	c.write(four, 1)
	for want, err := range map[string]error{
		"dataset 9 is not in the cache": second(c.copy("a", 9)),
		"control directory":             second(c.copy("nowhere", 1)),
		"belongs to a job with prefix directory": second(c.copy("a", 1, func(x *scavenge.Copy) {
			x.Prefix = t.TempDir()
		})),
	} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	if _, _, err := c.build(1); err == nil || !strings.Contains(err.Error(), "scavenged") {
		t.Error(err)
	}
}

func second(_ scavenge.Copied, _ *warnings, err error) error { return err }
