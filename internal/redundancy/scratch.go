package redundancy

import "sync"

// scratches has buffers for files that are read. A dataset of many small
// files opens and closes as many files in one call, and the next dataset does so again.
var scratches sync.Pool

// grown returns n bytes of scratch memory with undefined contents, and leaves old to others.
func grown(old []byte, n int) []byte {
	giveUp(old)
	if p, ok := scratches.Get().(*[]byte); ok && cap(*p) >= n {
		return (*p)[:cap(*p)]
	}
	return make([]byte, n)
}

// giveUp leaves scratch memory to others, and returns nil.
func giveUp(buf []byte) []byte {
	if len(buf) > 0 {
		scratches.Put(&buf)
	}
	return nil
}
