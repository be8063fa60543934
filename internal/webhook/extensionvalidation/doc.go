// Package extensionvalidation validates the custom resources that extensions of Gardener and etcd-druid reconcile. It checks rules that
// the schemas of their definitions cannot express, such as fields that must not change and fields that depend on other fields.
//
// It reads only the objects under review, and writes nothing. It reports all errors of an object together, up to a limit, in the format in
// which API servers report errors of built-in kinds. It ignores unknown fields.
//
// The function Kinds contains the table of the kinds. The specification of a large kind, and the rules of this kind that the table does
// not express, are in a file of their own; the other specifications are in specs.go.
package extensionvalidation
