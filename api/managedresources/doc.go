// Package managedresources is for programs that create ManagedResources. A Registry turns objects into the data of a Secret, Create writes
// the Secret and the ManagedResource, Delete removes both, and a Waiter waits until the ManagedResource is healthy, or until it does not
// exist. The two builders are for programs that need more than these functions offer, or that write the objects themselves.
//
// Secrets are immutable and have unique names. Annotations of ManagedResources name the Secrets that they use, so that the garbage
// collector deletes replaced Secrets and no others. This package does not change the objects of a ManagedResource themselves: the
// controller does.
package managedresources
