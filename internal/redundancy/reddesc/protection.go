package reddesc

import (
	"fmt"
	"strconv"
	"strings"
)

// Protection is how a dataset is protected, over all its sets.
type Protection struct {
	Scheme      string // of the largest sets
	Least, Most int    // members of a set
	Tolerates   int    // members of any one set that may be lost at once, whichever they are
}

// protection returns what the sets of a descriptor tolerate. Their sizes are known to all ranks, so
// it needs no communication.
func protection(p Params, at place) Protection {
	r := Protection{Least: at.smallest, Most: at.smallest}
	if at.larger > 0 {
		r.Most++
	}
	r.Scheme = best(p, r.Most).Name()
	r.Tolerates = min(tolerates(p, r.Least), tolerates(p, r.Most))
	return r
}

// tolerates returns how many of the n members of a set may be lost at once, whichever they are.
func tolerates(p Params, n int) int {
	scheme := best(p, n)
	var lost []int
	for m := range n {
		if !scheme.Tolerates(n, append(lost, m)) {
			break
		}
		lost = append(lost, m)
	}
	return len(lost)
}

// String writes a Protection as the log and flush.scr have it: "XOR in sets of 4, bears 1".
func (p Protection) String() string {
	sizes := strconv.Itoa(p.Most)
	if p.Least < p.Most {
		sizes = fmt.Sprintf("%d to %d", p.Least, p.Most)
	}
	return fmt.Sprintf("%s in sets of %s, bears %d", p.Scheme, sizes, p.Tolerates)
}

// CutTolerated cuts what String returns at the number that follows "bears"; bears is -1 if there
// is none.
func CutTolerated(text string) (how string, bears int) {
	if how, after, ok := strings.Cut(text, ", bears "); ok {
		if n, err := strconv.Atoi(after); err == nil && n >= 0 {
			return how, n
		}
	}
	return text, -1
}
