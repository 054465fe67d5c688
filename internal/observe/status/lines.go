package status

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/goscr/goscr/internal/job/hostlist"
	"github.com/goscr/goscr/internal/observe/account/page"
	"github.com/goscr/goscr/internal/observe/report"
	"github.com/goscr/goscr/internal/prefix/snapshot"
)

// Lines shows a status on a terminal: the verdict first, and the newest most datasets, all if most is 0.
func (s *Status) Lines(now time.Time, most int) []string {
	var lines []string
	if v := s.verdict(); v != "" {
		lines = append(lines, v)
	}
	lines = append(lines, s.head(now))
	since := func(at time.Time) string { return page.Span(max(now.Sub(at).Seconds(), 0)) }
	age := func(d *Dataset) string { return since(d.Begun) + " old" }
	row := func(what string, d *Dataset, where string) {
		if d == nil {
			lines = append(lines, strings.TrimRight(fmt.Sprintf("%-10s %-41s %s", what, "none", where), " "))
			return
		}
		lines = append(lines, strings.TrimRight(fmt.Sprintf("%-10s %-16s %10s  %-12s %s", what, page.Plain(d.Name), report.Bytes(d.Bytes), age(d), where), " "))
	}
	newest := s.Newest(func(d Dataset) bool { return d.InCache || d.InPrefix })
	where := ""
	if newest != nil {
		where = s.place(newest) + ": " + newest.Survives()
	}
	row("newest", newest, where)
	row("in prefix", s.Newest(func(d Dataset) bool { return d.InPrefix }), s.next())
	if s.Recorded != nil && s.State != Running && len(s.Asked) == 0 { // a job that runs knows its caches
		lines = append(lines, fmt.Sprintf("in caches  as recorded at %s; the nodes were not asked", s.Recorded.Local().Format(time.DateTime)))
	}
	if i := s.Interval; i.Used > 0 && (s.State == Running || s.unfinished()) {
		lines = append(lines, fmt.Sprintf("checkpoint every %s, %s each: %.1f %%", page.Span(i.Used), page.Span(i.Cost), 100*i.Cost/(i.Used+i.Cost)))
	}
	if len(s.Datasets) > 0 {
		lines = append(lines, "")
	}
	for i := range s.Datasets {
		if i == most && most > 0 && len(s.Datasets) > most+1 {
			lines = append(lines, fmt.Sprintf("%6s  %s (--all shows them)", "", report.Count(len(s.Datasets)-most, "older one")))
			break
		}
		d := &s.Datasets[i]
		text := fmt.Sprintf("%6d  %-16s %10s  %-12s %s: %s", d.ID, page.Plain(d.Name), report.Bytes(d.Bytes), age(d), s.place(d), d.Survives())
		if d.Flushed != nil {
			at := *d.Flushed // in whole seconds
			if at.Before(d.Begun) {
				at = d.Begun
			}
			text += "; flushed " + since(at) + " ago"
		}
		if d.Verified != nil {
			text += "; verified " + since(*d.Verified) + " ago"
		}
		lines = append(lines, text)
	}
	if i := slices.IndexFunc(s.Datasets, func(d Dataset) bool { return d.Chosen }); i >= 0 { // which the verdict does not consider
		lines = append(lines, fmt.Sprintf("chosen: the next run restarts from %s, as a user has asked with scr_index; newer ones leave the cache then", page.Plain(s.Datasets[i].Name)))
	}
	return lines
}

