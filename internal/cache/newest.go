package cache

import "github.com/goscr/goscr/internal/dataset"

// NewestCheckpoint returns the newest checkpoint that can be used, nil if there is
// none.
func (k *Cache) NewestCheckpoint() *Cached {
	for _, c := range k.List() {
		if c.Flags().Has(dataset.Checkpoint) {
			return c
		}
	}
	return nil
}
