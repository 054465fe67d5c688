package variables

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/goscr/goscr/internal/session"
	"github.com/goscr/goscr/mpi"
	"github.com/goscr/goscr/mpi/local"
)

// cluster has four nodes with a rank each, and a prefix directory.
type cluster struct {
	t    *testing.T
	root string
	env  map[string]string
	mu   sync.Mutex
	log  bytes.Buffer
}

func newCluster(t *testing.T, env ...string) *cluster {
	t.Helper()
	root, err := os.MkdirTemp("/dev/shm", "goscr-test-")
	if err != nil {
		root, err = t.TempDir(), nil
	}
	t.Cleanup(func() { os.RemoveAll(root) })
	c := &cluster{t: t, root: root, env: map[string]string{"SCR_USER_NAME": "user", "SCR_JOB_ID": "job", "SCR_PREFIX": filepath.Join(root, "prefix"),
		"SCR_CACHE_SIZE": "1", "SCR_FLUSH": "0"}}
	if err := os.Mkdir(c.env["SCR_PREFIX"], 0o700); err != nil {
		t.Fatal(err)
	}
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

func (c *cluster) prefix(name string) string { return filepath.Join(c.root, "prefix", name) }

func (c *cluster) lose(rank int) {
	c.t.Helper()
	if err := os.RemoveAll(filepath.Join(c.root, fmt.Sprint("node", rank))); err != nil {
		c.t.Fatal(err)
	}
}

// begin begins a session on the caller's node.
func (c *cluster) begin(world mpi.Comm) (*session.Session, error) {
	node := fmt.Sprint("node", world.Rank())
	return session.Init(world, session.Options{Log: c, Environ: func(name string) (string, bool) {
		switch name {
		case "SCR_NODE_NAME":
			return node, true
		case "SCR_CACHE_BASE", "SCR_CNTL_BASE":
			return filepath.Join(c.root, node), true
		}
		value, ok := c.env[name]
		return value, ok
	}})
}

// job runs f on four ranks, in a session that is finalized.
func (c *cluster) job(ranks int, f func(v *Variables, rank int) error) {
	c.t.Helper()
	c.mu.Lock()
	c.log.Reset()
	c.mu.Unlock()
	_, err := local.Run(ranks, local.Options{}, func(world mpi.Comm) error {
		rank := world.Rank()
		s, err := c.begin(world)
		if err != nil {
			return err
		}
		return errors.Join(f(New(s, rank), rank), s.Finalize())
	})
	if err != nil {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.t.Fatalf("%v\n%s", err, c.log.String())
	}
}

// pattern is the value of a variable.
func pattern(rank, version, id int) []byte {
	return bytes.Repeat([]byte{byte(rank), byte(version), byte(id), 77}, 50+10*id+rank)
}

// saveVersion writes two variables as a version of a name.
func saveVersion(v *Variables, rank int, name string, version int) error {
	v.Protect(1, pattern(rank, version, 1), "")
	v.Protect(2, pattern(rank, version, 2), "")
	return v.Checkpoint(name, version)
}

// restores checks that a version is the newest of a name, and has its values.
func restores(v *Variables, rank int, name string, version int) error {
	found, ok, err := v.Find(name, 0)
	if err != nil || !ok || found != version {
		return fmt.Errorf("%s: found %d, %v, %w; want %d", name, found, ok, err, version)
	}
	return reads(v, rank, name, version)
}

func reads(v *Variables, rank int, name string, version int) error {
	memory := [][]byte{nil, make([]byte, len(pattern(rank, version, 1))), make([]byte, len(pattern(rank, version, 2))+5)} // more than enough
	v.Protect(1, memory[1], "")
	v.Protect(2, memory[2], "")
	if err := v.Restart(name, version); err != nil {
		return err
	}
	for id := 1; id <= 2; id++ {
		if want := pattern(rank, version, id); !bytes.Equal(memory[id][:len(want)], want) {
			return fmt.Errorf("rank %d: variable %d of version %d of %s is wrong", rank, id, version, name)
		}
	}
	return nil
}

func TestVariables_SurviveTheLossOfANode(t *testing.T) {
	t.Parallel()
	for _, env := range [][]string{nil, {"SCR_ENCODE_ASYNC=1", "SCR_CACHE_SIZE=2"}} {
		c := newCluster(t, env...)
		c.job(4, func(v *Variables, rank int) error {
			return errors.Join(saveVersion(v, rank, "slow", 5), saveVersion(v, rank, "fast", 10), saveVersion(v, rank, "fast", 20), v.Wait())
		})
		c.lose(2)
		c.job(4, func(v *Variables, rank int) error {
			return errors.Join(restores(v, rank, "fast", 20), restores(v, rank, "slow", 5), saveVersion(v, rank, "fast", 30), restores(v, rank, "fast", 30))
		})
	}
}

// The file of a rank has VELOC's format, to the byte.
func TestVariables_Format(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "SCR_FLUSH=1")
	c.job(4, func(v *Variables, rank int) error {
		v.Protect(3, []byte("three"), "")
		v.Protect(-2, nil, "")
		v.Protect(1, []byte{byte(rank)}, "")
		return v.Checkpoint("it", 7)
	})
	want := le(uint64(3), int32(-2), uint64(0), int32(1), uint64(1), int32(3), uint64(5))
	for rank := range 4 {
		got, err := os.ReadFile(c.prefix(fmt.Sprintf("it-%d-7.dat", rank)))
		if err != nil || !bytes.Equal(got, append(slices.Clone(want), append([]byte{byte(rank)}, "three"...)...)) {
			t.Errorf("rank %d: %v, %q", rank, err, got)
		}
	}
}

