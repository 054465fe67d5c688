package main

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"text/tabwriter"
)

// counts are what the table says of a scenario.
type counts struct {
	cases, kills, restarts int
	faults                 map[Fault]int
}

func (c *counts) add(r record) {
	c.cases++
	if r.Call != "" {
		c.kills++
	}
	c.restarts += r.Restarts
	if r.Fault != "" {
		if c.faults == nil {
			c.faults = map[Fault]int{}
		}
		c.faults[r.Fault]++
	}
}

// report writes the table, and how to repeat what has failed. It reports whether nothing has.
func (st *state) report(out io.Writer) bool {
	kinds := []Fault{Lost, Wrong, FalseComplete, Hangs, Fails, Left}
	by, all := map[string]*counts{}, &counts{}
	for _, r := range st.list {
		if by[r.Scenario] == nil {
			by[r.Scenario] = &counts{}
		}
		by[r.Scenario].add(r)
		all.add(r)
	}
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprint(w, "scenario\tcalls\tcases\tkills\trestarts\t")
	for _, k := range kinds {
		fmt.Fprintf(w, "%s\t", k)
	}
	fmt.Fprintln(w)
	line := func(name string, calls int, c *counts) {
		fmt.Fprintf(w, "%s\t%d\t%d\t%d\t%d\t", name, calls, c.cases, c.kills, c.restarts)
		for _, k := range kinds {
			fmt.Fprintf(w, "%d\t", c.faults[k])
		}
		fmt.Fprintln(w)
	}
	total := 0
	for _, name := range slices.Sorted(maps.Keys(by)) {
		line(name, st.total[name], by[name])
		total += st.total[name]
	}
	line("all", total, all)
	w.Flush()
	for _, r := range st.list {
		if r.Fault != "" && r.Fault != Left {
			fmt.Fprintf(out, "%s: %s, killed in place of %s; again: make crash CASE=%s\n", key(r.Scenario, r.At), r.Fault, r.Call, key(r.Scenario, r.At))
		}
	}
	delete(all.faults, Left)
	return len(all.faults) == 0
}
