package cache

import "github.com/goscr/goscr/internal/prefix/dataset"

// NewestCheckpoint returns the newest checkpoint of a series that can be used and is not withheld, nil
// if there is none.
func (k *Cache) NewestCheckpoint(series string) *Cached {
	return k.newest(func(c *Cached) bool { return c.Series() == series })
}

// NewestProtected is NewestCheckpoint of those that are protected.
func (k *Cache) NewestProtected(series string) *Cached {
	return k.newest(func(c *Cached) bool { return c.Series() == series && c.Protected() })
}

func (k *Cache) newest(which func(*Cached) bool) *Cached {
	for _, c := range k.List() {
		if c.Flags().Has(dataset.Checkpoint) && !c.withheld && which(c) {
			return c
		}
	}
	return nil
}
