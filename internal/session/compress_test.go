package session

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/goscr/goscr/hash"
	"github.com/goscr/goscr/internal/prefix"
	"github.com/goscr/goscr/internal/prefix/transfer"
	"github.com/goscr/goscr/test/storagetest"
)

// stored returns how many bytes the files of a step have in the prefix directory,
// and how many were written; and fails the test if they have not their modes and
// times.
func (c *cluster) stored(ranks, step int) (has, written int64) {
	c.t.Helper()
	for rank := range ranks {
		for _, f := range contents(step, rank) {
			info, err := os.Lstat(c.prefix(f.name))
			if err != nil {
				c.t.Fatal(err)
			}
			if info.Mode() != f.mode || !storagetest.SameTime(c.prefix(f.name), info, f.time) {
				c.t.Errorf("%s: %v, %v", f.name, info.Mode(), info.ModTime())
			}
			has, written = has+info.Size(), written+int64(len(f.data))
		}
	}
	return has, written
}

// raw is what SCR 3.1 looks at: COMPLETE of the index and of the summary, and
// CURRENT.
func (c *cluster) raw(id int) string {
	c.t.Helper()
	index, err := hash.ReadFile(c.prefix(".scr/index.scr"))
	if err != nil {
		c.t.Fatal(err)
	}
	summary, err := hash.ReadFile(c.prefix(fmt.Sprintf(".scr/scr.dataset.%d/summary.scr", id)))
	if err != nil {
		c.t.Fatal(err)
	}
	e := index.GetKVInt("DSET", id)
	return fmt.Sprint(e.Text("COMPLETE"), e.Get("DSET").Text("COMPLETE"), summary.Text("COMPLETE"), summary.Get("DSET").Text("COMPLETE"),
		" ", index.Text("CURRENT"))
}

func (c *cluster) verifies(want int) {
	c.t.Helper()
	for _, e := range c.index() {
		v, err := prefix.Verify(c.prefix(""), e, nil)
		if err != nil || len(v.Problems) != want {
			c.t.Errorf("%s: %v, %q", e.Name, err, v.Problems)
		}
	}
}

// A compressed checkpoint is smaller, is no checkpoint for SCR 3.1, and is what
// was written when it comes back.
func TestCompress(t *testing.T) {
	t.Parallel()
	for _, more := range []string{"SCR_CRC_ON_FLUSH=1", "SCR_CRC_ON_FLUSH=0"} {
		c := newCluster(t, "SCR_FLUSH=1", "SCR_FLUSH_COMPRESS=zstd:1", more)
		c.job(four, steps(51, 52))
		if has, written := c.stored(4, 52); has >= written/2 {
			t.Errorf("%s: %d bytes of %d", more, has, written)
		}
		if got := c.raw(2); got != "0000 " {
			t.Errorf("%s: for SCR 3.1: %s", more, got)
		}
		if e := c.index()["ckpt.52"]; !e.Complete || !e.Current || !e.Compressed() {
			t.Errorf("%s: %+v", more, e)
		}
		c.verifies(0)
		c.lose(four...)
		c.job(four, restarts(52))
		c.says("fetched")
		c.lose("c") // what was fetched is protected, and is not compressed
		c.job(four, restarts(52))
		c.says("rebuilt from redundancy")
		c.job(four, steps(3))
		if e := c.index()["ckpt.3"]; !e.Complete || !e.Current || e.Compressed() {
			t.Errorf("%s, of noise: %+v", more, e)
		}
		if got := c.raw(3); got != "1111 ckpt.3" {
			t.Errorf("%s, of noise, for SCR 3.1: %s", more, got)
		}
	}
}

// What other programs read is not compressed, nor is what this one is to read where
// it is.
func TestCompress_NotWhatIsReadInPlace(t *testing.T) {
	t.Parallel()
	for _, more := range []string{"", "SCR_FETCH_BYPASS=1", "SCR_GLOBAL_RESTART=1", "SCR_FLUSH_ON_RESTART=1"} {
		c := newCluster(t, "SCR_FLUSH=1", "SCR_FLUSH_COMPRESS=zstd", more)
		c.job(four, func(s *Session, rank int) error {
			if err := output(s, rank, 51, Output); err != nil {
				return err
			}
			return output(s, rank, 52, Checkpoint)
		})
		if has, written := c.stored(4, 51); has != written {
			t.Errorf("%s: output: %d bytes of %d", more, has, written)
		}
		if has, written := c.stored(4, 52); (has == written) != (more != "") {
			t.Errorf("%s: checkpoint: %d bytes of %d", more, has, written)
		}
	}
}

// A run whose checkpoints bypass the cache reads them in the prefix directory, also the one that an earlier run
// has left in the cache.
func TestCompress_NotInARunThatBypassesTheCache(t *testing.T) {
	t.Parallel()
	for _, bypass := range []string{"SCR_CACHE_BYPASS=1", "SCR_CACHE_SIZE=0"} {
		c := newCluster(t, "SCR_FLUSH=0")
		c.job(four, steps(1))
		c.set("SCR_FLUSH=1", "SCR_FLUSH_COMPRESS=zstd", bypass)
		c.job(on(1, "a", "b", "c", "d", "e"), func(s *Session, _ int) error {
			if got, err := offered(s); got != name(1) || err != nil {
				return fmt.Errorf("offered %q: %v", got, err)
			}
			return nil
		})
		if has, written := c.stored(4, 1); has != written {
			t.Errorf("%s: %d bytes of %d", bypass, has, written)
		}
	}
}

