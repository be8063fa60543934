package fields

import (
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Attribute names the field manager that most likely caused a drift: among the managers that are not ours and wrote
// more than status, the one that holds the most specific part of any of the changed paths, the latest one of several.
// Nobody holds a field that was removed, so without a holder the latest foreign writer since our own last write is
// named. It returns "" when there is none.
func Attribute(entries []metav1.ManagedFieldsEntry, changed [][]string) string {
	var last time.Time
	for _, entry := range entries {
		if ours(entry) && entry.Time != nil && entry.Time.After(last) {
			last = entry.Time.Time
		}
	}
	best := candidate{}
	for _, entry := range entries {
		if ours(entry) || entry.Subresource == statusSubresource {
			continue
		}
		next := candidate{manager: entry.Manager}
		if entry.Time != nil {
			next.at = entry.Time.Time
		}
		fields := parse(entry)
		for _, path := range changed {
			next.depth = max(next.depth, depth(fields, path))
		}
		if next.depth == 0 && next.at.Before(last) {
			continue
		}
		if next.better(best) {
			best = next
		}
	}
	return best.manager
}

type candidate struct {
	manager string
	depth   int
	at      time.Time
}

func (c candidate) better(other candidate) bool {
	if c.depth != other.depth {
		return c.depth > other.depth
	}
	return other.manager == "" || c.at.After(other.at)
}

// depth counts how many elements of path an entry holds.
func depth(owned tree, path []string) int {
	held := 0
	for _, element := range path {
		next, found := below(owned, element)
		if !found {
			break
		}
		held++
		if len(next) == 0 {
			return len(path)
		}
		owned = next
	}
	return held
}

// below finds a field by its name, or a list element by any of its key values.
func below(owned tree, element string) (tree, bool) {
	if next, found := owned["f:"+element]; found {
		return next, true
	}
	for key, next := range owned {
		if strings.HasPrefix(key, "k:") && strings.Contains(key, `"`+element+`"`) {
			return next, true
		}
	}
	return nil, false
}
