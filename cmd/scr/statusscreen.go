package main

import (
	"fmt"
	"os"
	"slices"
	"time"

	"github.com/gdamore/tcell/v2"

	"github.com/goscr/goscr/internal/account/page"
	jobstatus "github.com/goscr/goscr/internal/status"
)

// statusScreen shows the status of a job on the whole terminal.
type statusScreen struct {
	tcell.Screen
	lines       []string // the status, with an empty line before those of datasets
	problem     string   // why it could not be read; "" if it could
	first, left int      // what is scrolled out of the screen: lines of datasets, and columns
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
	return s.State == jobstatus.Finished || s.State == jobstatus.Unknown && s.Unseen == ""
}

// obey does what an event of the terminal asks for, and reports whether to go on.
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
			s.first, s.left = 0, 0
		case tcell.KeyLeft:
			s.left = max(s.left-8, 0)
		case tcell.KeyRight:
			s.left += 8
		case tcell.KeyRune:
			return e.Rune() != 'q' && e.Rune() != 'Q'
		}
	}
	return true
}

// draw draws as much as there is room for: what concerns the job, then datasets, then, on the
// last line, what keys do.
func (s *statusScreen) draw() {
	width, height := s.Size()
	s.Clear()
	head, list := s.lines, []string(nil)
	if i := slices.Index(s.lines, ""); i >= 0 {
		head, list = s.lines[:i+1], s.lines[i+1:]
	}
	room := max(height-1, 0)
	head = head[:min(len(head), room)]
	room -= len(head)
	s.first = max(min(s.first, len(list)-room), 0)
	part := list[s.first:min(s.first+room, len(list))]
	longest := 0
	for y, line := range slices.Concat(head, part) {
		style := tcell.StyleDefault
		if y == 0 {
			style = style.Bold(true)
		}
		runes := []rune(line)
		longest = max(longest, len(runes))
		s.PutStrStyled(0, y, string(runes[min(s.left, len(runes)):]), style)
	}
	s.left = max(min(s.left, longest-width/2), 0)
	foot := "q: quit"
	if len(part) < len(list) {
		foot += fmt.Sprintf("   arrows: scroll, datasets %d to %d of %d", s.first+1, s.first+len(part), len(list))
	} else if longest > width || s.left > 0 {
		foot += "   arrows: scroll"
	}
	if s.problem != "" {
		foot += "   " + page.Plain(s.problem)
	}
	s.PutStrStyled(0, max(height-1, 0), fmt.Sprintf("%-*s", width, foot), tcell.StyleDefault.Reverse(true))
	s.Show()
}
