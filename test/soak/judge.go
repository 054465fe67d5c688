package main

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/goscr/goscr/internal/prefix"
	"github.com/goscr/goscr/internal/session"
)

// run draws a run, plays and judges it.
func (st *story) run(random *rand.Rand, number int, last bool) error {
	j := st.draw(random, last)
	if st.refuse { // from numbers of its own, as a recovery
		st.drawRefusals(&j, st.random(2000+number))
	}
	return st.judgeRun(j, number)
}

// judgeRun plays a run, and judges it.
func (st *story) judgeRun(j job, number int) error {
	st.tell("Run %d: %v.", number, st.launch)
	st.counts.Runs++
	v := verdict{transcript: &st.transcript, launch: &st.launch, model: st.model, story: st, job: j, first: j.Versions.Next}
	v.expect("It")
	r, err := j.start()
	if err != nil {
		return err
	}
	for _, f := range st.model.facts {
		f.prefix.packs = f.prefix.packs || st.set.compress
	}
	st.model.begins(st.nodes)
	for _, e := range r.events {
		if err = v.judge(e, r.said); err != nil {
			break
		}
	}
	if err == nil {
		err = v.end(r)
	}
	if err == nil {
		err = st.checkPrefix(st.set.prefixSize)
	}
	if err == nil && !v.full {
		err = st.checkFlushed(v.first, v.ended)
	}
	if err == nil && !v.full && r.status == 0 {
		for _, f := range st.model.facts {
			f.cache.checked = f.cache.checked || f.ID >= v.first && f.prefix.stored
		}
	}
	if err != nil {
		return fmt.Errorf("%w\n\nThe run before has said:\n\n%s\n\nThe last run has said:\n\n%s", err, st.before, tail(r.said))
	}
	st.before = tail(r.said)
	return nil
}

// checkFlushed checks that the versions from one on are in the prefix directory that a run
// has had to flush.
func (st *story) checkFlushed(first int, ended bool) error {
	for _, f := range st.model.lastly(first, st.set, ended) {
		if !f.prefix.stored && !st.excused(f) {
			return wrong("%v is not in the prefix directory, where it has to be by now", f.Version)
		}
	}
	return nil
}

// excused reports whether a version may have left the prefix directory, or not have come
// there, because of those that are newer.
func (st *story) excused(f *fact) bool {
	newer := 0
	for _, other := range st.model.facts {
		if other.ID > f.ID && other.checkpoint() && (other.prefix.stored || other.complete) {
			newer++
		}
	}
	return f.prefix.damaged || st.model.overtaken(f, st.set.prefixSize) || st.set.prefixSize > 0 && newer >= st.set.prefixSize && !f.Flags.Has(session.Output)
}

// verdict is the judgement of one run: what has happened in it, and what must come.
type verdict struct {
	*transcript
	*launch
	model *model
	story *story
	job   job

	least  *fact  // it must be offered this one, or a newer one
	first  int    // version that the run has to flush if it is due: from its last recovery on
	full   bool   // writes fail
	ended  bool   // with Finalize
	failed string // the error of a call
	call   string // Delete, Drop or Current that is under way
	doubt  doubt
	reads  *fact // is offered, and neither accepted nor refused yet
}

// expect finds out what the run must be offered.
func (v *verdict) expect(who string) {
	where := ""
	if v.least, where = v.model.least(v.nodes, v.set); v.least != nil {
		v.tell("  %s must be offered %v, which is %s, or a newer one%s.", who, v.least.Version, where, v.model.alsoChosen())
	}
}

// begun reports whether the run has begun a dataset.
func (v *verdict) begun() bool { return v.story.next > v.job.Versions.Next }

// fullAtInit reports whether the run could write nothing from its beginning.
func (v *verdict) fullAtInit() bool { return v.full && v.job.Full.Phase == 0 }

