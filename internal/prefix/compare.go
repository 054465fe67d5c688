package prefix

import "github.com/goscr/goscr/internal/dataset"

// CheckedIndex returns the index of a prefix directory. It returns an error if the index
// is damaged, or if it is missing although there are complete datasets.
func CheckedIndex(prefix string) (*Index, error) {
	if err := CheckIndex(prefix); err != nil {
		return nil, err
	}
	return ReadIndex(prefix)
}

// HasComplete reports whether the index lists a dataset with the id and name of d as
// complete.
func (x *Index) HasComplete(d dataset.Dataset) bool {
	for _, e := range x.Entries() {
		if e.ID == d.ID() && e.Name == d.Name() && e.Complete {
			return true
		}
	}
	return false
}
