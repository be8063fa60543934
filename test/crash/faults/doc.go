// Package faults contains tests that disturb a controller's connection to its API servers, restart the API servers, or change the clock,
// and require the same result as an undisturbed run. It contains no code that runs in a process.
//
// With CRASH_FAULTS=all every scenario of test/crash/scenarios runs with every fault; otherwise each fault runs with a few scenarios.
package faults
