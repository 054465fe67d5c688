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

// length is Span for a report, in which only 0 is written as zero.
func length(seconds float64) string {
	switch {
	case 0 < seconds && seconds < 0.0005:
		return "<1 ms"
	case 0 < seconds && seconds < 0.0995:
		return fmt.Sprintf("%.0f ms", 1000*seconds)
	}
	return Span(seconds)
}

// share writes a part of a whole in percent. Only 0 is written as zero.
func share(part, whole float64) string {
	percent := 100 * part / max(whole, 1e-9)
	switch {
	case percent > 0 && percent < 0.05:
		return "<0.1 %"
	case percent >= 9.95:
		return fmt.Sprintf("%.0f %%", percent)
	}
	return fmt.Sprintf("%.1f %%", percent)
}

// Headline returns what has happened to the job, in one line.
func Headline(a *account.Account) string {
	t := a.Totals()
	var parts []string
	switch {
	case t.Died == 0:
		parts = append(parts, "no failure")
	case t.Seconds.Recomputed > 0:
		parts = append(parts, report.Count(t.Died, "failure"), length(t.Seconds.Recomputed)+" of work lost")
	default:
		parts = append(parts, report.Count(t.Died, "failure"))
	}
	end := map[account.Outcome]string{account.Finished: "finished", account.Died: "did not finish", account.Open: "the log has no end"}
	parts = append(parts, end[a.Runs[len(a.Runs)-1].Outcome])
	cost := "no checkpoint was completed"
	if t.Checkpoints > 0 {
		cost = "checkpoints cost " + overhead(t)
	}
	return strings.Join(parts, ", ") + "; " + cost
}

// overhead is the share of the time in which the program waited for checkpoints.
func overhead(t account.Totals) string {
	return share(t.Seconds.Checkpoints(), t.Seconds.All()) + " of the time"
}

// use is what a part of the time of a job was used for.
type use struct {
	What    string       `json:"what"`
	Kind    account.Kind `json:"kind"` // of the spans that it sums; "" for the sum
	Seconds float64      `json:"seconds"`
	Length  string       `json:"length"` // Seconds, as text
	Share   string       `json:"share"`
	Note    string       `json:"note"`
	Beside  bool         `json:"beside"` // a part of another, or beside the others: not in the sum
}

// uses returns what the time was used for, without what took none. Those that are not Beside sum to
// the last.
func uses(t account.Totals) (list []use) {
	s, all := t.Seconds, t.Seconds.All()
	for _, u := range []use{
		{What: "computing", Kind: account.Compute, Seconds: s.Computing},
		{What: "recomputed", Seconds: s.Recomputed, Note: "of that, what a run had already computed after the checkpoint from which the next one restarted", Beside: true},
		{What: "writing", Kind: account.Write, Seconds: s.Writing},
		{What: "protecting", Kind: account.Encode, Seconds: s.Protecting},
		{What: "flushing", Kind: account.Flush, Seconds: s.Flushing, Note: "while the program waited"},
		{What: "restarting", Kind: account.Restart, Seconds: s.Restarting},
		{What: "launching", Kind: account.Launch, Seconds: s.Launching, Note: "until the program called SCR_Init"},
		{What: "ending", Kind: account.End, Seconds: s.Ending, Note: "from the last event of the program to the end of the run"},
		{What: "other", Kind: account.Other, Seconds: s.Other, Note: "the log does not say what"},
		{What: "down", Kind: account.Down, Seconds: s.Down, Note: "from the end of a run that died to the next"},
		{What: "all", Seconds: all},
		{What: "background", Kind: account.Background, Seconds: s.Background, Note: "protecting and flushing while the program went on; not in the sum", Beside: true},
	} {
		if u.Seconds > 0 {
			u.Length, u.Share = length(u.Seconds), share(u.Seconds, all)
			list = append(list, u)
		}
	}
	return list
}

