package prefix

import (
	"fmt"

	"github.com/goscr/goscr/internal/prefix/dataset"
)

// Ours reports whether this job has written a dataset, if it shares the prefix directory with others: what
// they have written is not offered, replaced or deleted. If it is nil, all datasets are ours.
type Ours func(d dataset.Dataset) bool

func (o Ours) has(d dataset.Dataset) bool { return o == nil || o(d) }

// Of returns the index without the datasets of other jobs.
func (o Ours) Of(x *Index) *Index {
	for _, e := range x.Entries() {
		if !o.has(e.Dataset) {
			x.remove(e.ID)
		}
	}
	return x
}

// checkName returns an error if another job has a dataset with the name of d.
func (o Ours) checkName(dir string, x *Index, d dataset.Dataset) error {
	for _, e := range x.named(d.Name()) {
		if !o.has(e.Dataset) {
			return &ForeignError{Name: d.Name(), Dir: dir, Entry: e}
		}
	}
	return nil
}

// checkLosses returns an error if a dataset of another job owns a file that d has, too.
func (o Ours) checkLosses(dir string, x *Index, d dataset.Dataset, losses []loss) error {
	for _, l := range losses {
		if e := x.ByID(l.id); !o.has(e.Dataset) {
			return &ForeignError{Name: d.Name(), Dir: dir, Entry: e, files: true}
		}
	}
	return nil
}

// ForeignError is the error of a dataset that would replace what another job has in a prefix directory that both
// share.
type ForeignError struct {
	Name, Dir string
	Entry     Entry // the other job's
	files     bool  // files of it would be replaced
}

func (e *ForeignError) Error() string {
	what := "a dataset of this name"
	if e.files {
		what = fmt.Sprintf("dataset %d (%s), which has files of the same names,", e.Entry.ID, e.Entry.Name)
	}
	owner := e.Entry.Owner()
	who := "job " + owner.JobID
	if owner.JobName != "" {
		who += " (" + owner.JobName + ")"
	}
	return fmt.Sprintf("dataset %s: %s in %s belongs to %s: with SCR_PREFIX_SHARED=1 each job needs names of its own for datasets and files", e.Name, what, e.Dir, who)
}
