package main

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/goscr/goscr/hash"
	"github.com/goscr/goscr/internal/prefix"
	"github.com/goscr/goscr/internal/prefix/dataset"
	"github.com/goscr/goscr/internal/session"
	"github.com/goscr/goscr/test/sample"
	"github.com/goscr/goscr/test/scavengetest"
	"github.com/goscr/goscr/test/storagetest"
)

// ways to spoil a file.
var ways = map[string]func(path string, data []byte) error{
	"truncated": func(path string, data []byte) error { return os.WriteFile(path, data[:len(data)/2], 0o600) },
	"flipped":   func(path string, data []byte) error { return os.WriteFile(path, flipped(data), 0o600) },
	"empty":     func(path string, _ []byte) error { return os.WriteFile(path, nil, 0o600) },
	"huge count": func(path string, data []byte) error {
		bad := append([]byte(nil), data[:len(data)-4]...)
		binary.BigEndian.PutUint32(bad[20:], 0xfffffff0)
		return os.WriteFile(path, binary.BigEndian.AppendUint32(bad, crc32.ChecksumIEEE(bad)), 0o600)
	},
	"huge size": func(path string, data []byte) error {
		bad := append([]byte(nil), data...)
		binary.BigEndian.PutUint64(bad[8:], 1<<62)
		return os.WriteFile(path, bad, 0o600)
	},
	"symlink": func(path string, data []byte) error {
		aside := path + ".real"
		return errors.Join(os.WriteFile(aside, data, 0o600), os.Remove(path), os.Symlink(aside, path))
	},
	"directory": func(path string, _ []byte) error { return errors.Join(os.Remove(path), os.Mkdir(path, 0o700)) },
	"pipe":      func(path string, _ []byte) error { return errors.Join(os.Remove(path), syscall.Mkfifo(path, 0o600)) },
}

func flipped(data []byte) []byte {
	bad := append([]byte(nil), data...)
	bad[min(30, len(bad)-1)] ^= 4
	return bad
}

// spoil damages a file and returns how to undo that.
func spoil(t *testing.T, path, how string) (undo func()) {
	t.Helper()
	data, err := os.ReadFile(path)
	must(t, err)
	must(t, ways[how](path, data))
	return func() {
		must(t, os.RemoveAll(path))
		must(t, os.RemoveAll(path+".real"))
		must(t, os.WriteFile(path, data, 0o600))
	}
}

// half is a prefix directory with one checkpoint that is complete and one that
// was scavenged from three of four nodes.
func half(t *testing.T) *scavengetest.Cluster {
	t.Helper()
	c := scavengetest.New(t)
	c.Write(scavengetest.Four, 1, 2)
	for _, node := range scavengetest.Four {
		run(t, 0, "scr_copy", "--cntldir", c.Control(node), "-p", c.Prefix(), "--id", "1")
	}
	run(t, 0, "scr_index", "-p", c.Prefix(), "--build", "1")
	for _, node := range scavengetest.Four[1:] {
		run(t, 0, "scr_copy", "--cntldir", c.Control(node), "-p", c.Prefix(), "--id", "2")
	}
	return c
}

// intact fails the test unless the index has the first checkpoint as one that
// can be used, and that is so.
func intact(t *testing.T, c *scavengetest.Cluster, what string) {
	t.Helper()
	out, _ := run(t, 0, "scr_index", "-p", c.Prefix())
	if !strings.Contains(out, "   1 YES ") {
		t.Errorf("%s: afterwards the index says\n%s", what, out)
	}
	run(t, 0, "scr_index", "-p", c.Prefix(), "--verify", "ckpt.1")
}

