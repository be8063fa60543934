package kill_test

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"

	"sigs.k8s.io/yaml"
)

const (
	// placesPerSet is the number of places of a set; an object of a set is identified by its place. objectsPerSet is the number of places that
	// have an object at a time.
	placesPerSet, objectsPerSet = 50, 40
	// The numbers of objects of a set that an update changes, and that it replaces by objects at other places.
	changedPerUpdate, exchangedPerUpdate = 10, 6
	// immutablePlace is the place of an immutable ConfigMap, whose data differ in every version of the set.
	immutablePlace = 0
	// prefix is the prefix of the labels and annotations that this test sets.
	prefix = "crash.espalier.dev/"
)

// set is the content of a ManagedResource and its Secret.
type set struct {
	namespace, name string
	// keep is spec.keepObjects. Such a set also has spec.forceOverwriteLabels: an earlier set of the same name may have left objects, whose
	// old labels the controller would otherwise have to keep.
	keep bool
	// revisions are the objects of the set: the revision of the object at each place.
	revisions map[int]int
}

// key identifies an object of the test's namespace.
type key struct{ kind, name string }

func (s set) key(place int) key {
	return key{kinds()[place%len(kinds())].kind, fmt.Sprintf("%s-%02d", s.name, place)}
}

// filled returns the set with a random choice of objects, all with a new revision.
func (s set) filled(random *rand.Rand, revision int) set {
	s.revisions = map[int]int{immutablePlace: revision}
	for _, place := range random.Perm(placesPerSet) {
		if len(s.revisions) < objectsPerSet {
			s.revisions[place] = revision
		}
	}
	return s
}

// updated returns the set with some objects changed, some removed, and as many added as removed. It does not remove objects for which held
// returns true.
func (s set) updated(random *rand.Rand, revision int, held func(key) bool) set {
	next := maps.Clone(s.revisions)
	present := slices.Sorted(maps.Keys(s.revisions))
	random.Shuffle(len(present), func(i, j int) { present[i], present[j] = present[j], present[i] })
	dropped := 0
	for _, place := range present {
		if dropped < exchangedPerUpdate && place != immutablePlace && !held(s.key(place)) {
			delete(next, place)
			dropped++
		}
	}
	for _, place := range random.Perm(placesPerSet) {
		if _, before := s.revisions[place]; !before && len(next) < objectsPerSet {
			next[place] = revision
		}
	}
	for _, place := range present[len(present)-changedPerUpdate:] {
		if _, still := next[place]; still {
			next[place] = revision
		}
	}
	next[immutablePlace] = revision
	s.revisions = next
	return s
}

// manifests returns the manifests of the objects of the set, by place.
func (s set) manifests() []map[string]any {
	manifests := make([]map[string]any, 0, len(s.revisions))
	for _, place := range slices.Sorted(maps.Keys(s.revisions)) {
		manifests = append(manifests, s.manifest(place))
	}
	return manifests
}

// manifest returns the manifest of the object at a place. Each revision has its own values, labels and annotations included; one label is
// only in some revisions, with another value each time.
func (s set) manifest(place int) map[string]any {
	revision := s.revisions[place]
	at := prefix + "at-" + strconv.Itoa(revision)
	labels := map[string]any{prefix + "set": s.name, prefix + "revision": strconv.Itoa(revision), at: ""}
	if revision%2 == 0 {
		labels[prefix+"even"] = strconv.Itoa(revision)
	}
	identity := s.key(place)
	object := kinds()[place%len(kinds())].content(identity.name, revision)
	object["kind"] = identity.kind
	object["metadata"] = map[string]any{
		"namespace": s.namespace, "name": identity.name, "labels": labels,
		"annotations": map[string]any{prefix + "revision": strconv.Itoa(revision), at: ""},
	}
	if place == immutablePlace {
		object["immutable"] = true
	}
	return object
}

// data returns the content of the set's Secret: half of the objects under each of two keys.
func (s set) data() (map[string][]byte, error) {
	first, second := s.halves()
	data := map[string][]byte{}
	for name, manifests := range map[string][]map[string]any{"a.yaml": first, "b.yaml": second} {
		documents := make([]string, 0, len(manifests))
		for _, each := range manifests {
			document, err := yaml.Marshal(each)
			if err != nil {
				return nil, fmt.Errorf("render manifest: %w", err)
			}
			documents = append(documents, string(document))
		}
		data[name] = []byte(strings.Join(documents, "---\n"))
	}
	return data, nil
}

func (s set) halves() (first, second []map[string]any) {
	manifests := s.manifests()
	return manifests[:len(manifests)/2], manifests[len(manifests)/2:]
}

// checksum returns the required status.secretsDataChecksum: it covers every value once for each of its objects.
func (s set) checksum() (string, error) {
	data, err := s.data()
	if err != nil {
		return "", err
	}
	first, second := s.halves()
	hash := sha256.New()
	for range first {
		hash.Write(data["a.yaml"])
	}
	for range second {
		hash.Write(data["b.yaml"])
	}
	return hex.EncodeToString(hash.Sum(nil)), nil
}
