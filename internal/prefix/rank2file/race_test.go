//go:build race

package rank2file

// raceDetector says that goroutines cost so much that there cannot be many.
const raceDetector = true
