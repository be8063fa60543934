// Package fields reads what an object's managedFields tell: whether anybody wrote more than status since we looked
// (Fingerprint), whether a whole desired object is still as we wrote it (Covers, OnlyTolerated), what others added to
// it (Additions) and who changed it (Attribute).
//
// All of it is pure. It does not compare values (package merge does) and it talks to no API server.
package fields
