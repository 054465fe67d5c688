// Package report writes all messages of goscr to users while a job runs: lines on
// stderr that all look alike,
//
//	SCR: rank 3 on node7: what happened
//
// so that they can be told from the program's own output and grepped for.
package report

import (
	"fmt"
	"io"
	"strings"
	"sync"
	"time"
)

// Logger writes lines. The zero value writes nothing.
type Logger struct {
	Out   io.Writer
	Rank  int
	Node  string
	Debug int // SCR_DEBUG: 0 only what needs attention, 1 what happens, 2 in detail

	mu     sync.Mutex
	shared []string // see Share
	once   map[string]bool
	said   map[string]*tally // by kind
	now    func() time.Time  // for tests
}

// Share has processes that may write the same lines count them in directories: first one of the
// node, then one of the job. The logger may be in use already.
func (l *Logger) Share(dirs ...string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.shared = dirs
}

// Warn reports something that needs attention, whatever Debug is; limit bounds how
// often.
func (l *Logger) Warn(format string, args ...any) {
	if l.Out == nil {
		return
	}
	text := fmt.Sprintf(format, args...)
	if addition, ok := l.limit(text); ok {
		l.print(0, "%s%s", []any{text, addition})
	}
}

// WarnJob is Warn for the job as a whole: all ranks may call it, and rank 0 writes
// the line.
func (l *Logger) WarnJob(format string, args ...any) {
	if l.Rank == 0 {
		l.Warn(format, args...)
	}
}

// WarnOnce is Warn, once for each text.
func (l *Logger) WarnOnce(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	l.mu.Lock()
	said := l.once[text]
	if l.once == nil {
		l.once = map[string]bool{}
	}
	l.once[text] = true
	l.mu.Unlock()
	if !said {
		l.Warn("%s", text)
	}
}

// WarnJobOnce is WarnJob, once for each text.
func (l *Logger) WarnJobOnce(format string, args ...any) {
	if l.Rank == 0 {
		l.WarnOnce(format, args...)
	}
}

// Info reports what happens in the job, on rank 0 only.
func (l *Logger) Info(format string, args ...any) {
	if l.Rank == 0 {
		l.print(1, format, args)
	}
}

// Local reports what happens on this rank.
func (l *Logger) Local(format string, args ...any) { l.print(1, format, args) }

// Detail reports what helps to find a fault.
func (l *Logger) Detail(format string, args ...any) { l.print(2, format, args) }

func (l *Logger) print(level int, format string, args []any) {
	if l.Out == nil || l.Debug < level {
		return
	}
	text := strings.ReplaceAll(fmt.Sprintf(format, args...), "\n", "; ")
	// One write, so that lines of several ranks do not mix.
	fmt.Fprintf(l.Out, "SCR: rank %d on %s: %s\n", l.Rank, l.Node, text)
}

// Count writes how many there are of something that has a plural in s.
func Count(n int, what string) string {
	if n != 1 {
		what += "s"
	}
	return fmt.Sprintf("%d %s", n, what)
}

// Bytes writes a number of bytes as people read it.
func Bytes(n int64) string {
	const units = "KMGTPE"
	if n < 1024 {
		return fmt.Sprintf("%d B", n)
	}
	value, unit := float64(n)/1024, 0
	for value >= 1024 && unit < len(units)-1 {
		value /= 1024
		unit++
	}
	return fmt.Sprintf("%.1f %ciB", value, units[unit])
}
