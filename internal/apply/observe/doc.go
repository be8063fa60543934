// Package observe caches the state of managed objects. It runs one metadata-only watch per kind, restricted to objects with the
// managed-by label, and stores a fingerprint per object.
//
// A watch starts when a set needs a kind and stops when no set needs it. If the API server forbids a cluster-wide watch, watches
// of single namespaces replace it. A look-up of an object that no watch covers returns Unwatched, and the caller reads the object
// live. The package makes no decisions and never writes.
package observe
