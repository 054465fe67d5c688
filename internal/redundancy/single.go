package redundancy

import (
	"cmp"
	"fmt"
)

// Single is the scheme without redundancy: its files survive the end of a run, but not
// the loss of a node. Older versions of SCR also call it LOCAL. It computes checksums,
// so that no restart uses files that have changed, unless Job.Unchecked is set.
type Single struct{}

var _ Scheme = Single{}

// Name returns the value of TYPE in a descriptor.
func (Single) Name() string { return "SINGLE" }

// Failures returns 0.
func (Single) Failures(int) int { return 0 }

// Tolerates reports whether lost is empty.
func (Single) Tolerates(_ int, lost []int) bool { return len(lost) == 0 }

// Encode computes and records the checksums that are not known yet. It writes no files.
func (Single) Encode(j *Job, files []File) ([]File, error) {
	if j.Unchecked {
		return nil, nil
	}
	_, files = byChecksum(files)
	crcs, err := j.checksums(files)
	for i, crc := range crcs {
		files[i].Meta.SetCRC(crc)
	}
	return nil, err
}

// Verify compares the checksums, and the sizes of files without a checksum, which it does not read.
func (Single) Verify(j *Job, files []File) error {
	known, unknown := byChecksum(Counted(files))
	return cmp.Or(checkSizes(unknown), Verify(known, j.Piece))
}

// byChecksum returns the files whose checksums are known, and the others.
func byChecksum(files []File) (known, unknown []File) {
	for _, f := range files {
		if _, ok := f.Meta.CRC(); ok {
			known = append(known, f)
		} else {
			unknown = append(unknown, f)
		}
	}
	return known, unknown
}

// Recover returns files, or an error if any member has lost its files.
func (Single) Recover(j *Job, files []File, lost []int) ([]File, error) {
	if len(lost) > 0 {
		return nil, fmt.Errorf("%w: files are lost, and SINGLE has no redundancy", ErrUnrecoverable)
	}
	return files, nil
}
