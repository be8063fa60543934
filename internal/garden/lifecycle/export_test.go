package lifecycle

// Remaining is remaining.
var Remaining = remaining
