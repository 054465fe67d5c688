//go:build race

package prefix

// raceDetector says that goroutines cost so much that there cannot be many.
const raceDetector = true
