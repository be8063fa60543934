// Package managedresources is for programs that create ManagedResources. A Registry turns objects into the data of a
// Secret, Create writes the Secret and the ManagedResource, Delete removes both, and a Waiter waits until the set is healthy
// or gone. The two builders are for programs that need more than the functions offer.
//
// Secrets get immutable, unique names, and ManagedResources say which ones they use, so that the garbage collector removes
// superseded Secrets and nothing else. The objects of the set themselves are not touched here: that is the controllers'
// work.
package managedresources
