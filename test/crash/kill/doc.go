// Package kill holds the tests that kill the real managedresource-controller with SIGKILL while it works, start it
// again and then require that everything is as the sets say: nothing is missing, nothing is left over, and nothing was
// deleted in between that should have stayed. It holds no code that runs in a process.
//
// Four variables of the environment steer them. CRASH_KILLS is the number of kills (default 6), CRASH_SEED repeats the
// random choices of an earlier run (the moments, as far as the machine allows), CRASH_RACE=1 builds the controller with
// the race detector, and CRASH_SETS is the number of sets of 40 objects (default 20, at least 8).
package kill
