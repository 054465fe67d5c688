package cache

import "github.com/goscr/goscr/internal/dataset"

// NewestCheckpoint returns the newest checkpoint that can be used and is not withheld, nil
// if there is none.
func (k *Cache) NewestCheckpoint() *Cached {
	for _, c := range k.List() {
		if c.Flags().Has(dataset.Checkpoint) && !c.withheld {
			return c
		}
	}
	return nil
}
