// Package dataset describes datasets. A dataset is all files that the ranks of a job write
// between one Start_output and its Complete_output. A checkpoint is a dataset from which
// the job can restart.
package dataset

import (
	"fmt"
	"strings"
	"time"
)

// Flags say what a dataset is for. They have the values of the C API.
type Flags int

// The flags of the C API.
const (
	None       Flags = 0
	Checkpoint Flags = 1 << 0
	Output     Flags = 1 << 1
)

// Has reports whether all flags of f2 are set in f.
func (f Flags) Has(f2 Flags) bool { return f&f2 == f2 }

// New describes a dataset that is about to be written. checkpoint is the number of the
// checkpoint, counted from 1; it is recorded only if flags has Checkpoint.
func New(id int, name string, flags Flags, checkpoint int, owner Owner, now time.Time) Dataset {
	d := record{ID: some(int64(id)), Name: name, Owner: owner, Created: some(now.UnixMicro()),
		IsCheckpoint: some(int64(flags & Checkpoint)), IsOutput: some(int64(flags & Output >> 1))}
	if flags.Has(Checkpoint) {
		d.Checkpoint = some(int64(checkpoint))
	}
	return Dataset{d}
}

// NewOld describes a checkpoint of SCR 1.1, which recorded only a number and a name.
func NewOld(checkpoint int, name string) Dataset {
	n := some(int64(checkpoint))
	return Dataset{record{ID: n, Checkpoint: n, Name: name}}
}

// CheckName returns an error if a dataset cannot have this name. Names must not contain
// control characters, because commands and scripts show them on one line.
func CheckName(name string) error {
	switch {
	case name == "":
		return fmt.Errorf("the name of a dataset is empty")
	case strings.ContainsFunc(name, func(r rune) bool { return r < ' ' || r == 0x7f }):
		return fmt.Errorf("the name %q of a dataset contains control characters", name)
	}
	return nil
}

// IsZero reports whether d describes no dataset.
func (d Dataset) IsZero() bool { return d.record == record{} }

// Same reports whether two descriptions are of the same dataset. Equal numbers are not
// enough: a run that restarts from an older checkpoint uses the later numbers again.
func (d Dataset) Same(other Dataset) bool {
	return d.ID() == other.ID() && d.Name() == other.Name() && d.Created().Equal(other.Created())
}

// ID is the dataset's number, 0 if it has none.
func (d Dataset) ID() int { return int(d.record.ID.value) }

// Name is the dataset's name.
func (d Dataset) Name() string { return d.record.Name }

// Owner returns the user and the job.
func (d Dataset) Owner() Owner { return d.record.Owner }

// Flags returns the flags. SCR 1.1 recorded none; a dataset of its is a
// checkpoint if it has the number of a checkpoint.
func (d Dataset) Flags() Flags {
	if !d.record.IsCheckpoint.known && d.record.Checkpoint.known {
		return Checkpoint
	}
	return Flags(d.record.IsCheckpoint.value&1 | d.record.IsOutput.value&1<<1)
}

// Checkpoint is the number of the checkpoint, 0 if the dataset is not a checkpoint.
func (d Dataset) Checkpoint() int { return int(d.record.Checkpoint.value) }

// Created is when rank 0 began to write the dataset.
func (d Dataset) Created() time.Time { return time.UnixMicro(d.record.Created.value) }

// Size is the total size of its files in bytes.
func (d Dataset) Size() int64 { return d.record.Size.value }

// Files is the number of its files over all ranks.
func (d Dataset) Files() int { return int(d.record.Files.value) }

// SetTotals records the number of files and their total size in bytes, over all ranks.
func (d *Dataset) SetTotals(files, bytes int64) {
	d.record.Files, d.record.Size = some(files), some(bytes)
}

// SetComplete records whether the files of all ranks are complete.
func (d *Dataset) SetComplete(complete bool) {
	d.record.Complete = some(0)
	if complete {
		d.record.Complete = some(1)
	}
}

// Complete reports whether the files of all ranks were recorded as complete.
func (d Dataset) Complete() bool { return d.record.Complete.value == 1 }

// SetCompressed records whether some files in the prefix directory are compressed.
func (d *Dataset) SetCompressed(compressed bool) {
	d.record.Compressed = number{}
	if compressed {
		d.record.Compressed = some(1)
	}
}

// Compressed reports whether some files in the prefix directory are compressed.
func (d Dataset) Compressed() bool { return d.record.Compressed.value == 1 }

// SetBypass records that the program writes the files to the prefix directory
// itself.
func (d *Dataset) SetBypass() { d.record.Bypass = some(1) }

// Bypass reports whether the program wrote the files to the prefix directory.
func (d Dataset) Bypass() bool { return d.record.Bypass.value == 1 }

// SetVersion records that the dataset is a version of a series: of checkpoints that replace each other, beside those of
// other series. All datasets without a series are one series, called "".
func (d *Dataset) SetVersion(series string, version int) {
	d.record.Series, d.record.Version = series, some(int64(version))
}

// Series returns the name of the series.
func (d Dataset) Series() string { return d.record.Series }

// Version returns the number of the dataset in its series, 0 if it has no series.
func (d Dataset) Version() int { return int(d.record.Version.value) }

// A history is a run that has started from the beginning, and the runs that restart from what it writes. It is identified by the time
// when it began, in microseconds.
const (
	// UnknownHistory is that of what SCR has written.
	UnknownHistory int64 = 0
	// AnyHistory replaces what others have written: the user wanted a new beginning.
	AnyHistory int64 = -1
)

// SetHistory records the history of the dataset.
func (d *Dataset) SetHistory(history int64) {
	d.record.History = number{}
	if history != UnknownHistory {
		d.record.History = some(history)
	}
}

// History returns the history of the dataset.
func (d Dataset) History() int64 { return d.record.History.value }

// Of reports whether the dataset is of a history, as far as that matters.
func (d Dataset) Of(history int64) bool { return history == AnyHistory || d.History() == history }
