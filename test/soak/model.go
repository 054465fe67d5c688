package main

import (
	"fmt"
	"math"
	"slices"

	"github.com/goscr/goscr/internal/prefix"
	"github.com/goscr/goscr/internal/session"
)

// model is what a story knows of each version. It promises what is certain, and nothing of
// what depends on which thread was faster.
//
// The rules, in the order in which a run meets them:
//
//  1. A checkpoint is certain to be in the cache from when CompleteOutput has succeeded;
//     for as long as no more members of any of its sets are lost than the scheme tolerates;
//     as long as no newer dataset needs its place, which the newest one leaves only if the
//     cache holds one dataset; and until a run of another size begins a dataset. In a cache
//     in memory, a changed bit is found of files that have a checksum: of all but those of a
//     rank that is alone in its set, from when it has written them until they are flushed or
//     moved. Then the checkpoint may be offered, or flushed, with that bit changed.
//  2. A version is certain to be in the prefix directory if the index has it as complete
//     after a run or a scavenge, and every byte was found right then; or if its files are
//     all there and a kill came while they got their names; until somebody damages it, or
//     the program deletes or drops it. It may go when a newer version with its name, or
//     with names of its files, has come, and not before; the newer one stays. A run may
//     complete the flush of the newer one in Init, and not be able to use that.
//  3. A run must be offered the newest checkpoint that is certain, in the cache or in the
//     prefix directory, and that it can use: one of its own size, or, where it reads
//     files in place, one of any size that is not compressed.
//  4. Whoever restarts from a checkpoint, or makes it the current one, gives up those that
//     are newer. They may still be offered. If a run is killed while it makes one current, the
//     next is offered that one, or what it must have been offered otherwise, but none of the
//     cache that is between the two.
//  5. What was deleted, dropped or rejected is not offered again. If a run is killed while it
//     does that, nothing is certain of it any more. What was rejected may have been flushed in
//     Init, and counts for SCR_PREFIX_SIZE then. Two that all ranks have rejected, before the run has accepted a
//     checkpoint or begun a dataset, are as certain as they were before, see doubt; that run is offered no more.
//  6. A run that starts from the beginning, because it is offered nothing, and those that restart from what it
//     writes, leave the checkpoints in the prefix directory as they are, under another name if need
//     be: those of the last runs that started from the beginning.
type model struct {
	facts []*fact // by version, oldest first
	count int     // the number of the newest checkpoint, as SCR_FLUSH counts them; unknown: depends on what a run was offered then

	choice *fact // is being made current, until a run is offered a checkpoint; nil: none
	left   map[*fact]*left
	none   bool // the run was offered nothing, and has begun no dataset since

	history   int           // the first version of that of the run, 0 until it is known
	histories map[*fact]int // that of each version
}

func newModel() *model { return &model{left: map[*fact]*left{}, histories: map[*fact]int{}} }

// left is what is known of a checkpoint in the prefix directory since a run has started from the beginning, see rule 6.
type left struct {
	runs   int // how many have started from the beginning since
	before int // the first version of the first of them
}

const unknown = -1

// Where a checkpoint is certain to be.
const (
	inCache  = "in the cache"
	inPrefix = "in the prefix directory"
)

// fact is what is known of a version.
type fact struct {
	Version
	number   int    // as a checkpoint
	complete bool   // CompleteOutput has succeeded
	failed   bool   // ... or failed; neither: a kill came before it was told, and it may be complete
	direct   bool   // the program has written it to the prefix directory
	given    bool   // rule 4
	gone     string // rule 5: why
	removing bool   // ... somebody has begun to remove it
	stray    bool   // a node that may have files of it was not in some run, so that it may come back

	cache  cacheCopy
	prefix prefixCopy
}

// prefixCopy is what is known of the files of a version in the prefix directory.
type prefixCopy struct {
	stored     bool // they are certain to be there
	arrived    bool // they have been there at some time
	compressed bool // ... compressed
	packs      bool // a flush may compress them
	retired    bool // it has another name there
	damaged    bool
}

// find updates the model when all files were found.
func (c *prefixCopy) find(compressed bool) {
	c.stored, c.arrived, c.compressed = true, true, compressed
}

// damage updates the model when somebody has damaged the files, or the program writes over them.
func (c *prefixCopy) damage() { c.stored, c.damaged = false, true }

func (m *model) of(v *Version) *fact {
	for _, f := range m.facts {
		if f.ID == v.ID {
			return f
		}
	}
	return nil
}

func (m *model) known() (list []Version) {
	for _, f := range m.facts {
		list = append(list, f.Version)
	}
	return list
}