// verdict says in one line what the job loses if nodes die now, or, if it has died or may have, from where it can continue. It is "" if
// that does not matter any more, or nothing is known.
func (s *Status) verdict() string {
	newest := s.Newest(func(d Dataset) bool { return d.InCache || d.InPrefix })
	back := func(d *Dataset, seconds *float64) string {
		if d == nil || seconds == nil {
			return "all work is lost"
		}
		if s.State == Unknown { // nor is it known when the last run ended
			return fmt.Sprintf("back to %s, the work after it is lost", page.Plain(d.Name))
		}
		return fmt.Sprintf("back to %s, %s of work is lost", page.Plain(d.Name), page.Span(*seconds))
	}
	one := s.Newest(Dataset.safe)
	all := s.Newest(func(d Dataset) bool { return d.InPrefix })
	ifAll := ". If all nodes are lost: " + back(all, s.LoseAll)
	switch {
	case s.State == Unknown && s.unfinished() && newest == nil: // it may have had no work to lose
		return "AT RISK: a job has run here, and has no complete checkpoint that can be used; the next run starts from the beginning"
	case s.unfinished() && newest == nil:
		return "LOST: there is no checkpoint; the next run starts from the beginning"
	case s.unfinished() && newest.InPrefix:
		return "SAFE: the next run can go " + back(all, s.LoseAll)
	case s.unfinished() && len(s.Gone) > 0:
		return s.withoutNodes(newest, back(one, s.LoseOne), back(all, s.LoseAll))
	case s.unfinished() && newest == one:
		return "SAFE: the next run can go " + back(one, s.LoseOne) + ", if the caches of all nodes but " + newest.bearsNodes() + " are there. Without them: " + back(all, s.LoseAll)
	case s.unfinished():
		return fmt.Sprintf("AT RISK: the next run can go back to %s only if the caches of all nodes are there. Without one of them: %s", page.Plain(newest.Name), back(one, s.LoseOne)) + ifAll
	case s.State != Running:
		return ""
	case newest == nil:
		return "AT RISK: there is no checkpoint; a failure loses all work"
	case newest.InPrefix:
		return "SAFE: survives the loss of all nodes: " + back(all, s.LoseAll)
	case newest == one:
		return "SAFE: survives the loss of any " + newest.bearsNodes() + ": " + back(one, s.LoseOne) + ifAll
	case !newest.Exposed && newest.Tolerates < 0:
		return fmt.Sprintf("AT RISK: it is unknown whether %s survives the loss of a node", page.Plain(newest.Name)) + ifAll
	}
	return fmt.Sprintf("AT RISK: %s does not survive the loss of a node. If one is lost: %s", page.Plain(newest.Name), back(one, s.LoseOne)) + ifAll
}

// withoutNodes says from where a job that has died can continue, if nodes that have files of its newest checkpoint cannot be used. With one node gone
// it goes back to one, with all gone to all.
func (s *Status) withoutNodes(newest *Dataset, one, all string) string {
	gone := fmt.Sprintf("%s of its %s cannot be used", page.Plain(hostlist.Compress(s.Gone)), report.Count(len(s.Asked), "node"))
	switch name := page.Plain(newest.Name); {
	case newest.safe() && len(s.Gone) == len(s.Asked): // there may be others, outside of the allocation
		return fmt.Sprintf("AT RISK: none of the nodes asked (%s) can be used, so %s can be rebuilt only if enough other nodes have files of it. If not: %s",
			page.Plain(hostlist.Compress(s.Gone)), name, all)
	case newest.safe() && len(s.Gone) <= newest.Tolerates:
		return fmt.Sprintf("SAFE: the next run can go %s: it can be rebuilt, although %s. Without more of them: %s", one, gone, all)
	case newest.safe():
		return fmt.Sprintf("AT RISK: %s can be rebuilt only if no set has lost more than %s, and %s. If not: %s", name, newest.bearsNodes(), gone, all)
	case len(s.Gone) == 1:
		return fmt.Sprintf("LOST: %s does not survive the loss of a node, and %s: %s", name, gone, one)
	default:
		return fmt.Sprintf("LOST: %s does not survive the loss of a node, and %s: %s", name, gone, all)
	}
}

// Next is what a user can do now, with the directory of the job; "" if no job has used it.
func (s *Status) Next(dir string) string {
	switch {
	case s.State == Running:
		return fmt.Sprintf("next: scr_status -w -p %s follows it; scr_halt %s stops it after its next checkpoint", dir, dir)
	case s.State == Finished:
		return fmt.Sprintf("next: scr_report -p %s shows what its checkpoints cost", dir)
	case s.Empty():
		return ""
	case !s.unfinished():
		return fmt.Sprintf("next: scr_index -p %s shows its checkpoints", dir)
	}
	return "next: " + s.again(dir)
}

