package prefix

import (
	"errors"

	"github.com/goscr/goscr/internal/observe/report"
	"github.com/goscr/goscr/internal/sys/compress"
	"github.com/goscr/goscr/internal/sys/trust"
	"github.com/goscr/goscr/mpi"
	"github.com/goscr/goscr/mpi/local"
)

// Prefix is a prefix directory in use by the ranks of a job.
type Prefix struct {
	Comm   mpi.Comm
	Dir    string // absolute
	Buffer int    // bytes that are copied at a time
	Bare   bool   // copies do not preserve mode, owner and times
	Blind  bool   // checksums are neither computed nor compared
	// Compress is the compression of files that get smaller by it. Outputs are
	// never compressed, because other programs read them.
	Compress compress.Method
	Width    int // how many ranks may flush at the same time; 0: all
	Log      *report.Logger
	Ours     Ours // which datasets are of this job; nil: all

	watch func(what string) // for tests
}

// root is the prefix directory, to which others may be able to write.
func (p *Prefix) root() trust.Root { return trust.Root(p.Dir) }

// at tells a test what is about to be changed, so that the test can interrupt it.
func (p *Prefix) at(what string) {
	if p.watch != nil {
		p.watch(what)
	}
}

// alone runs collective code over a communicator of one process, for commands, which
// run without MPI. It returns the error of f itself, not the AgreedError around it.
func alone(prefix string, f func(p *Prefix) error) error {
	err := mpi.Try(func() error { return f(&Prefix{Comm: local.One(), Dir: prefix, Log: &report.Logger{}}) })
	var agreed *mpi.AgreedError
	if errors.As(err, &agreed) && agreed.Err != nil {
		return agreed.Err
	}
	return err
}
