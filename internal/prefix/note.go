package prefix

import (
	"errors"

	"golang.org/x/sys/unix"
)

const outdated = "%v; the files about this job in the prefix directory are not up to date"

// Note calls f on rank 0, to record something for the commands that run around the job.
// An error of f is only logged as a warning, because the job can still write checkpoints
// to the cache when the parallel file system is full.
func (p *Prefix) Note(f func() error) {
	if p.Comm.Rank() != 0 {
		return
	}
	if err := f(); err != nil {
		p.Log.WarnOnce(outdated, err)
	}
}

// Spare returns err, unless that is only that something could not be recorded for lack of
// room: then it warns, and the run continues without. So a job can restart from its cache,
// and make room, with a full file system. It is not collective.
func (p *Prefix) Spare(err error) error {
	if !errors.Is(err, unix.ENOSPC) && !errors.Is(err, unix.EDQUOT) {
		return err
	}
	p.Log.WarnOnce(outdated, err)
	return nil
}