// Whatever is damaged, the command that meets it says which file it is and fails,
// or does without it; and nothing else is harmed.
func TestBadInput_Files(t *testing.T) {
	c := half(t)
	set := func(id int, name string) string { return filepath.Join(prefix.Dir(c.Prefix(), id), name) }
	p := c.Prefix()
	for _, test := range []struct {
		file    string
		command []string
		rescued bool // by what others know
	}{
		{c.Path(".scr/index.scr"), []string{"scr_index", "-p", p}, false},
		{c.Path(".scr/index.scr"), []string{"scr_index", "-p", p, "--current", "ckpt.1"}, false},
		{c.Path(".scr/index.scr"), []string{"scr_index", "-p", p, "--build", "2"}, false},
		{c.Path(".scr/index.scr"), []string{"scr_copy", "-p", p, "--id", "2", "--cntldir", c.Control("a")}, false},
		{c.Path(".scr/flush.scr"), []string{"scr_flush_file", "--dir", p, "--latest"}, false},
		{c.Path(".scr/nodes.scr"), []string{"scr_nodes_file", "--dir", p}, false},
		{set(1, "summary.scr"), []string{"scr_index", "-p", p, "--verify", "ckpt.1"}, false},
		{set(1, "rank2file"), []string{"scr_index", "-p", p, "--verify", "ckpt.1"}, false},
		{set(1, "rank2file.0.0"), []string{"scr_index", "-p", p, "--verify", "ckpt.1"}, false},
		{set(2, "1.scrfilemap"), []string{"scr_index", "-p", p, "--build", "2"}, false},
		{set(2, "2_of_4_in_0.xor"), []string{"scr_index", "-p", p, "--build", "2"}, false},
		{set(2, "2_of_4_in_0.xor"), []string{"scr_rebuild_xor", "-p", p, set(2, "2_of_4_in_0.xor"), set(2, "3_of_4_in_0.xor"), set(2, "4_of_4_in_0.xor")}, false},
		{filepath.Join(c.Control("b"), "filemap_0.scrinfo"), []string{"scr_copy", "-p", p, "--id", "2", "--cntldir", c.Control("b")}, false},
		{filepath.Join(c.Control("b"), "filemap_0.scrinfo"), []string{"scr_inspect_cache", "--cntldir", c.Control("b")}, false},
		{filepath.Join(c.Control("b"), "filemap.scrinfo"), []string{"scr_copy", "-p", p, "--id", "2", "--cntldir", c.Control("b")}, true},
	} {
		for _, how := range sample.Of(t, slices.Sorted(maps.Keys(ways)), 2, sample.Every) {
			what := fmt.Sprintf("%s %s, %v", filepath.Base(test.file), how, test.command[:1])
			undo := spoil(t, test.file, how)
			want := 1
			if test.rescued {
				want = 0
			}
			out, said := run(t, want, test.command...)
			if said += out; !test.rescued && !strings.Contains(said, filepath.Base(test.file)) {
				t.Errorf("%s: %q does not name the file", what, said)
			}
			undo()
			intact(t, c, what)
		}
	}
	// None of this did harm: now it can be built.
	run(t, 0, "scr_index", "-p", p, "--build", "2")
	c.Restarts(4, 2)
}

// The halt file is the person's own, and what is in it matters: a command that cannot read
// it fails. The one that loops of scripts ask says that they are to stop.
func TestBadInput_HaltFile(t *testing.T) {
	dir := t.TempDir()
	run(t, 0, "scr_halt_cntl", "--dir", dir, "--checkpoints", "3")
	path := filepath.Join(dir, ".scr/halt.scr")
	for _, how := range sample.Of(t, slices.Sorted(maps.Keys(ways)), 2, sample.Every) {
		undo := spoil(t, path, how)
		for status, argv := range [][]string{{"scr_retries_halt", "--dir", dir}, {"scr_halt_cntl", "--dir", dir}, {"scr_halt_cntl", "-f", path, "-c", "2"}} {
			if _, said := run(t, min(status, 1), argv...); !strings.Contains(said, "halt.scr") {
				t.Errorf("%s: %v says %q", how, argv, said)
			}
		}
		undo()
	}
	if out, _ := run(t, 0, "scr_halt_cntl", "--dir", dir); out != "Halt file settings for "+path+":\n  CheckpointsLeft: 3\n" {
		t.Error(out)
	}
}

