package phases

import (
	"testing"
	"time"

	"github.com/goscr/goscr/internal/observe/eventlog"
	"github.com/goscr/goscr/internal/prefix/dataset"
	"github.com/goscr/goscr/mpi"
	"github.com/goscr/goscr/mpi/local"
)

// What the log costs a checkpoint: its 4 phases, and 6 more records of rank 0.
func BenchmarkMeter_Checkpoint(b *testing.B) {
	log, _ := open(b)
	d := dataset.New(7, "ckpt.7", dataset.Checkpoint, 7, dataset.Owner{}, time.Now())
	_, err := local.Run(16, local.Options{}, func(c mpi.Comm) error {
		var events *eventlog.Log
		if c.Rank() == 0 {
			events = log
		}
		m := New(c, "node", true, events)
		for range b.N {
			for range 6 {
				events.Dataset("CHECKPOINT_END", d, eventlog.Record{Note: "/dev/shm", Start: time.Now()})
			}
			m.Log(d, Phase{Type: "ROUTE"}, Phase{Type: "WRITE", Value: 1}, Phase{Type: "ENCODE", Value: 2}, Phase{Type: "FILL", Value: 3})
		}
		return nil
	})
	must(b, err)
	b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(b.N), "µs/checkpoint")
}
