package flush

// Remake makes directories of the cache again that somebody has removed under the running
// job, and what datasets have lost with them. It is collective; the error is agreed.
func (f *Flusher) Remake() error {
	damaged, err := f.Cache.Remake()
	if err != nil {
		return err
	}
	for _, c := range damaged {
		if b := f.find(c); b != nil {
			f.wait(b)
		}
		if f.Cache.Find(c.ID()) == nil {
			continue
		}
		if err := f.repair(c); err != nil {
			f.Log.WarnJob("dataset %d (%s) is lost with the directories: %v", c.ID(), c.Name(), err)
		}
	}
	return nil
}
