package transfer

import (
	"fmt"
	"time"
)

// patience is how long a file system may take for one call before Stalled is told.
const patience = 5 * time.Second

// watch waits for a copy that makes no progress. The zero value does nothing.
type watch struct {
	timer *time.Timer
	after time.Duration
}

// watch begins to wait for progress of a file.
func (c *Copier) watch(path string) watch {
	if c.Stalled == nil {
		return watch{}
	}
	told, after := c.Stalled, c.patience
	return watch{time.AfterFunc(after, func() {
		told(fmt.Errorf("%s: the file system has not answered for %v; its copy still waits", path, after))
	}), after}
}

func (w watch) stop() {
	if w.timer != nil {
		w.timer.Stop()
	}
}

// progress begins to wait again.
func (w watch) progress() {
	if w.timer != nil {
		w.timer.Reset(w.after)
	}
}
