// Package points holds the tests that cut a controller off at its requests to the API servers: at every one of a small
// scenario while it does one thing at a time, and at random ones while it works with full concurrency. It holds no code
// that runs in a process.
//
// Variables of the environment steer them. CRASH_SAMPLE is the number of points to try, 0 for all (default 36), CRASH_RANDOM
// the number of runs with full concurrency (default 6), CRASH_SEED chooses which (default 1), CRASH_SCENARIO restricts all to
// the scenarios whose names contain it, and CRASH_WORKERS is how many runs there are at once (default 3).
package points
