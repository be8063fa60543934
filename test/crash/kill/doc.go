// Package kill contains tests that kill the real managedresource-controller with SIGKILL while it works, and start it again. They then
// require that all objects are as the sets define them: none is missing, none is left over, and no object was deleted in between that must
// be kept. The package contains no code that runs in a process.
//
// Four environment variables control them. CRASH_KILLS is the number of kills (default 6), CRASH_SEED repeats the random choices of an
// earlier run (the times, as far as the machine allows), CRASH_RACE=1 builds the controller with the race detector, and CRASH_SETS is the
// number of sets of 40 objects (default 20, at least 8).
package kill