// le returns numbers as VELOC writes them.
func le(numbers ...any) []byte {
	var b bytes.Buffer
	for _, n := range numbers {
		_ = binary.Write(&b, binary.NativeEndian, n) // a buffer takes anything
	}
	return b.Bytes()
}

// leave writes a file as VELOC does.
func (c *cluster) leave(name string, rank, version int) {
	c.t.Helper()
	one, two := pattern(rank, version, 1), pattern(rank, version, 2)
	data := slices.Concat(le(uint64(2), int32(1), uint64(len(one)), int32(2), uint64(len(two))), one, two)
	if err := os.WriteFile(c.prefix(fileName(name, rank, version)), data, 0o600); err != nil {
		c.t.Fatal(err)
	}
}

// What VELOC has left is found, if all ranks have it whole; and what goscr has written since is newer.
func TestVariables_LeftByVELOC(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "SCR_FLUSH=1")
	for rank := range 4 {
		c.leave("heat", rank, 10)
		c.leave("heat", rank, 20)
		c.leave("heat", rank, 30)
	}
	damage := func(rank, version int, change func([]byte) []byte) {
		path := c.prefix(fileName("heat", rank, version))
		data, err := os.ReadFile(path)
		if err == nil {
			err = os.WriteFile(path, change(data), 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Remove(c.prefix(fileName("heat", 3, 30))); err != nil {
		t.Fatal(err)
	}
	damage(1, 20, func(b []byte) []byte { return b[:len(b)-1] })
	if err := os.WriteFile(c.prefix("heat-0-040.dat"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	c.job(4, func(v *Variables, rank int) error {
		if found, ok, err := v.Find("heat", 9); ok || err != nil {
			return fmt.Errorf("found %d, %w", found, err)
		}
		if err := restores(v, rank, "heat", 10); err != nil {
			return err
		}
		if v.Restart("heat", 20) == nil {
			return errors.New("a restart from files of which one is short")
		}
		return saveVersion(v, rank, "heat", 15)
	})
	c.job(4, func(v *Variables, rank int) error {
		return errors.Join(restores(v, rank, "heat", 15), reads(v, rank, "heat", 10))
	})
	// A program that VELOC has run since has a newer version. What goscr began to write, and the index lists as incomplete or failed, is not VELOC's.
	for rank := range 4 {
		c.leave("heat", rank, 50)
	}
	c.job(4, func(v *Variables, rank int) error { return restores(v, rank, "heat", 50) })
}

// A version that goscr has written, and from which the program cannot restart, is not taken for one that VELOC has left.
func TestVariables_FailedIsNotLeft(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "SCR_FLUSH=1")
	c.job(4, func(v *Variables, rank int) error {
		return errors.Join(saveVersion(v, rank, "heat", 1), saveVersion(v, rank, "heat", 2))
	})
	for rank := range 4 {
		c.lose(rank)
	}
	c.job(4, func(v *Variables, rank int) error {
		if err := v.RestartBegin("heat", 2); err != nil {
			return err
		}
		if v.RestartEnd(rank != 1) == nil {
			return errors.New("a restart that has failed")
		}
		return restores(v, rank, "heat", 1)
	})
}

// If a rank cannot restart, no rank's memory is changed, and a corrected program can restart.
func TestVariables_AllOrNone(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	c.job(4, func(v *Variables, rank int) error { return saveVersion(v, rank, "heat", 3) })
	c.job(4, func(v *Variables, rank int) error {
		memory := make([]byte, 1000)
		v.Protect(1, memory, "")
		if rank != 2 {
			v.Protect(2, make([]byte, 1000), "")
		}
		if err := v.Restart("heat", 3); err == nil {
			return errors.New("a restart without a variable")
		}
		if !bytes.Equal(memory, make([]byte, 1000)) {
			return fmt.Errorf("rank %d: memory was changed", rank)
		}
		return restores(v, rank, "heat", 3)
	})
}

// Groups: a name with variables of its own has these, other names those of all; the last call for an id counts.
func TestVariables_Groups(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "SCR_FLUSH=1")
	ids := func(v *Variables, name string) []int {
		if err := v.Checkpoint(name, 1); err != nil {
			return []int{-1}
		}
		if err := v.RestartBegin(name, 1); err != nil {
			return []int{-2}
		}
		var list []int
		for id := range 10 {
			if _, ok, err := v.Size(id); ok && err == nil {
				list = append(list, id)
			}
		}
		if err := v.RestartEnd(true); err != nil {
			return []int{-3}
		}
		return list
	}
	c.job(4, func(v *Variables, rank int) error {
		data := make([]byte, 8)
		for _, x := range []struct {
			do   func()
			name string
			want []int
		}{
			{func() { v.Protect(1, data, ""); v.Protect(2, data, "") }, "any", []int{1, 2}},
			{func() { v.Protect(1, data, "own"); v.Protect(3, data, "own") }, "own", []int{1, 3}},
			{func() {}, "any", []int{1, 2}},
			{func() { v.Protect(1, data, "") }, "own", []int{3}}, // it was the group's, and is for all now
			{func() { v.Unprotect(3, "other") }, "own", []int{3}},
			{func() { v.Unprotect(3, "") }, "own", []int{1, 2}},
			{func() { v.Protect(4, data, "own"); v.Clear("own") }, "own", []int{1, 2}},
			{func() { v.Unprotect(1, "") }, "own", []int{2}},
		} {
			x.do()
			if got := ids(v, x.name); !slices.Equal(got, x.want) {
				return fmt.Errorf("%s: %v, want %v", x.name, got, x.want)
			}
		}
		v.Clear("")
		if v.Checkpoint("any", 2) == nil {
			return errors.New("a checkpoint without variables")
		}
		return nil
	})
}

// Parts of a checkpoint, and of a restart.
func TestVariables_Selections(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "SCR_CACHE_SIZE=2")
	c.job(4, func(v *Variables, rank int) error {
		memory := [][]byte{{1}, {2}, {3}}
		for id, data := range memory {
			v.Protect(id, data, "")
		}
		err := errors.Join(v.Begin("x", 1), v.Write(Rest, []int{1}), v.End(true))
		if v.Begin("x", 2) != nil || v.Write(Some, []int{0, 9}) == nil || v.End(true) == nil {
			return errors.New("an unknown variable")
		}
		for _, data := range memory {
			data[0] = 9
		}
		err = errors.Join(err, v.RestartBegin("x", 1), v.Read(Some, []int{2, 9}))
		if memory[0][0] != 9 || memory[1][0] != 9 || memory[2][0] != 3 {
			return fmt.Errorf("after Some: %v, %w", memory, err)
		}
		err = errors.Join(err, v.Read(Rest, []int{2}))
		if memory[0][0] != 1 || memory[1][0] != 9 {
			return fmt.Errorf("after Rest: %v, %w", memory, err)
		}
		return errors.Join(err, v.RestartEnd(true))
	})
}

// Calls in the wrong order, on all ranks or on one.
func TestVariables_Misuse(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	c.job(4, func(v *Variables, rank int) error {
		v.Protect(1, []byte{1}, "")
		fails := func(what string, err error) {
			if err == nil {
				panic(what)
			}
		}
		_, err := v.File()
		fails("File", err)
		fails("Write", v.Write(All, nil))
		fails("End", v.End(true))
		fails("Read", v.Read(All, nil))
		_, _, err = v.Size(1)
		fails("Size", err)
		fails("RestartEnd", v.RestartEnd(true))
		fails("RestartBegin", v.RestartBegin("x", 1))
		fails("negative", v.Begin("x", -1))
		fails("other names", v.Begin(fmt.Sprint("x", rank), 1))
		name := "x"
		if rank == 2 {
			name = "x/y"
		}
		fails("a name", v.Begin(name, 1))
		if err := v.Begin("x", 1); err != nil {
			return err
		}
		fails("Begin twice", v.Begin("x", 1))
		fails("RestartBegin in a checkpoint", v.RestartBegin("x", 1))
		_, _, err = v.Find("x", 0)
		fails("Find in a checkpoint", err)
		fails("Remove in a checkpoint", v.Remove("x"))
		if err := errors.Join(v.Write(All, nil), v.End(true), v.RestartBegin("x", 1)); err != nil {
			return err
		}
		fails("Begin in a restart", v.Begin("x", 2))
		return errors.Join(v.RestartEnd(true), v.Remove("x"))
	})
}

// After Remove the cache has nothing of a name, and other names stay.
func TestVariables_Remove(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	c.job(4, func(v *Variables, rank int) error {
		err := errors.Join(saveVersion(v, rank, "a", 1), saveVersion(v, rank, "b", 2), v.Remove("a"))
		if _, ok, e := v.Find("a", 0); ok || e != nil {
			return fmt.Errorf("found what was removed, %w, %w", e, err)
		}
		return errors.Join(err, restores(v, rank, "b", 2))
	})
}

// Another number of ranks: each reads the files of ranks of the program that has written them.
func TestVariables_OtherRanks(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "SCR_FLUSH=1")
	c.job(4, func(v *Variables, rank int) error {
		return errors.Join(saveVersion(v, rank, "x", 1), saveVersion(v, rank, "x", 2))
	})
	c.job(2, func(v *Variables, rank int) error {
		for from := rank; from < 4; from += 2 {
			found, ok, err := v.FindOf(from, "x", 0)
			if found != 2 || !ok || err != nil {
				return fmt.Errorf("rank %d: %d, %v, %w", from, found, ok, err)
			}
			memory := [][]byte{make([]byte, 1000), make([]byte, 1000)}
			v.Protect(1, memory[0], "")
			v.Protect(2, memory[1], "")
			if err := errors.Join(v.RestartBeginOf(from, "x", 1), v.Read(All, nil), v.RestartEnd(true)); err != nil {
				return err
			}
			if want := pattern(from, 1, 2); !bytes.Equal(memory[1][:len(want)], want) {
				return fmt.Errorf("variable of rank %d is wrong", from)
			}
			if v.RestartBeginOf(from, "x", 3) == nil || v.RestartBeginOf(9, "x", 1) == nil {
				return errors.New("what is not there")
			}
		}
		return nil
	})
}

