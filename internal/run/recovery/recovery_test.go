package recovery

import (
	"slices"
	"strings"
	"testing"

	"github.com/goscr/goscr/internal/config"
)

func ladder(t *testing.T, text string) Ladder {
	t.Helper()
	l, err := New(text)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// The names that SCR_RECOVERY accepts are those of the rungs, in their order.
func TestNew_AllNames(t *testing.T) {
	var names []string
	for _, r := range ladder(t, strings.Join(config.RecoveryRungs, ",")) {
		names = append(names, r.name)
	}
	if !slices.Equal(names, config.RecoveryRungs) || len(rungs) != len(names) {
		t.Errorf("%q, want %q", names, config.RecoveryRungs)
	}
}

func TestNew_Bad(t *testing.T) {
	for text, want := range map[string]string{
		"SAME,SPARES": `SCR_RECOVERY: "SPARES" is not one of ` + strings.Join(config.RecoveryRungs, ", "),
		"":            `SCR_RECOVERY: "" is not one of`,
		"SAME,same":   "SAME is named twice",
		"STOP,SAME":   "SAME follows STOP",
	} {
		if _, err := New(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %s", text, err, want)
		}
	}
}

func TestDecide(t *testing.T) {
	all := []string{"n1", "n2", "n3", "n4", "n5"}
	three := all[:3]
	why := func(nodes ...string) map[string]string {
		m := map[string]string{}
		for _, n := range nodes {
			m[n] = "lost"
		}
		return m
	}
	standard := strings.Join(config.RecoveryRungs, ",")
	for what, c := range map[string]struct {
		ladder string
		s      Situation
		rung   string
		nodes  string
		did    string // or a part of it
	}{
		"all is well": {standard, Situation{Last: three, Needed: 3}, "SAME", "n1 n2 n3", "start again on n[1-3]"},
		"a node is down": {standard, Situation{Last: three, Down: why("n2"), Needed: 3}, "SPARE", "n1 n4 n3",
			"n4 in the place of n2 (down: lost)"},
		"a spare is down": {standard, Situation{Last: three, Down: why("n4"), Needed: 3}, "SAME", "n1 n2 n3", ""},
		"two are down, and one spare is": {standard, Situation{Last: three, Down: why("n1", "n3", "n4"), Needed: 2}, "SPARE", "n5 n2",
			"n5 in the place of n1 (down: lost)"},
		"a suspect one is replaced after those that are down": {standard, Situation{Last: three, Down: why("n3", "n4"), Suspect: why("n1"), Needed: 3},
			"SPARE", "n1 n2 n5", "n5 in the place of n3 (down: lost)"},
		"both are replaced": {standard, Situation{Last: three, Down: why("n3"), Suspect: why("n1"), Needed: 3}, "SPARE", "n5 n2 n4", "n5 in the place of n1 (suspect: lost)"},
		"down and suspect":  {standard, Situation{Last: three, Down: why("n3"), Suspect: why("n3"), Needed: 3}, "SPARE", "n1 n2 n4", ""},
		"a suspect spare is no spare": {standard, Situation{Last: three, Suspect: why("n1", "n4", "n5"), Needed: 3}, "SAME", "n1 n2 n3",
			"although suspect, because there is no spare: n1 (lost)"},
		"... but better than none": {standard, Situation{Last: three, Down: why("n1", "n5"), Suspect: why("n4"), Needed: 3}, "SPARE", "n2 n3 n4", "n4 in addition"},
		"too few": {standard, Situation{Last: three, Down: why("n1", "n4", "n5"), Needed: 3, Why: "x"}, "STOP", "",
			"SPARE: 2 nodes are left, and 3 are needed (x)"},
		"fewer will do":    {standard, Situation{Last: three, Down: why("n1", "n4", "n5"), Needed: 3, Elastic: true}, "FEWER", "n2 n3", "2 nodes instead of 3"},
		"none is left":     {standard, Situation{Last: three, Down: why(all...), Needed: 3, Elastic: true}, "STOP", "", "FEWER: no node is left"},
		"a set minimum":    {standard, Situation{Last: three, Down: why("n1", "n4", "n5"), Needed: 3, Fixed: true, Elastic: true}, "STOP", "", "FEWER: 2 nodes"},
		"fewer is enough":  {"FEWER", Situation{Last: three, Down: why("n2"), Needed: 3, Elastic: true}, "FEWER", "n1 n3 n4", "3 nodes instead of 3"},
		"spare only":       {"spare", Situation{Last: three, Needed: 3}, "SPARE", "n1 n2 n3", "start again on n[1-3]"},
		"same only":        {"SAME,STOP", Situation{Last: three, Down: why("n2"), Needed: 3}, "STOP", "", "SAME: down: n2 (lost)"},
		"it needs more":    {standard, Situation{Last: three, Needed: 4}, "SPARE", "n1 n2 n3 n4", "n4 in addition"},
		"stop first":       {"STOP", Situation{Last: three, Needed: 3}, "STOP", "", "SCR_RECOVERY says to stop"},
		"fewer before all": {"FEWER,SAME", Situation{Last: three, Needed: 3}, "SAME", "n1 n2 n3", ""},
	} {
		t.Run(what, func(t *testing.T) {
			c.s.Nodes = all
			plan, passed := ladder(t, c.ladder).Decide(c.s)
			if plan.Rung != c.rung || strings.Join(plan.Nodes, " ") != c.nodes || !strings.Contains(plan.Did, c.did) {
				t.Errorf("%+v", plan)
			}
			if plan.Fewer != (plan.Nodes != nil && len(plan.Nodes) < c.s.Needed) {
				t.Errorf("fewer: %v", plan.Fewer)
			}
			for _, p := range passed {
				if p.Why == "" {
					t.Errorf("%s does not say why it passed on", p.Rung)
				}
			}
		})
	}
}
