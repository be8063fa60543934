// Package faults holds the tests that disturb a controller's connection to its API servers, restart these, or let the
// clock jump, and require the same end as undisturbed. It holds no code that runs in a process.
//
// CRASH_FAULTS=all lets every scenario of test/crash/scenarios meet every fault; otherwise each fault meets one of a few.
package faults
