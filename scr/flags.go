package scr

import "github.com/goscr/goscr/internal/dataset"

// Flags say what a dataset is for. They can be combined.
type Flags int

// What a dataset is for.
const (
	None       Flags = Flags(dataset.None)
	Checkpoint Flags = Flags(dataset.Checkpoint) // the program can restart from it
	Output     Flags = Flags(dataset.Output)     // wanted in the prefix directory in any case
)

// Has reports whether all of some flags are set.
func (f Flags) Has(some Flags) bool { return dataset.Flags(f).Has(dataset.Flags(some)) }
