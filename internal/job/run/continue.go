package run

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/goscr/goscr/internal/job/request"
)

// Continue has the ranks of a job continue that have stopped themselves: those under this
// kernel directly, and those of other nodes by a command there. It returns an error that
// names the nodes which it has not reached.
func (j *Job) Continue(ctx context.Context) error {
	list, err := request.StoppedNodes(j.Prefix)
	if err != nil {
		return err
	}
	var far []string
	for _, s := range list {
		if !s.Here() {
			far = append(far, s.Node)
			continue
		}
		n, e := s.Continue(j.Prefix)
		j.Detail("%d ranks on %s continue", n, s.Node)
		err = errors.Join(err, e)
	}
	if len(far) == 0 {
		return err
	}
	for node, a := range j.OnNodes(ctx, far, answerTime, j.Tool, "checkpoint", "--continue", "--here", "--prefix", j.Prefix) {
		if a.failed() {
			err = errors.Join(err, fmt.Errorf("node %s: %s", node, a.lastLine()))
		}
	}
	return err
}

// continueIfAsked does what scr_checkpoint --continue asks for. It reports whether the
// ranks have stopped: then no progress is to be expected of them.
func (r *running) continueIfAsked(ctx context.Context) (stopped bool) {
	list, err := request.StoppedNodes(r.job.Prefix)
	if err != nil || len(list) == 0 {
		return false // an error is told by who continues the job
	}
	asked, err := request.ToContinue(r.job.Prefix)
	if err != nil || !asked.After(r.continued) || asked.Before(r.start.began) {
		return true
	}
	r.continued = asked
	r.job.Tell("scr_checkpoint --continue: the ranks continue")
	r.job.warn(r.job.Continue(ctx))
	return true
}

// pause has the watchdog count from now on.
func (w *watchdog) pause(now time.Time) { w.since = now }
