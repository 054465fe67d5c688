package session

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/goscr/goscr/internal/observe/eventlog"
	"github.com/goscr/goscr/test/sample"
)

// groups writes a configuration file with a line for each node: what it is in.
func (c *cluster) groups(lines ...string) {
	c.t.Helper()
	path := filepath.Join(c.root, "scr.conf")
	var text strings.Builder
	for _, line := range lines {
		fmt.Fprintln(&text, "GROUPS="+line)
	}
	if err := os.WriteFile(path, []byte(text.String()), 0o600); err != nil {
		c.t.Fatal(err)
	}
	c.set("SCR_CONF_FILE=" + path)
}

// sets returns who is with whom, as the names of redundancy files of a dataset
// tell: the number of members by the lowest rank of the set.
func (c *cluster) sets(id int, extension string) map[string]string {
	c.t.Helper()
	found, err := filepath.Glob(filepath.Join(c.root, "node/*/cache/user/scr.job", fmt.Sprintf("scr.dataset.%d", id), ".scr/*."+extension))
	if err != nil {
		c.t.Fatal(err)
	}
	name := regexp.MustCompile(`^\d+_of_(\d+)_in_(\d+)\.`)
	sets := map[string]string{}
	for _, path := range found {
		m := name.FindStringSubmatch(filepath.Base(path))
		if m == nil {
			c.t.Fatal(path)
		}
		sets[m[2]] = m[1]
	}
	return sets
}

var eight = on(1, "n0", "n1", "n2", "n3", "n4", "n5", "n6", "n7")

// Two nodes share a power supply. With sets across supplies both nodes may go at
// once, whichever supply it is; with sets across nodes only, some may not.
func TestGroups_APowerSupplyIsLost(t *testing.T) {
	t.Parallel()
	lines := []string{"n0 POWER=psu1 SWITCH=s0", "n1 POWER=psu1 SWITCH=s1", "n2 POWER=psu2 SWITCH=s0", "n3 POWER=psu2 SWITCH=s1",
		"n4 POWER=psu3 SWITCH=s0", "n5 POWER=psu3 SWITCH=s1", "n6 POWER=psu4 SWITCH=s0", "n7 POWER=psu4 SWITCH=s1"}
	for _, supply := range sample.Of(t, []int{0, 1, 2, 3}, 1, 2) {
		lost := eight[2*supply : 2*supply+2]
		c := newCluster(t, "SCR_GROUP=POWER", "SCR_SET_SIZE=4")
		c.groups(lines...)
		c.job(eight, steps(1, 2))
		c.lose(lost...)
		c.job(eight, restarts(2))
		c.says("rebuilt from redundancy, 2 of 8 ranks")
		// The dataset's own sets count, whatever the configuration now says.
		c.lose(eight[(2*supply+2)%8 : (2*supply+2)%8+2]...)
		c.set("SCR_GROUP=NODE", "SCR_COPY_TYPE=PARTNER", "SCR_SET_SIZE=3", "SCR_CONF_FILE="+filepath.Join(c.root, "none"))
		c.job(eight, restarts(2))
		c.says("rebuilt from redundancy, 2 of 8 ranks")

		c = newCluster(t, "SCR_GROUP=NODE", "SCR_SET_SIZE=8")
		c.groups(lines...)
		c.job(eight, steps(1, 2))
		c.lose(lost...)
		c.job(eight, restarts(0))
	}
}

