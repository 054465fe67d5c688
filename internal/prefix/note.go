package prefix

// Note runs f on rank 0, which records something for the commands around the job.
// That its file system is full is no reason not to write checkpoints to the cache,
// so an error is a warning.
func (p *Prefix) Note(f func() error) {
	if p.Comm.Rank() != 0 {
		return
	}
	if err := f(); err != nil {
		p.Log.WarnOnce("%v; what the prefix directory says of this job is not up to date", err)
	}
}
