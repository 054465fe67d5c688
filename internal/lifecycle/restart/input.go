package restart

import (
	"github.com/goscr/goscr/internal/lifecycle/life"
	"github.com/goscr/goscr/internal/prefix/dataset"
)

// isOfOtherInput reports whether the job that wrote a checkpoint had another input. Nothing is
// known of the input if either job has not named it.
func (r *Restart) isOfOtherInput(d dataset.Dataset) bool {
	return r.Input != "" && d.Owner().Input != "" && d.Owner().Input != r.Input
}

// tellOtherInput warns that a checkpoint is not offered. more is the end of the message.
func (r *Restart) tellOtherInput(d dataset.Dataset, more string) {
	r.Log.WarnJob("checkpoint %s is not offered: its job read other input than the files of SCR_JOB_INPUT have now; SCR_CURRENT=%s restarts from it all the same%s",
		d.Name(), d.Name(), more)
}

// WithholdOtherInput withholds the checkpoints of the cache that are of another input, except
// the one that the user names in SCR_CURRENT. They stay usable, since SCR_JOB_INPUT may be
// wrong: the Flusher flushes them, and does not evict one for which nothing else is there yet.
func (r *Restart) WithholdOtherInput() {
	for _, c := range r.Cache.List() {
		if !c.Flags().Has(dataset.Checkpoint) || !r.isOfOtherInput(c.Dataset) || c.Name() == r.Current.Name {
			continue
		}
		r.Cache.Happened(c, life.NotOffered)
		more := "; it is flushed now, and stays in the cache until its place is needed"
		if c.Flushed() {
			more = "; it is in the prefix directory, and stays in the cache until its place is needed"
		}
		r.tellOtherInput(c.Dataset, more)
	}
}
