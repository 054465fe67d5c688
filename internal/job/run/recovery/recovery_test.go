package recovery

import (
	"slices"
	"strings"
	"testing"
	"time"

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

func TestDecide_Migrate(t *testing.T) {
	all := []string{"n1", "n2", "n3", "n4"}
	s := Situation{Last: all[:3], Nodes: all, Needed: 3}
	hosts := []string{"n1", "n1", "n2", "n2", "n3", "n3"}
	m, err := Wish{Off: []string{"n2"}}.Plan(s, hosts)
	if err != nil {
		t.Fatal(err)
	}
	s.Move = m
	standard := ladder(t, strings.Join(config.RecoveryRungs, ","))
	plan, passed := standard.Decide(s)
	if plan.Rung != "MIGRATE" || strings.Join(plan.Hosts, " ") != "n1 n1 n4 n4 n3 n3" || strings.Join(plan.Nodes, " ") != "n1 n4 n3" || len(passed) > 0 {
		t.Errorf("%+v", plan)
	}
	if !strings.Contains(plan.Did, "2 ranks on another node: 2 from n2 to n4, 3 from n2 to n4") {
		t.Error(plan.Did)
	}
	s.Down = map[string]string{"n4": "lost"}
	if plan, passed = standard.Decide(s); plan.Rung != "SAME" || plan.Hosts != nil || !strings.Contains(passed[0].Why, "n4 (lost)") {
		t.Errorf("%+v, %+v", plan, passed)
	}
}

// What a migration has assigned stays, also when the program runs again.
func TestDecide_KeepsTheNodesOfRanks(t *testing.T) {
	s := Situation{Last: []string{"n1", "n2"}, Hosts: []string{"n1", "n2", "n2", "n1"}, Nodes: []string{"n1", "n2", "n3"}, Needed: 2}
	standard := ladder(t, strings.Join(config.RecoveryRungs, ","))
	plan, _ := standard.Decide(s)
	if !slices.Equal(plan.Hosts, s.Hosts) {
		t.Errorf("%+v", plan)
	}
	s.Down = map[string]string{"n1": "lost"}
	if plan, _ = standard.Decide(s); strings.Join(plan.Hosts, " ") != "n3 n2 n2 n3" {
		t.Errorf("%+v", plan)
	}
	s.Needed, s.Nodes = 1, s.Nodes[:2]
	if plan, _ = standard.Decide(s); plan.Rung != "SPARE" || plan.Hosts != nil {
		t.Errorf("%+v", plan)
	}
}

func TestWish(t *testing.T) {
	all := []string{"n1", "n2", "n3", "n4", "n5"}
	hosts := []string{"n1", "n1", "n2", "n2", "n3", "n3"}
	off := func(nodes ...string) []string { return nodes }
	for what, c := range map[string]struct {
		w    Wish
		down string
		want string // nodes of the ranks, or a part of the error
		left string // nodes on which no rank stays
	}{
		"off a node":                  {Wish{Off: off("n2")}, "", "n1 n1 n4 n4 n3 n3", "n2"},
		"off two":                     {Wish{Off: off("n1", "n3")}, "", "n4 n4 n2 n2 n5 n5", "n1 n3"},
		"a spare is down":             {Wish{Off: off("n2")}, "n4", "n1 n1 n5 n5 n3 n3", "n2"},
		"too few spares":              {Wish{Off: off("n1", "n2", "n3")}, "", "3 nodes must be left, and there are 2 spares", ""},
		"onto another":                {Wish{Off: off("n2"), Onto: off("n5")}, "", "n1 n1 n5 n5 n3 n3", "n2"},
		"onto one that is used":       {Wish{Off: off("n1", "n2"), Onto: off("n3")}, "", "n3 n3 n3 n3 n3 n3", "n1 n2"},
		"onto one that is down":       {Wish{Off: off("n1"), Onto: off("n4")}, "n4", "n4 is down: lost", ""},
		"off a spare":                 {Wish{Off: off("n4")}, "", "nothing moves", ""},
		"a spare that is to be left":  {Wish{Off: off("n1", "n4")}, "", "n5 n5 n2 n2 n3 n3", "n1"},
		"one rank":                    {Wish{Ranks: []int{3}}, "", "n1 n1 n2 n4 n3 n3", ""},
		"ranks to one node":           {Wish{Ranks: []int{1, 3}, Onto: off("n5")}, "", "n1 n5 n2 n5 n3 n3", ""},
		"ranks swapped":               {Wish{Ranks: []int{1, 2}, Onto: off("n2", "n1")}, "", "n1 n2 n1 n2 n3 n3", ""},
		"a rank of a node to be left": {Wish{Ranks: []int{2}, Off: off("n2")}, "", "n1 n1 n4 n2 n3 n3", ""},
		"a rank of another":           {Wish{Ranks: []int{0}, Off: off("n2")}, "", "rank 0 runs on n1, which is not to be left", ""},
		"no such rank":                {Wish{Ranks: []int{6}}, "", "the job has no rank 6: it has 6 ranks", ""},
		"twice":                       {Wish{Ranks: []int{1, 1}}, "", "rank 1 is named twice", ""},
		"no such node":                {Wish{Off: off("n9")}, "", "n9 is not a node of the job, whose nodes are n[1-5]", ""},
		"from where to where":         {Wish{Off: off("n1"), Onto: off("n1")}, "", "n1 is to be left and to be used", ""},
		"nothing":                     {Wish{Onto: off("n1")}, "", "neither nodes to leave", ""},
		"it is there already":         {Wish{Ranks: []int{0}, Onto: off("n1")}, "", "nothing moves", ""},
	} {
		s := Situation{Nodes: all, Last: all[:3], Down: map[string]string{}}
		if c.down != "" {
			s.Down[c.down] = "lost"
		}
		m, err := c.w.Plan(s, hosts)
		if err != nil {
			if !strings.Contains(err.Error(), c.want) {
				t.Errorf("%s: %v", what, err)
			}
			continue
		}
		if got := strings.Join(m.Hosts, " "); got != c.want {
			t.Errorf("%s: %s", what, got)
		}
		if got := strings.Join(m.Left(), " "); got != c.left {
			t.Errorf("%s: left %s", what, got)
		}
		for r := range hosts {
			if (m.Hosts[r] != hosts[r]) != slices.Contains(m.Ranks, r) {
				t.Errorf("%s: rank %d: %v move", what, r, m.Ranks)
			}
		}
	}
}

func TestReact(t *testing.T) {
	c := Costs{Checkpoint: 5 * time.Second, Move: 20 * time.Second}
	for within, want := range map[time.Duration]Reaction{
		-1: Migrate, 25 * time.Second: Migrate, 25*time.Second - 1: Checkpoint, 5 * time.Second: Checkpoint, 5*time.Second - 1: Save, 0: Save,
	} {
		if got := c.React(within); got != want {
			t.Errorf("%v: %s, want %s", within, got, want)
		}
	}
}
