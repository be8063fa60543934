// Package fields reads the managedFields of an object. They show whether a client wrote more than status since the last read
// (Fingerprint), whether a desired object is still as Espalier wrote it (Covers, OnlyTolerated), which fields other managers
// added (Additions), and which manager changed the object (Attribute).
//
// The package is pure. It does not compare values, as package merge does, and sends no requests.
package fields