// A checkpoint that cannot be read where it is stays one for runs that fetch it,
// and can be made one that can.
func TestCompress_Expand(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "SCR_FLUSH=1", "SCR_FLUSH_COMPRESS=zstd")
	c.job(four, steps(51, 52))
	c.lose(four...)
	c.set("SCR_FETCH_BYPASS=1")
	c.job(four, restarts(0))
	c.says("scr_index --expand 'ckpt.52'")
	c.set("SCR_FETCH_BYPASS=0")
	c.job(four, restarts(52))

	// Cut short: some files are done, the dataset is as it was.
	e := c.index()["ckpt.52"]
	one := contents(52, 0)[0]
	c.change(c.prefix(one.name), func([]byte) []byte { return one.data })
	c.lose(four...)
	c.verifies(0)
	c.job(four, restarts(52))

	n, err := prefix.Expand(c.prefix(""), e, transfer.NewCopier(1000))
	if err != nil || n != 3 { // one of five that are not tiny is done already
		t.Errorf("%d files, %v", n, err)
	}
	if got := c.raw(2); got != "1111 ckpt.52" {
		t.Errorf("for SCR 3.1: %s", got)
	}
	c.verifies(0)
	for rank := range four {
		for _, f := range contents(52, rank) {
			if err := same(c.prefix(f.name), f); err != nil {
				t.Error(err)
			}
		}
	}
	if n, err := prefix.Expand(c.prefix(""), c.index()["ckpt.52"], transfer.NewCopier(1000)); n != 0 || err != nil {
		t.Errorf("again: %d files, %v", n, err)
	}
	c.lose(four...)
	c.set("SCR_FETCH_BYPASS=1")
	c.job(four, restarts(52))
	if left, _ := filepath.Glob(c.prefix("ckpt.52/.scr*")); len(left) > 0 {
		t.Errorf("%v is left", left)
	}
}

// A compressed file that is not what was stored is found, and the checkpoint before
// taken, for good.
func TestCompress_Corrupt(t *testing.T) {
	t.Parallel()
	for what, change := range map[string]func([]byte) []byte{
		"flipped": flip, "cut": cut, "empty": func([]byte) []byte { return nil },
		"longer": func(d []byte) []byte { return append(d, 0) },
		"zeros":  func(d []byte) []byte { clear(d); return d },
	} {
		c := newCluster(t, "SCR_FLUSH=1", "SCR_FLUSH_COMPRESS=zstd")
		c.job(four, steps(51, 52))
		c.change(c.prefix(contents(52, 1)[1].name), change)
		v, err := prefix.Verify(c.prefix(""), c.index()["ckpt.52"], nil)
		if err != nil || len(v.Problems) != 1 || !strings.Contains(v.Problems[0], "ckpt.52/y/1/state") {
			t.Errorf("%s: %v, %q", what, err, v.Problems)
		}
		if _, err := prefix.Expand(c.prefix(""), c.index()["ckpt.52"], transfer.NewCopier(1000)); err == nil || !strings.Contains(err.Error(), "ckpt.52/y/1/state") {
			t.Errorf("%s: expanded: %v", what, err)
		}
		if e := c.index()["ckpt.52"]; !e.Complete || !e.Compressed() {
			t.Errorf("%s: %+v", what, e)
		}
		c.lose(four...)
		c.job(four, restarts(51))
		if e := c.index()["ckpt.52"]; !e.Failed || e.Current {
			t.Errorf("%s: %+v", what, e)
		}
	}
}

// Datasets that are compressed can be deleted, made current and dropped like others.
func TestCompress_Deleted(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "SCR_FLUSH=1", "SCR_FLUSH_COMPRESS=zstd", "SCR_PREFIX_SIZE=2")
	c.job(four, steps(51, 52, 3, 54))
	if _, err := os.Stat(c.prefix(contents(52, 0)[0].name)); !os.IsNotExist(err) {
		t.Errorf("of the second: %v", err)
	}
	if got := c.raw(4); got != "0000 " {
		t.Errorf("for SCR 3.1: %s", got)
	}
	set := func(name string) {
		t.Helper()
		if err := prefix.UpdateIndex(c.prefix(""), func(x *prefix.Index) error { return x.SetCurrent(name) }); err != nil {
			t.Fatal(err)
		}
		if e := c.index()[name]; !e.Current {
			t.Errorf("%s is not current", name)
		}
	}
	set("ckpt.3")
	if got := c.raw(4); got != "0000 ckpt.3" {
		t.Errorf("for SCR 3.1: %s", got)
	}
	set("ckpt.54")
	c.lose(four...)
	c.job(four, restarts(54))
	c.job(four, func(s *Session, rank int) error { return s.Drop("ckpt.54") })
	x, err := prefix.ReadIndex(c.prefix(""))
	if err != nil || x.Current() != "ckpt.3" { // the newest that is left
		t.Errorf("%q, %v", x.Current(), err)
	}
}

// A file that somebody else has brought is replaced.
func TestCompress_AfterAnother(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "SCR_FLUSH=1", "SCR_FLUSH_COMPRESS=zstd")
	f := contents(51, 0)[0]
	if err := os.MkdirAll(c.prefix("ckpt.51"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(c.prefix(f.name), f.data, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Chtimes(c.prefix(f.name), f.time, f.time); err != nil {
		t.Fatal(err)
	}
	c.job(four, steps(51))
	if got, _ := os.ReadFile(c.prefix(f.name)); bytes.Equal(got, f.data) {
		t.Error("it was left alone")
	}
	c.lose(four...)
	c.job(four, restarts(51))
}