// promise is what is certain of a checkpoint for a run. newest is whether no newer one has been completed: one
// that is in the prefix directory may have left the cache for a newer one, also if somebody has damaged it there
// since: that shows only when it is fetched.
func (f *fact) promise(nodes []string, s settings, newest bool) string {
	if !f.checkpoint() || f.given || f.gone != "" || f.removing || !f.complete {
		return ""
	}
	if f.inCache(nodes) && (newest || !f.prefix.stored && !(f.prefix.damaged && f.prefix.arrived)) {
		return inCache
	}
	here := s.inPlace() || f.direct
	if f.prefix.stored && (here && !f.prefix.compressed || !here && f.Ranks == len(nodes)) {
		return inPrefix
	}
	return ""
}

// inCache reports whether a run on some nodes is certain to have it in its cache.
func (f *fact) inCache(nodes []string) bool {
	return f.Ranks == len(nodes) && f.cache.survives(nodes, false)
}

// least returns the checkpoint than which a run must not be offered an older one, nil if
// there is none, and where that is.
func (m *model) least(nodes []string, s settings) (*fact, string) {
	newest := true
	for _, f := range slices.Backward(m.facts) {
		if where := f.promise(nodes, s, newest); where != "" && !(where == inPrefix && m.replaceable(f, nodes, s)) {
			return f, where
		}
		newest = newest && !(f.checkpoint() && f.complete)
	}
	return nil, ""
}

// replaceable reports whether Init of a run may complete the flush of a newer version that takes
// over files of one, and that this run cannot use: a kill has left unknown whether it is complete.
func (m *model) replaceable(f *fact, nodes []string, s settings) bool {
	return slices.ContainsFunc(m.facts, func(other *fact) bool {
		usable := other.Ranks == len(nodes)
		if s.inPlace() {
			usable = !other.prefix.packs
		}
		return other.overwrites(f.Version) && !other.prefix.arrived && !other.failed && !other.direct && !(usable && other.checkpoint())
	})
}

// leastChosen is least if the choice that a killed run was making has taken effect: then those that
// are newer have left the cache, and so have all others if it has to be fetched.
func (m *model) leastChosen(nodes []string, s settings) *fact {
	found := m.found(m.choice, nodes)
	for _, f := range slices.Backward(m.facts) {
		if where := f.promise(nodes, s, false); f.ID <= found.ID && where != "" && (f == found || where == inPrefix) && !(where == inPrefix && m.replaceable(f, nodes, s)) {
			return f
		}
	}
	return nil
}

// alsoChosen reports the choice that a killed run was making.
func (m *model) alsoChosen() string {
	if m.choice == nil {
		return ""
	}
	return fmt.Sprintf(", or %v, which was being made the current one", m.choice.Version)
}

// between reports whether a checkpoint is newer than what a killed run was choosing, and only in the
// cache: it leaves if the choice takes effect.
func (m *model) between(f *fact) bool {
	return f != nil && f.ID > m.choice.ID && !f.prefix.stored && !f.prefix.damaged
}

// chosen updates the model when nobody can tell any more whether the choice that a killed run was making has
// taken effect.
func (m *model) chosen(nodes []string) {
	defer func(count int) { m.count = count }(m.count) // that of what was offered
	m.current(m.choice, nodes)
	m.leave(0, math.MaxInt)
	m.choice = nil
}

// leaving reports whether a version may be leaving the cache because of the choice that a killed run was making.
func (m *model) leaving(f *fact) bool {
	return m.choice != nil && (f.ID > m.choice.ID || !m.choice.cache.certain())
}

// begins is what a run changes that begins on some nodes: it may migrate, rebuild and
// delete files. If it comes to its end, ready follows.
func (m *model) begins(nodes []string) {
	for _, f := range m.facts {
		f.stray = f.stray || f.cache.elsewhere(nodes)
		switch {
		case f.Ranks != len(nodes):
		case f.inCache(nodes):
			f.cache.unsettle(nodes)
		default:
			f.cache.leave()
		}
	}
}

// ready updates the model when Init has succeeded: the newest checkpoint of the cache is rebuilt, if it could
// be. Older ones may be as they were. If the newest of all is not certain to be in the cache, it may have
// been that one all the same.
func (m *model) ready(nodes []string) {
	for _, f := range slices.Backward(m.facts) {
		if f.checkpoint() && f.Ranks == len(nodes) {
			f.cache.settle(nodes)
			break
		}
	}
	m.count = 0
}

