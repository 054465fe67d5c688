package prefix

import "github.com/goscr/goscr/internal/prefix/dataset"

// CheckedIndex returns the index of a prefix directory. It returns an error if the index
// is damaged, or if it is missing although there are complete datasets.
func CheckedIndex(prefix string) (*Index, error) {
	if err := CheckIndex(prefix); err != nil {
		return nil, err
	}
	return ReadIndex(prefix)
}

// HasComplete reports whether the index has a dataset, by number and name, as complete,
// or as replaced by a newer one that is: it is not to be flushed again. One from which a
// restart has failed is flushed again, since its files in the prefix directory may be damaged.
func (x *Index) HasComplete(d dataset.Dataset) bool {
	for _, e := range x.Entries() {
		if e.ID == d.ID() && e.Dataset.Name() == d.Name() && (e.Complete && !e.Failed || x.Outdated(e)) {
			return true
		}
	}
	return false
}

// Outdated reports whether a dataset was replaced by a newer one that is complete, or has moved out of its way:
// nothing is written in its place.
func (x *Index) Outdated(e Entry) bool {
	if e.Retired != nil {
		return true
	}
	if e.Replaced == nil {
		return false
	}
	by, ok := x.Find(e.Replaced.By)
	return ok && by.Complete && by.ID > e.ID
}
