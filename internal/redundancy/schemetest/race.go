//go:build race

package schemetest

// The race detector makes everything several times slower; what it looks for
// shows in small sets.
const raceLargest = 4
