// Package dataset is the description of a dataset: all files that the ranks
// of a job write between one Start_output and its Complete_output. A
// checkpoint is a dataset that the job can restart from.
package dataset

import (
	"fmt"
	"strings"
	"time"
)

// Flags say what a dataset is for; they are those of the C API.
type Flags int

// The flags of the C API.
const (
	None       Flags = 0
	Checkpoint Flags = 1 << 0
	Output     Flags = 1 << 1
)

// Has reports whether all of f2 is in f.
func (f Flags) Has(f2 Flags) bool { return f&f2 == f2 }

// Owner is who a dataset belongs to. Empty fields are not recorded.
type Owner struct{ User, JobName, JobID, Cluster string }

// Dataset describes a dataset. The zero value describes none.
type Dataset struct {
	described
	rest // what this version of goscr does not know
}

// New describes a dataset that is about to be written. checkpoint is the
// number of the checkpoint, counted from 1; it is recorded only for one.
func New(id int, name string, flags Flags, checkpoint int, owner Owner, now time.Time) Dataset {
	var d Dataset
	d.id, d.name, d.owner = some(int64(id)), name, owner
	d.isCheckpoint, d.isOutput = some(int64(flags&Checkpoint)), some(int64(flags&Output>>1))
	d.created = some(now.UnixMicro())
	if flags.Has(Checkpoint) {
		d.checkpoint = some(int64(checkpoint))
	}
	return d
}

// NewOld describes a checkpoint of SCR 1.1, which had a number and a name and nothing
// else.
func NewOld(checkpoint int, name string) Dataset {
	var d Dataset
	d.id, d.checkpoint, d.name = some(int64(checkpoint)), some(int64(checkpoint)), name
	return d
}

// CheckName says what is wrong with a name for a dataset, which the index,
// scripts and people's screens have to show on one line.
func CheckName(name string) error {
	switch {
	case name == "":
		return fmt.Errorf("the name of a dataset is empty")
	case strings.ContainsFunc(name, func(r rune) bool { return r < ' ' || r == 0x7f }):
		return fmt.Errorf("the name %q of a dataset has control characters in it", name)
	}
	return nil
}

// IsZero reports whether nothing is described.
func (d Dataset) IsZero() bool { return d.described == described{} && d.other == nil }

// Same reports whether two descriptions are of one dataset, and not of two that
// have the same number.
func (d Dataset) Same(other Dataset) bool {
	return d.ID() == other.ID() && d.name == other.name && d.Created().Equal(other.Created())
}

// ID is the dataset's number, 0 if it has none.
func (d Dataset) ID() int { return int(d.id.value) }

// Name is the name the program gave it.
func (d Dataset) Name() string { return d.name }

// Owner returns the user and the job.
func (d Dataset) Owner() Owner { return d.owner }

// Flags says what it is for. A dataset of an older version, which has recorded no
// flags, is a checkpoint if it has the number of one.
func (d Dataset) Flags() Flags {
	if !d.isCheckpoint.known && d.checkpoint.known {
		return Checkpoint
	}
	return Flags(d.isCheckpoint.value&1 | d.isOutput.value&1<<1)
}

// Checkpoint is the number of the checkpoint, 0 if it is none.
func (d Dataset) Checkpoint() int { return int(d.checkpoint.value) }

// Created is when its first rank began it.
func (d Dataset) Created() time.Time { return time.UnixMicro(d.created.value) }

// Size is the sum of the sizes of its files in bytes.
func (d Dataset) Size() int64 { return d.size.value }

// Files is the number of its files over all ranks.
func (d Dataset) Files() int { return int(d.files.value) }

// SetTotals records number and size of all its files.
func (d *Dataset) SetTotals(files, bytes int64) { d.files, d.size = some(files), some(bytes) }

// SetComplete records whether every rank's part is whole.
func (d *Dataset) SetComplete(complete bool) {
	d.complete = some(0)
	if complete {
		d.complete = some(1)
	}
}

// Complete reports whether every rank's part was recorded as whole.
func (d Dataset) Complete() bool { return d.complete.value == 1 }

// SetCompressed records whether some of its files, where they are, are compressed.
func (d *Dataset) SetCompressed(compressed bool) {
	d.compressed = number{}
	if compressed {
		d.compressed = some(1)
	}
}

// Compressed reports whether some of its files, where they are, are compressed.
func (d Dataset) Compressed() bool { return d.compressed.value == 1 }

// SetBypass records that the program writes the files to the prefix directory
// itself.
func (d *Dataset) SetBypass() { d.bypass = some(1) }

// Bypass reports whether the program wrote the files to the prefix directory.
func (d Dataset) Bypass() bool { return d.bypass.value == 1 }
