//go:build !race

package prefix

const raceDetector = false
