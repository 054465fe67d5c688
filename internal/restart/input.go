package restart

import (
	"slices"

	"github.com/goscr/goscr/internal/dataset"
)

// isOfOtherInput reports whether the job that wrote a checkpoint had another input. Nothing is
// known of the input if either job has not named it.
func (r *Restart) isOfOtherInput(d dataset.Dataset) bool {
	return r.Input != "" && d.Owner().Input != "" && d.Owner().Input != r.Input
}

func (r *Restart) tellOtherInput(d dataset.Dataset) {
	r.Log.WarnJob("checkpoint %s is not offered: its job read other input than the files of SCR_JOB_INPUT have now; SCR_CURRENT=%s restarts from it all the same",
		d.Name(), d.Name())
}

// PassOverOtherInput passes over the checkpoints of the cache that are of another input, except
// the one that the user names in SCR_CURRENT. It is collective.
func (r *Restart) PassOverOtherInput() error {
	for _, c := range slices.Clone(r.Cache.List()) {
		if !c.Flags().Has(dataset.Checkpoint) || !r.isOfOtherInput(c.Dataset) || c.Name() == r.Current {
			continue
		}
		r.tellOtherInput(c.Dataset)
		if err := r.Flusher.PassOver(c); err != nil {
			return err
		}
	}
	return nil
}
