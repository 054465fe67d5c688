package scavenge_test

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/goscr/goscr/hash"
	"github.com/goscr/goscr/internal/node/filemap"
	"github.com/goscr/goscr/internal/node/meta"
	"github.com/goscr/goscr/internal/node/scavenge"
	"github.com/goscr/goscr/internal/prefix"
	"github.com/goscr/goscr/internal/prefix/transfer"
	"github.com/goscr/goscr/internal/redundancy"
	"github.com/goscr/goscr/internal/session"
	"github.com/goscr/goscr/internal/sys/compress"
	"github.com/goscr/goscr/test/scavengetest"
)

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

type cluster struct{ *scavengetest.Cluster }

func newCluster(t testing.TB, env ...string) *cluster { return &cluster{scavengetest.New(t, env...)} }

// warnings collects what is said on the way.
type warnings struct{ list []string }

func (w *warnings) add(err error) { w.list = append(w.list, err.Error()) }

func (w *warnings) say(t testing.TB, text string) {
	t.Helper()
	if !strings.Contains(strings.Join(w.list, "\n"), text) {
		t.Errorf("nothing says %q: %q", text, w.list)
	}
}

// copy is scr_copy on a node.
func (c *cluster) copy(node string, id int, change ...func(*scavenge.Copy)) (scavenge.Copied, *warnings, error) {
	w := &warnings{}
	x := scavenge.Copy{Control: c.Control(node), Prefix: c.Prefix(), ID: id, Buffer: 1000, Warn: w.add}
	for _, f := range change {
		f(&x)
	}
	done, err := x.Run()
	return done, w, err
}

func (c *cluster) copies(id int, nodes ...string) {
	c.T.Helper()
	for _, node := range nodes {
		if _, w, err := c.copy(node, id); err != nil || len(w.list) > 0 {
			c.T.Fatalf("node %s: %v %q", node, err, w.list)
		}
	}
}

func (c *cluster) build(id int) (scavenge.Built, *warnings, error) {
	w := &warnings{}
	b, err := scavenge.Build(c.Prefix(), id, w.add, nil)
	return b, w, err
}

func (c *cluster) builds(id int) scavenge.Built {
	c.T.Helper()
	b, w, err := c.build(id)
	if err != nil {
		c.T.Fatalf("%v %q", err, w.list)
	}
	return b
}

func (c *cluster) meta(id int, file string) string {
	return filepath.Join(prefix.Dir(c.Prefix(), id), file)
}

// lists returns the paths of the lists of a dataset's ranks.
func (c *cluster) lists(id int) []string {
	c.T.Helper()
	paths, err := filepath.Glob(c.meta(id, "*.scrfilemap"))
	must(c.T, err)
	return paths
}

