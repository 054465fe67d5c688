package session

import (
	"fmt"
	"os"
	"strings"
	"sync"
	"time"
)

// silence finds out that a program does not get on with a dataset. If all ranks write parts of one
// file, by MPI-IO or HDF5, a cache in each node gives each node a file of its own: then the
// program waits, in its own I/O, for what ranks of other nodes have written to another file. Rank 0
// looks at its files from time to time. All methods work on nil.
type silence struct {
	every time.Duration
	tell  func()

	mu     sync.Mutex
	paths  []string // the first that the rank has routed
	routed int      // all
	seen   string   // when it looked last
	timer  *time.Timer
	ended  bool
}

func watchFor(every time.Duration, tell func()) *silence {
	const most = 8 // a program that routes more files does not share one
	w := &silence{every: every, tell: tell, paths: make([]string, 0, most)}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.timer = time.AfterFunc(every, w.look)
	return w
}

// route records that the program is about to write a file.
func (w *silence) route(path string) {
	if w == nil {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.routed++; len(w.paths) < cap(w.paths) {
		w.paths = append(w.paths, path)
	}
}

// look warns once if the program has routed files, and has done nothing since the last look.
func (w *silence) look() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.ended || w.routed > cap(w.paths) {
		return
	}
	var text strings.Builder
	for _, path := range w.paths {
		if info, err := os.Lstat(path); err == nil {
			fmt.Fprintln(&text, path, info.Size(), info.ModTime())
		} else {
			fmt.Fprintln(&text, path)
		}
	}
	if seen := w.seen; text.Len() > 0 && text.String() == seen {
		w.tell()
		return
	}
	w.seen = text.String()
	w.timer.Reset(w.every)
}

func (w *silence) end() {
	if w == nil {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.ended = true
	w.timer.Stop()
}
