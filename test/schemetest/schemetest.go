// Package schemetest states what every redundancy scheme has to do, as tests
// that run on mpi/local: bring back, byte for byte, whatever the scheme says
// it tolerates, find what is corrupt, refuse one loss more on all members, and
// neither hang nor harm what is there when the job is killed.
package schemetest

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"iter"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/goscr/goscr/internal/node/meta"
	"github.com/goscr/goscr/internal/prefix/dataset"
	"github.com/goscr/goscr/internal/redundancy"
	"github.com/goscr/goscr/mpi"
	"github.com/goscr/goscr/mpi/local"
	"github.com/goscr/goscr/test/sample"
)

// piece is small, so that files of a few kilobytes take many pieces.
const piece = 256

// sizes of the files of each member; member m of a set takes entry m modulo
// their number.
var sizes = map[string][][]int{
	"nothing":        {{}},
	"empty":          {{0}},
	"one byte":       {{1}},
	"one has data":   {{}, {3 * piece}, {}},
	"even":           {{4 * piece}},
	"primes":         {{997}, {2, 3, 5, 7, 11}, {1009, 0, 13}, {4999}},
	"many":           {{0, 1, 0, 17, piece, piece + 1, 2*piece - 1, 0}, {10 * piece}},
	"very different": {{1}, {40 * piece}, {0, 0}, {piece}},
}

// damage is a way in which a member loses files: which of them, and how.
type damage struct {
	of  func(files []redundancy.File) []redundancy.File
	how func(path string) error
}

var damages = map[string]damage{
	"all":             {all, os.Remove},
	"data":            {data, os.Remove},
	"redundancy":      {made, os.Remove},
	"one file":        {first, os.Remove},
	"end of all":      {all, truncate},
	"end of one file": {first, truncate},
	"bits of all":     {all, flip},
	"bit of one file": {first, flip},
}

func all(files []redundancy.File) []redundancy.File   { return files }
func first(files []redundancy.File) []redundancy.File { return files[:1] }

func data(files []redundancy.File) []redundancy.File {
	own, _ := redundancy.Split(files)
	return own
}

func made(files []redundancy.File) []redundancy.File {
	_, made := redundancy.Split(files)
	return made
}

// unknown returns a member's own files with descriptions that have no checksums.
func unknown(files []redundancy.File) (list []redundancy.File) {
	for _, f := range data(files) {
		md := meta.New(f.Meta.File(), meta.Full, 1)
		md.SetSize(f.Meta.Size())
		list = append(list, redundancy.File{Path: f.Path, Meta: md})
	}
	return list
}

// truncate cuts the second half of a file off.
func truncate(path string) error {
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	return errors.Join(os.Chmod(path, 0o600), os.Truncate(path, info.Size()/2))
}

// flip changes a bit in the middle of a file, if it has one.
func flip(path string) error {
	data, err := os.ReadFile(path)
	if len(data) > 0 {
		data[len(data)/2] ^= 0x20
	}
	return errors.Join(err, os.Chmod(path, 0o600), os.WriteFile(path, data, 0o600))
}

// cluster is a set of n members, each with a directory of its own.
type cluster struct {
	t      testing.TB
	scheme redundancy.Scheme
	dirs   []string
	files  [][]redundancy.File // by member, redundancy included once encoded
}

func newCluster(t testing.TB, scheme redundancy.Scheme, n int, sizes [][]int, seed uint64) *cluster {
	c := &cluster{t: t, scheme: scheme, files: make([][]redundancy.File, n)}
	random := rand.New(rand.NewPCG(seed, uint64(n)))
	root := tempDir(t)
	for m := range n {
		dir := filepath.Join(root, fmt.Sprint(m))
		c.dirs = append(c.dirs, dir)
		for i, size := range sizes[m%len(sizes)] {
			name := fmt.Sprintf("ckpt/rank_%d/file.%d", m, i)
			f := redundancy.File{Path: filepath.Join(dir, name), Meta: meta.New(name, meta.Full, n)}
			data := make([]byte, size)
			for k := range data {
				data[k] = byte(random.Uint32())
			}
			must(t, os.MkdirAll(filepath.Dir(f.Path), 0o700))
			must(t, os.WriteFile(f.Path, data, 0o600))
			must(t, os.Chmod(f.Path, os.FileMode(0o400+(i%3)*0o040)))
			must(t, os.Chtimes(f.Path, time.Unix(1e9+int64(m), 17), time.Unix(1.1e9+int64(i), 19)))
			must(t, f.Meta.Record(f.Path))
			f.Meta.SetComplete(true)
			c.files[m] = append(c.files[m], f)
		}
	}
	return c
}