// What scr_status shows is what the weakest set of the weakest descriptor tolerates, also if that is
// not the set of rank 0.
func TestGroups_TheWeakestSetIsLogged(t *testing.T) {
	t.Parallel()
	even := on(1, "a", "b", "c", "d")
	for _, now := range []struct {
		nodes []string
		lines []string
		want  string
	}{
		{nodes: even, want: "XOR in sets of 4, bears 1"},
		{nodes: []string{"a", "b", "b"}, want: "XOR in sets of 1 to 2, bears 0"},
		{nodes: []string{"a", "a", "b"}, want: "XOR in sets of 1 to 2, bears 0"},
		{nodes: even, lines: []string{"CKPT=0 INTERVAL=1 TYPE=XOR", "CKPT=1 INTERVAL=2 TYPE=SINGLE"}, want: "SINGLE in sets of 1, bears 0"},
		{nodes: even, lines: []string{"CKPT=0 INTERVAL=1 TYPE=PARTNER", "CKPT=1 INTERVAL=2 BYPASS=1"}, want: "PARTNER in sets of 4, bears 1"},
		{nodes: even, lines: []string{"CKPT=0 INTERVAL=1 BYPASS=1"}, want: "written to the prefix directory"},
	} {
		c := newLoggingCluster(t, "SCR_COPY_TYPE=FILE")
		c.configure(now.lines...)
		if now.lines == nil {
			c.set("SCR_COPY_TYPE=XOR")
		}
		c.job(now.nodes, func(*Session, int) error { return nil })
		text, err := os.ReadFile(eventlog.TextFile(c.prefix("")))
		if err != nil || !strings.Contains(string(text), now.want) {
			t.Errorf("%v: want %q in\n%s", err, now.want, text)
		}
	}
}

// All that is behind one switch is lost, half of the job.
func TestGroups_ASwitchIsLost(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "SCR_GROUP=SWITCH")
	var lines []string
	for i, node := range eight {
		lines = append(lines, fmt.Sprintf("%s SWITCH=leaf%d", node, i%2))
	}
	c.groups(lines...)
	c.job(eight, steps(1, 2))
	if sets := c.sets(2, "xor"); len(sets) != 4 {
		t.Errorf("sets %v, want 4 of 2", sets)
	}
	c.lose("n1", "n3", "n5", "n7")
	c.job(eight, restarts(2))
	c.says("rebuilt from redundancy, 4 of 8 ranks")
}

// A node that no line speaks of is a group of its own.
func TestGroups_NodeWithoutLine(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "SCR_GROUP=SWITCH")
	c.groups("a SWITCH=s", "b SWITCH=s")
	c.job(four, steps(1, 2))
	if sets := c.sets(2, "xor"); len(sets) != 2 {
		t.Errorf("sets %v, want 2 of 2", sets)
	}
	c.lose("a", "b")
	c.job(four, restarts(2))
	c.lose("c")
	c.job(four, restarts(2))
}

// A name that is mistyped in a line leaves a node of the job without one.
func TestGroups_UnknownNode(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "SCR_GROUP=SWITCH")
	c.groups("a SWITCH=s", "b SWITCH=s", "c SWITCH=t", "dd SWITCH=t")
	c.job(four, steps(1))
	c.says("no GROUPS= line is for node d, which counts as a group of its own, but there is one for dd")
	c.groups("a SWITCH=s", "b SWITCH=s", "c SWITCH=t", "d SWITCH=t", "e SWITCH=t") // of the whole machine
	c.job(four, steps(2))
	if strings.Contains(c.said(), "GROUPS") {
		t.Errorf("%s", c.said())
	}
}

// With WORLD the whole job is one group, of which no two may be in a set.
func TestGroups_World(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "SCR_GROUP=WORLD")
	c.job(four, steps(1, 2))
	c.says("all ranks run in one group WORLD: SINGLE replaces ")
	c.job(four, restarts(2))
	c.lose("a")
	c.job(four, restarts(0))
}

func TestGroups_Unknown(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "SCR_GROUP=RACK")
	c.groups("a POWER=p", "b POWER=p")
	err := c.try(four, steps(1))
	var alike *ArgumentError // so that one rank says it, and not all
	if err == nil || !strings.Contains(err.Error(), `there is no group "RACK"`) || !errors.As(err, &alike) {
		t.Errorf("%v", err)
	}
}

