package mpi

import "fmt"

// MaxTag is the largest tag. Every MPI takes one more, which implementations of Comm have
// for messages of their own.
const MaxTag = 32766

// CheckTarget returns an error unless a message with this tag can be sent to
// rank dst of a communicator of size ranks. MPIs differ in what they do with
// wrong arguments, so every implementation of Comm checks them here first.
func CheckTarget(size, dst, tag int) error {
	if dst < 0 || dst >= size {
		return fmt.Errorf("no rank %d in a communicator of %d", dst, size)
	}
	if tag < 0 || tag > MaxTag {
		return fmt.Errorf("tag %d is not between 0 and %d", tag, MaxTag)
	}
	return nil
}

// CheckSource is CheckTarget for a receive or probe, which may be from AnySource.
func CheckSource(size, src, tag int) error {
	if src == AnySource {
		src = 0
	}
	return CheckTarget(size, src, tag)
}

// CheckColor returns an error unless color can be given to Split.
func CheckColor(color int) error {
	if color != Undefined && (color < 0 || color > 1<<31-1) {
		return fmt.Errorf("color %d of a split is not between 0 and %d", color, 1<<31-1)
	}
	return nil
}
