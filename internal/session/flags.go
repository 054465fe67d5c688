package session

import (
	"fmt"
	"strings"

	"github.com/goscr/goscr/internal/prefix/dataset"
)

// Flags tell the purpose of a dataset. They can be combined.
type Flags int

// The flags of a dataset.
const (
	None       Flags = Flags(dataset.None)
	Checkpoint Flags = Flags(dataset.Checkpoint) // the program can restart from it
	Output     Flags = Flags(dataset.Output)     // it is always flushed to the prefix directory
)

// Has reports whether all flags in some are set.
func (f Flags) Has(some Flags) bool { return dataset.Flags(f).Has(dataset.Flags(some)) }

// String returns the names of the flags, such as "CHECKPOINT|OUTPUT", with the number of those
// that are unknown.
func (f Flags) String() string {
	var names []string
	for _, known := range []struct {
		flag Flags
		name string
	}{{Checkpoint, "CHECKPOINT"}, {Output, "OUTPUT"}} {
		if f.Has(known.flag) {
			names = append(names, known.name)
		}
	}
	if unknown := f &^ (Checkpoint | Output); unknown != 0 {
		names = append(names, fmt.Sprintf("%#x", int64(unknown)))
	}
	if len(names) == 0 {
		return "NONE"
	}
	return strings.Join(names, "|")
}
