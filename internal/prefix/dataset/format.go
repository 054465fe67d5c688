package dataset

import (
	"errors"
	"strconv"

	"github.com/goscr/goscr/hash"
)

// Dataset describes a dataset. The zero value describes none.
type Dataset struct{ record record }

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
//	SERIES, VERSION       the series of which it is a version, and its number there (goscr's)
//	HISTORY               when its history began, in microseconds since the epoch; -1: any (goscr's)
//
// Other keys in a description that was read are written again unchanged.
type record struct {
	ID           number `hash:"ID,omitempty"`
	Name         string `hash:"NAME,omitempty"`
	IsCheckpoint number `hash:"FLAG_CKPT,omitempty"`
	IsOutput     number `hash:"FLAG_OUTPUT,omitempty"`
	Created      number `hash:"CREATED,omitempty"`
	Owner
	Checkpoint number     `hash:"CKPT,omitempty"`
	Files      number     `hash:"FILES,omitempty"`
	Size       number     `hash:"SIZE,omitempty"`
	Complete   number     `hash:"COMPLETE,omitempty"`
	Bypass     number     `hash:"BYPASS,omitempty"`
	Compressed number     `hash:"COMPRESSED,omitempty"`
	Series     string     `hash:"SERIES,omitempty"`
	Version    number     `hash:"VERSION,omitempty"`
	History    number     `hash:"HISTORY,omitempty"`
	Rest       *hash.Hash `hash:",rest"`
}

// Owner is the user and the job that wrote a dataset. Empty fields are not recorded.
type Owner struct {
	User    string `hash:"USER,omitempty"`
	JobName string `hash:"JOBNAME,omitempty"`
	JobID   string `hash:"JOBID,omitempty"`
	Cluster string `hash:"CLUSTER,omitempty"`
	Input   string `hash:"INPUT,omitempty"` // digest of the files of SCR_JOB_INPUT
}

// number is a number that a description may lack.
type number struct {
	value int64
	known bool
}

func some(n int64) number { return number{n, true} }

// MarshalText returns the text of a number that is known.
func (n number) MarshalText() ([]byte, error) { return strconv.AppendInt(nil, n.value, 10), nil }

// UnmarshalText reads a number; one with signs or zeros that are not needed stays as it is in the description.
func (n *number) UnmarshalText(text []byte) error {
	value, err := strconv.ParseInt(string(text), 10, 64)
	if err == nil && strconv.FormatInt(value, 10) != string(text) {
		err = errors.New("not as goscr writes it")
	}
	if err == nil {
		*n = some(value)
	}
	return err
}

// Decode reads a description. It returns the zero Dataset if h is nil or empty.
func Decode(h *hash.Hash) Dataset { return Dataset{hash.As[record](h)} }

// Encode returns a new hash with the description.
func (d Dataset) Encode() *hash.Hash { return hash.Marshal(&d.record) }

// MarshalHash is Encode.
func (d Dataset) MarshalHash() *hash.Hash { return d.Encode() }

// UnmarshalHash is Decode.
func (d *Dataset) UnmarshalHash(h *hash.Hash) { *d = Decode(h) }

// Pack appends the packed form of the description to buf.
func (d Dataset) Pack(buf []byte) []byte { return d.Encode().Pack(buf) }

// Unpack reads the packed form of a description.
func Unpack(packed []byte) (Dataset, error) {
	h, _, err := hash.Unpack(packed)
	return Decode(h), err
}
