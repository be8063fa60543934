// Package load keeps every binary of a cluster busy and knows the expected results: each kind of work has values that are changed one after
// the other, and a place where each value must appear. Changes and wrong deletions are recorded here, outside of the cluster. Faults and
// their expected effects do not belong here.
package load
