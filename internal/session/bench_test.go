package session

import (
	"fmt"
	"path/filepath"
	"testing"
)

// BenchmarkRoute is Route for the files of one checkpoint, 10,000 of them, by a rank that is alone.
func BenchmarkRoute(b *testing.B) {
	const files = 10_000
	c := newCluster(b)
	c.job(on(1, "a"), func(s *Session, _ int) error {
		names := make([]string, files)
		for i := range names {
			names[i] = filepath.Join(c.env["SCR_PREFIX"], fmt.Sprintf("checkpoint.1/file_%d", i))
		}
		for b.Loop() {
			if err := s.StartOutput("", Checkpoint); err != nil {
				return err
			}
			for _, name := range names {
				if _, err := s.Route(name); err != nil {
					return err
				}
			}
			b.StopTimer()
			_ = s.CompleteOutput(false) // which deletes it
			b.StartTimer()
		}
		b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(b.N*files), "us/call")
		return nil
	})
}
