package run

import (
	"context"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/goscr/goscr/internal/config"
)

// forever is a time limit that is longer than any allocation.
const forever = 365 * 24 * time.Hour

// copiesInBackground reports whether the configuration asks for scr_transfer to copy
// datasets of any store.
func (j *Job) copiesInBackground() bool {
	if !j.Config.FlushAsync {
		return false
	}
	if j.Config.FlushType == "DAEMON" {
		return true
	}
	return slices.ContainsFunc(j.Config.Stores, func(s config.Store) bool { return s.Flush.Value == "DAEMON" })
}

// startMovers starts scr_transfer on nodes for as long as the job runs, if the
// configuration asks for it. The program could start it too, but the resource manager may
// end such a process together with the program. stop ends them; datasets that they have
// not copied by then are scavenged.
func (j *Job) startMovers(ctx context.Context, nodes []string) (stop func(), err error) {
	if !j.copiesInBackground() || len(nodes) == 0 {
		return func() {}, nil
	}
	control, err := j.Below(ctx, j.ControlBases()[0], "", "")
	if err != nil {
		return nil, err
	}
	j.Detail("scr_transfer is started on %d nodes", len(nodes))
	argv := []string{j.Tool, "transfer", "--cntldir", control}
	running, cancel := context.WithCancel(ctx)
	var wg sync.WaitGroup
	begin := func(nodes []string) {
		wg.Add(1)
		go func() {
			defer wg.Done()
			for node, a := range j.OnNodes(running, nodes, forever, append(slices.Clone(argv), "--stay")...) {
				if running.Err() == nil && a.failed() {
					j.Detail("scr_transfer on %s: %s; the program starts one when it needs it", node, a.lastLine())
				}
			}
		}()
	}
	// OnNodes runs the command on this node to its end before it starts it on other
	// nodes, so this node needs a call of its own.
	self, _ := os.Hostname() // "" if it has none
	var others []string
	for _, n := range nodes {
		if here(n, self) {
			begin([]string{n})
		} else {
			others = append(others, n)
		}
	}
	if len(others) > 0 {
		begin(others)
	}
	return func() {
		j.OnNodes(ctx, nodes, answerTime, append(slices.Clone(argv), "--exit")...)
		cancel()
		wg.Wait()
	}, nil
}
