package status

import (
	"fmt"
	"strings"
	"time"

	"github.com/goscr/goscr/internal/account/page"
	"github.com/goscr/goscr/internal/report"
)

// Lines shows a status on a terminal.
func (s *Status) Lines(now time.Time) []string {
	lines := []string{s.head(now)}
	age := func(d *Dataset) string { return page.Span(max(now.Sub(d.Begun).Seconds(), 0)) + " old" }
	row := func(what string, d *Dataset, where string) {
		if d == nil {
			lines = append(lines, fmt.Sprintf("%-10s none", what))
			return
		}
		lines = append(lines, fmt.Sprintf("%-10s %-16s %10s  %-12s %s", what, page.Plain(d.Name), report.Bytes(d.Bytes), age(d), where))
	}
	newest := s.Newest(func(d Dataset) bool { return d.InCache || d.InPrefix })
	where := ""
	if newest != nil {
		where = s.place(*newest) + ": " + s.Survives(*newest)
	}
	row("newest", newest, where)
	row("on the PFS", s.Newest(func(d Dataset) bool { return d.InPrefix }), "")
	if s.State == Running || s.State == Died {
		lines = append(lines, s.risk()...)
	}
	if len(s.Datasets) > 0 {
		lines = append(lines, "")
	}
	for _, d := range s.Datasets {
		lines = append(lines, fmt.Sprintf("%6d  %-16s %10s  %-12s %s", d.ID, page.Plain(d.Name), report.Bytes(d.Bytes), age(&d), s.place(d)+": "+s.Survives(d)))
	}
	return lines
}

// head says which job it is, and whether it runs.
func (s *Status) head(now time.Time) string {
	if s.Run == 0 {
		text := "no job runs here"
		if s.State == Running {
			text = "a job runs here"
		}
		return text + "; there is no log, so its runs are unknown (SCR_LOG_ENABLE=1, or scr_run, makes a job write one)"
	}
	text := "job " + page.Plain(s.Job.ID)
	if s.Job.User != "" {
		text += " of " + page.Plain(s.Job.User)
	}
	if s.Job.Name != "" {
		text += ", " + page.Plain(s.Job.Name)
	}
	end := s.Sign
	if s.State == Running {
		end = now
	}
	text += fmt.Sprintf("   run %d, %s %s", s.Run, s.State, page.Span(max(end.Sub(s.Began).Seconds(), 0)))
	switch {
	case s.State == Running:
		text += fmt.Sprintf(" (last sign %s ago)", page.Span(max(now.Sub(s.Sign).Seconds(), 0)))
	case s.Ended:
		text += " (ended " + s.Sign.Local().Format(time.DateTime) + ")"
	default:
		text += " (last sign " + s.Sign.Local().Format(time.DateTime) + ")"
	}
	if s.Nodes != "" {
		text += "   nodes " + page.Plain(s.Nodes)
	}
	for _, l := range s.Lost {
		text += fmt.Sprintf("   lost %s %s", page.Plain(l.Node), l.Time.Local().Format(time.TimeOnly))
	}
	return text
}

// place says where a dataset is.
func (s *Status) place(d Dataset) string {
	var places []string
	if d.InCache {
		text := "cache"
		if s.Scheme != "" {
			text += " (" + page.Plain(s.Scheme) + ")"
		}
		places = append(places, text)
	}
	if d.Flushing {
		places = append(places, "being flushed")
	}
	if d.InPrefix {
		places = append(places, "prefix directory")
	}
	if d.Failed {
		places = append(places, "a restart from it has failed")
	}
	if len(places) == 0 {
		return "nowhere"
	}
	return strings.Join(places, ", ")
}

// risk says what would be lost.
func (s *Status) risk() []string {
	lose := func(seconds *float64) string {
		if seconds == nil {
			return "all work"
		}
		return page.Span(*seconds) + " of work"
	}
	line := fmt.Sprintf("if one node died now, the job would lose %s; if all did, %s", lose(s.LoseOne), lose(s.LoseAll))
	if s.State == Died {
		line = fmt.Sprintf("the next run loses %s; without the nodes' caches, %s", lose(s.LoseOne), lose(s.LoseAll))
	}
	if i := s.Interval; i.Used > 0 {
		line += fmt.Sprintf("          checkpoint every %s, %s each: %.1f %%", page.Span(i.Used), page.Span(i.Cost), 100*i.Cost/(i.Used+i.Cost))
	}
	return []string{line}
}