// rewrite changes a hash file so that it is a good one again.
func rewrite(t *testing.T, path string, change func(h *hash.Hash)) {
	t.Helper()
	h, err := hash.ReadFile(path)
	must(t, err)
	change(h)
	must(t, hash.WriteShared(path, h))
}

var badNames = []string{"../outside", "/tmp/outside", "a/../../outside", ".scr/index.scr", ".", "", ".scr"}

// No name in a file leads outside the prefix directory, or to what is goscr's.
func TestBadInput_Names(t *testing.T) {
	for _, name := range badNames {
		c := half(t)
		index, err := os.ReadFile(c.Path(".scr/index.scr"))
		must(t, err)
		rank2file := filepath.Join(prefix.Dir(c.Prefix(), 1), "rank2file.0.0")
		rewrite(t, rank2file, func(h *hash.Hash) { h.At("RANK", "0", "FILE", name) })
		if _, said := run(t, 1, "scr_index", "-p", c.Prefix(), "--verify", "ckpt.1"); !strings.Contains(said, "problem") {
			t.Errorf("rank2file with %q: %q", name, said)
		}
		part := filepath.Join(prefix.Dir(c.Prefix(), 2), "2.scrfilemap")
		rewrite(t, part, func(h *hash.Hash) {
			of := h.At("RANK", "2", "DSET", "2")
			for _, f := range of.Get("FILE").All() {
				of.At("FILE").Set(name, f.Clone())
				break
			}
			of.SetInt("FILES", int64(of.Get("FILE").Size()))
		})
		if _, said := run(t, 1, "scr_index", "-p", c.Prefix(), "--build", "2"); !strings.Contains(said, "2.scrfilemap") {
			t.Errorf("rank filemap with %q: %q", name, said)
		}
		maps := filepath.Join(c.Control("a"), "filemap_0.scrinfo")
		rewrite(t, maps, func(h *hash.Hash) {
			for _, f := range h.Get("RANK", "0", "DSET", "2", "FILE").All() {
				if f.Get("META").Text("TYPE") == "FULL" {
					f.Get("META").SetValue("FILE", name)
				}
			}
		})
		if _, said := run(t, 1, "scr_copy", "-p", c.Prefix(), "--id", "2", "--cntldir", c.Control("a")); said == "" {
			t.Errorf("filemap with %q: nothing is said", name)
		}
		if now, err := os.ReadFile(c.Path(".scr/index.scr")); err != nil || len(now) != len(index) {
			t.Errorf("%q: the index was touched (%v)", name, err)
		}
	}
	if _, err := os.Stat("/tmp/outside"); err == nil {
		t.Error("/tmp/outside was made")
	}
}

// A redundancy file that names others than it should rebuilds nothing.
func TestBadInput_NamesInRedundancy(t *testing.T) {
	for _, name := range badNames {
		c := half(t)
		// Rank 0 is lost; rank 1 describes its files.
		path := filepath.Join(prefix.Dir(c.Prefix(), 2), "2_of_4_in_0.xor")
		data, err := os.ReadFile(path)
		must(t, err)
		size := binary.BigEndian.Uint64(data[8:])
		h, err := hash.Decode(data[:size])
		must(t, err)
		h.Get("PARTNER", "FILE", "0").SetValue("FILE", name)
		must(t, os.WriteFile(path, append(h.Encode(), data[size:]...), 0o600))
		if _, said := run(t, 1, "scr_index", "-p", c.Prefix(), "--build", "2"); !strings.Contains(said, "rebuil") {
			t.Errorf("%q: %q", name, said)
		}
		intact(t, c, name)
	}
}

