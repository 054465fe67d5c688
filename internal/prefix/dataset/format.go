package dataset

import (
	"strconv"

	"github.com/goscr/goscr/hash"
)

// A description is a hash with these keys, each of which has one value. SCR 3.1 reads and
// writes the same keys, except those marked as goscr's:
//
//	ID, NAME              number and name
//	FLAG_CKPT             1 for a checkpoint, else 0
//	FLAG_OUTPUT           1 for output, else 0
//	CREATED               microseconds since the epoch
//	USER, JOBNAME, JOBID, CLUSTER
//	INPUT                 digest of the input of the job (goscr's)
//	CKPT                  number of the checkpoint; ID counts all datasets
//	FILES, SIZE           number of files and their total size in bytes, over all ranks
//	COMPLETE              1 if the files of all ranks are complete, else 0
//	BYPASS = 1            the program wrote the files to the prefix directory (goscr's)
//	COMPRESSED = 1        some files in the prefix directory are compressed (goscr's)
//	HISTORY               when its history began, in microseconds since the epoch; -1: any (goscr's)
//
// Other keys in a description that was read are written again unchanged.

// described holds the keys that this version of goscr knows.
type described struct {
	id, isCheckpoint, isOutput, created, checkpoint, files, size number
	state                                                        state
	name                                                         string
	owner                                                        Owner
}

// state is what is recorded of a dataset after it was created.
type state struct{ complete, bypass, compressed, history number }

// number is a number that a description may lack.
type number struct {
	value int64
	known bool
}

func some(n int64) number { return number{n, true} }

// rest holds the other keys of a description.
type rest struct{ other *hash.Hash }

// numbers returns pointers to the numbers of a description by their keys.
func (d *described) numbers() map[string]*number {
	return map[string]*number{
		"ID": &d.id, "FLAG_CKPT": &d.isCheckpoint, "FLAG_OUTPUT": &d.isOutput, "CREATED": &d.created, "CKPT": &d.checkpoint,
		"FILES": &d.files, "SIZE": &d.size, "COMPLETE": &d.state.complete, "BYPASS": &d.state.bypass, "COMPRESSED": &d.state.compressed, "HISTORY": &d.state.history,
	}
}

// texts returns pointers to the texts of a description by their keys.
func (d *described) texts() map[string]*string {
	return map[string]*string{
		"NAME": &d.name, "USER": &d.owner.User, "JOBNAME": &d.owner.JobName, "JOBID": &d.owner.JobID, "CLUSTER": &d.owner.Cluster,
		"INPUT": &d.owner.Input,
	}
}

// Decode reads a description. It returns the zero Dataset if h is nil or empty.
func Decode(h *hash.Hash) Dataset {
	var d Dataset
	numbers, texts := d.numbers(), d.texts()
	for key, under := range h.All() {
		text, one := h.Value(key)
		n, isNumber := h.Int(key)
		switch {
		case numbers[key] != nil && isNumber && strconv.FormatInt(n, 10) == text:
			*numbers[key] = some(n)
		case texts[key] != nil && one && text != "":
			*texts[key] = text
		default:
			if d.other == nil {
				d.other = hash.New()
			}
			d.other.Set(key, under.Clone())
		}
	}
	return d
}

// Encode returns a new hash with the description.
func (d Dataset) Encode() *hash.Hash {
	h := d.other.Clone()
	for key, n := range d.numbers() {
		if n.known {
			h.SetInt(key, n.value)
		}
	}
	for key, text := range d.texts() {
		if *text != "" {
			h.SetValue(key, *text)
		}
	}
	return h
}

// Pack appends the packed form of the description to buf.
func (d Dataset) Pack(buf []byte) []byte { return d.Encode().Pack(buf) }

// Unpack reads the packed form of a description.
func Unpack(packed []byte) (Dataset, error) {
	h, _, err := hash.Unpack(packed)
	return Decode(h), err
}
