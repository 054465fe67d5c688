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

	"github.com/goscr/goscr/internal/kind"
)

// What needs attention on one rank often does so on all of them, and at every
// step. Of each kind of message, that is of those that differ in numbers only,
// a process says burst, and from then on one a minute with how many it has left
// out. Processes that do not communicate with each other keep to that together:
// before a line is written it has to get one of a few places in each of
// Logger.Shared. A place is a file, with a time until which it is taken.
//
// SCR_DEBUG=2 has every line written.

const (
	burst  = 3           // lines of a kind, of a process or below a directory of Shared
	period = time.Minute // after which there can be one more
	// placePrefix begins the name of every place.
	placePrefix = "said."
)

const andMore = " (more lines like this one are left out; SCR_DEBUG=2 shows all)"

// tally is what a process has said of one kind.
type tally struct {
	lines   int       // written in the present burst
	last    time.Time // when
	skipped int       // since then
}

// limit reports whether a message that needs attention may be said now, and what
// to say with it.
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
	for _, dir := range l.Shared {
		if ok {
			var place int
			place, ok = takePlace(dir, k, now)
			last = last || place == burst-1
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

// takePlace takes one of the places of a kind in a directory, and reports which.
// If it cannot tell whether there is one, it says there is.
func takePlace(dir, k string, now time.Time) (place int, ok bool) {
	h := fnv.New64a()
	h.Write([]byte(k))
	for i := range burst {
		path := filepath.Join(dir, fmt.Sprintf("%s%016x.%d", placePrefix, h.Sum64(), i))
		f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o666)
		if err == nil {
			f.Close()
			os.Chtimes(path, now, now)
			return i, true
		}
		if !errors.Is(err, fs.ErrExist) {
			return 0, true
		}
		info, err := os.Lstat(path)
		if err != nil {
			return 0, true
		}
		if age := now.Sub(info.ModTime()); age >= period || age < -period { // the clock was set back
			os.Chtimes(path, now, now)
			return i, true
		}
	}
	return 0, false
}

// Forget makes all places in a directory free again: a run begins or ends.
func Forget(dir string) {
	entries, _ := os.ReadDir(dir) // if anything fails there are fewer lines
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), placePrefix) {
			os.Remove(filepath.Join(dir, e.Name()))
		}
	}
}
