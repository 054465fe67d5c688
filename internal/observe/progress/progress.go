// Package progress reports the progress of work on many bytes. The code that does
// the work tells a Meter; its caller decides how users see it.
package progress

import (
	"fmt"
	"sync"
	"time"

	"github.com/goscr/goscr/internal/observe/report"
)

// Meter is told the progress of some work. Several goroutines may call it.
type Meter interface {
	// Expect adds bytes to the total.
	Expect(bytes int64)
	// Add adds bytes that are done.
	Add(bytes int64)
}

// None shows nothing.
type None struct{}

// Expect does nothing.
func (None) Expect(int64) {}

// Add does nothing.
func (None) Add(int64) {}

// Or returns m, or None if m is nil.
func Or(m Meter) Meter {
	if m == nil {
		return None{}
	}
	return m
}

// Lines reports progress in a line now and then, by Logger.Local.
type Lines struct {
	Log  *report.Logger
	What string        // beginning of each line
	Each time.Duration // between two lines; work that takes less has none

	mu              sync.Mutex
	begun, reported time.Time
	total, done     int64
	now             func() time.Time // for tests
}

// Expect implements Meter.
func (l *Lines) Expect(bytes int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.total += bytes
	l.clock()
}

// Add implements Meter.
func (l *Lines) Add(bytes int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.done += bytes
	if now := l.clock(); l.done < l.total && now.Sub(l.reported) >= l.Each {
		l.reported = now
		l.Log.Local("%s: %s", l.What, l.state(now.Sub(l.begun)))
	}
}

// clock returns the time. The work begins with the first call.
func (l *Lines) clock() time.Time {
	if l.now == nil {
		l.now = time.Now
	}
	now := l.now()
	if l.begun.IsZero() {
		l.begun, l.reported = now, now
	}
	return now
}

// state describes the progress after some time.
func (l *Lines) state(passed time.Duration) string {
	rate := float64(l.done) / max(passed.Seconds(), 1e-9)
	text := fmt.Sprintf("%s of %s, %s/s", report.Bytes(l.done), report.Bytes(l.total), report.Bytes(int64(rate)))
	if rate > 0 {
		left := time.Duration(float64(l.total-l.done) / rate * float64(time.Second))
		text += fmt.Sprintf(", %v left", left.Round(time.Second))
	}
	return text
}
