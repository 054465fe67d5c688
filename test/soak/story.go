package main

import (
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/goscr/goscr/internal/prefix"
)

// A story is what happens to one job: runs, and what happens between them. It is drawn
// step by step from the seed, and told in lines.
type story struct {
	transcript
	launch // the last one
	seed   uint64
	refuse bool // see Options
	site   *site
	model  *model

	same, fresh bool
	before      string // what the last run has said
	flipped     bool   // one bit is wrong in the prefix directory: only a run that copies the file sees it
	spares      int    // names of nodes that were used
	next        int    // version
	disturbed   bool   // flush.scr is damaged, until the next run
}

// transcript is what is printed of a story.
type transcript struct {
	lines  []string
	counts counts
}

func (t *transcript) tell(format string, args ...any) {
	t.lines = append(t.lines, fmt.Sprintf(format, args...))
}

// failure is what is wrong.
type failure struct{ text string }

func (f *failure) Error() string { return f.text }

func wrong(format string, args ...any) error { return &failure{fmt.Sprintf(format, args...)} }

// play plays the story of a seed at a site. The error is a *failure if the library has done wrong.
func (st *story) play() error {
	random := st.random(0)
	st.same, st.fresh = random.IntN(4) == 0, random.IntN(2) == 0
	st.set = drawSettings(random)
	st.nodes = st.drawNodes(random)
	st.next = 1
	names := "a restart from step N writes step.N+1 again"
	if st.fresh {
		names = "each dataset has a name of its own"
	}
	if st.same {
		names += ", and all checkpoints have files of the same names, and all other datasets"
	}
	st.tell("A job, in which %s.", names)
	runs := 3 + random.IntN(5)
	for i := range runs {
		random := st.random(i + 1)
		if i > 0 {
			if err := st.between(random); err != nil {
				return err
			}
		}
		if err := st.run(random, i+1, i == runs-1); err != nil {
			return err
		}
	}
	return nil
}

// random is a source of numbers for a part of the story: what a part draws does not depend
// on how often another has drawn.
func (st *story) random(part int) *rand.Rand { return rand.New(rand.NewPCG(st.seed, uint64(part))) }

// drawNodes places ranks on new nodes.
func (st *story) drawNodes(random *rand.Rand) (nodes []string) {
	count := 1 + random.IntN(5)
	per := 1 + random.IntN(2)
	for range count {
		name := st.spare()
		on := per
		if random.IntN(4) == 0 {
			on = 1 + random.IntN(3)
		}
		for range on {
			nodes = append(nodes, name)
		}
	}
	if len(nodes) > 8 {
		nodes = nodes[:8]
	}
	if random.IntN(5) == 0 {
		random.Shuffle(len(nodes), func(i, k int) { nodes[i], nodes[k] = nodes[k], nodes[i] })
	}
	return nodes
}

func (st *story) spare() string {
	st.spares++
	return fmt.Sprintf("n%d", st.spares)
}

func distinct(nodes []string) (list []string) {
	for _, n := range nodes {
		if !slices.Contains(list, n) {
			list = append(list, n)
		}
	}
	return list
}

// between is what happens between two runs, and where the ranks of the next run are.
func (st *story) between(random *rand.Rand) error {
	all := distinct(st.nodes)
	var lost []string
	switch n := random.IntN(20); {
	case n < 10:
	case n < 17:
		lost = st.pick(random, all, 1+random.IntN(max(st.set.losses, 1)))
	case n < 19:
		lost = st.pick(random, all, 1+random.IntN(len(all)))
	default:
		lost = all
	}
	if err := st.lose(lost); err != nil {
		return err
	}
	if random.IntN(6) == 0 {
		if err := st.damageCache(random, all); err != nil {
			return err
		}
	}
	if random.IntN(4) == 0 {
		if err := st.scavenge(random, all, lost); err != nil {
			return err
		}
	}
	if random.IntN(8) == 0 {
		if err := st.damagePrefix(random); err != nil {
			return err
		}
	}
	st.move(random, lost)
	if random.IntN(4) == 0 {
		st.set = drawSettings(random)
	}
	if st.flipped {
		st.set.fetchHere, st.set.bypass, st.set.cacheSize = false, false, max(st.set.cacheSize, 1)
	}
	return nil
}

func (st *story) pick(random *rand.Rand, from []string, n int) (list []string) {
	for _, i := range random.Perm(len(from))[:min(n, len(from))] {
		list = append(list, from[i])
	}
	slices.Sort(list)
	return list
}

func (st *story) lose(lost []string) error {
	if len(lost) == 0 {
		return nil
	}
	st.tell("Nodes %s are lost.", strings.Join(lost, " "))
	st.counts.Lost += len(lost)
	for _, node := range lost {
		st.model.lose(node)
		if err := st.site.lose(node); err != nil {
			return err
		}
	}
	return nil
}