// Names with line breaks do not break lines.
func TestBadInput_LineBreaks(t *testing.T) {
	c := half(t)
	rewrite(t, c.Path(".scr/index.scr"), func(h *hash.Hash) {
		h.Get("DSET", "2", "DSET").SetValue("NAME", "two\nlines\x1b[2J")
		h.Get("DSET", "2").SetValue("FLUSHED", "now\nor never")
	})
	out, _ := run(t, 0, "scr_index", "-p", c.Prefix())
	if strings.Count(out, "\n") != 4 || strings.Contains(out, "\x1b") /* what was number 2 is in the cache */ {
		t.Errorf("%q", out)
	}
	rewrite(t, c.Path(".scr/flush.scr"), func(h *hash.Hash) { h.Get("DATASET", "2").SetValue("NAME", "two\nlines") })
	if out, _ := run(t, 0, "scr_flush_file", "--dir", c.Prefix(), "--name", "2"); strings.Count(out, "\n") != 1 {
		t.Errorf("%q", out)
	}
	// A file of the program may be called so.
	c = scavengetest.New(t)
	c.Job(scavengetest.Four, func(s *session.Session, rank int) error {
		if err := s.StartOutput("ckpt", session.Checkpoint); err != nil {
			return err
		}
		path, err := s.Route(c.Path(fmt.Sprintf("ckpt/a\nb%d", rank)))
		if err == nil {
			err = os.WriteFile(path, []byte("data"), 0o600)
		}
		return errors.Join(err, s.CompleteOutput(err == nil))
	})
	for _, node := range scavengetest.Four[1:] {
		run(t, 0, "scr_copy", "--cntldir", c.Control(node), "-p", c.Prefix(), "--id", "1")
	}
	run(t, 0, "scr_index", "-p", c.Prefix(), "--build", "1")
	if data, err := os.ReadFile(c.Path("ckpt/a\nb0")); err != nil || string(data) != "data" {
		t.Errorf("%q, %v", data, err)
	}
	must(t, os.Remove(c.Path("ckpt/a\nb2")))
	if out, _ := run(t, 1, "scr_index", "-p", c.Prefix(), "--verify"); strings.Count(out, "\n") != 2 {
		t.Errorf("%q", out)
	}
}

// A job of more ranks than memory has room for is taken for what it is.
func TestBadInput_HugeNumbers(t *testing.T) {
	c := half(t)
	for _, ranks := range []string{"2147483648", "2147483649", "-1", "0"} {
		for last := 1; last <= 3; last++ { // one list, some, all there are
			part := filepath.Join(prefix.Dir(c.Prefix(), 2), fmt.Sprintf("%d.scrfilemap", last))
			rank := fmt.Sprint(last)
			rewrite(t, part, func(h *hash.Hash) { h.At("RANK", rank, "DSET", "2").SetValue("RANKS", ranks) })
			if _, said := run(t, 1, "scr_index", "-p", c.Prefix(), "--build", "2"); said == "" {
				t.Errorf("%s ranks: nothing is said", ranks)
			}
		}
	}
	for key, value := range map[string]string{"CHUNK": "4611686018427387904", "CHUNKS": "65535", "BLOCK": "1"} {
		path := filepath.Join(prefix.Dir(c.Prefix(), 2), "2_of_4_in_0.xor")
		data, err := os.ReadFile(path)
		must(t, err)
		size := binary.BigEndian.Uint64(data[8:])
		h, err := hash.Decode(data[:size])
		must(t, err)
		h.SetValue(key, value)
		must(t, os.WriteFile(path, append(h.Encode(), data[size:]...), 0o600))
		run(t, 1, "scr_rebuild_xor", "-p", c.Prefix(), path, filepath.Join(filepath.Dir(path), "3_of_4_in_0.xor"), filepath.Join(filepath.Dir(path), "4_of_4_in_0.xor"))
		must(t, os.WriteFile(path, data, 0o600))
	}
	intact(t, c, "huge numbers")
}