// judge judges an event and has the model learn from it.
func (v *verdict) judge(e event, said string) error {
	m := v.model
	var f *fact
	if e.Version != nil {
		if e.What == "begin" {
			if v.model.none {
				m.history = e.Version.ID
				m.beginAnew(e.Version.ID)
			}
			v.model.none = false
			m.begin(*e.Version, v.nodes, v.set)
			v.story.next = e.Version.ID + 1
			if v.fullAtInit() {
				m.leave(0, v.job.Versions.Next-1) // what could not be moved or rebuilt leaves now
			}
		}
		if f = m.of(e.Version); f == nil {
			return wrong("an event of a version that was never begun: %v", *e.Version)
		}
	}
	call := v.call
	v.call = ""
	switch e.What {
	case "full":
		v.full = true
		v.counts.Full++
		v.tell("  From now on every write of %d bytes or more fails: %v.", v.job.Full.Least, v.job.Full.Errno)
	case "ready":
		if v.fullAtInit() {
			m.count = 0
		} else {
			m.ready(v.nodes)
		}
	case "offered":
		return v.offered(f, said)
	case "restarted":
		v.doubt, v.reads = doubt{}, nil
		m.restarted(f, v.nodes, v.set)
	case "rejecting":
		v.tell("  The program says %s that it cannot restart from it.", e.Text)
		v.doubt.refuses(f, e.Text)
		m.removed(f.Name, "", false)
	case "rejected":
		v.rejected(f, e.Text)
	case "stopped":
		v.tell("  It has refused two on all ranks, and nothing older is offered.")
		v.counts.Stopped++
		m.none = true
	case "begin":
		v.tell("  It begins %s %v.", kindOf(f.Flags), f.Version)
		v.doubt.begin(v.set)
	case "complete":
		v.tell("  ... which is complete.")
		m.completed(f, v.nodes, v.set)
		if f.checkpoint() {
			v.doubt.leave()
		}
		v.counts.Datasets++
	case "failed":
		v.tell("  ... which fails: %s.", e.Text)
		f.failed = call == "" && !v.full // full: it may be complete, and only its flush has failed
		if err := v.refused(call, f); err != nil || call != "current" {
			return err
		}
		if v.full {
			m.chosen(v.nodes)
		}
		m.choice = nil
	case "delete", "drop":
		v.call = e.What
		v.tell("  It calls %s of %s.", e.What, f.Name)
		m.removed(f.Name, "", v.begun())
	case "delete-done", "drop-done":
		m.removed(f.Name, map[string]string{"delete-done": "deleted", "drop-done": "dropped"}[e.What], v.begun())
		m.count = unknown // another may be offered now
	case "current":
		v.call = e.What
		v.tell("  It makes %s the current one.", f.Name)
		v.doubt.leave() // a run cannot choose what it has refused itself, unless the prefix directory has it
		m.choice = m.newest(f.Name)
	case "current-done":
		m.choice = nil
		for _, other := range m.facts {
			if other.Name == f.Name && other.gone == "rejected" {
				other.gone, other.removing = "", false // it may be tried again
			}
		}
		m.current(m.newest(f.Name), v.nodes)
		clear(m.left) // it continues from one of that name, of whichever history
		m.none, m.history = false, m.histories[m.newest(f.Name)]
	case "died":
		r := v.job.Recover
		v.tell("  Rank %d dies at operation %d; a new one on node %s takes its place.", r.Rank, r.At, r.Node)
		if r.Lost {
			if err := v.story.lose([]string{v.nodes[r.Rank]}); err != nil {
				return err
			}
		}
		v.nodes = slices.Clone(v.nodes)
		v.nodes[r.Rank] = r.Node
		v.counts.Died++
		v.recovers()
	case "recovers":
		v.tell("  All ranks call Recover.")
		v.recovers()
	case "ended":
		v.ended = true
		v.tell("  It ends with Finalize.")
	case "wrong", "error":
		v.failed = e.Text
		if e.What == "wrong" {
			return wrong("%s", e.Text)
		}
	}
	return nil
}

// recovers updates the model when a run continues without a new launch.
func (v *verdict) recovers() {
	v.counts.Recovered++
	for _, f := range v.model.facts {
		if f.ID >= v.first && f.complete { // it may have been flushed, as in Init
			v.model.flushed(f, v.set.prefixSize)
		}
	}
	v.first, v.model.none, v.doubt = v.story.next, false, doubt{}
	v.expect("Then it")
	v.model.begins(v.nodes)
}

func kindOf(flags session.Flags) string {
	switch flags {
	case session.Checkpoint:
		return "checkpoint"
	case session.Output:
		return "output"
	case session.None:
		return "dataset without flags"
	}
	return "checkpoint that is an output too"
}