// tempDir is on the RAM disk if there is one: the tests make very many files.
func tempDir(t testing.TB) string {
	base := "/dev/shm"
	if _, err := os.Stat(base); err != nil {
		base = ""
	}
	dir, err := os.MkdirTemp(base, "goscr-test-")
	must(t, err)
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func theDataset() dataset.Dataset {
	return dataset.New(7, "ckpt.7", dataset.Checkpoint, 7, dataset.Owner{User: "u"}, time.Unix(0, 0))
}

// run calls f on every member. Ranks in the job are ten times those in the set.
func (c *cluster) run(opt local.Options, f func(j *redundancy.Job, me int) error) error {
	opt.Timeout = time.Minute
	_, err := local.Run(len(c.dirs), opt, func(comm mpi.Comm) error {
		set := redundancy.NewSet(comm, 10*comm.Rank())
		j := &redundancy.Job{
			Set: set, Ranks: 10 * len(c.dirs), Dir: c.dirs[comm.Rank()], Piece: piece,
			Dataset:  theDataset(),
			Register: func(redundancy.File) error { return nil },
		}
		return f(j, comm.Rank())
	})
	return err
}

func (c *cluster) encode() {
	c.t.Helper()
	must(c.t, c.run(local.Options{}, func(j *redundancy.Job, me int) error {
		made, err := c.scheme.Encode(j, c.files[me])
		c.files[me] = append(c.files[me], made...)
		return err
	}))
}

func (c *cluster) recover(lost []int, opt local.Options) error { return c.rebuild(lost, false, opt) }

// rebuild has the members in lost rebuild what they have lost, only redundancy if whole is true. Then
// they do not know the checksums of their own files before.
func (c *cluster) rebuild(lost []int, whole bool, opt local.Options) error {
	return c.run(opt, func(j *redundancy.Job, me int) error {
		given := c.files[me]
		if slices.Contains(lost, me) {
			j.Whole, given = whole, nil
			if whole {
				given = unknown(c.files[me])
			}
		}
		got, err := c.scheme.Recover(j, given, lost)
		if err == nil && len(got) != len(c.files[me]) {
			err = fmt.Errorf("%d files afterwards, %d before", len(got), len(c.files[me]))
		}
		if err == nil && slices.ContainsFunc(data(got), func(f redundancy.File) bool { _, known := f.Meta.CRC(); return !known }) {
			err = errors.New("files without a checksum")
		}
		return err
	})
}

// state is everything about every file that has to come back.
func (c *cluster) state() map[string]string {
	c.t.Helper()
	all := map[string]string{}
	for _, files := range c.files {
		for _, f := range files {
			data, err := os.ReadFile(f.Path)
			must(c.t, err)
			info, err := os.Stat(f.Path)
			must(c.t, err)
			all[f.Path] = string(data)
			if f.Meta.Type() == meta.Full {
				all[f.Path] += fmt.Sprint(" ", info.Mode(), info.ModTime().UnixNano())
			}
		}
	}
	return all
}

func (c *cluster) same(want map[string]string) {
	c.t.Helper()
	got := c.state()
	for _, path := range slices.Sorted(maps.Keys(want)) {
		if got[path] != want[path] {
			c.t.Errorf("%s differs after recovery", path)
		}
	}
}

// Run tests a scheme in sets of smallest to largest members: every loss that it has to tolerate, and
// every one that has a member too many.
func Run(t *testing.T, scheme redundancy.Scheme, smallest, largest int) {
	losses := losses(t, scheme, smallest, largest, slices.Sorted(maps.Keys(damages)), []string{"all"}, 10, 20)
	inSets(t, losses, func(t *testing.T, losses []loss) {
		n := losses[0].n
		c := newCluster(t, scheme, n, sizes[losses[0].sizes], 1)
		c.encode()
		want := c.state()
		for _, l := range losses {
			if scheme.Tolerates(n, l.lost) { // as PARTNER tolerates some that have a member too many
				c.damaged(l.lost, l.damage, want)
			} else {
				c.refused(l.lost, want)
			}
		}
	})
}

// loss is what some members of a set of n lose.
type loss struct {
	n             int
	sizes, damage string
	lost          []int
}

// losses returns all losses in sets of smallest to largest members, in the order of the sets: up to
// as many members as the scheme tolerates have one of the damages of borne, one more those of beyond.
// If a run tries a part only, it tries quick losses, or one of each part, of as many members as
// the scheme tolerates, of fewer and of one more: a sample of all of them might have none at the edge.
func losses(t *testing.T, scheme redundancy.Scheme, smallest, largest int, borne, beyond []string, quick, part int) []loss {
	t.Helper()
	var kinds [3][]loss
	for n := smallest; n <= largest; n++ {
		k := scheme.Failures(n)
		for _, sizes := range slices.Sorted(maps.Keys(sizes)) {
			for lost := range subsets(n, k+1) {
				kind, damages := 0, borne
				switch len(lost) {
				case k:
					kind = 1
				case k + 1:
					kind, damages = 2, beyond
				}
				for _, damage := range damages {
					kinds[kind] = append(kinds[kind], loss{n, sizes, damage, lost})
				}
			}
		}
	}
	var drawn []loss
	for _, of := range kinds {
		drawn = append(drawn, sample.Of(t, of, quick, max(quick, len(of)/part))...)
	}
	slices.SortStableFunc(drawn, func(a, b loss) int {
		return cmp.Or(cmp.Compare(a.n, b.n), cmp.Compare(a.sizes, b.sizes))
	})
	return drawn
}

// inSets runs f as a subtest for each set and all of its losses.
func inSets(t *testing.T, losses []loss, f func(t *testing.T, losses []loss)) {
	for len(losses) > 0 {
		first := losses[0]
		end := slices.IndexFunc(losses, func(l loss) bool { return l.n != first.n || l.sizes != first.sizes })
		if end < 0 {
			end = len(losses)
		}
		t.Run(fmt.Sprintf("%d members/%s", first.n, first.sizes), func(t *testing.T) { f(t, losses[:end]) })
		losses = losses[end:]
	}
}

// subsets yields all ways to choose 1 to k of n members.
func subsets(n, k int) iter.Seq[[]int] {
	return func(yield func([]int) bool) {
		for bits := 1; bits < 1<<n; bits++ {
			var chosen []int
			for i := range n {
				if bits>>i&1 != 0 {
					chosen = append(chosen, i)
				}
			}
			if len(chosen) <= k && !yield(chosen) {
				return
			}
		}
	}
}

// damaged damages files of some members, and expects all to be as it was after
// recovery. Members that have lost only redundancy keep their other files.
func (c *cluster) damaged(lost []int, name string, want map[string]string) {
	c.t.Helper()
	for _, m := range lost {
		if len(c.files[m]) == 0 {
			continue
		}
		for _, f := range damages[name].of(c.files[m]) {
			must(c.t, damages[name].how(f.Path))
		}
	}
	kept := map[string]os.FileInfo{}
	whole := name == "redundancy"
	for _, m := range lost {
		for _, f := range data(c.files[m]) {
			if whole {
				info, err := os.Stat(f.Path)
				must(c.t, err)
				kept[f.Path] = info
			}
		}
	}
	if err := c.rebuild(lost, whole, local.Options{}); err != nil {
		c.t.Fatalf("members %v lost %s: %v", lost, name, err)
	}
	for path, before := range kept {
		if info, err := os.Stat(path); err != nil || !os.SameFile(info, before) {
			c.t.Errorf("members %v lost redundancy: %s was made again", lost, path)
		}
	}
	c.same(want)
}

// refused checks that one loss too many is an error on all members, and that
// what the others have stays.
func (c *cluster) refused(lost []int, want map[string]string) {
	c.t.Helper()
	failures := make([]error, len(c.dirs))
	must(c.t, c.run(local.Options{}, func(j *redundancy.Job, me int) error {
		given := c.files[me]
		if slices.Contains(lost, me) {
			given = nil
		}
		_, failures[me] = c.scheme.Recover(j, given, lost)
		return nil
	}))
	for m, err := range failures {
		if !errors.Is(err, redundancy.ErrUnrecoverable) {
			c.t.Errorf("member %d, with %v lost: %v", m, lost, err)
		}
	}
	c.same(want)
}

// Corruption flips a bit, cuts the end off or adds a byte, in every file of
// one member, and expects Verify and a Recover that reads the file to say so.
func Corruption(t *testing.T, scheme redundancy.Scheme) {
	const n = 4
	c := newCluster(t, scheme, n, sizes["primes"], 2)
	c.encode()
	want := c.state()
	for m := range n {
		for _, f := range c.files[m] {
			data, err := os.ReadFile(f.Path)
			must(t, err)
			changes := map[string][]byte{}
			for _, at := range []int{0, len(data) / 2, len(data) - 1} {
				if len(data) > 0 {
					flipped := bytes.Clone(data)
					flipped[at] ^= 0x10
					changes[fmt.Sprintf("bit flipped at %d", at)] = flipped
					changes["cut"] = data[:len(data)-1]
				}
			}
			for name, changed := range changes {
				must(t, os.Chmod(f.Path, 0o600))
				must(t, os.WriteFile(f.Path, changed, 0o600))
				must(t, c.run(local.Options{}, func(j *redundancy.Job, me int) error {
					err := scheme.Verify(j, c.files[me])
					var corrupt *redundancy.CorruptError
					if errors.As(err, &corrupt) != (me == m) || (me == m) != (err != nil) {
						return fmt.Errorf("verify after %s of %s: %v", name, f.Path, err)
					}
					return nil
				}))
				// Another member is lost: the corrupt one must not be believed.
				if err := c.recover([]int{(m + 2) % n}, local.Options{}); err == nil {
					t.Errorf("%s of %s was not noticed when another member was rebuilt", name, f.Path)
				}
				must(t, c.restore(want))
			}
		}
	}
	for m := range n {
		for _, f := range c.files[m] {
			data, err := os.ReadFile(f.Path)
			must(t, err)
			if len(data) == 0 {
				continue
			}
			data[len(data)/2] ^= 1
			must(t, os.Chmod(f.Path, 0o600))
			must(t, os.WriteFile(f.Path, data, 0o600))
			if f.Meta.Type() == meta.Full {
				err := c.rebuild([]int{m}, true, local.Options{})
				if !errors.Is(err, redundancy.ErrCorrupt) {
					t.Errorf("%s is corrupt, and only the redundancy was rebuilt: %v", f.Path, err)
				}
			}
			if err := c.recover([]int{m}, local.Options{}); err != nil {
				t.Errorf("rebuild of corrupt %s: %v", f.Path, err)
			}
			c.same(want)
		}
	}
}

// restore puts all files back to what they were.
func (c *cluster) restore(want map[string]string) error {
	for m := range c.files {
		for _, f := range c.files[m] {
			data := want[f.Path][:f.Meta.Size()]
			if err := os.Remove(f.Path); err != nil && !os.IsNotExist(err) {
				return err
			}
			if err := os.WriteFile(f.Path, []byte(data), 0o600); err != nil {
				return err
			}
			if f.Meta.Type() == meta.Full {
				if err := f.Meta.Restore("", f.Path); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// Killed kills the job in place of each of its messages, in encoding and in
// recovery. Nothing may hang; the files that were not being made are intact;
// and the next attempt succeeds.
func Killed(t *testing.T, scheme redundancy.Scheme) {
	const n = 4
	c := newCluster(t, scheme, n, sizes["primes"], 3)
	data := c.state()
	kills := 0
	for at := int64(1); ; at++ {
		err := c.run(local.Options{KillAt: at}, func(j *redundancy.Job, me int) error {
			_, err := scheme.Encode(j, c.files[me])
			return err
		})
		c.same(data)
		if err == nil {
			break
		}
		if !errors.Is(err, local.ErrKilled) {
			t.Fatalf("encode killed at message %d: %v", at, err)
		}
		kills++
	}
	c.encode()
	want := c.state()
	lost := []int{1, 2}[:min(scheme.Failures(n), 2)]
	for at := int64(1); ; at++ {
		for _, m := range lost {
			for _, f := range c.files[m] {
				if err := os.Remove(f.Path); err != nil && !os.IsNotExist(err) {
					t.Fatal(err)
				}
			}
		}
		err := c.recover(lost, local.Options{KillAt: at})
		if err == nil {
			break
		}
		if !errors.Is(err, local.ErrKilled) {
			t.Fatalf("recover killed at message %d: %v", at, err)
		}
		kills++
		for m, files := range c.files {
			for _, f := range files {
				if slices.Contains(lost, m) {
					continue
				}
				if err := f.Meta.Check(f.Path); err != nil {
					t.Fatalf("after a kill at message %d: %v", at, err)
				}
			}
		}
	}
	c.same(want)
	if kills < 20 {
		t.Errorf("only %d kills", kills)
	}
}
