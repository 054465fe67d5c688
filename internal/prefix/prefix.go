package prefix

import (
	"errors"

	"github.com/goscr/goscr/hash"
	"github.com/goscr/goscr/internal/compress"
	"github.com/goscr/goscr/internal/dataset"
	"github.com/goscr/goscr/internal/report"
	"github.com/goscr/goscr/mpi"
	"github.com/goscr/goscr/mpi/local"
)

// Prefix is a prefix directory in use by the ranks of a job.
type Prefix struct {
	Comm   mpi.Comm
	Dir    string // absolute
	Buffer int    // bytes that are copied at a time
	Bare   bool   // files are copied without mode, owner and times
	Blind  bool   // ... and without their checksums
	// Compress is how files are stored that get smaller by it. Outputs, which are
	// for others to read, are stored as they are.
	Compress compress.Method
	Width    int // most ranks that flush at a time, 0: all
	Log      *report.Logger

	watch func(what string) // for tests
}

// tell returns rank 0's description on all ranks. It is collective.
func (p *Prefix) tell(d dataset.Dataset) (dataset.Dataset, error) {
	h, err := hash.Bcast(d.Encode(), 0, p.Comm)
	return dataset.Decode(h), err
}

// alone runs collective code in one process, as commands need it. It returns the error
// itself, not an AgreedError.
func alone(prefix string, f func(p *Prefix) error) error {
	err := f(&Prefix{Comm: local.One(), Dir: prefix, Log: &report.Logger{}})
	var agreed *mpi.AgreedError
	if errors.As(err, &agreed) && agreed.Err != nil {
		return agreed.Err
	}
	return err
}
