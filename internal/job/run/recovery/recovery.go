// Package recovery decides how a job continues after a run that has failed.
//
// It is a ladder of rungs, the one that changes least first: carry out a migration that
// was asked for, start again on the same nodes, put spare nodes in the place of some, use fewer nodes, stop. Each rung takes the
// job or passes it on to the next, and says why in one line. Rungs only decide: they start
// no command and read no file, so that every decision can be tested. The loop of package
// run describes the situation and carries out the plan.
package recovery

import (
	"fmt"
	"slices"

	"github.com/goscr/goscr/internal/config"
)

// rung is a way to continue. try returns a plan without Rung, or why it passes the job on, ""
// if there was nothing for it to do. passed are the rungs above it.
type rung struct {
	name string
	try  func(s Situation, passed []Pass) (plan *Plan, why string)
}

// rungs are all rungs, the one that changes least first.
var rungs = []rung{{"MIGRATE", migrate}, {"SAME", same}, {"SPARE", spare}, {"FEWER", fewer}, {"STOP", stop}}

// Ladder is rungs in the order in which they are tried. The last one is STOP.
type Ladder []rung

// New returns the ladder that a value of SCR_RECOVERY names.
func New(text string) (Ladder, error) {
	names, err := config.Recovery(text)
	if err != nil {
		return nil, fmt.Errorf("SCR_RECOVERY: %w", err)
	}
	if !slices.Contains(names, "STOP") {
		names = append(names, "STOP")
	}
	var l Ladder
	for _, name := range names {
		l = append(l, rungs[slices.IndexFunc(rungs, func(r rung) bool { return r.name == name })])
	}
	return l, nil
}

// Has reports whether the ladder has a rung.
func (l Ladder) Has(name string) bool {
	return slices.ContainsFunc(l, func(r rung) bool { return r.name == name })
}

// Decide returns the plan of the first rung that can take the job, and the rungs that
// could not.
func (l Ladder) Decide(s Situation) (Plan, []Pass) {
	var passed []Pass
	for _, r := range l {
		plan, why := r.try(s, passed)
		if plan != nil {
			plan.Rung = r.name
			return *plan, passed
		}
		if why != "" {
			passed = append(passed, Pass{r.name, why})
		}
	}
	panic("recovery: a ladder does not end with STOP") // New appends it
}