// Two commands on one prefix directory at once.
func TestBadInput_AtOnce(t *testing.T) {
	c := scavengetest.New(t)
	c.Write(scavengetest.Four, 1, 2)
	var all sync.WaitGroup
	for _, node := range scavengetest.Four[1:] {
		for _, id := range []string{"1", "2", "1", "2"} {
			all.Add(1)
			go func() {
				defer all.Done()
				run(t, 0, "scr_copy", "--cntldir", c.Control(node), "-p", c.Prefix(), "--id", id)
			}()
		}
	}
	all.Wait()
	for _, id := range []string{"1", "2", "1", "2", "2"} {
		all.Add(1)
		go func() {
			defer all.Done()
			run(t, 0, "scr_index", "-p", c.Prefix(), "--build", id)
		}()
	}
	all.Wait()
	out, _ := run(t, 0, "scr_index", "-p", c.Prefix())
	if strings.Count(out, "YES") != 2 || !regexp.MustCompile(`(?m)^   2 .*  \* .* ckpt\.2$`).MatchString(out) {
		t.Error(out)
	}
	run(t, 0, "scr_index", "-p", c.Prefix(), "--verify")
	c.Restarts(4, 2)
}

// A read-only prefix directory is listed and verified, and every change is
// refused with a reason.
func TestBadInput_ReadOnly(t *testing.T) {
	dir := storagetest.Dir()
	if dir == "" {
		c := half(t)
		must(t, os.Rename(c.Node(""), filepath.Join(c.Prefix(), "nodes")))
		storagetest.AgainMounted(t, c.Prefix(), `mount --bind "$dir" "$dir"; mount -o remount,ro,bind "$dir"`)
		return
	}
	cntl := filepath.Join(dir, "nodes/a/user/scr.job")
	for _, argv := range [][]string{
		{"scr_index", "-p", dir}, {"scr_index", "-p", dir, "--verify"}, {"scr_flush_file", "--dir", dir, "--latest"},
		{"scr_nodes_file", "--dir", dir}, {"scr_inspect_cache", "--cntldir", cntl},
	} {
		run(t, 0, argv...)
	}
	for _, argv := range [][]string{
		{"scr_index", "-p", dir, "--build", "2"}, {"scr_index", "-p", dir, "--drop", "ckpt.1"},
		{"scr_index", "-p", dir, "--current", "ckpt.1"}, {"scr_halt_cntl", "--dir", dir, "-c", "1"},
	} {
		if _, said := run(t, 1, argv...); !strings.Contains(said, "read-only file system") {
			t.Errorf("%v: %q", argv, said)
		}
	}
}

// A file system that is full: nothing that was there is harmed.
func TestBadInput_FullDisk(t *testing.T) {
	dir := storagetest.Dir()
	if dir == "" {
		c := half(t)
		must(t, os.Rename(c.Node(""), filepath.Join(c.Prefix(), "nodes")))
		storagetest.AgainMounted(t, c.Prefix(), `cp -a "$dir" "$dir.copy"; mount -t tmpfs -o size=8m none "$dir"; cp -a "$dir.copy/." "$dir"`)
		return
	}
	filler := filepath.Join(dir, "filler")
	if err := storagetest.Fill(filler); !errors.Is(err, syscall.ENOSPC) {
		t.Fatal(err)
	}
	index, err := os.ReadFile(filepath.Join(dir, ".scr/index.scr"))
	must(t, err)
	// The node's filemap says where its files were.
	cntl := filepath.Join(t.TempDir(), "cntl")
	must(t, os.CopyFS(cntl, os.DirFS(filepath.Join(dir, "nodes/a/user/scr.job"))))
	for _, argv := range [][]string{
		{"scr_index", "-p", dir, "--build", "2"}, {"scr_index", "-p", dir, "--drop", "ckpt.1"},
		{"scr_index", "-p", dir, "--current", "ckpt.1"}, {"scr_halt_cntl", "--dir", dir, "-c", "1"},
	} {
		if _, said := run(t, 1, argv...); !strings.Contains(said, "no space left") {
			t.Errorf("%v: %q", argv, said)
		}
		now, err := os.ReadFile(filepath.Join(dir, ".scr/index.scr"))
		if must(t, err); string(now) != string(index) {
			t.Errorf("%v: the index has changed", argv)
		}
	}
	run(t, 0, "scr_index", "-p", dir, "--verify", "ckpt.1")
	must(t, os.Remove(filler))
	run(t, 0, "scr_index", "-p", dir, "--build", "2")
	run(t, 0, "scr_index", "-p", dir, "--verify")
}