// redundancy returns the path of the only redundancy file of a dataset on a node.
func (c *cluster) redundancy(node string, id int) string {
	c.T.Helper()
	paths, err := filepath.Glob(c.Cached(node, id, ".scr/*_of_*"))
	if err != nil || len(paths) != 1 {
		c.T.Fatalf("redundancy files %v, %v", paths, err)
	}
	return paths[0]
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

// Whatever nodes are lost that the scheme tolerates, the next job restarts from what
// the others had.
func TestScavenge_NodesLost(t *testing.T) {
	for kind, scheme := range schemes {
		for first := range scavengetest.Four {
			for second := range scavengetest.Four {
				lost := []string{scavengetest.Four[first]}
				if second != first {
					if scheme.bears < 2 || second < first {
						continue
					}
					lost = append(lost, scavengetest.Four[second])
				}
				t.Run(fmt.Sprint(kind, lost), func(t *testing.T) {
					c := newCluster(t, scheme.env...)
					c.Write(scavengetest.Four, 1, 2)
					c.Lose(lost...)
					for _, n := range scavengetest.Four {
						if !slices.Contains(lost, n) {
							c.copies(2, n)
						}
					}
					if b := c.builds(2); len(b.Rebuilt) != len(lost) {
						t.Errorf("rebuilt %v", b.Rebuilt)
					}
					c.Restarts(4, 2)
				})
			}
		}
	}
}

// A flush that compresses files was cut short, and a node is lost: the compressed files are
// there, and scr_copy does not copy them again. The files of the lost node are rebuilt from the
// bytes that the program wrote.
func TestBuild_FromCompressedFiles(t *testing.T) {
	for kind, scheme := range schemes {
		t.Run(kind, func(t *testing.T) {
			c := newCluster(t, scheme.env...)
			c.Write(scavengetest.Four, 1)
			for rank, node := range scavengetest.Four[:3] {
				maps, _, err := filemap.ReadDir(c.Control(node))
				must(t, err)
				part := &prefix.Part{Rank: rank, Ranks: 4, Dataset: maps.Dataset(1, rank).Dataset}
				copier := transfer.NewCopier(1 << 16)
				copier.Compress = compress.Method{Name: compress.Zstd, Level: 3}
				bring := &prefix.Bring{Prefix: c.Prefix(), Copy: copier.Copy, Aside: func(to string) string { return prefix.Aside(to, 1, prefix.ByFlush) }}
				var files []redundancy.File
				for _, path := range maps.Files(1, rank) {
					if md := maps.Meta(1, rank, path); md.Type() == meta.Full {
						files = append(files, redundancy.File{Path: path, Meta: md})
					}
				}
				part.Files, err = bring.Files(prefix.CloneFiles(files))
				must(t, err)
				must(t, prefix.Announce(c.Prefix(), part.Dataset))
				must(t, part.Enter(c.Prefix()))
			}
			c.Lose("d")
			c.copies(1, scavengetest.Four[:3]...)
			if b := c.builds(1); len(b.Rebuilt) != 1 {
				t.Errorf("rebuilt %v", b.Rebuilt)
			}
			if left, _ := filepath.Glob(c.Path("ckpt.1/*/.scr.*")); len(left) > 0 {
				t.Errorf("left: %q", left)
			}
			c.Restarts(4, 1)
		})
	}
}

// What a flush in the background that was cut short has left beside the files goes when
// they are there.
func TestBuild_NothingLeftAside(t *testing.T) {
	c := newCluster(t)
	c.Write(scavengetest.Four, 1)
	for _, n := range scavengetest.Four[1:] {
		c.copies(1, n)
	}
	file := c.Path(scavengetest.Contents(1, 0)[0].Name)
	kept := prefix.Aside(file, 11, prefix.ByFlush) // of another dataset
	for _, path := range []string{prefix.Aside(file, 1, prefix.ByFlush), prefix.Aside(file, 1, prefix.ByRebuild), kept} {
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, []byte("half"), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	c.builds(1)
	if left, _ := filepath.Glob(filepath.Join(filepath.Dir(file), ".scr.*")); !slices.Equal(left, []string{kept}) {
		t.Errorf("left: %q", left)
	}
	c.Restarts(4, 1)
}

func TestScavenge_SeveralRanksOnANode(t *testing.T) {
	nodes := []string{"a", "a", "b", "b", "b", "c", "c", "d", "d"}
	for kind, scheme := range schemes {
		t.Run(kind, func(t *testing.T) {
			c := newCluster(t, append(scheme.env, "SCR_SET_SIZE=3")...)
			c.Write(nodes, 1)
			c.Lose("b")
			c.copies(1, "a", "c", "d")
			if b := c.builds(1); len(b.Rebuilt) != 3 {
				t.Errorf("rebuilt %v", b.Rebuilt)
			}
			c.Restarts(len(nodes), 1)
		})
	}
}

func TestScavenge_NothingLost(t *testing.T) {
	c := newCluster(t)
	c.Write(scavengetest.Four, 1)
	c.copies(1, scavengetest.Four...)
	if b := c.builds(1); len(b.Rebuilt) != 0 || b.There {
		t.Errorf("%+v", b)
	}
	if left, _ := filepath.Glob(c.meta(1, "*.xor")); len(left) > 0 {
		t.Errorf("%v is of no more use", left)
	}
	if left, _ := filepath.Glob(c.Path("ckpt.1/*/.scr*")); len(left) > 0 {
		t.Errorf("%v is left", left)
	}
	c.Restarts(4, 1)
}

func TestScavenge_TooMuchLost(t *testing.T) {
	for kind, scheme := range schemes {
		t.Run(kind, func(t *testing.T) {
			c := newCluster(t, scheme.env...)
			c.Write(scavengetest.Four, 1, 2)
			c.copies(1, scavengetest.Four...)
			c.builds(1)
			nodes := scavengetest.Four[:3-scheme.bears]
			if kind == "PARTNER" { // tolerates the loss of two that are no neighbours
				nodes = scavengetest.Four[2:]
			}
			c.copies(2, nodes...)
			b, _, err := c.build(2)
			if err == nil || !strings.Contains(err.Error(), "are missing") || !strings.Contains(err.Error(), "cannot be rebuilt") {
				t.Errorf("%+v, %v", b, err)
			}
			x, err := prefix.ReadIndex(c.Prefix())
			must(t, err)
			if e := x.Entries()[0]; e.ID != 2 || e.Complete {
				t.Errorf("index: %+v", e)
			}
			c.Restarts(4, 1)
		})
	}
}

func TestScavenge_Single(t *testing.T) {
	c := newCluster(t, "SCR_COPY_TYPE=SINGLE")
	c.Write(scavengetest.Four, 1)
	c.copies(1, scavengetest.Four[1:]...)
	if _, _, err := c.build(1); err == nil || !strings.Contains(err.Error(), "no redundancy files") {
		t.Error(err)
	}
	c.copies(1, scavengetest.Four[0])
	c.builds(1)
	c.Restarts(4, 1)
}

// Twice, in any order, and after it was cut short.
func TestScavenge_Again(t *testing.T) {
	c := newCluster(t)
	c.Write(scavengetest.Four, 1)
	c.copies(1, "a", "b")
	if _, _, err := c.build(1); err == nil {
		t.Error("built from two of scavengetest.Four nodes")
	}
	// A node's copy was killed: a file has another's name, a list is missing.
	must(t, os.Remove(c.meta(1, "1.scrfilemap")))
	must(t, os.MkdirAll(c.Path("ckpt.1/rank_2"), 0o700))
	must(t, os.WriteFile(c.Path("ckpt.1/rank_2/.scr.1.2.1.tmp"), []byte("part"), 0o600))
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
	c.Restarts(4, 1)
}

// A run whose storage was full has deleted the directory of a dataset, and could not remove it from the index.
func TestScavenge_EntryWithoutDirectory(t *testing.T) {
	c := newCluster(t, "SCR_COPY_TYPE=SINGLE") // whose datasets have no files but lists there
	c.Write(scavengetest.Four, 1)
	c.copies(1, "a")
	must(t, os.RemoveAll(c.meta(1, "")))
	c.copies(1, scavengetest.Four...)
	c.builds(1)
	c.Restarts(4, 1)
}

// hook is a Meter that does something at each step.
type hook func()

func (hook) Expect(int64) {}
func (h hook) Add(int64)  { h() }

// A copy that scr_transfer makes at the same time is another file.
func TestCopy_BesideATransfer(t *testing.T) {
	c := newCluster(t)
	c.Write(scavengetest.Four, 1)
	beside := prefix.Aside(c.Path(scavengetest.Contents(1, 0)[0].Name), 1, prefix.ByFlush)
	written := false
	_, w, err := c.copy("a", 1, func(x *scavenge.Copy) {
		x.Progress = hook(func() {
			if !written && os.WriteFile(beside, []byte("small"), 0o600) == nil { // its directory is there
				written = true
			}
		})
	})
	if must(t, err); !written || len(w.list) > 0 {
		t.Fatalf("%v, %q", written, w.list)
	}
	c.copies(1, "b", "c", "d")
	if b := c.builds(1); len(b.Rebuilt) > 0 {
		t.Errorf("%+v", b)
	}
	if _, err := os.Lstat(beside); !os.IsNotExist(err) {
		t.Error("what the other has copied is left")
	}
	c.Restarts(4, 1)
}

// A file that is there but not what was written is copied again if that is
// asked for.
func TestCopy_Reread(t *testing.T) {
	c := newCluster(t)
	c.Write(scavengetest.Four, 1)
	c.copies(1, "a")
	scavengetest.Change(t, prefix.Aside(c.Path(scavengetest.Contents(1, 0)[1].Name), 1, prefix.ByCopy), scavengetest.Flip)
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
	c.Write(scavengetest.Four, 1)
	scavengetest.Change(t, c.Cached("c", 1, scavengetest.Contents(1, 2)[0].Name), scavengetest.Flip)
	_, w, err := c.copy("c", 1)
	if err == nil {
		t.Error("a corrupt file was copied")
	}
	w.say(t, "corrupt")
	c.copies(1, "a", "b", "d")
	if b := c.builds(1); len(b.Rebuilt) != 1 {
		t.Errorf("%+v", b.Rebuilt)
	}
	c.Restarts(4, 1)
}

// Files that become corrupt after they were copied.
func TestBuild_CorruptOnTheWay(t *testing.T) {
	for kind, scheme := range schemes {
		t.Run(kind, func(t *testing.T) {
			c := newCluster(t, scheme.env...)
			c.Write(scavengetest.Four, 1)
			lost, bad := "a", 1
			c.Lose(lost)
			c.copies(1, "b", "c", "d")
			f := scavengetest.Contents(1, bad)[0]
			aside := prefix.Aside(c.Path(f.Name), 1, prefix.ByCopy)
			scavengetest.Change(t, aside, scavengetest.Flip)
			b, w, err := c.build(1)
			switch kind {
			case "RS": // two are lost, then
				must(t, err)
				w.say(t, aside)
				if len(b.Rebuilt) != 2 {
					t.Errorf("%+v", b.Rebuilt)
				}
			case "XOR":
				if err == nil {
					t.Error("rebuilt from a corrupt file")
				}
				w.say(t, aside)
				return
			case "PARTNER": // the copy is another file
				must(t, err)
				return
			}
			c.Restarts(4, 1)
		})
	}
}

// With PARTNER, a node brings the files of its neighbour from its copies.
func TestCopy_Partner(t *testing.T) {
	for _, how := range []string{"down", "partner"} {
		c := newCluster(t, "SCR_COPY_TYPE=PARTNER")
		c.Write(scavengetest.Four, 1)
		c.Lose("b")
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
		c.Restarts(4, 1)
	}
}

// Outputs and checkpoints; what is older does not become the one to restart from.
func TestScavenge_MoreThanOne(t *testing.T) {
	c := newCluster(t)
	c.Write(scavengetest.Four, 1, 2, 3)
	c.Lose("d")
	for _, id := range []int{3, 1, 2} {
		c.copies(id, "a", "b", "c")
		c.builds(id)
	}
	x, err := prefix.ReadIndex(c.Prefix())
	must(t, err)
	if x.Current() != scavengetest.Name(3) || len(x.Entries()) != 3 {
		t.Errorf("current %q of %v", x.Current(), x.Entries())
	}
	c.Restarts(4, 3)
}

// A dataset that was flushed but for the index is entered, and not copied.
func TestBuild_FlushedButForTheIndex(t *testing.T) {
	c := newCluster(t, "SCR_FLUSH=1")
	c.Write(scavengetest.Four, 1, 2)
	x, err := prefix.ReadIndex(c.Prefix())
	must(t, err)
	e, _ := x.Find(scavengetest.Name(2))
	must(t, prefix.Incomplete(c.Prefix(), e.Dataset))
	if b := c.builds(2); !b.There {
		t.Errorf("%+v", b)
	}
	c.Restarts(4, 2)
}

// A job that is killed after the index has the dataset, and before the flush file says so.
func TestBuild_FlushedButForTheFlushFile(t *testing.T) {
	c := newCluster(t, "SCR_FLUSH=1")
	c.Write(scavengetest.Four, 1, 2)
	x, err := prefix.ReadIndex(c.Prefix())
	must(t, err)
	e, _ := x.Find(scavengetest.Name(2))
	must(t, prefix.Locate(c.Prefix(), e.Dataset, prefix.InPrefix, false))
	must(t, prefix.Locate(c.Prefix(), e.Dataset, prefix.Flushing, true))
	if b := c.builds(2); !b.There {
		t.Errorf("%+v", b)
	}
	list, err := prefix.Locations(c.Prefix())
	must(t, err)
	for _, l := range list {
		if l.Is(prefix.Flushing) || !l.Is(prefix.InPrefix) {
			t.Errorf("dataset %d is in %v", l.ID, l.Places)
		}
	}
	c.Restarts(4, 2)
}

// What an earlier dataset of the same number has left is not mixed with it.
func TestScavenge_NumberUsedAgain(t *testing.T) {
	c := newCluster(t)
	c.Write(scavengetest.Four, 1)
	c.copies(1, scavengetest.Four...)
	must(t, os.RemoveAll(c.Path(".scr/index.scr")))
	c.Lose(scavengetest.Four...)
	c.Job(scavengetest.Four, c.Output(7, session.Checkpoint)) // dataset 1 again
	c.copies(1, "a")
	if left, _ := filepath.Glob(c.meta(1, "*.scrfilemap")); len(left) != 1 {
		t.Errorf("%v", left)
	}
	if _, _, err := c.build(1); err == nil {
		t.Error("built from one node of scavengetest.Four")
	}
	c.copies(1, "b", "c")
	c.builds(1)
	c.Restarts(4, 7)
}

// A list of an earlier dataset that was left when the clock was ahead does not take
// the place of what the index has.
func TestBuild_ListFromTheFuture(t *testing.T) {
	c := newCluster(t)
	c.Write(scavengetest.Four, 1)
	c.copies(1, scavengetest.Four...)
	path := c.meta(1, "3.scrfilemap")
	h, err := hash.ReadFile(path)
	must(t, err)
	h.Get("RANK", "3", "DSET", "1", "DSETDESC").SetInt("CREATED", time.Now().AddDate(10, 0, 0).UnixMicro())
	must(t, hash.WriteShared(path, h))
	if b := c.builds(1); len(b.Rebuilt) != 1 || b.Rebuilt[0].Rank != 3 {
		t.Errorf("%+v", b)
	}
	c.Restarts(4, 1)
}

// Two nodes that have copies of the same rank bring them at the same time.
func TestCopy_SeveralHaveCopies(t *testing.T) {
	c := newCluster(t, "SCR_COPY_TYPE=PARTNER", "SCR_SET_FAILURES=2")
	c.Write(scavengetest.Four, 1)
	c.Lose("b")
	var mu sync.Mutex
	var all sync.WaitGroup
	brought := map[int]int{}
	for _, node := range []string{"a", "c", "d", "a", "c", "d"} {
		all.Add(1)
		go func() {
			defer all.Done()
			done, w, err := c.copy(node, 1, func(x *scavenge.Copy) { x.Down = []string{"b"} })
			mu.Lock()
			defer mu.Unlock()
			if err != nil || len(w.list) > 0 {
				t.Errorf("node %s: %v %q", node, err, w.list)
			}
			for _, rank := range done.Ranks {
				brought[rank]++
			}
		}()
	}
	all.Wait()
	if brought[1] != 1 {
		t.Errorf("the lost node's rank was brought %d times", brought[1])
	}
	if b := c.builds(1); len(b.Rebuilt) != 0 {
		t.Errorf("%+v had to be rebuilt", b.Rebuilt)
	}
	c.Restarts(4, 1)
}

// Of what the program writes to the prefix directory itself, also several ranks to
// one file, the nodes have nothing: it is there, or it cannot be made whole.
func TestScavenge_Bypass(t *testing.T) {
	c := newCluster(t, "SCR_CACHE_BYPASS=1")
	write := func(step int, complete bool) {
		c.Job(scavengetest.Four, func(s *session.Session, rank int) error {
			if err := s.StartOutput(scavengetest.Name(step), session.Checkpoint); err != nil {
				return err
			}
			for _, name := range []string{"all", fmt.Sprint("own", rank)} {
				path, err := s.Route(c.Path(fmt.Sprintf("ckpt.%d/%s", step, name)))
				if err != nil {
					return err
				}
				f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE, 0o600)
				if err != nil {
					return err
				}
				_, err = f.WriteAt([]byte{byte(rank)}, int64(rank))
				if err := errors.Join(err, f.Close()); err != nil {
					return err
				}
			}
			if !complete {
				return s.Agree(nil) // all are as far
			}
			return s.CompleteOutput(true)
		})
	}
	write(1, true)
	done, _, err := c.copy("a", 1)
	if must(t, err); !done.There {
		t.Errorf("%+v", done)
	}
	x, err := prefix.ReadIndex(c.Prefix())
	must(t, err)
	must(t, prefix.Incomplete(c.Prefix(), x.ByID(1).Dataset)) // as if killed before the index knew
	if b := c.builds(1); !b.There || b.Files() != 5 {
		t.Errorf("%+v", b)
	}
	x, err = prefix.ReadIndex(c.Prefix())
	must(t, err)
	v, err := prefix.Verify(c.Prefix(), x.ByID(1), nil)
	if must(t, err); v.Files != 5 || len(v.Problems) > 0 {
		t.Errorf("%+v", v)
	}
	write(2, false)
	_, _, err = c.copy("a", 2)
	_, _, err2 := c.build(2)
	for _, err := range []error{err, err2} {
		if err == nil || !strings.Contains(err.Error(), "was written to the prefix directory by the program, which did not complete it") {
			t.Error(err)
		}
	}
}

func TestCopy_Refuses(t *testing.T) {
	c := newCluster(t)
	c.Write(scavengetest.Four, 1)
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
	if _, _, err := c.build(1); err == nil || !strings.Contains(err.Error(), "has no files of dataset 1: copy them from the nodes") {
		t.Error(err)
	}
}

func second(_ scavenge.Copied, _ *warnings, err error) error { return err }

// An older dataset is built after a newer one with files of the same names: the newer one
// keeps its files, also if it is done again.
func TestBuild_OlderOfTheSameNames(t *testing.T) {
	c := newCluster(t, "SCR_CACHE_SIZE=2")
	data := func(step, rank int) []byte { return fmt.Appendf(nil, "step %d of rank %d", step, rank) }
	file := func(rank int) string { return fmt.Sprintf("again/%d", rank) }
	c.Job(scavengetest.Four, func(s *session.Session, rank int) error {
		for step := 1; step <= 2; step++ {
			if err := s.StartOutput(scavengetest.Name(step), session.Checkpoint); err != nil {
				return err
			}
			for _, name := range []string{file(rank), fmt.Sprintf("step %d/%d", step, rank)} {
				path, err := s.Route(c.Path(name))
				if err == nil {
					err = os.WriteFile(path, data(step, rank), 0o600)
				}
				if err != nil {
					return err
				}
			}
			if err := s.CompleteOutput(true); err != nil {
				return err
			}
		}
		return nil
	})
	for _, id := range []int{2, 1} {
		c.copies(id, scavengetest.Four[1:]...)
	}
	c.builds(2)
	for range 2 {
		if _, _, err := c.build(1); err == nil || !strings.Contains(err.Error(), "dataset 1 (ckpt.1): its files were replaced by ckpt.2") {
			t.Errorf("%v", err)
		}
	}
	for rank := range 4 {
		for name, step := range map[string]int{file(rank): 2, fmt.Sprintf("step 1/%d", rank): 1, fmt.Sprintf("step 2/%d", rank): 2} {
			if got, err := os.ReadFile(c.Path(name)); err != nil || !bytes.Equal(got, data(step, rank)) {
				t.Errorf("%s has %q, want that of step %d (%v)", name, got, step, err)
			}
		}
	}
	if left, _ := filepath.Glob(c.Path("*/.scr.*")); len(left) > 0 {
		t.Errorf("left: %q", left)
	}
}
