// Package progress is how work on many bytes says how far it is. What does the
// work tells a Meter; who has started it decides what people see.
package progress

import (
	"fmt"
	"sync"
	"time"

	"github.com/goscr/goscr/internal/report"
)

// Meter is told how far some work is. Several goroutines may do so.
type Meter interface {
	// Expect says that there are so many more bytes to do.
	Expect(bytes int64)
	// Add says that so many of them are done.
	Add(bytes int64)
}

// None shows nothing.
type None struct{}

// Expect does nothing.
func (None) Expect(int64) {}

// Add does nothing.
func (None) Add(int64) {}

// Or is m, or None if that is nil.
func Or(m Meter) Meter {
	if m == nil {
		return None{}
	}
	return m
}

// Lines shows progress as a line now and then, where that can be wanted: as Local
// does.
type Lines struct {
	Log  *report.Logger
	What string        // it begins with that
	Each time.Duration // between two lines; work that takes less has none

	mu          sync.Mutex
	begun, said time.Time
	total, done int64
	now         func() time.Time // for tests
}

// Expect is as Meter has it.
func (l *Lines) Expect(bytes int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.total += bytes
	l.look()
}

// Add is as Meter has it.
func (l *Lines) Add(bytes int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.done += bytes
	if now := l.look(); l.done < l.total && now.Sub(l.said) >= l.Each {
		l.said = now
		l.Log.Local("%s: %s", l.What, l.state(now.Sub(l.begun)))
	}
}

// look returns the time, which begins with the first look.
func (l *Lines) look() time.Time {
	if l.now == nil {
		l.now = time.Now
	}
	now := l.now()
	if l.begun.IsZero() {
		l.begun, l.said = now, now
	}
	return now
}

// state is what there is to say after some time.
func (l *Lines) state(passed time.Duration) string {
	rate := float64(l.done) / max(passed.Seconds(), 1e-9)
	text := fmt.Sprintf("%s of %s, %s/s", report.Bytes(l.done), report.Bytes(l.total), report.Bytes(int64(rate)))
	if rate > 0 {
		left := time.Duration(float64(l.total-l.done) / rate * float64(time.Second))
		text += fmt.Sprintf(", %v left", left.Round(time.Second))
	}
	return text
}
