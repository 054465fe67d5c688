package run

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/goscr/goscr/hash"
	"github.com/goscr/goscr/internal/prefix/snapshot"
)

func TestBlocks(t *testing.T) {
	before := []snapshot.Node{{Name: "x", Ranks: 1}, {Name: "y", Ranks: 3}}
	for _, c := range []struct {
		ranks  int
		nodes  string
		slots  map[string]int
		before []snapshot.Node
		want   string
	}{
		{4, "a b", nil, nil, "[{a 0 2} {b 2 2}]"},
		{4, "a b", nil, before, "[{a 0 1} {b 1 3}]"},
		{4, "a b c", nil, before, "[{a 0 2} {b 2 2}]"},
		{5, "a b c", map[string]int{"a": 1, "b": 3, "c": 8}, before, "[{a 0 1} {b 1 3} {c 4 1}]"},
		{5, "a b c", map[string]int{"a": 8, "b": 8, "c": 8}, nil, "[{a 0 5}]"},
		{7, "a b", map[string]int{"a": 2, "b": 2}, nil, "[{a 0 2} {b 2 5}]"}, // oversubscribed
		{1, "a b", nil, nil, "[{a 0 1}]"},
	} {
		if got := fmt.Sprint(blocks(c.ranks, strings.Fields(c.nodes), c.slots, c.before)); got != c.want {
			t.Errorf("%+v: %s", c, got)
		}
	}
}

// Each node is told what to copy, all nodes are asked, and a node that fails is named.
func TestPreload(t *testing.T) {
	l := newLab(t, "")
	must(t, hash.MakeDirs(filepath.Join(l.prefix, ".scr")))
	script(t, filepath.Join(l.dir, "bin/scr"), fmt.Sprintf(`
		echo "$NODE $*" >>%[1]s/tool
		[ -s %[2]s/.scr/preload.scr ] || exit 3
		cp %[2]s/.scr/preload.scr %[1]s/layout/.scr
		[ $NODE != n2 ] || { echo "disk full"; exit 1; }
		echo "1000 bytes"`, l.dir, l.prefix))
	must(t, os.MkdirAll(filepath.Join(l.dir, "layout/.scr"), 0o700))
	r := &snapshot.Record{Facts: snapshot.Facts{Ranks: 5}}
	err := l.job(t).Preload(t.Context(), snapshot.Snapshot{Seq: 7, Name: "seven"}, r, []string{"n1", "n3"}, map[string]int{"n1": 3, "n3": 3}, "job8")
	must(t, err)
	if !strings.Contains(l.said.String(), "checkpoint 7 (seven): 2.0 KiB in the caches of 2 nodes") {
		t.Error(l.said)
	}
	args := fmt.Sprintf(" preload --prefix %s --id 7 --cntldir %s/USER/scr.job8 --cache %[2]s/USER/scr.job8 --store %[2]s", l.prefix, l.dir)
	args = strings.ReplaceAll(args, "USER", l.job(t).Config.UserName)
	got := l.tool()
	slices.Sort(got)
	if want := []string{"n1" + args, "n3" + args}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	for node, want := range map[string]string{"n1": "[0 1 2] 5", "n3.domain": "[3 4] 5"} {
		ranks, size, err := ToPreload(filepath.Join(l.dir, "layout"), node)
		if err != nil || fmt.Sprint(ranks, size) != want {
			t.Errorf("%s: %v, %d, %v", node, ranks, size, err)
		}
	}
	if _, _, err := ToPreload(filepath.Join(l.dir, "layout"), "n2"); err == nil || !strings.Contains(err.Error(), "n1, n3, and not this node, n2") {
		t.Error(err)
	}
	if _, err := os.Stat(filepath.Join(l.prefix, ".scr/preload.scr")); err == nil {
		t.Error("preload.scr stays")
	}
	err = l.job(t).Preload(t.Context(), snapshot.Snapshot{Seq: 7}, r, []string{"n1", "n2"}, nil, "job8")
	if err == nil || err.Error() != "n2: disk full" {
		t.Error(err)
	}
}
