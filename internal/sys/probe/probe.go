// Package probe finds out which nodes see the same directory. Neither its path nor the
// kind of its file system says so: a file system may not be mounted on a node, and
// nodes may share one that a user takes for their own. So ranks make small
// files, and look for those of others.
package probe

import (
	"crypto/rand"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/goscr/goscr/internal/sys/descriptors"
	"github.com/goscr/goscr/internal/sys/trust"
)

// Run is a run of a job whose ranks make probes. Its text is part of their names, and
// the same on all ranks.
type Run string

// NewRun returns a run that no other has been.
func NewRun() Run { return Run(rand.Text()) }

const (
	begin = "probe."
	old   = time.Hour // a probe of this age is of a run that was killed
	pause = 100 * time.Millisecond
)

// patience is how long a network file system may show an old state of a directory.
var patience = 5 * time.Second

func (r Run) path(dir string, rank int) string {
	return filepath.Join(dir, begin+string(r)+"."+strconv.Itoa(rank))
}

// Put makes the probe of a rank in a directory. It removes probes that killed runs have left.
func (r Run) Put(dir string, rank int) error {
	path := r.path(dir, rank)
	below := trust.Around(path)
	f, err := below.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	info, err := f.Stat()
	if err := errors.Join(err, f.Close()); err != nil {
		r.Remove(dir, rank)
		return err
	}
	entries, _ := os.ReadDir(dir)
	for _, e := range entries {
		other := filepath.Join(dir, e.Name())
		if !strings.HasPrefix(e.Name(), begin) || !e.Type().IsRegular() {
			continue
		}
		if i, err := below.Lstat(other); err == nil && info.ModTime().Sub(i.ModTime()) > old {
			_ = below.Remove(other)
		}
	}
	return nil
}

// Remove removes the probe of a rank if it is there.
func (r Run) Remove(dir string, rank int) {
	path := r.path(dir, rank)
	_ = trust.Around(path).Remove(path)
}

// Sees returns nil if the caller sees the probe of a rank in a directory.
func (r Run) Sees(dir string, rank int) error {
	path := r.path(dir, rank)
	for began := time.Now(); ; time.Sleep(pause) {
		// A network file system asks its server for the state of a directory that is opened.
		if d, err := descriptors.OpenFile(dir, os.O_RDONLY, 0); err == nil {
			_ = d.Close()
		}
		_, err := trust.Around(path).Lstat(path)
		if !errors.Is(err, fs.ErrNotExist) || time.Since(began) > patience {
			return err
		}
	}
}

// Seen returns the ranks whose probes the caller sees in a directory, in ascending order.
func (r Run) Seen(dir string) (ranks []int, err error) {
	entries, err := os.ReadDir(dir)
	for _, e := range entries {
		if digits, ok := strings.CutPrefix(e.Name(), begin+string(r)+"."); ok {
			if rank, err := strconv.Atoi(digits); err == nil {
				ranks = append(ranks, rank)
			}
		}
	}
	slices.Sort(ranks)
	return ranks, err
}