// contents is what all files below a directory hold, by name.
func contents(t *testing.T, dir string) map[string]string {
	t.Helper()
	all := map[string]string{}
	must(t, filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := os.ReadFile(path)
		all[path] = string(data)
		return err
	}))
	return all
}

// A quota or another limit is reached while a node's files are brought, while what is
// missing is rebuilt, and while the index is changed. Each command says so and fails;
// what was there is as it was, nothing is half, and the same commands do their work
// once they can.
func TestBadInput_Quota(t *testing.T) {
	for name, errno := range map[string]unix.Errno{"quota": unix.EDQUOT, "size": unix.EFBIG, "medium": unix.EIO} {
		for what, atLeast := range map[string]int{"copy": 900, "rebuild": 900, "index": 200} {
			t.Run(name+"-"+what, func(t *testing.T) {
				if root := storagetest.Dir(); root != "" {
					c := scavengetest.At(t, root)
					commands := map[string][][]string{
						"copy":    {{"scr_copy", "--cntldir", c.Control("a"), "-p", c.Prefix(), "--id", "2", "--buf", "1000"}},
						"rebuild": {{"scr_index", "-p", c.Prefix(), "--build", "2"}},
						"index": {{"scr_index", "-p", c.Prefix(), "--drop", "ckpt.1"}, {"scr_index", "-p", c.Prefix(), "--current", "ckpt.1"},
							{"scr_index", "-p", c.Prefix(), "--drop-after", "ckpt.1"}},
					}[what]
					before := contents(t, c.Prefix())
					must(t, storagetest.Refuse(errno, atLeast))
					for _, argv := range commands {
						if _, said := run(t, 1, argv...); !strings.Contains(said, errno.Error()) {
							t.Errorf("%v: %q", argv, said)
						}
					}
					for path, was := range before {
						own := filepath.Base(path) == "index.scr" || strings.HasSuffix(path, hash.LockSuffix)
						if now, err := os.ReadFile(path); !own && (err != nil || string(now) != was) {
							t.Errorf("%s has changed, %v", path, err)
						}
					}
					intact(t, c, what)
					return
				}
				c := half(t)
				storagetest.Again(t, c.Root())
				run(t, 0, "scr_copy", "--cntldir", c.Control("a"), "-p", c.Prefix(), "--id", "2")
				if what == "rebuild" {
					must(t, os.Remove(filepath.Join(prefix.Dir(c.Prefix(), 2), "0.scrfilemap")))
				}
				run(t, 0, "scr_index", "-p", c.Prefix(), "--build", "2")
				run(t, 0, "scr_index", "-p", c.Prefix(), "--verify")
				for path := range contents(t, c.Prefix()) {
					if strings.HasSuffix(path, ".tmp") {
						t.Errorf("%s is left", path)
					}
				}
				c.Restarts(4, 2)
			})
		}
	}
}

