package main

import "slices"

// layout is where the files of a checkpoint are in the cache, and which ranks protect each
// other. It follows the description of sets in docs/decisions/sets.md, not the code:
//
// Ranks are numbered node by node, and number i is in set i mod S. S is the number of
// ranks divided by SCR_SET_SIZE, or by the number of losses that are asked for plus one if
// that is more; or the number of ranks on the fullest node if that is more. A set of n
// members tolerates the losses that are asked for, but not more than n-1.
type layout struct {
	sets   [][]int           // ranks of each set
	bears  []int             // how many of them may be lost
	places []map[string]bool // of each rank: nodes any of which may be needed for its files
	lost   []bool            // ... or they are damaged already
}

// newLayout lays out a dataset that ranks on some nodes write.
func newLayout(nodes []string, s settings) *layout {
	l := &layout{lost: make([]bool, len(nodes))}
	var order []int // ranks, node by node
	var seen []string
	fullest := 0
	for _, node := range nodes {
		if slices.Contains(seen, node) {
			continue
		}
		seen = append(seen, node)
		on := 0
		for rank, n := range nodes {
			if n == node {
				order, on = append(order, rank), on+1
			}
		}
		fullest = max(fullest, on)
	}
	count := max(len(nodes)/max(s.setSize, s.losses+1), fullest, 1)
	if s.losses == 0 {
		count = len(nodes) // each by itself
	}
	l.sets = make([][]int, count)
	for i, rank := range order {
		l.sets[i%count] = append(l.sets[i%count], rank)
	}
	for _, set := range l.sets {
		l.bears = append(l.bears, min(s.losses, len(set)-1))
	}
	for _, node := range nodes {
		l.places = append(l.places, map[string]bool{node: true})
	}
	return l
}

// alone returns which ranks are alone in their sets.
func (l *layout) alone() []bool {
	alone := make([]bool, len(l.places))
	for _, set := range l.sets {
		if len(set) == 1 {
			alone[set[0]] = true
		}
	}
	return alone
}

// survives reports whether all files can be had on some nodes. exact is whether a rank
// whose files may be on several nodes counts as lost.
func (l *layout) survives(nodes []string, exact bool) bool {
	for i, set := range l.sets {
		lost := 0
		for _, rank := range set {
			if l.lost[rank] || exact && len(l.places[rank]) > 1 || l.elsewhere(rank, nodes) {
				lost++
			}
		}
		if lost > l.bears[i] {
			return false
		}
	}
	return true
}

// elsewhere reports whether files of a rank may be on another node than these.
func (l *layout) elsewhere(rank int, nodes []string) bool {
	for node := range l.places[rank] {
		if !slices.Contains(nodes, node) {
			return true
		}
	}
	return false
}

// settle updates the model once a run has found it whole: each rank's files are on its node.
func (l *layout) settle(nodes []string) {
	for rank, node := range nodes {
		l.places[rank], l.lost[rank] = map[string]bool{node: true}, false
	}
}

// unsettle updates the model when a run has ended while files were on their way.
func (l *layout) unsettle(nodes []string) {
	for rank, node := range nodes {
		l.places[rank][node] = true
	}
}

// damage makes the files on a node worth nothing.
func (l *layout) damage(node string) {
	for rank, places := range l.places {
		l.lost[rank] = l.lost[rank] || places[node]
	}
}

// cacheCopy is what is known of the files of a version in the cache.
type cacheCopy struct {
	layouts []*layout // they are certain to be there, in one of these; nil: they are not
	former  []*layout // ... they were
	nodes   []string  // on which each rank writes them
	alone   []bool    // which ranks have no redundancy
	checked bool      // a flush has computed the checksums of all files
}

func (c *cacheCopy) certain() bool { return c.layouts != nil }

// survives reports whether all files are certain to be had on some nodes, see layout.survives.
func (c *cacheCopy) survives(nodes []string, exact bool) bool {
	lost := func(l *layout) bool { return !l.survives(nodes, exact) }
	return c.certain() && !slices.ContainsFunc(c.layouts, lost)
}

// elsewhere reports whether files may be on another node than these.
func (c *cacheCopy) elsewhere(nodes []string) (found bool) {
	for _, l := range c.layouts {
		for rank := range l.places {
			found = found || l.elsewhere(rank, nodes)
		}
	}
	return found
}

// unchecked returns the ranks on a node whose files have no checksum.
func (c *cacheCopy) unchecked(node string) (ranks []int) {
	for rank, alone := range c.alone {
		if alone && !c.checked && c.nodes[rank] == node {
			ranks = append(ranks, rank)
		}
	}
	return ranks
}

// complete updates the model when a run has written all files.
func (c *cacheCopy) complete(l *layout) { c.layouts = []*layout{l} }

// leave updates the model when the files may have left the cache.
func (c *cacheCopy) leave() { c.former, c.layouts = append(c.former, c.layouts...), nil }

// comeBack updates the model when the files are in the cache again: they never left it, or a run has fetched them.
func (c *cacheCopy) comeBack(fetched *layout) { c.layouts = append(c.former, fetched) }

func (c *cacheCopy) settle(nodes []string) {
	for _, l := range c.layouts {
		l.settle(nodes)
	}
}

func (c *cacheCopy) unsettle(nodes []string) {
	for _, l := range c.layouts {
		l.unsettle(nodes)
	}
}

func (c *cacheCopy) damage(node string) {
	for _, l := range c.layouts {
		l.damage(node)
	}
}
