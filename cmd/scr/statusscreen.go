package main

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/gdamore/tcell/v2"

	"github.com/goscr/goscr/internal/observe/account/page"
	jobstatus "github.com/goscr/goscr/internal/observe/status"
)

// statusScreen shows the status of a job on the whole terminal.
type statusScreen struct {
	tcell.Screen
	lines   []string // the status, with an empty line before those of datasets
	problem string   // why it could not be read; "" if it could
	first   int      // how many lines of datasets are scrolled out of the screen
}

// reading is a status, or why there is none.
type reading struct {
	status *jobstatus.Status
	lines  []string
	err    error
}

// readStatuses reads the status of a job every second until done is closed. It is a goroutine of
// its own, so that the screen obeys while the file system of the prefix directory does not answer.
func readStatuses(path string, to chan<- reading, done <-chan struct{}) {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		now := time.Now()
		r := reading{}
		if r.status, r.err = jobstatus.Read(path, now); r.err == nil {
			r.lines = r.status.Lines(now, 0)
		}
		select {
		case to <- r:
		case <-done:
			return
		}
		select {
		case <-tick.C:
		case <-done:
			return
		}
	}
}

// show shows the status of a job until it is over, a key or a signal ends it, or it cannot be
// read in the beginning. It returns the last status, as lines.
func (s *statusScreen) show(path string, stop <-chan os.Signal) ([]string, error) {
	done := make(chan struct{})
	defer close(done)
	readings, events := make(chan reading), make(chan tcell.Event)
	go readStatuses(path, readings, done)
	go s.ChannelEvents(events, done)
	for {
		select {
		case r := <-readings:
			if r.err != nil && s.lines == nil {
				return nil, r.err
			}
			if s.problem = ""; r.err != nil {
				s.problem = r.err.Error() // it may be there again in a second
			} else {
				s.lines = r.lines
				if over(r.status) {
					return s.lines, nil
				}
			}
		case e := <-events:
			if !s.obey(e) {
				return s.lines, nil
			}
		case <-stop:
			return s.lines, nil
		}
		s.draw()
	}
}

// over reports whether nothing more is going to happen.
func over(s *jobstatus.Status) bool {
	return s.State == jobstatus.Finished || s.State == jobstatus.Stopped || s.State == jobstatus.Unknown && s.Unseen == ""
}

// obey does what an event of the terminal asks for, and reports whether to continue.
func (s *statusScreen) obey(e tcell.Event) bool {
	_, height := s.Size()
	switch e := e.(type) {
	case nil, *tcell.EventError: // the terminal is gone
		return false
	case *tcell.EventResize:
		s.Sync()
	case *tcell.EventKey:
		switch e.Key() {
		case tcell.KeyCtrlC, tcell.KeyCtrlD, tcell.KeyEscape:
			return false
		case tcell.KeyUp:
			s.first--
		case tcell.KeyDown:
			s.first++
		case tcell.KeyPgUp:
			s.first -= max(height/2, 1)
		case tcell.KeyPgDn:
			s.first += max(height/2, 1)
		case tcell.KeyHome:
			s.first = 0
		case tcell.KeyRune:
			return e.Rune() != 'q' && e.Rune() != 'Q'
		}
	}
	return true
}

// headings are those of the lines of datasets.
const headings = "    ID  NAME                   SIZE  AGE          PLACES: WHAT IT SURVIVES"

// draw draws as much as there is room for: what concerns the job, then datasets, then, on the
// last line, what keys do. A line that is longer than the screen continues in the next.
func (s *statusScreen) draw() {
	width, height := s.Size()
	s.Clear()
	head, list := s.lines, []string(nil)
	if i := slices.Index(s.lines, ""); i >= 0 {
		head, list = s.lines[:i], s.lines[i+1:]
	}
	y, room := 0, max(height-1, 0)
	put := func(line string, style tcell.Style) {
		if y < room {
			s.PutStrStyled(0, y, line, style)
		}
		y++
	}
	for i, line := range wrapAll(head, width, 2) {
		style := tcell.StyleDefault
		if i == 0 {
			style = colour(line)
		}
		put(line, style)
	}
	put("", tcell.StyleDefault)
	if len(list) > 0 {
		put(headings, tcell.StyleDefault.Underline(true))
	}
	list = wrapAll(list, width, 8)
	left := max(room-y, 0)
	s.first = max(min(s.first, len(list)-left), 0)
	part := list[s.first:min(s.first+left, len(list))]
	for _, line := range part {
		put(line, tcell.StyleDefault)
	}
	foot := "q: quit"
	if len(part) < len(list) {
		foot += fmt.Sprintf("   arrows: scroll, lines %d to %d of %d", s.first+1, s.first+len(part), len(list))
	}
	if s.problem != "" {
		foot += "   " + page.Plain(s.problem)
	}
	s.PutStrStyled(0, max(height-1, 0), fmt.Sprintf("%-*s", width, foot), tcell.StyleDefault.Reverse(true))
	s.Show()
}

// colour is how a verdict is shown: on the colour, since text of a terminal's green or yellow is hard to
// read on white.
func colour(verdict string) tcell.Style {
	style := tcell.StyleDefault.Bold(true)
	if os.Getenv("NO_COLOR") != "" {
		return style
	}
	word, _, _ := strings.Cut(verdict, ":")
	switch word {
	case "SAFE":
		style = style.Foreground(tcell.ColorBlack).Background(tcell.ColorGreen)
	case "AT RISK":
		style = style.Foreground(tcell.ColorBlack).Background(tcell.ColorYellow)
	case "LOST":
		style = style.Foreground(tcell.ColorWhite).Background(tcell.ColorRed)
	}
	return style
}

// wrapAll divides lines so that each has at most width characters. The parts after the first are indented.
func wrapAll(lines []string, width, indent int) (list []string) {
	for _, line := range lines {
		rest := []rune(line)
		for len(rest) > width && width > 2*indent {
			end := width
			for end > indent && rest[end] != ' ' {
				end--
			}
			if end == indent { // one long word
				end = width
			}
			list = append(list, strings.TrimRight(string(rest[:end]), " "))
			rest = []rune(strings.Repeat(" ", indent) + strings.TrimLeft(string(rest[end:]), " "))
		}
		list = append(list, string(rest))
	}
	return list
}
