package scr

import "github.com/goscr/goscr/internal/dataset"

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
