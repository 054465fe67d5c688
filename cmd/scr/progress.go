package main

import (
	"io"
	"os"
	"time"

	"github.com/schollz/progressbar/v3"
	"golang.org/x/term"

	"github.com/goscr/goscr/internal/observe/progress"
)

// meter shows the progress of some work in a line of its own on a terminal. Elsewhere it
// shows nothing.
type meter struct {
	bar *progressbar.ProgressBar
	out *overBar
}

// meter shows the progress of what on stderr, from the first bytes done until end.
func (c *context) meter(what string) *meter {
	f, ok := c.err.(*os.File)
	if over, again := c.err.(*overBar); again {
		f, ok = over.to.(*os.File)
	}
	if !ok || !term.IsTerminal(int(f.Fd())) {
		return &meter{}
	}
	return c.meterOn(f, what, 100*time.Millisecond)
}

func (c *context) meterOn(to io.Writer, what string, redraw time.Duration) *meter {
	m := &meter{bar: progressbar.NewOptions64(0, progressbar.OptionSetWriter(to), progressbar.OptionSetDescription(what),
		progressbar.OptionShowBytes(true), progressbar.OptionUseIECUnits(true), progressbar.OptionShowCount(),
		progressbar.OptionThrottle(redraw), progressbar.OptionClearOnFinish(),
		progressbar.OptionSetPredictTime(true), progressbar.OptionSetElapsedTime(false))}
	m.out = &overBar{to, m.bar}
	c.err = m.out // other lines are written above it
	return m
}

// Expect implements progress.Meter.
func (m *meter) Expect(bytes int64) {
	if m.bar != nil {
		m.bar.AddMax64(bytes)
	}
}

// Add implements progress.Meter.
func (m *meter) Add(bytes int64) {
	if m.bar != nil {
		_ = m.bar.Add64(bytes) // an error of the terminal does not matter
	}
}

// end removes the line.
func (m *meter) end() {
	if m.bar != nil {
		_ = m.bar.Exit()
		_ = m.bar.Clear()
	}
}

var _ progress.Meter = (*meter)(nil)

// overBar writes lines in place of a progress bar, which is redrawn below them.
type overBar struct {
	to  io.Writer
	bar *progressbar.ProgressBar
}

func (o *overBar) Write(p []byte) (int, error) {
	_ = o.bar.Clear()
	return o.to.Write(p)
}