// What one node may not write is the others' to rebuild, if it can be; each command
// says which file it was, and what was there stays.
func TestBadInput_PermissionDenied(t *testing.T) {
	root := storagetest.Dir()
	if root == "" {
		c := half(t)
		storagetest.AgainUnprivileged(t, c.Root())
		return
	}
	c := scavengetest.At(t, root)
	const denied = "permission denied"
	fails := func(file string, argv ...string) {
		t.Helper()
		if _, said := run(t, 1, argv...); !strings.Contains(said, denied) || !strings.Contains(said, file) {
			t.Errorf("%v: %q", argv, said)
		}
		intact(t, c, argv[0])
	}
	own := c.Path("ckpt.2/rank_0")
	must(t, errors.Join(os.RemoveAll(own), os.Mkdir(own, 0o500)))
	fails(own, "scr_copy", "--cntldir", c.Control("a"), "-p", c.Prefix(), "--id", "2")
	fails(own, "scr_index", "-p", c.Prefix(), "--build", "2")
	must(t, os.Chmod(own, 0o700))
	metadata := c.Path(".scr")
	must(t, os.Chmod(metadata, 0o500))
	for _, option := range [][]string{{"--drop", "ckpt.1"}, {"--build", "2"}, {"--current", "ckpt.1"}} {
		fails(metadata, append([]string{"scr_index", "-p", c.Prefix()}, option...)...)
	}
	must(t, os.Chmod(metadata, 0o700))
	run(t, 0, "scr_index", "-p", c.Prefix(), "--build", "2")
	c.Restarts(4, 2)
}

// A process that may not make larger files is told so by a signal, which must not be
// how a command ends.
func TestBadInput_FileSizeLimit(t *testing.T) {
	c := half(t)
	self, err := os.Executable()
	must(t, err)
	link := filepath.Join(t.TempDir(), "scr_index")
	must(t, os.Symlink(self, link))
	out, err := exec.Command("bash", "-c", `ulimit -f 0; exec "$@"`, "-", link, "-p", c.Prefix(), "--drop", "ckpt.1").CombinedOutput()
	var status *exec.ExitError
	if !errors.As(err, &status) || status.ExitCode() != 1 || strings.Count(string(out), "\n") != 1 || !strings.Contains(string(out), "file too large") {
		t.Errorf("%v: %s", err, out)
	}
	intact(t, c, "a limit of the size of files")
}

// Where there is nothing to do, or nothing can be done, a command says what would help.
func TestBadInput_SaysWhatWouldHelp(t *testing.T) {
	c := half(t)
	p, empty := c.Prefix(), t.TempDir()
	t.Setenv("SCR_HOST_FILE", filepath.Join(empty, "hosts"))
	must(t, prefix.UpdateIndex(p, func(x *prefix.Index) error {
		x.Add(dataset.New(3, "ckpt.3", dataset.Checkpoint, 3, dataset.Owner{}, time.Now()), false, time.Now())
		return nil
	}))
	for _, b := range []struct {
		status int
		says   string
		argv   []string
	}{
		{0, "nothing is verified", []string{"scr_index", "-p", empty, "--verify"}},
		{0, "restart passes it over until scr_index --build 3", []string{"scr_index", "-p", p, "--current", "ckpt.3"}},
		{0, "nothing is changed", []string{"scr_index", "-p", p, "--expand", "ckpt.1"}},
		{1, "scr_scavenge or scr_copy", []string{"scr_index", "-p", p, "--build", "7"}},
		{1, "scr_index --list", []string{"scr_index", "-p", p, "--verify", "ckpt.9"}},
		{1, "SCR_JOB_ID", []string{"scr_inspect_cache", "--cntldir", filepath.Join(empty, "cntl")}},
		{1, "SCR_JOB_ID", []string{"scr_copy", "--id", "1", "-p", p, "--cntldir", filepath.Join(empty, "cntl")}},
		{1, "scr_inspect_cache", []string{"scr_copy", "--id", "7", "-p", p, "--cntldir", c.Control(scavengetest.Four[0])}},
		{1, "SCR_HOST_FILE", []string{"scr_list_down_nodes"}},
	} {
		if _, said := run(t, b.status, b.argv...); !strings.Contains(said, b.says) {
			t.Errorf("%q: %q does not say %q", b.argv, said, b.says)
		}
	}
}
