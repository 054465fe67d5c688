package session

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// All nodes share a cache directory, and no setting says so: it is used as one of all ranks. Once a
// restart on other nodes moved each file onto itself, and deleted it.
func TestShared_Cache(t *testing.T) {
	t.Parallel()
	for name, use := range map[string]func(c *cluster){
		"SCR_CACHE_BASE": func(c *cluster) { c.base = "../../shared" },
		"STORE":          func(c *cluster) { c.configure("STORE=$SHARED", "CKPT=0 STORE=$SHARED") },
	} {
		t.Run(name, func(t *testing.T) {
			for _, nodes := range [][]string{four, {"b", "a", "d", "c"}, {"a", "c", "d", "b"}, {"a", "b", "c", "x"}} {
				c := newCluster(t)
				use(c)
				c.job(four, steps(1, 2))
				c.says("shared, so it is used as one store of all ranks, without redundancy")
				c.job(nodes, restarts(2))
				c.job(four, restarts(2))
				c.job(nodes, steps(3))
				c.job(four, restarts(3))
				for _, pattern := range []string{c.prefix(".scr/probe.*"), filepath.Join(c.root, "shared/user/scr.job/probe.*")} {
					if left, err := filepath.Glob(pattern); err != nil || len(left) > 0 {
						t.Errorf("left: %v, %v", left, err)
					}
				}
			}
		})
	}
}

// Some nodes share a cache directory, and others do not: Init fails.
func TestShared_CacheOfSome(t *testing.T) {
	c := newCluster(t)
	if err := errors.Join(os.MkdirAll(filepath.Join(c.node("c"), "cache"), 0o700), os.MkdirAll(c.node("b"), 0o700),
		os.Symlink("../c/cache", filepath.Join(c.node("b"), "cache"))); err != nil {
		t.Fatal(err)
	}
	err := c.try(four, steps(1))
	for _, text := range []string{"share the directory", "not all nodes do", "SCR_CACHE_BASE, which is"} {
		if err == nil || !strings.Contains(err.Error(), text) {
			t.Errorf("%v; want %q", err, text)
		}
	}
	c.job(on(2, "b", "c"), steps(1)) // both share it
	c.says("used as one store of all ranks")
	c.job(on(2, "c", "b"), restarts(1))
}

// Two machines have the same name: each rank finds the caches of its own machine only, and the error says so.
func TestShared_NameOfANode(t *testing.T) {
	c := newCluster(t)
	c.set("b:SCR_NODE_NAME=a")
	err := c.try(four, steps(1))
	for _, text := range []string{"rank 1: node a has no " + c.node("b"), "different machines that have the same name", "SCR_NODE_NAME"} {
		if err == nil || !strings.Contains(err.Error(), text) {
			t.Errorf("%q is missing: %v", text, err)
		}
	}
}

// Init fails before the nodes have looked for the probe: it does not stay.
func TestShared_ProbeOfAFailedInit(t *testing.T) {
	c := newCluster(t)
	c.configure("STORE=$SSD VIEW=GLOBAL GROUP=NODE", "CKPT=0 STORE=$SSD")
	if err := c.try(four, steps(1)); err == nil {
		t.Error("Init has succeeded")
	}
	if left, err := filepath.Glob(c.prefix(".scr/probe.*")); err != nil || len(left) > 0 {
		t.Errorf("left: %v, %v", left, err)
	}
}
