package prefix

import (
	"path/filepath"
	"sync"
	"time"

	"github.com/goscr/goscr/hash"
	"github.com/goscr/goscr/internal/prefix/dataset"
	"github.com/goscr/goscr/internal/prefix/transfer"
	"github.com/goscr/goscr/internal/sys/trust"
)

// flushing.scr, in the directory of a dataset that is being flushed, says how far rank 0 is
// with its files, or scr_transfer with those of the node of rank 0. All ranks begin at the
// same time, and limits on the copy are shared by the bytes of each, so others are about as
// far. What copies writes it, if that takes more than a second:
//
//	DSETDESC / …   description of the dataset
//	COPIED = n     bytes that are copied
//	BYTES = n      ... of so many
type flushing struct {
	Dataset dataset.Dataset `hash:"DSETDESC"`
	Copied  int64           `hash:"COPIED"`
	Bytes   int64           `hash:"BYTES"`
}

const flushingFile = "flushing.scr"

// copyInterval is the least time between two changes of flushing.scr.
const copyInterval = time.Second

func flushingPath(prefix string, id int) string {
	return filepath.Join(Dir(prefix, id), flushingFile)
}

// CopyMeter records in the prefix directory how far the flush of a dataset is. It does so at
// most once a second, and, since only commands read it, not at all after an error.
type CopyMeter struct {
	prefix string
	of     dataset.Dataset

	mu           sync.Mutex
	copied, size int64
	told         time.Time
	failed       bool
}

// NewCopyMeter returns the CopyMeter of a dataset that is to be copied to a prefix directory.
func NewCopyMeter(prefix string, d dataset.Dataset) *CopyMeter {
	return &CopyMeter{prefix: prefix, of: d, told: time.Now()}
}

// Of reports whether the meter is of a dataset in a prefix directory. It may be nil.
func (m *CopyMeter) Of(prefix string, d dataset.Dataset) bool {
	return m != nil && m.prefix == prefix && m.of.Same(d)
}

// Set sets how many bytes have been copied, of how many.
func (m *CopyMeter) Set(copied, size int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.copied, m.size = copied, size
}

// Watch makes the meter count what a Copier copies.
func (m *CopyMeter) Watch(c *transfer.Copier) {
	step := c.Step
	c.Step = func(bytes int) error {
		m.add(int64(bytes))
		if step == nil {
			return nil
		}
		return step(bytes)
	}
}

func (m *CopyMeter) add(bytes int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.copied += bytes
	if m.failed || m.size <= 0 || time.Since(m.told) < copyInterval {
		return
	}
	if hash.WriteShared(flushingPath(m.prefix, m.of.ID()), hash.Marshal(flushing{m.of, min(m.copied, m.size), m.size})) != nil {
		m.failed = true
		return
	}
	m.told = time.Now()
}

// Copied returns how much of a dataset that is being flushed has been copied, between 0 and 1;
// known is false if nothing says so.
func Copied(prefix string, d dataset.Dataset) (part float64, known bool) {
	h, err := hash.ReadFile(flushingPath(prefix, d.ID()))
	f := hash.As[flushing](h)
	if err != nil || !f.Dataset.Same(d) || f.Bytes <= 0 || f.Copied < 0 || f.Copied > f.Bytes {
		return 0, false
	}
	return float64(f.Copied) / float64(f.Bytes), true
}

// forgetCopied removes what a CopyMeter has recorded.
func forgetCopied(prefix string, id int) { _ = trust.Root(prefix).Remove(flushingPath(prefix, id)) }
