package scavenge_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/goscr/goscr/hash"
	"github.com/goscr/goscr/internal/prefix"
	"github.com/goscr/goscr/test/scavengetest"
)

// asSCR replaces the list of a rank by the filemap that scr_copy of SCR 3.1 would leave.
func (c *cluster) asSCR(id, rank int, change func(meta *hash.Hash)) {
	c.T.Helper()
	p, err := prefix.ReadPart(c.Prefix(), id, rank)
	must(c.T, err)
	must(c.T, prefix.RemovePart(c.Prefix(), id, rank))
	h := hash.New()
	for _, f := range p.Files {
		if prefix.IsRedundancy(filepath.Base(f.Path)) {
			must(c.T, os.Remove(f.Path))
			continue
		}
		to := filepath.Join(c.Prefix(), f.Meta.File()) // it knows no temporary names
		must(c.T, os.Rename(f.Path, to))
		m := h.At("FILE", "/dev/shm/user/scr.7/scr.dataset.1/"+filepath.Base(to), "META")
		m.SetValue("COMPLETE", "1")
		m.SetInt("SIZE", f.Meta.Size())
		m.SetInt("RANKS", int64(p.Ranks))
		m.SetValue("ORIG", "as the program gave it")
		m.SetValue("PATH", filepath.Dir(to))
		m.SetValue("NAME", filepath.Base(to))
		if crc, known := f.Meta.CRC(); known {
			m.SetValue("CRC", fmt.Sprintf("0x%08x", crc))
		}
		m.SetValue("MODE", "33188")
		if change != nil {
			change(m)
		}
	}
	must(c.T, hash.WriteFile(c.meta(id, "filemap_"+strconv.Itoa(rank)), h))
}

// What scr_copy of SCR 3.1 has brought from all nodes can be built.
func TestBuild_ScavengedBySCR(t *testing.T) {
	c := newCluster(t)
	c.Write(scavengetest.Four, 1)
	c.copies(1, scavengetest.Four...)
	for rank := range 4 {
		c.asSCR(1, rank, nil)
	}
	c.builds(1)
	c.Restarts(4, 1)
}

// Another dataset may have files of the same names and sizes since.
func TestBuild_ScavengedBySCR_OtherFiles(t *testing.T) {
	c := newCluster(t)
	c.Write(scavengetest.Four, 1)
	c.copies(1, scavengetest.Four...)
	for rank := range 4 {
		c.asSCR(1, rank, func(m *hash.Hash) {
			path := filepath.Join(m.Text("PATH"), m.Text("NAME"))
			if n, _ := m.Int("SIZE"); n > 0 {
				must(t, os.WriteFile(path, make([]byte, n), 0o600))
			}
		})
	}
	if _, _, err := c.build(1); err == nil {
		t.Error("it is complete")
	}
}

// Where it has not brought all, the error says who can build it.
func TestBuild_ScavengedBySCR_NotAll(t *testing.T) {
	spoil := map[string]struct {
		change func(m *hash.Hash)
		says   string
	}{
		"a rank is missing": {nil, "build it with scr_index of SCR 3.1"},
		"not complete":      {func(m *hash.Hash) { m.SetValue("COMPLETE", "0") }, "was not complete in the cache"},
		"elsewhere":         {func(m *hash.Hash) { m.SetValue("PATH", "/etc") }, "which is not in"},
		"another job":       {func(m *hash.Hash) { m.SetInt("RANKS", 2) }, "as the number of ranks"},
		"too short":         {func(m *hash.Hash) { m.SetInt("SIZE", 1<<40) }, "build it with scr_index of SCR 3.1"},
	}
	for name, s := range spoil {
		t.Run(name, func(t *testing.T) {
			c := newCluster(t)
			c.Write(scavengetest.Four, 1)
			c.copies(1, scavengetest.Four...)
			for rank := range 4 { // rank 3 has no files
				c.asSCR(1, rank, map[bool]func(*hash.Hash){true: s.change}[rank == 2])
			}
			if s.change == nil {
				must(t, os.Remove(c.meta(1, "filemap_2")))
			}
			_, w, err := c.build(1)
			if err == nil || !strings.Contains(err.Error()+strings.Join(w.list, "\n"), s.says) {
				t.Errorf("%v %q", err, w.list)
			}
			if x, e := prefix.ReadIndex(c.Prefix()); e != nil || len(x.Entries()) > 0 && x.Entries()[0].Complete {
				t.Errorf("the index calls it complete: %v", e)
			}
		})
	}
}

// Only flush.scr describes the dataset.
func TestBuild_ScavengedBySCR_WithoutFlushFile(t *testing.T) {
	c := newCluster(t)
	c.Write(scavengetest.Four, 1)
	c.copies(1, scavengetest.Four...)
	for rank := range 4 {
		c.asSCR(1, rank, nil)
	}
	must(t, os.Remove(c.Path(".scr/flush.scr")))
	if _, _, err := c.build(1); err == nil || !strings.Contains(err.Error(), ".scr/flush.scr does not describe it") {
		t.Error(err)
	}
}
