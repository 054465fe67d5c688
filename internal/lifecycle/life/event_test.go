package life

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
)

// all returns every state that a dataset can come to.
func all() []State {
	known := []State{{}}
	for i := 0; i < len(known); i++ {
		for e := range events {
			for _, f := range []Facts{{}, {Exposed: true}, {Unchecked: true}, {Exposed: true, Unchecked: true}} {
				if next, err := known[i].After(e, f); err == nil && !slices.Contains(known, next) {
					known = append(known, next)
				}
			}
		}
	}
	return known
}

// Each row: a state in which the event happens, and what it leads to.
func TestEvents(t *testing.T) {
	both := Facts{Exposed: true, Unchecked: true}
	for _, c := range []struct {
		event  Event
		facts  Facts
		before State
		after  State
	}{
		{Completed, Facts{Unchecked: true}, State{}, State{stage: protected, unchecked: true}},
		{ProtectionStarted, both, State{}, State{stage: protecting, exposed: true, unchecked: true}},
		{ProtectionEnded, Facts{}, State{stage: protecting, copy: due, exposed: true, unchecked: true}, State{stage: protected, copy: due}},
		{ProtectionFailed, Facts{}, State{stage: protecting, copy: flushing, exposed: true}, State{stage: unprotected, copy: flushing, exposed: true}},
		{Kept, Facts{Exposed: true}, State{}, State{stage: postponed, exposed: true}},
		{Restored, Facts{Unchecked: true}, State{stage: postponed, copy: flushed, exposed: true}, State{stage: protected, copy: flushed, unchecked: true}},
		{Restored, Facts{}, State{}, State{stage: protected}},
		{RedundancyLost, both, State{stage: protected}, State{stage: protected, exposed: true}},
		{Checked, both, State{stage: protected, copy: flushing, unchecked: true}, State{stage: protected, copy: flushing}},
		{Evicted, both, State{stage: protected, copy: flushed}, State{stage: gone, copy: flushed}},
		{Left, both, State{stage: protecting, copy: flushing}, State{stage: gone, copy: flushing}},
		{FlushDelayed, both, State{stage: protecting}, State{stage: protecting, copy: due}},
		{FlushStarted, both, State{stage: protected, copy: due}, State{stage: protected, copy: flushing}},
		{FlushEnded, both, State{stage: protected, copy: flushing, withheld: true}, State{stage: protected, copy: flushed, withheld: true}},
		{FlushFailed, both, State{stage: protected, copy: flushing}, State{stage: protected}},
		{FlushFailed, both, State{stage: gone, copy: flushing}, State{stage: gone}},
		{FoundFlushed, both, State{stage: postponed}, State{stage: postponed, copy: flushed}},
		{FoundReplaced, both, State{stage: protected, copy: flushed}, State{stage: protected, copy: replaced}},
		{NotOffered, both, State{stage: postponed}, State{stage: postponed, withheld: true}},
		{OfferedAgain, both, State{stage: postponed, withheld: true}, State{stage: postponed}},
	} {
		t.Run(c.event.String(), func(t *testing.T) {
			if got, err := c.before.After(c.event, c.facts); got != c.after || err != nil {
				t.Errorf("%+v becomes %+v, %v, not %+v", c.before, got, err, c.after)
			}
		})
	}
	for e := range events {
		if e.String() == "" || table[e].change == nil {
			t.Errorf("event %d has no row", e)
		}
	}
}

// What cannot happen is an error; and a dataset that is being flushed is not evicted.
func TestEvents_Impossible(t *testing.T) {
	for _, c := range []struct {
		event  Event
		before State
	}{
		{Completed, State{stage: protected}},
		{ProtectionEnded, State{stage: unprotected}},
		{Kept, State{stage: protected}},
		{Restored, State{stage: protecting}},
		{RedundancyLost, State{stage: postponed}},
		{Checked, State{}},
		{Evicted, State{stage: protected, copy: flushing}},
		{Evicted, State{stage: protecting}},
		{Left, State{stage: gone}},
		{FlushDelayed, State{stage: protected}},
		{FlushStarted, State{stage: protected, copy: flushed}},
		{FlushStarted, State{}},
		{FlushEnded, State{stage: protected}},
		{FlushFailed, State{stage: protected, copy: flushed}},
		{FoundReplaced, State{stage: protected}},
		{NotOffered, State{stage: gone}},
	} {
		if _, err := c.before.After(c.event, Facts{}); err == nil {
			t.Errorf("%q is possible in %+v", c.event, c.before)
		}
	}
}

// Every state can be left: a dataset can leave the cache from each, what is being protected or flushed can end, with
// success and without, and what was not flushed can be.
func TestStates_WayOut(t *testing.T) {
	can := func(s State, e Event) bool { _, err := s.After(e, Facts{}); return err == nil }
	states := all()
	if len(states) < 50 {
		t.Fatalf("%d states", len(states))
	}
	for _, s := range states {
		ways := map[string]bool{"leave": s.Gone() || can(s, Left)}
		if s.Protecting() {
			ways["be protected"], ways["stay unprotected"] = can(s, ProtectionEnded), can(s, ProtectionFailed)
		}
		if s.copy == flushing && !s.Gone() {
			ways["be flushed"], ways["not be flushed"] = can(s, FlushEnded), can(s, FlushFailed)
		}
		if s.FlushDue() && !s.Gone() {
			ways["begin its flush"], ways["give its flush up"] = can(s, FlushStarted), can(s, FlushFailed)
		}
		if s.copy == nothing && s.stage != begun && !s.Gone() {
			ways["begin its flush"] = can(s, FlushStarted)
		}
		if s.Postponed() {
			ways["be restored"] = can(s, Restored)
		}
		for way, open := range ways {
			if !open {
				t.Errorf("a dataset with state %+v cannot %s", s, way)
			}
		}
	}
}

// The page of the wing has the table of events.
func TestEvents_Page(t *testing.T) {
	page, err := os.ReadFile("../README.md")
	if err != nil {
		t.Fatal(err)
	}
	list := func(all any) string {
		words := strings.ReplaceAll(strings.Trim(fmt.Sprint(all), "[]"), " ", ", ")
		return strings.Replace(words, "protecting, unprotected, protected, postponed", "usable", 1)
	}
	for e := range events {
		row := table[e]
		before := State{stage: row.stages[0], unchecked: e == Checked, withheld: e == OfferedAgain}
		copies := "any"
		if row.copies != nil {
			before.copy, copies = row.copies[0], list(row.copies)
		}
		after, err := before.After(e, Facts{})
		if err != nil {
			t.Fatal(err)
		}
		then := ""
		switch {
		case after.stage != before.stage:
			then = after.stage.String()
		case after.copy != before.copy:
			then = "copy: " + after.copy.String()
		case after.exposed:
			then = "exposed"
		case before.unchecked && !after.unchecked:
			then = "not unchecked"
		case after.withheld:
			then = "withheld"
		case before.withheld:
			then = "not withheld"
		}
		facts := ""
		if row.facts {
			facts = "exposed, unchecked"
		}
		line := fmt.Sprintf("| %s | %s | %s | %s | %s |", e, list(row.stages), copies, then, facts)
		if !strings.Contains(string(page), line+"\n") {
			t.Errorf("internal/lifecycle/README.md does not have the line\n%s", line)
		}
	}
	if rows := strings.Count(string(page), "\n| "); rows != int(events)+1 {
		t.Errorf("internal/lifecycle/README.md has %d lines of a table for %d events", rows, events)
	}
}
