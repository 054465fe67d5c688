package flush

// copied is what the prefix directory has of a dataset in the cache.
type copied int

const (
	notCopied copied = iota // nothing, or a part
	fetchable               // all of it
	replaced                // nothing any more, as far as Newest has found: a newer dataset has taken its place
)

// Flushed reports whether a dataset of the cache is in the prefix directory, or was replaced there
// by a newer one, so that it is not to be flushed. It is not collective.
func (f *Flusher) Flushed(id int) bool { return f.flushed[id] != notCopied }

// SetFlushed records whether a dataset of the cache is in the prefix directory. It is
// not collective.
func (f *Flusher) SetFlushed(id int, there bool) {
	f.flushed[id] = notCopied
	if there {
		f.flushed[id] = fetchable
	}
}
