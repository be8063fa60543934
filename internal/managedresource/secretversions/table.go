package secretversions

import (
	"sync"

	"k8s.io/apimachinery/pkg/types"

	"github.com/espalier-dev/espalier/internal/apply/observe"
)

// Version identifies a version of a Secret.
type Version struct {
	// UID is empty if the Secret is absent.
	UID types.UID
	// ResourceVersion of an absent Secret is the version of its deletion, or of the list that does not contain it.
	ResourceVersion string
}

// Knowledge says whether the state of a Secret is known.
type Knowledge int

const (
	// Unknown means that there was no event about the Secret since its first user registered it, and that no list was completed that began
	// after the registration. Data that a user has read since the registration is still current. A user that has not read the Secret yet must
	// read it.
	Unknown Knowledge = iota
	// Absent means that the Secret does not exist.
	Absent
	// Present means that the Secret exists, in the returned version.
	Present
)

// table contains the state of the Secrets that have users, and of the Secrets that carry the finalizer. mu guards its fields.
type table struct {
	mu      sync.Mutex
	entries map[types.NamespacedName]*entry
	// listing counts the lists that were requested. Only the last of them can be completed.
	listing int
	// newest is the latest resourceVersion that was seen since the last list started. before is the latest resourceVersion that was seen
	// before that list started; it is empty when the list is complete. A list whose resourceVersion is older than before shows that the
	// source was restored from a backup. restores counts such lists.
	newest, before string
	restores       int
}

type entry struct {
	users     int
	knowledge Knowledge
	version   Version
	// carries is true if the Secret carries the finalizer.
	carries bool
	// since is the value of table.listing when the Secret got its first user. seen is the value of table.listing at the last event about the
	// Secret; the Secrets of a list count as events, too.
	since, seen int
}

func newTable() *table { return &table{entries: map[types.NamespacedName]*entry{}} }

// add adds one user of a Secret.
func (t *table) add(key types.NamespacedName) {
	t.mu.Lock()
	defer t.mu.Unlock()
	known := t.entries[key]
	if known == nil {
		known = &entry{}
		t.entries[key] = known
	}
	if known.users == 0 {
		known.since = t.listing
	}
	known.users++
}

// remove removes one user of a Secret.
func (t *table) remove(key types.NamespacedName) {
	t.mu.Lock()
	defer t.mu.Unlock()
	known := t.entries[key]
	if known == nil {
		return
	}
	known.users--
	t.forget(key, known)
}

// forget removes an entry that is not needed. The caller has locked mu.
func (t *table) forget(key types.NamespacedName, known *entry) {
	if known.users <= 0 && !known.carries {
		delete(t.entries, key)
	}
}

func (t *table) lookup(key types.NamespacedName) (Version, Knowledge) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if known := t.entries[key]; known != nil {
		return known.version, known.knowledge
	}
	return Version{}, Unknown
}

// restored counts how often the source was restored from a backup, as far as lists have shown that.
func (t *table) restored() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.restores
}

// begin starts the next list. It must be called before the list is requested.
func (t *table) begin() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.listing++
	t.before, t.newest = latest(t.before, t.newest), ""
}

// observe records a Secret that exists, and reports whether it has users and its version has changed.
func (t *table) observe(key types.NamespacedName, version Version, carries bool) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.newest = latest(t.newest, version.ResourceVersion)
	known := t.entries[key]
	if known == nil {
		if !carries {
			return false
		}
		known = &entry{}
		t.entries[key] = known
	}
	changed := known.users > 0 && known.version != version
	known.knowledge, known.version, known.carries, known.seen = Present, version, carries, t.listing
	t.forget(key, known)
	return changed
}

// latest returns the later of two resourceVersions, of which one may be empty.
func latest(a, b string) string {
	if a == "" || observe.Older(a, b) {
		return b
	}
	return a
}

// gone records the deletion of a Secret, and reports whether the Secret has users and did not count as absent before.
func (t *table) gone(key types.NamespacedName, resourceVersion string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.newest = latest(t.newest, resourceVersion)
	known := t.entries[key]
	if known == nil {
		return false
	}
	known.seen = t.listing
	return t.drop(key, known, resourceVersion)
}

// drop marks a Secret as absent. It reports whether the Secret has users and did not count as absent before. The caller has locked mu.
func (t *table) drop(key types.NamespacedName, known *entry, resourceVersion string) bool {
	changed := known.users > 0 && known.knowledge != Absent
	known.knowledge, known.version, known.carries = Absent, Version{ResourceVersion: resourceVersion}, false
	t.forget(key, known)
	return changed
}

// complete ends the list, which shows the state at resourceVersion. It returns the Secrets that have users and turned out not to exist any
// more. A Secret that got its first user during the list, and about which no event followed, stays unknown: the list may have contained it
// before. If such a Secret carries the finalizer, it counts as absent. If the list shows that the source was restored from a backup,
// complete also returns all other Secrets that have users, except those that were absent before and still are: the data that a user has
// read may be newer than the backup.
func (t *table) complete(resourceVersion string) []types.NamespacedName {
	t.mu.Lock()
	defer t.mu.Unlock()
	restored := observe.Older(resourceVersion, t.before)
	if t.before, t.newest = "", latest(t.newest, resourceVersion); restored {
		t.restores++
	}
	var changed []types.NamespacedName
	for key, known := range t.entries {
		if known.seen == t.listing || known.since == t.listing && !known.carries {
			if restored && known.users > 0 {
				changed = append(changed, key)
			}
			continue
		}
		if t.drop(key, known, resourceVersion) {
			changed = append(changed, key)
		}
	}
	return changed
}

// carries reports whether a Secret carries the finalizer.
func (t *table) carries(key types.NamespacedName) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	known := t.entries[key]
	return known != nil && known.carries
}

// carriers lists the Secrets that carry the finalizer.
func (t *table) carriers() []types.NamespacedName {
	t.mu.Lock()
	defer t.mu.Unlock()
	var found []types.NamespacedName
	for key, known := range t.entries {
		if known.carries {
			found = append(found, key)
		}
	}
	return found
}

func (t *table) size() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.entries)
}