// A process without a communicator reads what another such process has written, or VELOC.
func TestVariables_OtherSingle(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "SCR_FLUSH=1")
	persistent := c.env["SCR_PREFIX"]
	single := func(id int, f func(v *Variables) error) {
		t.Helper()
		c.env["SCR_PREFIX"], c.env["SCR_JOB_ID"] = SinglePrefix(persistent, id), fmt.Sprint("job", id)
		if err := os.MkdirAll(c.env["SCR_PREFIX"], 0o700); err != nil {
			t.Fatal(err)
		}
		_, err := local.Run(1, local.Options{}, func(world mpi.Comm) error {
			s, err := c.begin(world)
			if err != nil {
				return err
			}
			return errors.Join(f(Single(s, id, persistent)), s.Finalize())
		})
		if err != nil {
			t.Fatalf("process %d: %v\n%s", id, err, c.log.String())
		}
	}
	c.leave("m", 7, 1)
	single(7, func(v *Variables) error { return errors.Join(saveVersion(v, 7, "m", 2), saveVersion(v, 7, "m", 3)) })
	single(8, func(v *Variables) error {
		if version, ok, err := v.FindOf(7, "m", 2); version != 2 || !ok || err != nil {
			return fmt.Errorf("found %d, %v, %w", version, ok, err)
		}
		for _, version := range []int{1, 3} {
			memory := make([]byte, len(pattern(7, version, 2)))
			v.Protect(1, make([]byte, len(pattern(7, version, 1))), "")
			v.Protect(2, memory, "")
			if err := errors.Join(v.RestartBeginOf(7, "m", version), v.Read(All, nil), v.RestartEnd(true)); err != nil {
				return err
			}
			if !bytes.Equal(memory, pattern(7, version, 2)) {
				return fmt.Errorf("version %d is wrong", version)
			}
		}
		return misused(v.RestartBeginOf(6, "m", 3), "no version 3 of m of rank 6 in "+SinglePrefix(persistent, 6))
	})
}

