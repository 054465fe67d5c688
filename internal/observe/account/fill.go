package account

import (
	"slices"
	"time"
)

// rank orders the kinds of the program's time: of two spans that overlap, the one whose kind comes
// first keeps the time. The log has a restart, for example, within the time of computing.
var rank = []Kind{Restart, Flush, Encode, Write, Compute}

// fill makes the program's spans of a run sum to the run: it cuts what overlaps or is outside, and
// adds a span for each time of which the log does not tell what the program did.
func (run *Run) fill() {
	var used, others []Span
	sortSpans(run.Spans)
	for _, s := range run.Spans {
		if !slices.Contains(rank, s.Kind) {
			others = append(others, s)
		}
	}
	for _, kind := range rank {
		var free []Span
		end := run.Start // of the last span of this kind
		for _, s := range run.Spans {
			if s.Kind == kind {
				s.Start = later(s.Start, end)
				end = later(s.End, end)
				free = append(free, run.without(s, used)...)
			}
		}
		used = append(used, free...)
		sortSpans(used)
	}
	run.Spans = slices.Concat(used, run.gaps(used), others)
	sortSpans(run.Spans)
}

func sortSpans(list []Span) {
	slices.SortStableFunc(list, func(a, b Span) int { return a.Start.Compare(b.Start) })
}

// without returns the parts of a span that are within the run, and in none of the used spans, which
// are in order and do not overlap.
func (run *Run) without(s Span, used []Span) (parts []Span) {
	at, end := later(s.Start, run.Start), earlier(s.End, run.End)
	part := func(until time.Time) {
		if at.Before(until) {
			p := s
			p.Start, p.End = at, until
			parts = append(parts, p)
		}
	}
	first, _ := slices.BinarySearchFunc(used, at, func(u Span, at time.Time) int { return u.End.Compare(at) })
	for _, u := range used[first:] {
		if !u.Start.Before(end) {
			break
		}
		part(u.Start)
		at = later(at, u.End)
	}
	part(end)
	return parts
}

// gaps returns spans for the times of a run that are in none of the used ones.
func (run *Run) gaps(used []Span) (list []Span) {
	at := run.Start
	for i, u := range append(slices.Clip(used), Span{Start: run.End, End: run.End}) {
		kind := Other
		switch i {
		case len(used):
			kind = End
		case 0:
			kind = Launch
		}
		if at.Before(u.Start) {
			list = append(list, Span{Kind: kind, Start: at, End: u.Start})
		}
		at = later(at, u.End)
	}
	return list
}
