package main

import "math/rand/v2"

// tooMany is the number of checkpoints that a program may refuse on all ranks: it is offered no more then.
const tooMany = 2

// drawRefusals draws which checkpoints the program of a run refuses, none for most.
func (st *story) drawRefusals(j *job, random *rand.Rand) {
	lists := [][]bool{{true}, {false, false}, {false, true}, {true, true}, {true, true}, {false, true, true}, {true, false, true}, {true, true, true}, {true, true, false}}
	list := lists[random.IntN(len(lists))]
	stops := random.IntN(2) == 0
	if random.IntN(3) == 0 {
		j.Refuse, j.Stops = list, stops
	}
}

// doubt are the checkpoints that a run has refused on all ranks, before it has accepted one or begun a dataset, in that order. If they are
// too many, the input of the program is likely to be wrong, and not the checkpoints: they can be used again.
type doubt struct {
	refused []certainty
	begun   bool // the run has begun a dataset
}

// certainty is what was certain of a checkpoint before it was refused.
type certainty struct {
	*fact
	cache    cacheCopy
	stored   bool
	removing bool
}

// refuses updates the model when a program begins to refuse a checkpoint, on one rank or all.
func (d *doubt) refuses(f *fact, where string) {
	if where != onAll {
		return
	}
	d.refused = append(d.refused, certainty{f, f.cache, f.prefix.stored, f.removing})
	if len(d.refused) == tooMany { // a kill may come before they can be used again, or after that
		d.refused[0].gone = ""
	}
}

// rejected updates the model when the program has refused a checkpoint.
func (v *verdict) rejected(f *fact, where string) {
	v.counts.Refused++
	v.reads = nil
	if !v.full { // else it cannot be recorded
		f.gone = "rejected"
	}
	v.model.flushed(f, v.set.prefixSize)
	if where == onAll && len(v.doubt.refused) == tooMany && !v.full {
		for _, r := range v.doubt.refused {
			r.gone, r.fact.removing = "", r.removing
			r.fact.cache, r.prefix.stored = r.cache, r.stored
		}
	}
	if v.least != nil {
		v.least, _ = v.model.least(v.nodes, v.set)
	}
}

// leave updates the model when the checkpoints may have left the cache.
func (d *doubt) leave() {
	for i := range d.refused {
		d.refused[i].cache.leave()
		d.refused[i].fact.cache.leave()
	}
}

// begin updates the model when the run begins a dataset: only the newest stays in the cache, and only for the first dataset.
func (d *doubt) begin(s settings) {
	var newest *certainty
	if len(d.refused) == tooMany && !d.begun && s.cacheSize > 1 {
		newest, d.refused = &d.refused[0], d.refused[1:]
	}
	d.begun = true
	d.leave()
	d.refused = nil
	if newest != nil {
		d.refused = []certainty{*newest}
	}
}
