package observe

import (
	"context"
	"slices"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

// View is what the sets with one user see: the objects of the watches with the rights of this user.
type View struct {
	*Watcher
	user string
}

// As returns the view of the sets with a user, "" for the rights of Options.Client. The view of a nil Watcher shows no objects.
func (w *Watcher) As(user string) View { return View{w, user} }

// Use replaces the Needs of a set, starts and stops watches accordingly, and waits until the watches of these Needs have listed their
// objects or were denied. It returns early, without an error, when ctx ends or a watch takes too long. Look-ups of objects of a watch that
// has not listed its objects return Unwatched.
func (v View) Use(ctx context.Context, set types.NamespacedName, needs []Need) {
	for range 2 { // the second time with watches of single namespaces, if the wide one is denied
		if !v.waitForListings(ctx, v.replaceNeeds(set, v.user, needs)) {
			return
		}
	}
}

// IsUsedBy reports whether a set has watches with the rights of the user.
func (v View) IsUsedBy(set types.NamespacedName) bool {
	v.mu.RLock()
	defer v.mu.RUnlock()
	return slices.ContainsFunc(v.sets[set], func(each usage) bool { return each.user == v.user })
}

// Lookup returns the observed state of an object that has the managed-by label. It sends no request.
func (v View) Lookup(kind schema.GroupKind, namespace, name string) (Object, Presence) {
	return v.lookup(namespace, name, covering(kind, namespace, name))
}

// LookupNamed returns the observed state of an object that a Need selects by Name, regardless of its labels.
func (v View) LookupNamed(kind schema.GroupKind, namespace, name string) (Object, Presence) {
	return v.lookup(namespace, name, covering(kind, namespace, name)[:1])
}

func (v View) lookup(namespace, name string, scopes []scope) (Object, Presence) {
	synced := v.synced(scopes)
	if len(synced) == 0 {
		return Object{}, Unwatched
	}
	if object, found := synced[0].store.lookup(types.NamespacedName{Namespace: namespace, Name: name}); found {
		return object, Present
	}
	return Object{}, Absent
}

// synced returns the watches of the scopes that are not denied and have listed their objects, in the order of the scopes.
func (v View) synced(scopes []scope) []*kindWatch {
	if v.Watcher == nil {
		return nil
	}
	v.mu.RLock()
	defer v.mu.RUnlock()
	var found []*kindWatch
	for _, s := range scopes {
		if each := v.watches[s][v.user]; each.isSynced() {
			found = append(found, each)
		}
	}
	return found
}

// DropFirstMetadata drops the FirstMetadata of an object that a set has processed.
func (v View) DropFirstMetadata(kind schema.GroupKind, namespace, name string) {
	for _, each := range v.synced(covering(kind, namespace, name)) {
		each.store.dropFirstMetadata(types.NamespacedName{Namespace: namespace, Name: name})
	}
}
