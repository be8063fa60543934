// Package secrets manages the Secrets of a Garden: it turns requests into immutable Secrets with deterministic names, renews and rotates
// them, keeps predecessors and bundles for as long as they are needed, and names the Secrets that are not needed any more.
//
// The package decides and does no I/O; package manager carries out its decisions. The state of each Secret is in its labels, in the format
// of Gardener's secrets manager, so that an existing landscape is taken over without new authorities or keys. The caller passes the times
// of rotations in Options. For each reconciliation the caller
//
//  1. lists the managed Secrets and the donors and calls NewInventory,
//  2. for each request calls Plan, carries out the step, and calls Record with the resulting Secret; the same for the bundle that Record
//     returns. If creation fails with AlreadyExists, it reads the Secret, calls Observe and plans again,
//  3. after the last request lists the managed Secrets again and deletes the Secrets that Unneeded returns.
//
// A process that dies between two writes loses nothing: names depend only on configs, rotation times and the data of the signing CA, and a
// predecessor is deleted only after the bundle that contains it was written. Errors never contain secret values.
package secrets