// Who asks for more losses than XOR ever tolerates is told; not where the parameter is
// for other lines.
func TestGroups_SetFailuresOfXOR(t *testing.T) {
	t.Parallel()
	const told = "SET_FAILURES=2 has no effect with XOR"
	for name, tc := range map[string]struct {
		lines []string
		told  bool
	}{
		"parameter": {[]string{"SCR_SET_FAILURES=2"}, true},
		"line":      {[]string{"CKPT=0 INTERVAL=1 TYPE=XOR SET_FAILURES=2"}, true},
		"other":     {[]string{"SCR_SET_FAILURES=2", "CKPT=0 INTERVAL=1 TYPE=XOR", "CKPT=1 INTERVAL=2 TYPE=RS"}, false},
		"RS":        {[]string{"SCR_SET_FAILURES=2", "SCR_COPY_TYPE=RS"}, false},
		"one":       {[]string{"SCR_SET_FAILURES=1"}, false},
		"bypass":    {[]string{"SCR_SET_FAILURES=2", "SCR_CACHE_BYPASS=1"}, false},
	} {
		t.Run(name, func(t *testing.T) {
			c := newCluster(t)
			c.configure(tc.lines...)
			c.job(four, steps(1))
			if got := strings.Count(c.said(), told); got > 1 || (got == 1) != tc.told {
				t.Errorf("told %d times:\n%s", got, c.said())
			}
		})
	}
}

// So many losses as SCR_SET_FAILURES says are tolerated, whichever they are, and one
// more is not.
func TestGroups_SetFailures(t *testing.T) {
	t.Parallel()
	nodes := on(1, "a", "b", "c", "d", "e", "f")
	type kept struct {
		scheme string
		k      int
	}
	var cases []kept
	for k := 1; k <= 4; k++ {
		cases = append(cases, kept{"RS", k}, kept{"PARTNER", k})
	}
	for _, x := range sample.Of(t, cases, 2, 4) {
		t.Run(fmt.Sprintf("%s for %d", x.scheme, x.k), func(t *testing.T) {
			c := newCluster(t, "SCR_COPY_TYPE="+x.scheme, fmt.Sprintf("SCR_SET_FAILURES=%d", x.k))
			c.job(nodes, steps(1, 2))
			begin := c.save()
			for _, first := range sample.Of(t, []int{0, 1, 2, 3, 4, 5}, 2, 3) {
				c.load(begin)
				for i := range x.k { // neighbours, which are the worst for PARTNER
					c.lose(nodes[(first+i)%len(nodes)])
				}
				c.job(nodes, restarts(2))
				c.says(fmt.Sprintf("rebuilt from redundancy, %d of 6 ranks", x.k))
			}
			c.load(begin)
			c.lose(nodes[:x.k+1]...)
			c.job(nodes, restarts(0))
			c.says(fmt.Sprintf("%d of 6 ranks", x.k+1))
		})
	}
	t.Run("more than there are nodes", func(t *testing.T) {
		c := newCluster(t, "SCR_COPY_TYPE=RS", "SCR_SET_FAILURES=4")
		c.job(four, steps(1, 2))
		c.says("SCR_COPY_TYPE=RS asks for RS for 4 losses in groups NODE")
		c.says("kept with RS for the loss of 3")
		c.lose("a", "b", "d")
		c.job(four, restarts(2))
	})
}

// Neighbours in a set are three nodes apart: so three nodes that stand together
// may be lost with one copy each.
func TestGroups_HopDistance(t *testing.T) {
	t.Parallel()
	nodes := on(1, "a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k", "l")
	for hop, step := range map[int]int{1: 0, 3: 2} {
		c := newCluster(t, "SCR_COPY_TYPE=PARTNER", "SCR_SET_SIZE=12", fmt.Sprintf("SCR_HOP_DISTANCE=%d", hop))
		c.job(nodes, steps(1, 2))
		c.lose("d", "e", "f")
		c.job(nodes, restarts(step))
	}
}

// One node has most of the ranks. Those that find company on other nodes have
// it, and tolerate the loss of any of these.
func TestGroups_OneNodeHasMostRanks(t *testing.T) {
	t.Parallel()
	nodes := append(on(1, "a", "b", "c"), on(5, "d")...)
	c := newCluster(t)
	c.job(nodes, steps(1, 2))
	c.says("2 with a single member kept with SINGLE")
	for _, lost := range []string{"a", "b", "c"} {
		c.lose(lost)
		c.job(nodes, restarts(2))
		c.says("rebuilt from redundancy, 1 of 8 ranks")
	}
	c.lose("d")
	c.job(nodes, restarts(0))
	c.says("SINGLE")
}
