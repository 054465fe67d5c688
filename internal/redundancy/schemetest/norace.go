//go:build !race

package schemetest

const raceLargest = 1 << 30
