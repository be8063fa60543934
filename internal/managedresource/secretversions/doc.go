// Package secretversions knows which versions the Secrets of the source have, of those Secrets that somebody needs.
//
// A source may hold very many Secrets that no ManagedResource refers to. Their metadata passes by in one watch, and
// nothing of them is kept, not even their names: memory grows with the Secrets in use, not with those that exist.
// Neither are contents of Secrets asked for.
//
// Whoever needs a Secret registers it first, and then reads it live. Everything that happens to it after the read is
// told, because every event that is dropped for want of a user happened before the registration, and so before the read.
//
// A restart costs one listing. Replicas that do not lead watch nothing.
package secretversions
