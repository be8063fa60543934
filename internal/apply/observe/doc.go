// Package observe knows the state of managed objects without asking for it: one metadata-only watch per kind,
// restricted to objects that carry the managed-by label, condensed to a fingerprint per object.
//
// Watches start when a set needs a kind and stop when no set does. Where a cluster-wide watch is not granted the
// narrowest that is takes its place; what cannot be watched at all is reported as Unwatched, and its user looks live.
// The package does not decide anything and never writes.
package observe
