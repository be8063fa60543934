// Package reflector watches the objects of one kind with the Reflector of client-go. It is for controllers for which an informer is not
// suitable, because these controllers keep less of each object, or must know more about the requests. Use the cache of controller-runtime
// in all other cases.
//
// Memory: Run passes each object to a function as soon as the object arrives, and keeps only the result of that function. If the function
// drops an object, Run keeps nothing of the object, not even its name; an informer keeps at least a key for each object. The function also
// reduces lists, whether the API server streams them or returns pages.
//
// Events: a Receiver gets each value, each deletion and each complete list. An event is processed when the method of the Receiver returns;
// an informer gives no such guarantee. A Table is a Receiver that stores the values by name.
//
// Failures: without permission, or if the kind is not served, the Reflector repeats its requests, with pauses of up to 30 seconds, until
// its context ends. The package does not report such failures to its caller. A caller that must know about them wraps the Client, and so
// sees each response.
package reflector