// refused judges the failure of a call: Current needs a version that is there, and has not been replaced, and Delete
// the list of its files.
func (v *verdict) refused(call string, f *fact) error {
	damaged := slices.ContainsFunc(v.model.facts, func(other *fact) bool { return other.Name == f.Name && other.prefix.damaged })
	replaced := slices.ContainsFunc(v.model.facts, func(other *fact) bool { return !other.failed && other.overwrites(f.Version) })
	there := f.inCache(v.nodes) || f.prefix.stored && v.set.prefixSize == 0 && !replaced
	if !v.full && (call == "current" && there || call == "drop" || call == "delete" && !damaged) {
		return wrong("%s of %v must not fail", call, f.Version)
	}
	return nil
}

// offered judges which checkpoint a run is offered.
func (v *verdict) offered(f *fact, said string) error {
	v.model.none, v.reads = f == nil, f
	if f != nil {
		v.model.history = v.model.histories[f]
	}
	v.model.goneBack(f)
	cached := false
	if f == nil {
		v.tell("  It is offered nothing.")
		v.counts.Restarts["none"]++
	} else {
		how := source(f.Name, said)
		v.tell("  It is offered %v, %s: every byte is right.", f.Version, how)
		v.counts.Restarts[how]++
		v.model.count = f.number
		if how == "fetched" {
			v.doubt.leave()
		}
		if cached = how == "from the cache" || how == "rebuilt"; cached && !f.cache.certain() {
			v.model.leave(0, f.ID-1) // it is the newest there, even if nobody had heard that it was complete
		}
		again := v.model.choice != nil && f.Name == v.model.choice.Name && f.gone == "rejected"
		switch {
		case again:
			f.gone = "" // the choice has taken effect
		case f.gone != "" && !f.stray:
			return wrong("%v is offered, which was %s", f.Version, f.gone)
		}
	}
	if v.model.choice != nil {
		return v.offeredChoice(f, cached)
	}
	if v.least != nil && !v.fullAtInit() && (f == nil || f.ID < v.least.ID) {
		return wrong("it is not offered %v, nor a newer one", v.least.Version)
	}
	return nil
}

// offeredChoice is offered after a run was killed while it made a checkpoint the current one. cached is whether f was in the cache.
func (v *verdict) offeredChoice(f *fact, cached bool) error {
	m := v.model
	older := func(than *fact) bool { return than != nil && (f == nil || f.ID < than.ID) }
	between := cached && m.between(f) // a run that continues in the same launch may have flushed it, which the model does not know yet
	switch {
	case v.fullAtInit() || f != nil && f.Name == m.choice.Name:
	case !older(v.least) && between:
		m.choice = nil // it has not taken effect
		return nil
	case older(v.least) && (between || older(m.leastChosen(v.nodes, v.set))):
		return wrong("it is offered neither %v, nor a newer one, nor %v, which was being made the current one", v.least.Version, m.choice.Version)
	}
	m.chosen(v.nodes)
	return nil
}

// source is where a checkpoint was, by what the library has said.
func source(name, said string) string {
	switch {
	case strings.Contains(said, "checkpoint "+name+": fetched"):
		return "fetched"
	case strings.Contains(said, "checkpoint "+name+": ") && strings.Contains(said, "are read where they are"):
		return "in place"
	case strings.Contains(said, "("+name+"): rebuilt from redundancy"):
		return "rebuilt"
	}
	return "from the cache"
}

// end judges how a run has ended.
func (v *verdict) end(r *ran) error {
	switch {
	case r.hangs != "":
		return wrong("the run hangs: %s", r.hangs)
	case crashed(r.said):
		return wrong("the run has crashed")
	case r.status == statusKilled && v.job.Kill != nil:
		v.counts.Kills++
		if v.reads != nil { // it may be the current one by now, as if the run had restarted from it
			v.model.giveUp(v.reads)
		}
		how := "each rank ends at its next message"
		if v.job.Kill.Dead {
			how = fmt.Sprintf("message %d from phase %d of %d on", v.job.Kill.At, v.job.Kill.Phase, len(v.job.Ops)+1)
		} else {
			how = fmt.Sprintf("message %d, %s", v.job.Kill.At, how)
		}
		v.tell("  It is killed (%s).", how)
		return nil
	case r.status == statusFailed && v.full:
		if v.fullAtInit() {
			v.model.leave(0, v.job.Versions.Next-1) // also what was to be fetched again, for want of room to rebuild it
		}
		v.tell("  It ends: %s.", v.failed)
		return nil
	case r.status != 0:
		return wrong("the run fails: %s (status %d)", v.failed, r.status)
	case !v.ended:
		v.tell("  It ends without Finalize.")
	}
	v.story.disturbed = false
	return nil
}

