// Package page shows an account: as lines for a terminal, as one HTML file, and as a trace
// for Perfetto or chrome://tracing.
//
// The HTML file needs no network. It has the chart library uPlot, the account as JSON, and
// a script of goscr, which makes all text from the account by textContent.
package page

import (
	"embed"
	"encoding/json"
	"html/template"
	"io"
	"math"
	"time"

	"github.com/goscr/goscr/internal/observe/account"
	"github.com/goscr/goscr/internal/observe/eventlog"
)

//go:embed uplot page.html page.css page.js
var files embed.FS

// file returns an embedded file.
func file(name string) string {
	data, err := files.ReadFile(name)
	if err != nil {
		panic(err) // it is not in the binary
	}
	return string(data)
}

var html = template.Must(template.New("page").Parse(file("page.html")))

// kinds are those of spans, in the order of the numbers by which the page knows them.
var kinds = []account.Kind{account.Compute, account.Write, account.Encode, account.Flush, account.Background,
	account.Restart, account.Rebuild, account.Fetch, account.Launch, account.End, account.Other, account.Down}

// data is what the script of the page gets. Times are seconds since Zero.
type data struct {
	Job      string            `json:"job"`
	Problem  string            `json:"problem"`
	Zero     int64             `json:"zero"` // seconds since 1970
	Kinds    []account.Kind    `json:"kinds"`
	Names    []string          `json:"names"` // of checkpoints and nodes
	Runs     []row             `json:"runs"`
	Spans    []any             `json:"spans"` // kind, start, end, run, name or -1, failed
	Sets     []any             `json:"sets"`  // start, run, name, seconds of write, encode, flush; bytes, complete, flushed
	Nodes    []account.Slowest `json:"nodes"` // how often each node was slowest
	Failures []row             `json:"failures"`
	Lines    []string          `json:"lines"` // the page for a terminal
	Headline string            `json:"headline"`
	Summary  []string          `json:"summary"`
	Uses     []use             `json:"uses"`
}

// row is a run, or a failure.
type row struct {
	Number  int     `json:"n"`
	Start   float64 `json:"start"`
	End     float64 `json:"end"`
	Length  string  `json:"length"` // as text
	Outcome string  `json:"outcome"`
	Why     string  `json:"why"`
	Nodes   int     `json:"nodes"`
	From    string  `json:"from"`
	Sets    int     `json:"sets"`
}

// HTML writes the page.
func HTML(w io.Writer, a *account.Account) error {
	d := newData(a)
	text, err := json.Marshal(d) // which has no <, > and & in texts
	if err != nil {
		return err
	}
	return html.Execute(w, map[string]any{
		"Title":   d.Job,
		"CSS":     template.CSS(file("uplot/uPlot.min.css") + file("page.css")),
		"Library": template.JS(file("uplot/uPlot.iife.min.js")),
		"License": file("uplot/LICENSE"),
		"Script":  template.JS(file("page.js")),
		"Data":    template.JS(text),
	})
}

// builder collects the data of a page.
type builder struct {
	data
	zero  time.Time
	names map[string]int
}

func (b *builder) at(t time.Time) float64 { return math.Round(t.Sub(b.zero).Seconds()*1e6) / 1e6 }

func (b *builder) name(text string) int {
	if text == "" {
		return -1
	}
	n, ok := b.names[text]
	if !ok {
		n = len(b.Names)
		b.names[text] = n
		b.Names = append(b.Names, text)
	}
	return n
}

func newData(a *account.Account) data {
	b := &builder{names: map[string]int{}, zero: a.Runs[0].Start}
	for _, run := range a.Runs {
		if run.Start.Before(b.zero) {
			b.zero = run.Start
		}
	}
	b.zero = b.zero.Truncate(time.Second)
	b.Zero, b.Kinds, b.Problem, b.Job = b.zero.Unix(), kinds, a.Problem, title(a)
	b.Lines, b.Headline, b.Summary, b.Uses = Lines(a), Headline(a), Summary(a), uses(a.Totals())
	slow := map[string]int{}
	of := 0
	number := map[account.Kind]int{}
	for i, k := range kinds {
		number[k] = i
	}
	for i, run := range a.Runs {
		b.Runs = append(b.Runs, row{run.Number, b.at(run.Start), b.at(run.End), length(max(run.End.Sub(run.Start).Seconds(), 0)), string(run.Outcome), run.Why, run.Nodes, run.From, len(run.Datasets)})
		for _, s := range run.Spans {
			b.Spans = append(b.Spans, []any{number[s.Kind], b.at(s.Start), b.at(s.End), i, b.name(s.Name), b.name(s.Failed)})
		}
		for _, d := range run.Datasets {
			var write, encode float64
			if p := d.Phases[eventlog.Write]; p != nil {
				write = p.Most
			}
			if p := d.Phases[eventlog.Encode]; p != nil {
				encode = p.Most
			}
			if write == 0 {
				write = d.Seconds
			}
			b.Sets = append(b.Sets, []any{b.at(d.Start), i, b.name(d.Name), write, encode, d.FlushTime, d.Bytes, d.Complete, d.Flushed})
			for _, phase := range []string{eventlog.Write, eventlog.Encode, eventlog.Flush} {
				if p := d.Phases[phase]; p != nil && p.Node != "" && run.Nodes != 1 {
					slow[p.Node]++
					of++
				}
			}
		}
	}
	for node, n := range slow {
		b.Nodes = append(b.Nodes, account.Slowest{Node: node, Times: n, Of: of})
	}
	sortSlowest(b.Nodes)
	for _, f := range a.Failures {
		b.Failures = append(b.Failures, row{Number: f.Run, Start: b.at(f.Time), Why: f.Note})
	}
	return b.data
}
