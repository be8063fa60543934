package secretversions

import (
	"sync"

	"k8s.io/apimachinery/pkg/types"
)

// Version identifies a version of a Secret.
type Version struct {
	// UID is empty if the Secret is absent.
	UID types.UID
	// ResourceVersion of an absent Secret is that of its deletion, or of the list that does not contain it.
	ResourceVersion string
}

// Knowledge is what is known about a Secret.
type Knowledge int

const (
	// Unknown means that there was no event about the Secret since it was registered. A read after the registration is still current; a
	// user that has not read it yet must do so.
	Unknown Knowledge = iota
	// Absent means that the Secret does not exist.
	Absent
	// Present means that the Secret exists, in the returned version.
	Present
)

// table contains the state of the Secrets that have users, and of those that carry the finalizer. Locked by mu.
type table struct {
	mu      sync.Mutex
	entries map[types.NamespacedName]*entry
	// listing counts the lists that have started. Only the last one can be completed.
	listing int
}

type entry struct {
	users     int
	knowledge Knowledge
	version   Version
	// carries is true if the Secret carries the finalizer.
	carries bool
	// since is the list before or during which the Secret got its first user. Seen is the last list that contained the Secret, or whose
	// watch had an event about it.
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

// remove removes one user.
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

// forget removes an entry that is not needed. The caller holds the lock.
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

// begin must be called before a list is requested.
func (t *table) begin() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.listing++
}

// observe records a Secret that exists, and reports whether that is a change for a user.
func (t *table) observe(key types.NamespacedName, version Version, carries bool) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	known := t.entries[key]
	if known == nil {
		if !carries {
			return false
		}
		known = &entry{}
		t.entries[key] = known
	}
	news := known.users > 0 && known.version != version
	known.knowledge, known.version, known.carries, known.seen = Present, version, carries, t.listing
	t.forget(key, known)
	return news
}

// gone records a deletion, and reports whether that is a change for a user.
func (t *table) gone(key types.NamespacedName, resourceVersion string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	known := t.entries[key]
	if known == nil {
		return false
	}
	known.seen = t.listing
	return t.drop(key, known, resourceVersion)
}

// drop marks a Secret as absent. The caller holds the lock.
func (t *table) drop(key types.NamespacedName, known *entry, resourceVersion string) bool {
	news := known.users > 0 && known.knowledge != Absent
	known.knowledge, known.version, known.carries = Absent, Version{ResourceVersion: resourceVersion}, false
	t.forget(key, known)
	return news
}

// complete ends the list, which shows the state at resourceVersion, and returns the Secrets that no longer exist. A Secret that was
// registered during the list stays unknown: the list may have contained it before.
func (t *table) complete(resourceVersion string) []types.NamespacedName {
	t.mu.Lock()
	defer t.mu.Unlock()
	var news []types.NamespacedName
	for key, known := range t.entries {
		if known.seen == t.listing || known.since == t.listing && !known.carries {
			continue
		}
		if t.drop(key, known, resourceVersion) {
			news = append(news, key)
		}
	}
	return news
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