func FuzzReadHeader(f *testing.F) {
	f.Add(slices.Concat(le(uint64(1), int32(1), uint64(2)), []byte("ab")), int64(22))
	f.Add(le(uint64(1<<63)), int64(8))
	f.Add(le(uint64(1), int32(0), ^uint64(0)), int64(20))
	f.Fuzz(func(t *testing.T, data []byte, size int64) {
		list, err := readHeader(bytes.NewReader(data), size)
		if err != nil {
			return
		}
		at := countSize + entrySize*int64(len(list))
		for _, e := range list {
			if e.offset != at || e.size < 0 || e.offset+e.size > size {
				t.Fatalf("%v in %d bytes", list, size)
			}
			at += e.size
		}
		if at != size {
			t.Fatalf("%d of %d bytes", at, size)
		}
	})
}

// If a rank cannot write, the version fails on all ranks, and the one before is still the newest.
func TestVariables_WriteFails(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "SCR_CACHE_SIZE=2")
	c.job(4, func(v *Variables, rank int) error {
		if err := errors.Join(saveVersion(v, rank, "a", 1), v.Begin("a", 2)); err != nil {
			return err
		}
		path, err := v.File()
		if rank == 2 {
			err = errors.Join(err, os.Mkdir(path, 0o700))
		}
		if err != nil {
			return err
		}
		if err := v.Write(All, nil); (err == nil) != (rank != 2) {
			return fmt.Errorf("rank %d writes: %w", rank, err)
		}
		if rank == 2 {
			if err := os.Remove(path); err != nil {
				return err
			}
		}
		if v.End(true) == nil { // a program that does not look at the result of Write
			return errors.New("a version that a rank could not write")
		}
		return errors.Join(restores(v, rank, "a", 1), saveVersion(v, rank, "a", 3), restores(v, rank, "a", 3))
	})
}