// move decides on the placement of the next run.
func (st *story) move(random *rand.Rand, lost []string) {
	nodes := slices.Clone(st.nodes)
	instead := map[string]string{}
	for _, node := range lost { // a spare, or the same node, which is empty
		if instead[node] = node; random.IntN(3) > 0 {
			instead[node] = st.spare()
		}
	}
	for i, n := range nodes {
		if to := instead[n]; to != "" {
			nodes[i] = to
		}
	}
	switch n := random.IntN(20); {
	case n < 4:
		random.Shuffle(len(nodes), func(i, k int) { nodes[i], nodes[k] = nodes[k], nodes[i] })
	case n < 5: // each anywhere
		from := append(distinct(nodes), st.spare())
		for i := range nodes {
			nodes[i] = from[random.IntN(len(from))]
		}
	case n < 6:
		nodes = st.drawNodes(random)
	case n < 7 && len(nodes) > 1:
		nodes = nodes[:len(nodes)-1]
	case n < 8 && len(nodes) < 9:
		nodes = append(nodes, nodes[random.IntN(len(nodes))])
	}
	st.nodes = nodes
}

func (st *story) damageCache(random *rand.Rand, nodes []string) error {
	node := nodes[random.IntN(len(nodes))]
	path, how, err := st.site.damage(random, st.site.node(node), func(path string) bool { return strings.HasSuffix(path, "lock") }, true)
	if err != nil || path == "" {
		return err
	}
	st.tell("In the cache: %s: %s.", st.site.relative(path), how)
	st.counts.Damaged++
	st.model.lose(node)
	if how == damages[0] && st.site.memory {
		return st.loosen(node, path)
	}
	return nil
}

// loosen has the model know that a bit of a file in the cache of a node was changed, if
// nothing has to find that: the file has no checksum, see rule 1.
func (st *story) loosen(node, path string) error {
	data, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	for _, f := range st.model.facts {
		if f.direct {
			continue
		}
		for _, rank := range f.cache.unchecked(node) {
			for _, c := range contents(st.seed, f.Version, rank) {
				if len(data) != len(c.data) || !strings.HasSuffix(path, "/"+c.name) {
					continue
				}
				at, bits := c.differ(data, 0)
				if _, more := c.differ(data, at+1); more == 0 && bits != 0 && bits&(bits-1) == 0 {
					f.Flips = append(f.Flips, flip{rank, c.name, at, bits})
					st.tell("  It is of %v, and has no checksum: that may not be found.", f.Version)
				}
			}
		}
	}
	return nil
}

func (st *story) damagePrefix(random *rand.Rand) error {
	x, err := prefix.ReadIndex(st.site.prefix())
	if err != nil {
		return wrong("%v", err)
	}
	// Without an index no run begins.
	except := func(path string) bool {
		base := filepath.Base(path)
		return base == "index.scr" || strings.HasSuffix(base, "lock")
	}
	path, how, err := st.site.damage(random, st.site.prefix(), except, false) // in place only a change of time shows
	if err != nil || path == "" {
		return err
	}
	st.tell("In the prefix directory: %s: %s.", st.site.relative(path), how)
	st.counts.Damaged++
	st.flipped = st.flipped || how == damages[0]
	st.disturbed = st.disturbed || filepath.Base(path) == "flush.scr"
	if filepath.Base(path) == "restart.scr" { // it lists what is in the cache and was rejected
		for _, f := range st.model.facts {
			if f.gone == "rejected" {
				f.gone = ""
			}
		}
	}
	for _, f := range st.model.facts {
		hit := false
		for rank := range f.Ranks {
			for _, file := range contents(st.seed, f.Version, rank) {
				// Before it has arrived, that is a file of another version.
				hit = hit || (f.prefix.arrived || f.direct) && path == filepath.Join(st.site.prefix(), file.name)
			}
		}
		for _, e := range x.Entries() {
			if e.Dataset.Name() == f.Name {
				aside := strings.HasPrefix(filepath.Base(path), fmt.Sprintf(".scr.%d.", e.ID))
				retired := e.Retired != nil && strings.HasPrefix(path, e.Place(st.site.prefix(), "")+"/")
				hit = hit || aside || retired || strings.HasPrefix(path, st.site.metadata(e.ID))
			}
		}
		if hit {
			f.prefix.damage()
		}
	}
	return nil
}