// restarted updates the model when a run has restarted from a checkpoint.
func (m *model) restarted(f *fact, nodes []string, s settings) {
	m.count = f.number
	m.giveUp(f)
	if f.direct || s.inPlace() || f.Ranks != len(nodes) {
		return
	}
	if !f.cache.certain() {
		// Was it in the cache after all, or was it fetched? Then others may have left for it.
		m.leave(0, math.MaxInt)
		f.cache.comeBack(newLayout(nodes, s))
	}
	f.cache.settle(nodes) // it was not moved if storage was full in Init
}

// leave updates the model when the versions from one up to another may have left the cache.
func (m *model) leave(first, last int) {
	for _, f := range m.facts {
		if first <= f.ID && f.ID <= last {
			f.cache.leave()
		}
	}
}

func (m *model) giveUp(newest *fact) {
	for _, f := range m.facts {
		f.given = f.given || f.ID > newest.ID
	}
}

// begin updates the model when a run on some nodes begins a version, which another may have to leave for.
func (m *model) begin(v Version, nodes []string, s settings) {
	if m.of(&v) != nil {
		return
	}
	kept := s.cacheSize < 2 && !s.direct()
	for _, f := range slices.Backward(m.facts) {
		// What can be fetched again leaves before a newer one that the run does not use, and a later one may be able to.
		unused := f.prefix.stored && slices.ContainsFunc(m.facts, func(newer *fact) bool { return newer.ID > f.ID && !newer.failed && !newer.cache.certain() })
		if f.cache.certain() && (kept && !s.direct() || f.Ranks != v.Ranks || unused) {
			f.cache.leave()
		}
		kept = kept || f.cache.certain()
		if s.direct() && v.overwrites(f.Version) {
			f.prefix.damage()
		}
	}
	if v.checkpoint() && m.count != unknown {
		m.count++
	}
	f := &fact{Version: v, number: m.count, direct: s.direct(), prefix: prefixCopy{packs: s.compress},
		cache: cacheCopy{nodes: nodes, alone: newLayout(nodes, s).alone()}}
	m.facts = append(m.facts, f)
	m.histories[f] = m.history
}

// beginAnew updates the model when a run that is offered nothing begins its first version.
func (m *model) beginAnew(next int) {
	for _, f := range m.facts {
		if m.left[f] == nil && f.ID < next && f.prefix.stored && f.checkpoint() {
			m.left[f] = &left{before: next}
		}
		if l := m.left[f]; l != nil {
			l.runs++
		}
	}
}

// goneBack updates the model when a run continues from a checkpoint from before one that started from the beginning, also one that was only in the
// cache then.
func (m *model) goneBack(f *fact) {
	before := 0
	for _, l := range m.left {
		before = max(before, l.before)
	}
	if f != nil && f.ID < before {
		clear(m.left)
		m.none = false
	}
}

// stays reports whether a checkpoint must stay in the prefix directory although runs have started from the beginning: they are not too many, and the versions
// from before them that may have come since have neither replaced it nor taken its place. keeps is as for overtaken.
func (m *model) stays(f *fact, keeps int) bool {
	l := m.left[f]
	if l == nil || l.runs > prefix.Histories || m.outdone(f) {
		return false
	}
	newer := 0
	for _, other := range m.facts {
		switch {
		case other.ID >= l.before || other.failed:
		case other.overwrites(f.Version):
			return false
		case other.ID > f.ID && other.checkpoint():
			newer++
		}
	}
	return keeps == 0 || newer < keeps
}

// outdone reports whether so many other computations may have come farther than that of f that its checkpoints are not kept.
func (m *model) outdone(f *fact) bool {
	came := map[int]int{}
	for _, g := range m.facts {
		n := g.number
		if n == unknown && m.histories[g] != m.histories[f] {
			n = math.MaxInt
		}
		if g.checkpoint() && g.prefix.arrived && m.histories[g] != m.history {
			came[m.histories[g]] = max(came[m.histories[g]], n)
		}
	}
	farther := 0
	for history, n := range came {
		if history != m.histories[f] && n >= came[m.histories[f]] {
			farther++
		}
	}
	return farther >= prefix.Histories
}

// completed updates the model when CompleteOutput has succeeded.
func (m *model) completed(f *fact, nodes []string, s settings) {
	f.complete = true
	if !f.direct && f.checkpoint() {
		f.cache.complete(newLayout(nodes, s))
	}
}

// removed updates the model when the program deletes, drops or rejects all versions of a name,
// or has begun to. done is how that is told once it has succeeded. begun is whether the run has begun a dataset: then
// those of other histories stay. Retired ones of other histories stay always.
func (m *model) removed(name, done string, begun bool) {
	for _, f := range m.facts {
		l, another := m.left[f], m.histories[f] != m.history
		if f.Name != name || f.prefix.retired && another {
			continue
		}
		f.cache.leave()
		f.prefix.stored, f.removing = false, true
		if done != "" && l == nil && !f.prefix.retired && !(begun && another) { // else it may have another name since
			f.gone = done
		}
	}
}

