package secretversions

import (
	"sync"

	"k8s.io/apimachinery/pkg/types"
)

// Version tells the versions of a Secret apart.
type Version struct {
	// UID is empty if the Secret is absent.
	UID types.UID
	// ResourceVersion of an absent Secret is that of its deletion, or of the listing that does not contain it.
	ResourceVersion string
}

// Knowledge is what can be said about a Secret.
type Knowledge int

const (
	// Unknown means that nothing has been told of the Secret since it was registered. What was read after that is
	// still current; who has not read it yet must.
	Unknown Knowledge = iota
	// Absent means that the Secret does not exist.
	Absent
	// Present means that the Secret exists, in the version told.
	Present
)

// table holds what has been told of the Secrets that have users, and of those that carry the finalizer. Locked by mu.
type table struct {
	mu      sync.Mutex
	entries map[types.NamespacedName]*entry
	// listing counts the listings that have begun. Only the last one can be completed.
	listing int
}

type entry struct {
	users     int
	knowledge Knowledge
	version   Version
	// carries tells that the Secret carries the finalizer.
	carries bool
	// since is the listing before or during which the Secret got its first user; seen the last one, or the watch after
	// it, that told of the Secret.
	since, seen int
}

func newTable() *table { return &table{entries: map[types.NamespacedName]*entry{}} }

// add counts one more user of a Secret.
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

// remove counts one user less.
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

// forget drops an entry that nobody needs. The caller holds the lock.
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

// begin is to be called before a listing is asked for.
func (t *table) begin() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.listing++
}

// observe takes note of a Secret that exists, and reports whether that is news to a user.
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

// gone takes note of a deletion, and reports whether that is news to a user.
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

// drop makes a Secret absent. The caller holds the lock.
func (t *table) drop(key types.NamespacedName, known *entry, resourceVersion string) bool {
	news := known.users > 0 && known.knowledge != Absent
	known.knowledge, known.version, known.carries = Absent, Version{ResourceVersion: resourceVersion}, false
	t.forget(key, known)
	return news
}

// complete ends the listing, which told the state as of resourceVersion, and returns the Secrets that turn out to be
// gone. Nothing can be said of one that was registered while the listing ran: it may have passed by before.
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

// carries tells whether a Secret carries the finalizer.
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
