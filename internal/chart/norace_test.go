//go:build !race

package chart

// withRaceDetector is true if the race detector uses more memory than the limit, and needs cgo, with which Landlock is not used.
const withRaceDetector = false
