package scr

import (
	"testing"
)

// The cache is found by user and job id, which two jobs may share; what one has
// written is not offered to the other.
func TestSession_JobWithAnotherPrefix(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "SCR_FLUSH=0")
	c.job(four, steps(1, 2))
	own := c.prefix("")
	c.set("SCR_PREFIX=" + own + "/other")
	c.job(four, restarts(0))
	c.says("belongs to a job with prefix directory")
	// As long as the other has not written a checkpoint, it is there.
	c.set("SCR_PREFIX=" + own)
	c.job(four, restarts(2))
	c.set("SCR_PREFIX=" + own + "/other")
	c.job(four, steps(5))
	c.job(four, restarts(5))
}
