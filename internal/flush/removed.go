package flush

import (
	"errors"

	"github.com/goscr/goscr/mpi"
)

// Remake makes directories of the cache again that somebody has removed under the running
// job, and what datasets have lost with them. It is collective; the error is agreed, or MPI has
// failed.
func (f *Flusher) Remake() error {
	damaged, err := f.Cache.Remake()
	if err != nil {
		return err
	}
	for _, c := range damaged {
		if b := f.find(c); b != nil {
			if err := f.wait(b); err != nil {
				return err
			}
		}
		if f.Cache.Find(c.ID()) == nil {
			continue
		}
		err := f.repair(c)
		if err != nil && !errors.As(err, new(*mpi.AgreedError)) {
			return err
		}
		if err != nil {
			f.Log.WarnJob("dataset %d (%s) is lost with the directories: %v", c.ID(), c.Name(), err)
		}
	}
	return nil
}
