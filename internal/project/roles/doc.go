// Package roles defines the RBAC objects of a Project: which ones it must have, which are stale, and how they are cached.
//
// A garden of 5,000 Projects has 55,000 of these objects, so Trim keeps only the owner of each and a fingerprint of what it grants. Same
// compares that with a desired object. An object from such a cache must never be written back: a caller that finds a difference reads the
// object live, and changes it with Overlay.
package roles
