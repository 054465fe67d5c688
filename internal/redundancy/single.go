package redundancy

import "fmt"

// Single is the scheme without redundancy: its files survive the end of a run, but not
// the loss of a node. Older versions of SCR also call it LOCAL. It computes checksums,
// so that no restart uses files that have changed.
type Single struct{}

var _ Scheme = Single{}

// Name returns the value of TYPE in a descriptor.
func (Single) Name() string { return "SINGLE" }

// Failures returns 0.
func (Single) Failures(int) int { return 0 }

// Bears reports whether lost is empty.
func (Single) Bears(_ int, lost []int) bool { return len(lost) == 0 }

// Encode computes and records the checksums. It writes no files.
func (Single) Encode(j *Job, files []File) ([]File, error) {
	crcs, err := checksums(files, j.Piece)
	for i, crc := range crcs {
		files[i].Meta.SetCRC(crc)
	}
	return nil, err
}

// Verify compares the checksums.
func (Single) Verify(j *Job, files []File) error { return Verify(files, j.Piece) }

// Recover returns files, or an error if any member has lost its files.
func (Single) Recover(j *Job, files []File, lost []int) ([]File, error) {
	if len(lost) > 0 {
		return nil, fmt.Errorf("%w: files are lost, and SINGLE has no redundancy", ErrUnrecoverable)
	}
	return files, nil
}
