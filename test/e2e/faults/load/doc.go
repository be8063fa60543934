// Package load keeps every binary in a cluster busy, and knows the expected results. Each kind of work has values that are changed one
// after the other, and a place in the cluster where each value must appear. The package records changes and wrong deletions outside of the
// cluster. Faults and their expected effects do not belong here.
package load
