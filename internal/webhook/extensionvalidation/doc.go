// Package extensionvalidation validates the custom resources that Gardener's extensions and etcd-druid act on. It checks rules that
// the schemas of their definitions cannot express, such as fields that must not change and fields that depend on others.
//
// It reads nothing but the objects under review, and writes nothing. All findings are reported at once, in the form in which
// API servers report those about built-in kinds. Unknown fields are ignored.
//
// Kinds is the table of the kinds. Their specifications, and the rules that the table does not express, are in files of the
// larger kinds and in specs.go.
package extensionvalidation
