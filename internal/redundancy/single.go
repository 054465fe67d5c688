package redundancy

import "fmt"

// Single is the scheme without redundancy: its files outlast a restart on the same
// nodes, but no lost node. Older versions of SCR also call it LOCAL. It takes
// checksums all the same, so that no restart uses changed files.
type Single struct{}

var _ Scheme = Single{}

// Name is the value of TYPE in a descriptor.
func (Single) Name() string { return "SINGLE" }

// Failures is none.
func (Single) Failures(int) int { return 0 }

// Bears reports whether nothing is lost.
func (Single) Bears(_ int, lost []int) bool { return len(lost) == 0 }

// Encode takes the checksums.
func (Single) Encode(j *Job, files []File) ([]File, error) {
	crcs, err := checksums(files, j.Piece)
	for i, crc := range crcs {
		files[i].Meta.SetCRC(crc)
	}
	return nil, err
}

// Verify compares the checksums.
func (Single) Verify(j *Job, files []File) error { return Verify(files, j.Piece) }

// Recover rebuilds nothing.
func (Single) Recover(j *Job, files []File, lost []int) ([]File, error) {
	if len(lost) > 0 {
		return nil, fmt.Errorf("%w: files are lost, and SINGLE keeps no copy", ErrUnrecoverable)
	}
	return files, nil
}
