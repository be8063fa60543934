// Package points contains tests that cut a controller off at its requests to the API servers: at each request of a small scenario while the
// controller does one thing at a time, and at random requests while it works with full concurrency. It contains no code that runs in a
// process.
//
// Environment variables control them. CRASH_SAMPLE is the number of points to try, 0 for all (default 36), CRASH_RANDOM is the number of
// runs with full concurrency (default 6), CRASH_SEED selects them (default 1), CRASH_SCENARIO selects the scenarios whose names contain it,
// and CRASH_WORKERS is the number of concurrent runs (default 3).
package points