// Lines returns the page for a terminal.
func Lines(a *account.Account) []string {
	t := a.Totals()
	lines := append([]string{title(a), Headline(a), ""}, runLines(a.Runs)...)
	lines = append(lines, "", "time")
	for _, u := range uses(t) {
		lines = append(lines, strings.TrimRight(fmt.Sprintf("  %-12s %12s  %7s  %s", u.What, u.Length, u.Share, u.Note), " "))
	}
	lines = append(append(lines, ""), Summary(a)...)
	if line := slowest(t); line != "" {
		lines = append(lines, line)
	}
	return lines
}

// slowest names the node that was most often the slowest, if one was.
func slowest(t account.Totals) string {
	if t.Slowest.Of == 0 {
		return ""
	}
	verdict := "not always the same"
	if 2*t.Slowest.Times > t.Slowest.Of && t.Slowest.Of > 3 {
		verdict = "look at it"
	}
	return fmt.Sprintf("slowest node: %s in %d of %d phases: %s", Plain(t.Slowest.Node), t.Slowest.Times, t.Slowest.Of, verdict)
}

// runLines returns a table of the runs.
func runLines(runs []*account.Run) []string {
	lines := []string{fmt.Sprintf("%-5s %-19s %10s %5s %5s  %-9s %s", "RUN", "START", "LENGTH", "NODES", "CKPTS", "ENDED", "WHY")}
	for i, run := range runs {
		if len(runs) > mostRuns && i == mostRuns/2 {
			lines = append(lines, fmt.Sprintf("... %d more", len(runs)-mostRuns))
		}
		if len(runs) > mostRuns && i >= mostRuns/2 && i < len(runs)-mostRuns/2 {
			continue
		}
		nodes := "-"
		if run.Nodes > 0 {
			nodes = strconv.Itoa(run.Nodes)
		}
		lines = append(lines, strings.TrimRight(fmt.Sprintf("%-5d %-19s %10s %5s %5d  %-9s %s", run.Number, run.Start.Local().Format(time.DateTime),
			length(run.End.Sub(run.Start).Seconds()), nodes, len(run.Datasets), run.Outcome, Plain(run.Why)), " "))
	}
	return lines
}

// Summary returns three lines: what checkpoints have cost and saved.
func Summary(a *account.Account) []string {
	t := a.Totals()
	lost, hours := report.Count(t.LostNodes, "node")+" lost", "node-hours"
	if t.LostNodes == 0 && !slices.ContainsFunc(a.Runs, (*account.Run).Launched) {
		lost = "only scr_run logs lost nodes"
	}
	if !slices.ContainsFunc(a.Runs, func(r *account.Run) bool { return r.Nodes > 0 }) {
		hours = "hours of the job"
	}
	lines := []string{fmt.Sprintf("%s, %d died; %s, %d in the prefix directory; %s", report.Count(t.Runs, "run"), t.Died,
		report.Count(t.Checkpoints, "checkpoint"), t.Flushed, lost),
		fmt.Sprintf("checkpoints and restarts took %.3g %s and saved %.3g; %s", t.Hours.Spent, hours, t.Hours.Saved, places(t.Bytes))}
	i := t.Interval
	line := fmt.Sprintf("a checkpoint every %s, %s each: %s", length(i.Used), length(i.Cost), overhead(t))
	switch {
	case t.Checkpoints == 0:
		line = "no checkpoint was completed"
	case i.Used == 0:
		line = fmt.Sprintf("a checkpoint took %s", length(i.Cost))
	}
	if i.Best > 0 {
		line += fmt.Sprintf("; best for a failure every %s: every %s (Daly)", length(i.MTBF), length(i.Best))
	} else if t.Checkpoints > 0 {
		line += "; no run died, so there is no best interval to compare with"
	}
	lines = append(lines, line)
	return lines
}

// places says where the checkpoints went.
func places(b account.Bytes) string {
	went, stayed := report.Bytes(b.Flushed)+" went to the prefix directory", report.Bytes(b.Avoided)+" stayed in the caches"
	switch {
	case b.Flushed == 0 && b.Avoided == 0:
		return "nothing was stored"
	case b.Flushed == 0:
		return "all " + stayed
	case b.Avoided == 0:
		return "all " + went
	}
	return went + ", " + stayed
}
