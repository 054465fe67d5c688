package mpi

import "fmt"

// MaxTag is the largest tag. Every MPI takes one more, which implementations of Comm have
// for messages of their own.
const MaxTag = 32766

// CheckTarget panics with an *OpError unless a message with this tag can be sent to
// rank dst of a communicator of size ranks. MPIs differ in what they do with
// wrong arguments, so every implementation of Comm checks them here first.
func CheckTarget(size, dst, tag int) {
	if dst < 0 || dst >= size {
		panic(refused("no rank %d in a communicator of %d", dst, size))
	}
	if tag < 0 || tag > MaxTag {
		panic(refused("tag %d is not between 0 and %d", tag, MaxTag))
	}
}

func refused(format string, args ...any) *OpError {
	return &OpError{"MPI", fmt.Errorf(format, args...)}
}

// CheckSource is CheckTarget for a receive or probe, which may be from AnySource.
func CheckSource(size, src, tag int) {
	if src == AnySource {
		src = 0
	}
	CheckTarget(size, src, tag)
}

// CheckColor panics with an *OpError unless color can be given to Split.
func CheckColor(color int) {
	if color != Undefined && (color < 0 || color > 1<<31-1) {
		panic(refused("color %d of a split is not between 0 and %d", color, 1<<31-1))
	}
}