// Wait says that the newest version could not be flushed; a checkpoint itself only warns, since the version is in the cache.
func TestVariables_WaitTellsOfAFlush(t *testing.T) {
	t.Parallel()
	for _, env := range [][]string{{"SCR_FLUSH=1"}, {"SCR_FLUSH=1", "SCR_FLUSH_ASYNC=1"}} {
		c := newCluster(t, append(env, "SCR_CACHE_SIZE=2")...)
		in := c.prefix(fileName("a", 2, 1))
		if err := os.MkdirAll(filepath.Join(in, "a directory in its place"), 0o700); err != nil {
			t.Fatal(err)
		}
		c.job(4, func(v *Variables, rank int) error {
			if err := saveVersion(v, rank, "a", 1); err != nil {
				return err
			}
			if err := v.Wait(); err == nil {
				return errors.New("Wait after a flush that has failed")
			}
			return errors.Join(saveVersion(v, rank, "a", 2), v.Wait(), restores(v, rank, "a", 2))
		})
	}
}

// misused checks that an error is there, and says what is wrong.
func misused(err error, says string) error {
	if err == nil || !strings.Contains(err.Error(), says) {
		return fmt.Errorf("the error is %w; it should say %q", err, says)
	}
	return nil
}

func TestVariables_VersionOutOfRange(t *testing.T) {
	t.Parallel()
	newCluster(t).job(4, func(v *Variables, rank int) error {
		v.Protect(1, pattern(rank, 1, 1), "")
		number := 7
		if rank == 2 {
			number = -1 // on one rank only: no other may wait for it
		}
		wrong := misused(v.Checkpoint("m", number), "a version is from 0 to")
		large := misused(v.Checkpoint("m", 1<<32+1), "a version is from 0 to")
		return errors.Join(wrong, large, saveVersion(v, rank, "m", 0), restores(v, rank, "m", 0))
	})
}

func TestVariables_NothingWritten(t *testing.T) {
	t.Parallel()
	newCluster(t, "SCR_CACHE_SIZE=2").job(4, func(v *Variables, rank int) error {
		if err := errors.Join(saveVersion(v, rank, "m", 1), v.Begin("m", 2)); err != nil {
			return err
		}
		if rank != 0 {
			if err := v.Write(All, nil); err != nil {
				return err
			}
		}
		if err := v.End(true); err == nil {
			return errors.New("a version of which rank 0 has written nothing is complete")
		}
		return restores(v, rank, "m", 1)
	})
}

