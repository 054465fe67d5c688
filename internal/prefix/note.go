package prefix

// Note runs f on rank 0, to record something for the commands around the job. An error
// is a warning: with a full file system checkpoints can still go to the cache.
func (p *Prefix) Note(f func() error) {
	if p.Comm.Rank() != 0 {
		return
	}
	if err := f(); err != nil {
		p.Log.WarnOnce("%v; what the prefix directory says of this job is not up to date", err)
	}
}
