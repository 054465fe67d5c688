package page

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/goscr/goscr/internal/observe/account"
	"github.com/goscr/goscr/internal/observe/report"
)

// mostRuns is how many runs Lines lists: the first and the last.
const mostRuns = 20

// title names the job of an account, on one line.
func title(a *account.Account) string {
	parts := []string{"job " + Plain(cmp.Or(a.Job.ID, "?"))}
	if a.Job.User != "" {
		parts = append(parts, "of "+Plain(a.Job.User))
	}
	if a.Job.Name != "" {
		parts = append(parts, "("+Plain(a.Job.Name)+")")
	}
	if a.Job.Cluster != "" {
		parts = append(parts, "on "+Plain(a.Job.Cluster))
	}
	return strings.Join(parts, " ")
}

// Plain is text without characters that would do something to a terminal.
func Plain(text string) string {
	for _, c := range text {
		if !strconv.IsPrint(c) {
			return strconv.Quote(text)
		}
	}
	return text
}

func sortSlowest(list []account.Slowest) {
	slices.SortFunc(list, func(a, b account.Slowest) int {
		return cmp.Or(cmp.Compare(b.Times, a.Times), cmp.Compare(a.Node, b.Node))
	})
}

// Span writes a number of seconds as people read it.
func Span(seconds float64) string {
	d := time.Duration(seconds * float64(time.Second))
	switch {
	case d < 10*time.Second:
		return fmt.Sprintf("%.2f s", seconds)
	case d < 10*time.Minute:
		return fmt.Sprintf("%.0f s", seconds)
	case d < 48*time.Hour:
		return fmt.Sprintf("%d:%02d h", int(d.Hours()), int(d.Minutes())%60)
	}
	return fmt.Sprintf("%.1f days", d.Hours()/24)
}

// Lines returns the page for a terminal.
func Lines(a *account.Account) []string {
	t := a.Totals()
	lines := []string{title(a), ""}
	lines = append(lines, fmt.Sprintf("%-5s %-19s %10s %5s %5s  %-9s %s", "RUN", "START", "LENGTH", "NODES", "CKPTS", "ENDED", "WHY"))
	for i, run := range a.Runs {
		if len(a.Runs) > mostRuns && i == mostRuns/2 {
			lines = append(lines, fmt.Sprintf("... %d more", len(a.Runs)-mostRuns))
		}
		if len(a.Runs) > mostRuns && i >= mostRuns/2 && i < len(a.Runs)-mostRuns/2 {
			continue
		}
		nodes := "-"
		if run.Nodes > 0 {
			nodes = strconv.Itoa(run.Nodes)
		}
		lines = append(lines, strings.TrimRight(fmt.Sprintf("%-5d %-19s %10s %5s %5d  %-9s %s", run.Number, run.Start.Local().Format(time.DateTime),
			Span(run.End.Sub(run.Start).Seconds()), nodes, len(run.Datasets), run.Outcome, Plain(run.Why)), " "))
	}
	s := t.Seconds
	all := s.Computing + s.Writing + s.Protecting + s.Flushing + s.Restarting + s.Down
	share := func(what string, seconds float64, note string) {
		if seconds > 0 || note == "" {
			lines = append(lines, strings.TrimRight(fmt.Sprintf("  %-12s %12s  %4.1f %%  %s", what, Span(seconds), 100*seconds/max(all, 1e-9), note), " "))
		}
	}
	lines = append(lines, "", "time")
	share("computing", s.Computing, "")
	share("recomputed", s.Recomputed, "of that, again what a failure had lost")
	share("writing", s.Writing, "")
	share("protecting", s.Protecting, "")
	share("flushing", s.Flushing, "")
	share("restarting", s.Restarting, "")
	share("down", s.Down, "from the end of a run that died to the next")
	share("background", s.Background, "protecting and flushing while the program went on; not in the sum")
	lines = append(lines, "")
	lines = append(lines, Summary(a)...)
	if t.Slowest.Of > 0 {
		verdict := "not always the same"
		if 2*t.Slowest.Times > t.Slowest.Of && t.Slowest.Of > 3 {
			verdict = "look at it"
		}
		lines = append(lines, fmt.Sprintf("slowest node: %s in %d of %d phases: %s", Plain(t.Slowest.Node), t.Slowest.Times, t.Slowest.Of, verdict))
	}
	return lines
}

// Summary returns three lines: what checkpoints have cost and saved.
func Summary(a *account.Account) []string {
	t := a.Totals()
	s := t.Seconds
	cost := s.Writing + s.Protecting + s.Flushing
	lost, hours := report.Count(t.LostNodes, "node")+" lost", "node-hours"
	if t.LostNodes == 0 && !slices.ContainsFunc(a.Runs, (*account.Run).Launched) {
		lost = "only scr_run logs lost nodes"
	}
	if !slices.ContainsFunc(a.Runs, func(r *account.Run) bool { return r.Nodes > 0 }) {
		hours = "hours of the job"
	}
	lines := []string{fmt.Sprintf("%s, %d died; %s, %d in the prefix directory; %s", report.Count(t.Runs, "run"), t.Died,
		report.Count(t.Checkpoints, "checkpoint"), t.Flushed, lost),
		fmt.Sprintf("checkpoints and restarts took %.3g %s and saved %.3g; %s went to the prefix directory, %s stayed in the caches",
			t.Hours.Spent, hours, t.Hours.Saved, report.Bytes(t.Bytes.Flushed), report.Bytes(t.Bytes.Avoided))}
	i := t.Interval
	line := fmt.Sprintf("a checkpoint every %s, %s each: %.1f %% of the time", Span(i.Used), Span(i.Cost), 100*cost/max(cost+s.Computing, 1e-9))
	switch {
	case t.Checkpoints == 0:
		line = "no checkpoint was completed"
	case i.Used == 0:
		line = fmt.Sprintf("a checkpoint took %s", Span(i.Cost))
	}
	if i.Best > 0 {
		line += fmt.Sprintf("; best for a failure every %s: every %s (Daly)", Span(i.MTBF), Span(i.Best))
	} else if t.Checkpoints > 0 {
		line += "; no run died, so there is no best interval to compare with"
	}
	lines = append(lines, line)
	return lines
}