// What the user says about restarts counts also for files that are not in the index.
func TestVariables_LeftAndSettings(t *testing.T) {
	t.Parallel()
	for _, setting := range []string{"SCR_RESTART=never", "SCR_FETCH=0"} {
		c := newCluster(t, setting)
		for rank := range 4 {
			c.leave("m", rank, 1)
		}
		c.job(4, func(v *Variables, _ int) error {
			version, ok, err := v.Find("m", 0)
			if ok || err != nil {
				return fmt.Errorf("with %s: found %d, %w", setting, version, err)
			}
			return misused(v.Restart("m", 1), "no version 1")
		})
	}
	c := newCluster(t, "SCR_FLUSH=1")
	c.job(4, func(v *Variables, rank int) error {
		return errors.Join(saveVersion(v, rank, "m", 1), saveVersion(v, rank, "m", 2))
	})
	for rank := range 4 {
		c.leave("m", rank, 3)
	}
	c.env["SCR_CURRENT"] = "m-1"
	c.job(4, func(v *Variables, rank int) error { return restores(v, rank, "m", 1) })
	c.env["SCR_CURRENT"] = "other" // this is no choice between versions of m
	c.job(4, func(v *Variables, _ int) error {
		if version, ok, err := v.Find("m", 0); version != 3 || !ok || err != nil {
			return fmt.Errorf("found %d, %v, %w", version, ok, err)
		}
		return nil
	})
}

func TestVariables_MustRestart(t *testing.T) {
	t.Parallel()
	newCluster(t, "SCR_RESTART=must").job(4, func(v *Variables, rank int) error {
		_, _, err := v.Find("m", 0)
		return misused(err, "SCR_RESTART=must")
	})
}

func TestVariables_OtherRanksVersionZero(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "SCR_FLUSH=1")
	c.job(4, func(v *Variables, rank int) error {
		return errors.Join(saveVersion(v, rank, "m", 0), saveVersion(v, rank, "m", 1))
	})
	c.job(2, func(v *Variables, rank int) error {
		err := v.RestartBeginOf(3, "m", 0)
		if err != nil {
			return err
		}
		memory := make([]byte, len(pattern(3, 0, 2)))
		v.Protect(1, make([]byte, len(pattern(3, 0, 1))), "")
		v.Protect(2, memory, "")
		if err := errors.Join(v.Read(All, nil), v.RestartEnd(true)); err != nil {
			return err
		}
		if !bytes.Equal(memory, pattern(3, 0, 2)) {
			return errors.New("version 0 of rank 3 is wrong")
		}
		return misused(v.RestartBeginOf(3, "m", 9), "no version 9")
	})
}

func TestVariables_PlaceLeavesOtherGroups(t *testing.T) {
	t.Parallel()
	newCluster(t).job(2, func(v *Variables, rank int) error {
		own := pattern(rank, 5, 1)
		v.Protect(1, pattern(rank, 1, 1), "")
		v.Protect(1, own, "m")
		v.Place(1, pattern(rank, 2, 2), "")
		if v.Uses("") || v.Uses("m") {
			return errors.New("a group is used, and nothing is being written")
		}
		if err := v.Begin("m", 1); err != nil {
			return err
		}
		if v.Uses("") || !v.Uses("m") {
			return errors.New("a checkpoint with a group of its own does not use that, or uses the other one")
		}
		if err := errors.Join(v.Write(All, nil), v.End(true)); err != nil {
			return err
		}
		v.Protect(1, make([]byte, len(own)), "m")
		if err := v.Restart("m", 1); err != nil {
			return err
		}
		if !bytes.Equal(v.groups["m"][1], own) {
			return errors.New("the variable of the group is wrong")
		}
		return nil
	})
}

func TestVariables_AfterFinalize(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	_, err := local.Run(1, local.Options{}, func(world mpi.Comm) error {
		s, err := c.begin(world)
		if err != nil {
			return err
		}
		v := New(s, 0)
		if err := s.Finalize(); err != nil {
			return err
		}
		_, _, err = v.Find("m", 0)
		return errors.Join(misused(err, "has been finalized"), misused(v.Checkpoint("m", 1), "has been finalized"), misused(v.Restart("m", 1), "has been finalized"))
	})
	if err != nil {
		t.Fatal(err)
	}
}
