package preload

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/goscr/goscr/internal/node/cache"
	"github.com/goscr/goscr/internal/observe/report"
	"github.com/goscr/goscr/internal/redundancy/reddesc"
	"github.com/goscr/goscr/internal/sys/lock"
	"github.com/goscr/goscr/mpi"
	"github.com/goscr/goscr/mpi/local"
)

// A run that begins while Load copies, as after an interrupt of scr_restart, waits for it. The
// limit of the wait applies only to a process that shows no sign of life.
func TestLock_RunWaits(t *testing.T) {
	dir := t.TempDir()
	n := Node{Control: filepath.Join(dir, "control/u/scr.1")}
	const limit = 3 * time.Second
	var said []string
	patience := lock.Patience{Limit: limit}
	var loading *lock.Lock
	patience.Tell = func(line string) {
		said = append(said, line)
		if len(said) == 2 { // told after the limit
			loading.Release()
		}
	}
	lock.SetPatience(patience)
	t.Cleanup(func() { lock.SetPatience(lock.Patience{Limit: time.Minute, Tell: func(string) {}}) })
	loading, err := n.lock()
	if err != nil {
		t.Fatal(err)
	}
	_, err = local.Run(1, local.Options{}, func(world mpi.Comm) error {
		k, err := cache.Open(cache.Config{
			World: world, Node: world, NodeRanks: []int{0}, Control: cache.Base{Dir: filepath.Join(dir, "control")}, User: "u", JobID: "1", Prefix: "/prefix",
			Stores: []*reddesc.Store{{Name: "store", Base: filepath.Join(dir, "cache"), Comm: world}},
			Piece:  64, Distribute: true, Log: &report.Logger{Node: "node"},
		}, "test", nil)
		if err != nil {
			return err
		}
		if other, err := n.lock(); other != nil || err == nil || !strings.Contains(err.Error(), " uses the cache of this job (") {
			t.Errorf("%v, %v", other, err)
		}
		return k.Close()
	})
	if err != nil || len(said) != 2 || !strings.Contains(said[0], "to end, which is a rank of an earlier run or of another job, or an scr_preload, of u with job id 1") {
		t.Errorf("%v, said %q", err, said)
	}
}
