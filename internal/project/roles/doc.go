// Package roles knows the RBAC objects of a Project: which there must be, which are left over, and how they are cached.
//
// A garden of 5,000 Projects has 55,000 of them, so Trim keeps of each, for the cache, no more than who owns it and a
// fingerprint of what it grants. Same compares that with a desired object. What comes from such a cache must never be
// written back: whoever finds a difference reads the object live, and brings it in line with Overlay.
package roles
