package flush

import (
	"time"

	"github.com/goscr/goscr/internal/node/cache"
	"github.com/goscr/goscr/internal/prefix"
	"github.com/goscr/goscr/internal/redundancy"
)

// Restore makes a dataset usable that is postponed (see Recovery.Rebuild in the cache). If it cannot be restored it is
// not in the list of the cache afterwards.
func (f *Flusher) Restore(c *cache.Cached) {
	if !c.Postponed() {
		return
	}
	f.Cache.Recovery.Restore(c)
	if f.Cache.Find(c.ID()) == nil {
		f.left(c)
		return
	}
	f.note(c)
}

// note records what is known of a dataset of an earlier run: whether all files have been read now, which is
// not so if some have no checksum, and whether a lost node would lose it.
func (f *Flusher) note(c *cache.Cached) {
	exposed := f.Cache.Exposed([]*cache.Cached{c})
	kept := prefix.Kept{Dataset: c.Dataset, Protected: c.Desc.Protection.String(), Read: !c.Unchecked(), Exposed: exposed[0]}
	f.Prefix.Note(func() error { return prefix.EnterKept(f.Prefix.Dir, kept, time.Now()) })
}

// checked records the checksums that a flush has found of a dataset without. copied are the caller's files.
func (f *Flusher) checked(c *cache.Cached, copied []redundancy.File) {
	if !c.Unchecked() {
		return
	}
	f.Cache.Checked(c, copied)
	f.note(c)
}

// Newest returns the newest checkpoint of a series in the cache that is not withheld, nil if there is none. It
// restores those that are postponed, newest first, until it has one. Who removes the newest checkpoint, or
// withholds it, calls Newest afterwards, so that the newest that is left is as protected as a new one,
// and does not leave as one that can be fetched if a newer one, which cannot be used, has replaced it in the prefix directory.
func (f *Flusher) Newest(series string) (*cache.Cached, error) {
	for {
		c := f.Cache.NewestCheckpoint(series)
		if c == nil || !c.Postponed() {
			return c, f.checkFetchable(c)
		}
		f.Restore(c)
	}
}

// checkFetchable finds out whether the newest checkpoint of the cache can be fetched, if it was flushed.
func (f *Flusher) checkFetchable(c *cache.Cached) error {
	if c == nil || !f.Flushed(c.ID()) {
		return nil
	}
	_, usable, err := f.Prefix.Find(prefix.Usable(c.Dataset))
	f.flushed[c.ID()] = fetchable
	if !usable {
		f.flushed[c.ID()] = replaced
	}
	return err
}
