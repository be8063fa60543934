// Package reflector follows the objects of one kind with the Reflector of client-go. It is for controllers that an informer does not suit,
// because they keep less of the objects, or must know more about the requests. Use the cache of controller-runtime for everything else.
//
// Memory: Run gives each object to a function as soon as it arrives, and keeps only the result of that function. Nothing remains of
// other objects, not even their names; an informer has at least a key for each. Lists are reduced the same way, whether the API
// server streams them or returns pages.
//
// Events: a Receiver gets each value, each deletion and each complete list. When one of its methods returns, the event is
// processed; an informer gives no such guarantee. A Table is a Receiver that stores the values by name.
//
// Failures: without permission, or without the kind, the Reflector repeats its requests, with pauses of up to 30 seconds, until its
// context ends. The package does not report this. A caller that must know wraps the Client, and sees each answer.
package reflector