// current updates the model when the program, in a run on some nodes, makes a version the current one:
// where it is not certain to be in the cache, what is there may leave.
func (m *model) current(f *fact, nodes []string) {
	if !f.cache.certain() {
		m.leave(0, math.MaxInt)
	}
	found := m.found(f, nodes)
	m.leave(found.ID+1, math.MaxInt)
	m.giveUp(found)
	if m.count = f.number; !f.checkpoint() || found != f {
		m.count = unknown
	}
}

// found returns the oldest version that the library may have found by the name of f, which is the
// newest of that name: only one that is certain to be there hides older ones.
func (m *model) found(f *fact, nodes []string) *fact {
	for _, other := range slices.Backward(m.facts) {
		if other.Name != f.Name {
			continue
		}
		if f = other; f.prefix.stored || f.inCache(nodes) {
			break
		}
	}
	return f
}

// lastly is what a run must have left in the prefix directory that nothing has disturbed:
// the versions that were to be flushed.
func (m *model) lastly(first int, s settings, ended bool) (list []*fact) {
	newest := -1
	for i, f := range m.facts {
		if f.complete && f.checkpoint() {
			newest = i
		}
	}
	for i, f := range m.facts {
		if f.ID < first || !f.complete || f.removing || f.given {
			continue
		}
		due := f.direct || f.Flags.Has(session.Output) || f.checkpoint() && (s.flush == 1 || s.flush > 1 && f.number != unknown && f.number%s.flush == 0)
		if due && (f.direct || !s.async || ended) || ended && i == newest && s.flush > 0 && f.cache.certain() {
			list = append(list, f)
		}
	}
	return list
}

// flushed updates the model when a version may have come to the prefix directory in Init or a call of this run, which
// keeps so many checkpoints there, 0: no limit. Those with its name, or names of its files, may have gone then,
// and the oldest for its room.
func (m *model) flushed(by *fact, keeps int) {
	for _, f := range m.facts {
		if by.overwrites(f.Version) {
			f.prefix.stored = false
		}
	}
	if keeps == 0 || !by.checkpoint() {
		return
	}
	kept := 1
	for _, f := range slices.Backward(m.facts) {
		// The library counts a damaged one, too, and one that the program has rejected after that.
		there := f.prefix.stored || f.prefix.damaged && (f.prefix.arrived || !f.failed) || f.prefix.arrived && f.gone == "rejected"
		if f == by || !f.checkpoint() || !there {
			continue
		}
		if kept >= keeps && !f.Flags.Has(session.Output) { // an output counts, and stays
			f.prefix.stored = false
		}
		kept++
	}
}

// overtaken reports whether a newer version with the same name, or the same names of files,
// is in the prefix directory, or was: it may have been overtaken in turn, also one of which a kill
// has left unknown whether it is complete, since a later run flushes it then, and may write over it next. keeps is
// SCR_PREFIX_SIZE of the last run, 0: no limit; with a limit, a checkpoint may have come and
// gone in that run.
func (m *model) overtaken(f *fact, keeps int) bool {
	return slices.ContainsFunc(m.facts, func(other *fact) bool {
		return other.overwrites(f.Version) &&
			(other.prefix.arrived || other.prefix.damaged && !other.failed || other.removing || keeps > 0 && other.checkpoint() || !other.failed && m.overtaken(other, keeps))
	})
}

// newest returns the newest version of a name, nil if there is none.
func (m *model) newest(name string) *fact {
	for _, f := range slices.Backward(m.facts) {
		if f.Name == name {
			return f
		}
	}
	return nil
}

// onlyInCache returns the newest checkpoint if that is certain to be in the cache, and can never have been in the prefix directory, nil if it is not so.
func (m *model) onlyInCache() *fact {
	var newer []*fact // they may have been flushed, and have replaced it there
	for _, f := range slices.Backward(m.facts) {
		replaces := func(n *fact) bool { return n.overwrites(f.Version) }
		switch {
		case f.failed:
		case !f.checkpoint() || f.gone != "":
			newer = append(newer, f)
		case slices.ContainsFunc(newer, replaces):
			return nil
		case f.complete && f.cache.certain() && !f.removing && !f.given && !f.prefix.arrived && !f.prefix.damaged && !m.leaving(f):
			return f
		default:
			return nil
		}
	}
	return nil
}

// lose updates the model when the storage of a node is lost, or a file there damaged.
func (m *model) lose(node string) {
	for _, f := range m.facts {
		f.cache.damage(node)
	}
}