func crashed(said string) bool {
	for _, sign := range []string{"internal error", "panic:", "fatal error", "goroutine ", "SIGSEGV", "DATA RACE"} {
		if strings.Contains(said, sign) {
			return true
		}
	}
	return false
}

// tail is the end of what a run has said.
func tail(said string) string {
	lines := strings.Split(strings.TrimSpace(said), "\n")
	return strings.Join(lines[max(0, len(lines)-60):], "\n")
}

// checkPrefix compares all that the index has as complete with what was written, and has
// the model learn what is there. keeps is SCR_PREFIX_SIZE of the run before, 0: no limit.
func (st *story) checkPrefix(keeps int) error {
	x, err := prefix.ReadIndex(st.site.prefix())
	if err != nil {
		return wrong("%v", err)
	}
	before := map[*fact]bool{}
	for _, f := range st.model.facts {
		before[f], f.prefix.stored = f.prefix.stored, false
	}
	for _, e := range x.Entries() {
		if e.Placing > 0 && !e.Failed && e.Replaced == nil {
			if f := st.model.newest(e.Name); f != nil && !f.prefix.damaged {
				f.complete = true
				f.prefix.find(e.Compressed())
			}
		}
		if !e.Complete {
			continue
		}
		f, why := st.find(e)
		if f != nil {
			f.prefix.retired = e.Retired != nil
		}
		switch {
		case e.Failed:
			if f != nil {
				f.prefix.arrived = true
			}
		case f != nil && f.direct && !f.complete && e.Retired == nil && slices.ContainsFunc(x.Entries(), func(newer prefix.Entry) bool { return newer.Name == f.Name && newer.ID > e.ID }):
			// The program was writing over the files of e when it was killed, and f is that newer one.
		case f != nil && !f.prefix.damaged:
			f.prefix.find(e.Compressed())
		case f != nil:
			f.prefix.arrived = true // and has replaced others, although somebody has damaged something of it
		case f == nil && why != nil:
			return wrong("the index has dataset %d (%s) as complete, which it is not: %v", e.ID, e.Name, why)
		}
	}
	kept := 0
	for _, f := range slices.Backward(st.model.facts) {
		limited := keeps > 0 && f.checkpoint() && !f.Flags.Has(session.Output) && kept >= keeps
		if f.checkpoint() && (f.prefix.stored || before[f] || (f.complete || f.prefix.arrived || !f.failed) && (f.gone != "" || f.removing || f.prefix.damaged)) {
			kept++
		}
		if before[f] && !f.prefix.stored && !f.removing && !limited && !st.model.overtaken(f, keeps) {
			return wrong("%v has vanished from the prefix directory", f.Version)
		}
		if before[f] && !f.prefix.stored && !f.removing && !f.prefix.damaged && st.model.stays(f, keeps) {
			return wrong("%v has vanished from the prefix directory, and no run has restarted from it or a newer one", f.Version)
		}
	}
	return nil
}

// find returns which version an entry of the index is, by its files, or why it is none.
func (st *story) find(e prefix.Entry) (found *fact, why error) {
	damaged := false
	for _, f := range slices.Backward(st.model.facts) {
		if f.Name != e.Dataset.Name() {
			continue
		}
		err := f.there(st.seed, func(name string) string { return e.Place(st.site.prefix(), name) })
		if err == nil {
			return f, nil
		}
		damaged = damaged || f.prefix.damaged
		why = errors.Join(why, fmt.Errorf("%v: %w", f.Version, err))
	}
	switch {
	case damaged: // it may be that one
		why = nil
	case why == nil:
		why = fmt.Errorf("none of its name was begun")
	}
	return nil, why
}
