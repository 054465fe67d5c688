package dataset

import (
	"strconv"

	"github.com/goscr/goscr/hash"
)

// A description is a hash with these keys, each of which has one value. They are
// those that SCR 3.1 reads and writes, and some of ours:
//
//	ID, NAME              number and name
//	FLAG_CKPT             1 for a checkpoint, else 0
//	FLAG_OUTPUT           1 for output, else 0
//	CREATED               microseconds since the epoch
//	USER, JOBNAME, JOBID, CLUSTER
//	CKPT                  counts checkpoints, where ID counts datasets
//	FILES, SIZE           of all ranks, bytes
//	COMPLETE              1 if every rank's part is whole, else 0
//	BYPASS = 1            the program has written the files to the prefix directory; ours
//	COMPRESSED = 1        some files are compressed where they are; ours
//
// What else is in a description is kept and written again.

// described is what this version of goscr knows of a description.
type described struct {
	id, isCheckpoint, isOutput, created, checkpoint, files, size number
	complete, bypass, compressed                                 number
	name                                                         string
	owner                                                        Owner
}

// number is a number that may not be recorded.
type number struct {
	value int64
	known bool
}

func some(n int64) number { return number{n, true} }

// rest is what else is in a description.
type rest struct{ other *hash.Hash }

// numbers returns where the numbers of a description are, by key.
func (d *described) numbers() map[string]*number {
	return map[string]*number{
		"ID": &d.id, "FLAG_CKPT": &d.isCheckpoint, "FLAG_OUTPUT": &d.isOutput, "CREATED": &d.created, "CKPT": &d.checkpoint,
		"FILES": &d.files, "SIZE": &d.size, "COMPLETE": &d.complete, "BYPASS": &d.bypass, "COMPRESSED": &d.compressed,
	}
}

// texts returns where the texts of a description are, by key.
func (d *described) texts() map[string]*string {
	return map[string]*string{
		"NAME": &d.name, "USER": &d.owner.User, "JOBNAME": &d.owner.JobName, "JOBID": &d.owner.JobID, "CLUSTER": &d.owner.Cluster,
	}
}

// Decode reads a description. Of no hash the zero Dataset is made.
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
