// Package dataset is the description of a dataset: all files that the ranks
// of a job write between one Start_output and its Complete_output. A
// checkpoint is a dataset that the job can restart from.
//
// The keys are those that SCR 3.1 reads and writes.
package dataset

import (
	"fmt"
	"strings"
	"time"

	"github.com/goscr/goscr/hash"
)

const (
	keyID         = "ID"
	keyName       = "NAME"
	keyCheckpoint = "FLAG_CKPT"
	keyOutput     = "FLAG_OUTPUT"
	keyCreated    = "CREATED" // microseconds since the epoch
	keyUser       = "USER"
	keyJobName    = "JOBNAME"
	keyJobID      = "JOBID"
	keyCluster    = "CLUSTER"
	keyCkpt       = "CKPT" // counts checkpoints, where ID counts datasets
	keyFiles      = "FILES"
	keySize       = "SIZE"
	keyComplete   = "COMPLETE"
	keyBypass     = "BYPASS"     // not in the original
	keyCompressed = "COMPRESSED" // nor this
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

// Dataset is the hash that describes a dataset.
type Dataset struct{ *hash.Hash }

// New describes a dataset that is about to be written. checkpoint is the
// number of the checkpoint, counted from 1; it is recorded only for one.
func New(id int, name string, flags Flags, checkpoint int, owner Owner, now time.Time) Dataset {
	d := Dataset{hash.New()}
	d.SetInt(keyID, int64(id))
	d.SetValue(keyName, name)
	d.SetInt(keyCheckpoint, int64(flags&Checkpoint))
	d.SetInt(keyOutput, int64(flags&Output>>1))
	d.SetInt(keyCreated, now.UnixMicro())
	for _, f := range []struct{ key, value string }{
		{keyUser, owner.User}, {keyJobName, owner.JobName}, {keyJobID, owner.JobID}, {keyCluster, owner.Cluster},
	} {
		if f.value != "" {
			d.SetValue(f.key, f.value)
		}
	}
	if flags.Has(Checkpoint) {
		d.SetInt(keyCkpt, int64(checkpoint))
	}
	return d
}

// Unpack reads the packed form of a description.
func Unpack(packed []byte) (Dataset, error) {
	h, _, err := hash.Unpack(packed)
	return Dataset{h}, err
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

func (d Dataset) number(key string) int {
	n, _ := d.Int(key)
	return int(n)
}

// ID is the dataset's number, 0 if it has none.
func (d Dataset) ID() int { return d.number(keyID) }

// Name is the name the program gave it.
func (d Dataset) Name() string { return d.Text(keyName) }

// Flags says what it is for. What no flag was recorded for, as in older
// versions, is a checkpoint if it has a checkpoint's number.
func (d Dataset) Flags() Flags {
	if !d.Has(keyCheckpoint) && d.Has(keyCkpt) {
		return Checkpoint
	}
	return Flags(d.number(keyCheckpoint)&1 | d.number(keyOutput)&1<<1)
}

// Checkpoint is the number of the checkpoint, 0 if it is none.
func (d Dataset) Checkpoint() int { return d.number(keyCkpt) }

// Created is when its first rank began it.
func (d Dataset) Created() time.Time {
	us, _ := d.Int(keyCreated)
	return time.UnixMicro(us)
}

// Size is the sum of the sizes of its files in bytes.
func (d Dataset) Size() int64 {
	n, _ := d.Int(keySize)
	return n
}

// Files is the number of its files over all ranks.
func (d Dataset) Files() int { return d.number(keyFiles) }

// SetTotals records number and size of all its files.
func (d Dataset) SetTotals(files, bytes int64) {
	d.SetInt(keyFiles, files)
	d.SetInt(keySize, bytes)
}

// SetComplete records whether every rank's part is whole.
func (d Dataset) SetComplete(complete bool) {
	d.SetValue(keyComplete, map[bool]string{true: "1", false: "0"}[complete])
}

// Complete reports whether every rank's part was recorded as whole.
func (d Dataset) Complete() bool { return d.Text(keyComplete) == "1" }

// SetCompressed records whether some of its files, where they are, are compressed.
func (d Dataset) SetCompressed(compressed bool) {
	d.Unset(keyCompressed)
	if compressed {
		d.SetValue(keyCompressed, "1")
	}
}

// Compressed reports whether some of its files, where they are, are compressed.
func (d Dataset) Compressed() bool { return d.Text(keyCompressed) == "1" }

// SetBypass records that the program writes the files to the prefix directory
// itself.
func (d Dataset) SetBypass() { d.SetValue(keyBypass, "1") }

// Bypass reports whether the program wrote the files to the prefix directory.
func (d Dataset) Bypass() bool { return d.Text(keyBypass) == "1" }
