package cache

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/goscr/goscr/internal/sys/lock"
)

// LockFile is the name of the file in a control directory that all processes of a job on the node
// lock while it runs.
const LockFile = "lock"

// takeLock locks a file in a control directory for the job. The lock excludes other jobs
// with the same id, which would use the same files, ranks of an earlier run that are still
// alive, and an scr_preload that still copies. takeLock waits for these to end. The other
// ranks of the node then call joinLock. user and id are those of the job, node is the name of the node, and mark begins
// what all nodes of the run write to the file, and no other run. Processes that the program forks do not inherit the lock.
func takeLock(path, user, id, mark, node string) (l *lock.Lock, err error) {
	to := fmt.Sprintf("end, which is a rank of an earlier run or of another job, or an scr_preload, of %s with job id %s", user, id)
	err = lock.Until(path, to, func() (bool, error) {
		l, err = lock.Try(path, lock.ByProcess)
		if err == nil && l == nil {
			if other, ours := strings.CutPrefix(lock.Description(path), mark); ours {
				return false, fmt.Errorf("nodes %s and %s have the same control directory, %s: are these two names of one machine (SCR_NODE_NAME gives its ranks one name), "+
					"or is the directory on storage that nodes share (SCR_CNTL_BASE chooses one in the node)?", other, node, filepath.Dir(path))
			}
		}
		return l != nil, err
	})
	switch {
	case errors.Is(err, lock.ErrTimeout):
		return nil, fmt.Errorf("%s is still running on this node, as a rank of an earlier run, which has to be ended (kill it), or of another job of %s with job id %s, which needs its own SCR_JOB_ID: %w",
			lock.Holder(path), user, id, err)
	case err != nil:
		return nil, err
	}
	l.Describe(mark + node)
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
