// Package load keeps every binary of a cluster busy and knows what must come out: each kind of work has some values that are
// changed one after the other, and a place where each value must arrive. What was changed, or should not have been deleted,
// is remembered here, outside of the cluster. Faults and what is expected of them do not belong here.
package load
