//go:build !race

package rank2file

const raceDetector = false
