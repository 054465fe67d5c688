package report

import (
	"errors"
	"fmt"
	"hash/fnv"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/goscr/goscr/internal/sys/kind"
	"github.com/goscr/goscr/internal/sys/trust"
)

// A problem on one rank is often one on all of them, and at every step. Of each kind
// of message (those that differ in numbers only) a process writes burst lines, and
// from then on one a minute with the number of lines left out. Processes that do not
// communicate with each other share that limit: a process writes a line only if it
// gets one of a few slots in each directory of Logger.Share. A slot is a file that
// is taken for a period from its modification time.
//
// SCR_DEBUG=2 turns the limit off.

const (
	burst  = 3           // lines of a kind, of a process or below a directory of Share
	period = time.Minute // after which there can be one more
	// slotPrefix begins the name of every slot.
	slotPrefix = "said."
)

const andMore = " (more lines like this one are left out; SCR_DEBUG=2 shows all)"

// tally counts the lines of one kind that a process has written.
type tally struct {
	lines   int       // written in the present burst
	last    time.Time // when
	skipped int       // since then
}

// limit reports whether a warning may be written now, and what to add to it.
func (l *Logger) limit(text string) (addition string, ok bool) {
	if l.Debug >= 2 {
		return "", true
	}
	now := time.Now()
	if l.now != nil {
		now = l.now()
	}
	k := kind.Of(text)
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.said == nil {
		l.said = map[string]*tally{}
	}
	t := l.said[k]
	if t == nil {
		t = &tally{}
		l.said[k] = t
	}
	ok = t.lines < burst || now.Sub(t.last) >= period
	last := t.lines == burst-1
	for _, dir := range l.shared {
		if ok {
			var slot int
			slot, ok = takeSlot(dir, k, now)
			last = last || slot == burst-1
		}
	}
	switch {
	case !ok:
		t.skipped++
		return "", false
	case t.skipped > 0:
		addition = fmt.Sprintf(" (%d lines like this one were left out)", t.skipped)
	case last:
		addition = andMore
	}
	*t = tally{lines: min(t.lines+1, burst), last: now}
	return addition, true
}

// WarnFirst is Warn for what every process of a job may meet: only one of those that share
// directories writes the line.
func (l *Logger) WarnFirst(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	l.mu.Lock()
	shared := l.shared
	l.mu.Unlock()
	for _, dir := range shared {
		below := trust.Around(dir)
		path := filepath.Join(dir, fmt.Sprintf("%s%016x", slotPrefix, sum(kind.Of(text))))
		f, err := below.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o666)
		if errors.Is(err, fs.ErrExist) {
			return
		}
		if err == nil {
			f.Close()
		}
	}
	l.Warn("%s", text)
}

func sum(k string) uint64 {
	h := fnv.New64a()
	h.Write([]byte(k))
	return h.Sum64()
}

// takeSlot takes one of the slots of a kind in a directory, and returns its number.
// On an error other than that the slots are taken, ok is true.
func takeSlot(dir, k string, now time.Time) (slot int, ok bool) {
	for i := range burst {
		path := filepath.Join(dir, fmt.Sprintf("%s%016x.%d", slotPrefix, sum(k), i))
		below := trust.Around(path)
		f, err := below.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o666)
		if err == nil {
			f.Close()
			below.Chtimes(path, now, now)
			return i, true
		}
		if !errors.Is(err, fs.ErrExist) {
			return 0, true
		}
		info, err := below.Lstat(path)
		if err != nil {
			return 0, true
		}
		if age := now.Sub(info.ModTime()); age >= period || age < -period { // the clock was set back
			below.Chtimes(path, now, now)
			return i, true
		}
	}
	return 0, false
}

// Forget frees all slots in a directory when a run begins or ends.
func Forget(dir string) {
	below := trust.Around(dir)
	entries, _ := below.ReadDir(dir) // an error costs only lines
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), slotPrefix) {
			below.Remove(filepath.Join(dir, e.Name()))
		}
	}
}
