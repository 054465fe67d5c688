package cache

import (
	"fmt"
	"time"

	"github.com/goscr/goscr/internal/lock"
	"github.com/goscr/goscr/internal/report"
)

// lockFile is the file in a control directory that a job locks while it runs.
const lockFile = "lock"

// patience is the time that the processes of an earlier run may take to end.
const patience = 10 * time.Second

// takeLock locks a file in a control directory against other jobs: two with the same
// job id would use each other's files. It waits at most patience for an earlier run.
// job names the job in messages. Processes that the program forks do not inherit the
// lock.
func takeLock(path, job string, patience time.Duration, log *report.Logger) (*lock.Lock, error) {
	begun, told := time.Now(), false
	for ; ; time.Sleep(20 * time.Millisecond) {
		l, err := lock.Try(path, lock.ByProcess)
		if l != nil || err != nil {
			return l, err
		}
		switch waited := time.Since(begun); {
		case waited >= patience:
			return nil, fmt.Errorf("another %s is running on this node (%s): give each its own SCR_JOB_ID", job, lock.Holder(path))
		case waited >= patience/10 && !told:
			told = true
			log.Warn("a %s is still running on this node (%s): waiting up to %v for it to end", job, lock.Holder(path), patience)
		}
	}
}
