// Package extensionvalidation validates the custom resources that extensions of Gardener and etcd-druid reconcile. It checks rules that the
// schemas of their definitions cannot express, such as fields that must not change and fields that depend on other fields.
//
// It reads only the objects under review, and writes nothing. It reports all errors of an object together, in the format in which API
// servers report errors of built-in kinds. Unknown fields are ignored.
//
// The function Kinds contains the table of the kinds. The specification of a large kind, and its rules that the table does not express, are
// in a file of the kind; the other specifications are in specs.go.
package extensionvalidation
