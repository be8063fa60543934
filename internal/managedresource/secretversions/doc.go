// Package secretversions tracks the versions of those Secrets of the source that are in use.
//
// A source may contain very many Secrets that no ManagedResource references. One watch receives their metadata, but nothing of it is
// stored, not even their names: memory depends on the number of Secrets in use, not of all Secrets. Contents of Secrets are never read.
//
// A user of a Secret registers it first, and then reads it live. Every change after the read is reported, because an event that is dropped
// for lack of a user happened before the registration, and so before the read.
//
// A restart costs one list. Replicas that are not the leader watch nothing.
package secretversions
