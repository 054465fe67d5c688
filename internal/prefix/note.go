package prefix

// Note calls f on rank 0, to record something for the commands that run around the job.
// An error of f is only logged as a warning, because the job can still write checkpoints
// to the cache when the parallel file system is full.
func (p *Prefix) Note(f func() error) {
	if p.Comm.Rank() != 0 {
		return
	}
	if err := f(); err != nil {
		p.Log.WarnOnce("%v; the files about this job in the prefix directory are not up to date", err)
	}
}