// scavenge copies what only the caches have to the prefix directory, where that is promised.
func (st *story) scavenge(random *rand.Rand, all, lost []string) error {
	list, err := prefix.OnlyInCache(st.site.prefix())
	if err != nil {
		if st.disturbed {
			return nil
		}
		return wrong("scavenge: %v", err)
	}
	// A run of another size records only what it has found for itself.
	if f := st.model.onlyInCache(); f != nil && f.Ranks == len(st.nodes) && !st.disturbed && !slices.ContainsFunc(list, func(d prefix.Unflushed) bool { return d.Name == f.Name }) {
		return wrong("a scavenge cannot copy %v: nothing says that it is in the cache", f.Version)
	}
	var up []string
	for _, n := range all {
		if _, err := os.Stat(filepath.Join(st.site.node(n), "cntl/user/scr.job")); err == nil {
			up = append(up, n)
		}
	}
	if len(up) == 0 {
		return nil
	}
	flushed, err := prefix.NewestFlushed(st.site.prefix())
	if err != nil {
		return wrong("%v", err)
	}
	for _, d := range slices.Backward(list) {
		if !d.Output && (!d.Checkpoint || d.ID < flushed) { // scr_postrun leaves it, too
			continue
		}
		st.counts.Scavenged++
		warnings, failed := st.site.scavenge(random, d.ID, up, lost)
		st.tell("Scavenge of dataset %d (%s) from nodes %s: %s.", d.ID, d.Name, strings.Join(up, " "), result(failed))
		// If it could have been in the cache only, that of this name which is newest is it.
		f := st.model.newest(d.Name)
		late := failed != nil && f != nil && strings.Contains(failed.Error(), "its files were replaced by") &&
			slices.ContainsFunc(st.model.facts, func(newer *fact) bool { return newer.overwrites(f.Version) })
		if failed != nil && f != nil && f.complete && f.cache.survives(up, true) && !late && !st.model.leaving(f) {
			return wrong("what is left of %v can be made whole, but the scavenge fails: %v\n%s", f.Version, failed, strings.Join(warnings, "\n"))
		}
		if d.Checkpoint && failed == nil {
			break
		}
	}
	return st.checkPrefix(0)
}

func result(err error) string {
	if err != nil {
		return "it fails: " + err.Error()
	}
	return "it succeeds"
}

// draw draws what a run does.
func (st *story) draw(random *rand.Rand, last bool) job {
	j := job{Root: st.site.root, Nodes: st.nodes, Env: st.set.environment(),
		Versions: versions{Seed: st.seed, Same: st.same, Fresh: st.fresh, Known: st.model.known(), Next: st.next}}
	for range 1 + random.IntN(5) {
		what := "checkpoint"
		if n := random.IntN(30); n < 12 {
			what = []string{"output", "output", "output", "both", "both", "spoiled", "spoiled", "none", "none", "delete", "drop", "current"}[n]
		}
		j.Ops = append(j.Ops, op{what, random.IntN(4)})
	}
	if random.IntN(20) == 0 {
		j.Refuse = []bool{false}
	}
	phase := random.IntN(len(j.Ops) + 2)
	if len(j.Versions.Known) == 0 {
		phase = len(j.Ops)
	}
	switch n := random.IntN(20); {
	case n < 9:
		j.Kill = &kill{Phase: phase, At: logUniform(random, 800), Dead: true}
	case n < 12 && len(j.Versions.Known) > 0:
		j.Kill = &kill{At: logUniform(random, 6000)}
	}
	j.End = random.IntN(3) > 0
	if random.IntN(10) == 0 && !last {
		j.Full = &full{Phase: random.IntN(len(j.Ops) + 1), Least: []int{16, 64, 1000, 4096, 20000}[random.IntN(5)],
			Errno: []unix.Errno{unix.ENOSPC, unix.EDQUOT, unix.EIO}[random.IntN(3)]}
		j.Lenient = true
	}
	if j.Kill == nil && j.Full == nil { // from numbers of its own: a seed keeps the rest of its story
		j.Recover = st.drawRecovery(st.random(1000+j.Versions.Next), len(j.Ops))
	}
	return j
}

// drawRecovery draws a recovery of a run, nil for most.
func (st *story) drawRecovery(random *rand.Rand, ops int) *recovery {
	if random.IntN(4) > 0 {
		return nil
	}
	r := &recovery{Phase: 1 + random.IntN(ops), Rank: random.IntN(len(st.nodes)), At: logUniform(random, 300)}
	r.Node = st.nodes[r.Rank]
	alone := len(slices.DeleteFunc(slices.Clone(st.nodes), func(n string) bool { return n != r.Node })) == 1
	if r.Lost = alone && random.IntN(3) > 0; r.Lost {
		r.Node = st.spare()
	}
	return r
}

// logUniform draws a number from 1 on, small ones as often as large ones.
func logUniform(random *rand.Rand, most float64) int64 {
	return int64(math.Exp(random.Float64() * math.Log(most)))
}