// again is how to start a job again.
func (s *Status) again(dir string) string {
	condition, job := "", "the job"
	if s.State == Unknown {
		condition, job = "if the job is not done, ", "it"
	}
	start := fmt.Sprintf("%sstart %s again, with the same prefix directory", condition, job)
	switch has := slices.ContainsFunc(s.Datasets, func(d Dataset) bool { return d.Checkpoint }); {
	case !has && s.State == Died: // the next run may die, too
		return fmt.Sprintf("look at scr_report -p %s and at the program's own output, which may say why the job has died; then %s", dir, start)
	case !has && s.State == Unknown:
		return "look at the program's own output, which may say why there is no checkpoint; " + start
	case !has:
		return start
	case restarts(dir):
		start = fmt.Sprintf("%sscr_restart %s starts %s again", condition, dir, job)
	}
	return fmt.Sprintf("%s; scr_index -p %s shows from what it can restart", start, dir)
}

// restarts reports whether scr_restart can start the job, by what is recorded with the checkpoint that it takes.
func restarts(dir string) bool {
	list, err := snapshot.List(dir)
	i := slices.IndexFunc(list, func(x snapshot.Snapshot) bool { return x.Problem == "" })
	if err != nil || i < 0 {
		return false
	}
	record, err := snapshot.Read(dir, list[i])
	if err != nil || record.Check(nil) != nil { // as with SCR_RECORD=0, or of another user, whom scr_restart may not trust
		return false
	}
	_, err = record.Launch(context.Background(), snapshot.Restart{Prefix: dir})
	return err == nil
}

// next says which checkpoint is flushed next, of a job that runs.
func (s *Status) next() string {
	switch n := s.NextFlush; {
	case n == nil:
		return ""
	case n.Name != "":
		return "next flush: " + page.Plain(n.Name)
	case n.In == 1:
		return "next flush: the next checkpoint"
	default:
		return fmt.Sprintf("next flush: the last of %d more checkpoints", n.In)
	}
}

// head says which job it is, and whether it runs.
func (s *Status) head(now time.Time) string {
	if s.Run == 0 {
		text, unknown := "no job runs here", "its runs are unknown"
		switch {
		case s.Unseen != "":
			text = s.Unseen
		case s.State == Running:
			text = "a job runs here"
		case s.unfinished():
			unknown = "it is unknown how the last run ended"
		}
		return text + "; there is no log, so " + unknown + " (SCR_LOG_ENABLE=1, or scr_run, makes a job write one)"
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
		text += " (ended " + s.Sign.Local().Format(time.DateTime)
		if s.Halted != "" {
			text += ": " + page.Plain(s.Halted)
		}
		text += ")"
	default:
		text += " (last sign " + s.Sign.Local().Format(time.DateTime) + ")"
	}
	if s.Unseen != "" {
		text += "   (" + s.Unseen + ")"
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
func (s *Status) place(d *Dataset) string {
	var places []string
	if d.InCache {
		text := "cache"
		if s.State != Running {
			text += " as the run left it" // nobody has looked at the nodes since
		}
		if d.Scheme != "" {
			text += " (" + page.Plain(d.Scheme) + ")"
		}
		places = append(places, text)
	}
	switch {
	case d.bare:
		places = append(places, "not protected any more")
	case d.Exposed && s.State == Running:
		places = append(places, "being protected")
	case d.Exposed && len(s.Lost) == 0 && d == s.Newest(func(d Dataset) bool { return d.InCache }):
		places = append(places, "not protected yet: the next run does it first")
	case d.Exposed:
		places = append(places, "not protected")
	}
	if d.Flushing {
		text := "being flushed"
		if s.State != Running { // scr_transfer may continue all the same
			text = "its flush was not finished"
		}
		if d.Copied != nil {
			text += fmt.Sprintf(" (%.0f %%)", 100**d.Copied)
		}
		places = append(places, text)
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
