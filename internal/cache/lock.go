package cache

import (
	"errors"
	"fmt"

	"github.com/goscr/goscr/internal/lock"
)

// LockFile is the name of the file in a control directory that all processes of a job on the node
// lock while it runs.
const LockFile = "lock"

// takeLock locks a file in a control directory for the job. The lock excludes other jobs
// with the same id, which would use the same files, ranks of an earlier run that are still
// alive, and an scr_preload that still copies. takeLock waits for these to end. The other
// ranks of the node then call joinLock. user and id are those of the job. Processes that the
// program forks do not inherit the lock.
func takeLock(path, user, id string) (l *lock.Lock, err error) {
	to := fmt.Sprintf("end, which is a rank of an earlier run or of another job, or an scr_preload, of %s with job id %s", user, id)
	err = lock.Until(path, to, func() (bool, error) {
		l, err = lock.Try(path, lock.ByProcess)
		return l != nil, err
	})
	switch {
	case errors.Is(err, lock.ErrTimeout):
		return nil, fmt.Errorf("%s is still running on this node, as a rank of an earlier run, which has to be ended (kill it), or of another job of %s with job id %s, which needs its own SCR_JOB_ID: %w",
			lock.Holder(path), user, id, err)
	case err != nil:
		return nil, err
	}
	return l, l.Share()
}

// joinLock takes the lock that the first rank of the node shares.
func joinLock(path string) (*lock.Lock, error) {
	l, err := lock.Try(path, lock.SharedByProcess)
	if err == nil && l == nil {
		err = fmt.Errorf("%s has locked %s for itself", lock.Holder(path), path)
	}
	return l, err
}
