// Package rotation keeps the books about the rotations of a Garden's credentials: what an operation of the user starts, what a
// successful reconciliation completes, and which Secrets the manager of secrets must renew.
//
// It is pure: it computes the next state of status.credentials.rotation, which a reconciliation writes at its start and its end.
package rotation
