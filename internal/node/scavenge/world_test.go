package scavenge_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/goscr/goscr/internal/node/scavenge"
	"github.com/goscr/goscr/internal/prefix"
	"github.com/goscr/goscr/internal/session"
	"github.com/goscr/goscr/test/scavengetest"
)

// world makes checkpoints stay in storage that all nodes share.
func (c *cluster) world() {
	c.T.Helper()
	store := filepath.Join(c.Root(), "shared")
	lines := fmt.Sprintf("STORE=%s GROUP=WORLD\nCKPT=0 STORE=%s\n", store, store)
	must(c.T, errors.Join(os.MkdirAll(c.Prefix(), 0o700), os.WriteFile(c.Path(".scrconf"), []byte(lines), 0o600)))
}

// writeShared writes a checkpoint of which all ranks write one file, and each one of its own.
func (c *cluster) writeShared(step int) {
	c.T.Helper()
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
			_, err = f.WriteAt([]byte{'0' + byte(rank)}, int64(rank))
			if err := errors.Join(err, f.Close()); err != nil {
				return err
			}
		}
		return s.CompleteOutput(true)
	})
}

// scr_copy brings a file that several ranks wrote in storage that all nodes share once. Nodes
// that are lost take nothing of it away: others copy the files of their ranks.
func TestScavenge_SeveralRanksWriteOneFile(t *testing.T) {
	partner := func(x *scavenge.Copy) { x.Partner = true }
	for what, copies := range map[string]func(c *cluster) (files int){
		"nothing lost": func(c *cluster) (files int) {
			for _, node := range scavengetest.Four {
				done, _, err := c.copy(node, 1)
				must(t, err)
				files += done.Files
			}
			return files
		},
		"two lost, known": func(c *cluster) (files int) {
			c.Lose("a", "c")
			for _, node := range []string{"b", "d"} {
				done, _, err := c.copy(node, 1, func(x *scavenge.Copy) { x.Down = []string{"a", "c"} })
				must(t, err)
				files += done.Files
			}
			return files
		},
		"three lost, second round": func(c *cluster) (files int) {
			c.Lose("a", "b", "c")
			for _, change := range []func(*scavenge.Copy){func(*scavenge.Copy) {}, partner, partner} {
				done, _, err := c.copy("d", 1, change)
				must(t, err)
				files += done.Files
			}
			return files
		},
	} {
		t.Run(what, func(t *testing.T) {
			c := newCluster(t)
			c.world()
			c.writeShared(1)
			if files := copies(c); files != 5 {
				t.Errorf("%d files were copied", files)
			}
			if b := c.builds(1); b.Files() != 5 || b.Size() != 4+1+2+3+4 || len(b.Rebuilt) > 0 {
				t.Errorf("%+v: %d files, %d bytes", b, b.Files(), b.Size())
			}
			if data, err := os.ReadFile(c.Path("ckpt.1/all")); err != nil || string(data) != "0123" {
				t.Errorf("%q, %v", data, err)
			}
			x, err := prefix.ReadIndex(c.Prefix())
			must(t, err)
			v, err := prefix.Verify(c.Prefix(), x.ByID(1), nil)
			if must(t, err); v.Files != 5 || v.Unknown > 0 || len(v.Problems) > 0 {
				t.Errorf("%+v", v)
			}
		})
	}
}

// Without the rank that owns a shared file nothing is called whole.
func TestScavenge_OwnerOfASharedFileIsMissing(t *testing.T) {
	c := newCluster(t)
	c.world()
	c.writeShared(1)
	for _, node := range []string{"b", "c", "d"} {
		_, _, err := c.copy(node, 1)
		must(t, err)
	}
	if _, _, err := c.build(1); err == nil {
		t.Error("built without the files of rank 0")
	}
	c.copies(1, "a")
	c.builds(1)
}
