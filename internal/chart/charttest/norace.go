//go:build !race

package charttest

// WithRaceDetector is true if the race detector watches the test. It needs cgo, and binaries with cgo render charts without Landlock.
const WithRaceDetector = false
