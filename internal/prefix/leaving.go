package prefix

import (
	"strconv"

	"github.com/goscr/goscr/hash"
	"github.com/goscr/goscr/internal/prefix/dataset"
)

// The index also lists the datasets that leave the cache of a job because the program has
// chosen an older one, or has dropped them. They do not leave at the same time, so a job that
// is killed meanwhile would continue from one that nobody has chosen. The list is written with
// the choice, in one change of the index, and the next run deletes what is left of them. It
// is about these datasets only, so nothing is lost if it stays in the index.
//
//	LEAVING / <job id> / <id> / NAME    = <name>
//	                            CREATED = <µs>       its time of creation
const keyLeaving = "LEAVING"

// Leave enters datasets that leave the cache of a job.
func (x *Index) Leave(jobID string, list []dataset.Dataset) {
	for _, d := range list {
		x.h.At(keyLeaving, jobID, strconv.Itoa(d.ID())).SetFields(verdict(d, ""))
	}
}

// Leaves reports whether a dataset in the cache of a job was to leave it.
func (x *Index) Leaves(jobID string, d dataset.Dataset) bool {
	e := x.h.Get(keyLeaving, jobID, strconv.Itoa(d.ID()))
	return e != nil && hash.As[Verdict](e).Of(d)
}

// leaves is Leaves for a dataset of any job.
func (x *Index) leaves(d dataset.Dataset) bool {
	for jobID := range x.h.Get(keyLeaving).All() {
		if x.Leaves(jobID, d) {
			return true
		}
	}
	return false
}

// Leaving reports whether there is a list of datasets that leave the cache of a job.
func (x *Index) Leaving(jobID string) bool { return x.h.Has(keyLeaving, jobID) }

// Left removes the list of the datasets that leave the cache of a job, since they have left it.
func (x *Index) Left(jobID string) {
	if x.h.UnsetKV(keyLeaving, jobID); x.h.Get(keyLeaving).Size() == 0 {
		x.h.Unset(keyLeaving)
	}
}
