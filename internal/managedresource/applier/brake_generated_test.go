package applier_test

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/sets"

	resourcesv1alpha1 "github.com/espalier-dev/espalier/api/resources/v1alpha1"
	"github.com/espalier-dev/espalier/internal/apply/inventory"
	"github.com/espalier-dev/espalier/internal/apply/manifest"
	"github.com/espalier-dev/espalier/internal/config"
	. "github.com/espalier-dev/espalier/internal/managedresource/managedresourcetest"
	"github.com/espalier-dev/espalier/internal/managedresource/prune"
	"github.com/espalier-dev/espalier/test/generate"
)

// mistakesOfSources is the number of mistakes, and of ordinary changes, on which the decision is tested. The API server gets mistakesOfSets
// of them, and allMistakesOfSets in `make mistakes`, which sets MISTAKES.
const mistakesOfSources, mistakesOfSets, allMistakesOfSets = 10_000, 24, 300

// sources are the data of the Secret of a set.
type sources map[string]string

// newSources returns the sources of a set with up to 39 objects. If applied is false, CustomResourceDefinitions and Namespaces can be
// among these objects.
func newSources(random *rand.Rand, namespace string, applied bool) sources {
	made := sources{}
	for number := range 1 + random.IntN(3) {
		var documents []string
		for object := range 1 + random.IntN(13) {
			name := fmt.Sprintf("k%d-o%d", number, object)
			kind := pick(random, "ConfigMap", "ConfigMap", "ConfigMap", "Secret", "ServiceAccount", "StatefulSet", "PersistentVolumeClaim")
			if !applied {
				kind = pick(random, kind, kind, kind, "Namespace", "CustomResourceDefinition")
			}
			documents = append(documents, document(kind, namespace, name))
		}
		made[fmt.Sprintf("part-%d.yaml", number)] = strings.Join(documents, "---\n")
	}
	return made
}

// document returns the manifest of an object.
func document(kind, namespace, name string) string {
	head := fmt.Sprintf("kind: %s\nmetadata:\n  name: %s\n", kind, name)
	inside := head + "  namespace: " + namespace + "\n"
	switch kind {
	case "StatefulSet":
		return "apiVersion: apps/v1\n" + inside + `spec:
  replicas: 0
  serviceName: web
  selector: {matchLabels: {app: web}}
  template: {metadata: {labels: {app: web}}, spec: {containers: [{name: c, image: example.com/image}]}}
`
	case "PersistentVolumeClaim":
		return "apiVersion: v1\n" + inside + "spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Mi}}}\n"
	case "Namespace":
		return "apiVersion: v1\n" + head
	case "CustomResourceDefinition":
		return "apiVersion: apiextensions.k8s.io/v1\n" + head + "spec: {group: example.com}\n"
	}
	return "apiVersion: v1\n" + inside
}

// checksum identifies sources in this test.
func (s sources) checksum() string {
	var text bytes.Buffer
	for _, key := range slices.Sorted(maps.Keys(s)) {
		fmt.Fprintf(&text, "%q", s[key])
	}
	return "sha-" + hex.EncodeToString(text.Bytes())
}

// documents contains decoded documents: the sources have few different ones.
type documents map[string]decoded

type decoded struct {
	content map[string]any
	err     error
}

// references returns the objects of the sources, as the status lists them, and reports whether a document cannot be read.
func (known documents) references(s sources) (refs []resourcesv1alpha1.ObjectReference, faulty bool) {
	for _, key := range slices.Sorted(maps.Keys(s)) {
		split, fault := manifest.Split(key, []byte(s[key]), 1<<20)
		faulty = faulty || fault != nil
		for _, each := range split {
			d, found := known[string(each.Raw)]
			if !found {
				d.content, d.err = each.Decode()
				known[string(each.Raw)] = d
			}
			faulty = faulty || d.err != nil
			if d.err == nil && d.content != nil {
				refs = append(refs, inventory.Reference(&unstructured.Unstructured{Object: d.content}, nil))
			}
		}
	}
	inventory.SortReferences(refs)
	return refs, faulty
}

// mistaken returns sources with a mistake, and the name of the mistake.
func (s sources) mistaken(random *rand.Rand) (wrong sources, name string) {
	wrong = maps.Clone(s)
	key := pick(random, slices.Sorted(maps.Keys(s))...)
	switch name = pick(random, "emptied", "truncated", "truncated", "renamed", "re-ordered", "wrong separator", "half of the keys"); name {
	case "emptied":
		wrong = pick(random, sources{}, sources{key: ""}, sources{key: "# nothing\n"}, sources{key: "---\n"})
	case "truncated":
		wrong[key] = s[key][:random.IntN(len(s[key]))]
	case "renamed":
		from, to := pick(random, "  name: k", "  name: k0-o1", "namespace: ", "kind: S", "kind: P", "kind: C"), pick(random, "x", "other-", "")
		for each := range wrong {
			at := strings.LastIndexAny(from, " ") + 1
			wrong[each] = strings.ReplaceAll(wrong[each], from, from[:at]+to+from[at:])
		}
	case "re-ordered":
		documents := strings.Split(s[key], "---\n")
		random.Shuffle(len(documents), func(i, j int) { documents[i], documents[j] = documents[j], documents[i] })
		wrong[key] = strings.Join(documents, "---\n")
	case "wrong separator":
		wrong[key] = strings.ReplaceAll(s[key], "---\n", pick(random, "--\n", "----\n", " ---\n", "...\n", "\n", "#---\n", "--- \n", "***\n"))
	case "half of the keys":
		for i, each := range slices.Sorted(maps.Keys(s)) {
			if i%2 == 0 {
				delete(wrong, each)
			}
		}
	}
	return wrong, name
}

// changed returns sources after an ordinary change, which removes at most three objects of a kind that is not protected, or gives all
// ConfigMaps and Secrets of a document new names, as tools do that put a digest into names.
func (s sources) changed(random *rand.Rand) sources {
	next := maps.Clone(s)
	key := pick(random, slices.Sorted(maps.Keys(s))...)
	documents := strings.Split(s[key], "---\n")
	if random.IntN(5) == 0 {
		for at, each := range documents {
			if strings.Contains(each, "kind: ConfigMap\n") || strings.Contains(each, "kind: Secret\n") {
				documents[at] = strings.Replace(each, "  name: ", "  name: 4cf2-", 1)
			}
		}
	}
	for range random.IntN(4) {
		at := random.IntN(len(documents))
		ordinary := slices.ContainsFunc([]string{"ConfigMap", "Secret", "ServiceAccount"}, func(kind string) bool {
			return strings.Contains(documents[at], "kind: "+kind+"\n")
		})
		switch random.IntN(4) {
		case 0:
			if ordinary && len(documents) > 1 {
				documents = slices.Delete(documents, at, at+1)
			}
		case 1:
			if ordinary {
				documents[at] = strings.Replace(documents[at], "  name: ", "  name: next-", 1)
			}
		case 2:
			documents = append(documents, document("ConfigMap", "shop", fmt.Sprintf("added-%d", random.Uint32())))
		default:
			documents[at] += "# changed\n"
		}
	}
	next[key] = strings.Join(documents, "---\n")
	return next
}

// brake returns the decision with the default settings.
func brake() prune.Brake {
	cfg := &config.ResourceManagerConfiguration{}
	limited(cfg)
	return prune.Brake{Limit: cfg.Espalier.ManagedResource.DeletionLimit}
}

// obsolete returns the objects of before that are not in after.
func obsolete(before, after []resourcesv1alpha1.ObjectReference) []resourcesv1alpha1.ObjectReference {
	index := inventory.NewIndex(before, inventory.NewEquivalences([][]metav1.GroupKind{}))
	for _, each := range after {
		index.Lookup(inventory.RefKey(each))
	}
	return index.Obsolete()
}

// The decision is tested with mistakes of all kinds: without confirmation, no protected object is deleted, and no more than the limit of
// others, also not after further changes of the sources.
func TestGeneratedMistakesOfSourcesDeleteNothingProtected(t *testing.T) {
	t.Parallel()
	found, known := map[string]int{}, documents{}
	generate.Cases(t, 1, func(t *testing.T, random *rand.Rand) {
		t.Helper()
		g := NewWithT(t)
		for range mistakesOfSources {
			of := newSources(random, "shop", false)
			wrong, name := of.mistaken(random)
			before, _ := known.references(of)
			after, faulty := known.references(wrong)
			if random.IntN(20) == 0 {
				after, faulty, name = nil, false, "another class"
			}
			unused := sets.New[inventory.Key]()
			for _, each := range before {
				if each.Kind == "CustomResourceDefinition" && random.IntN(2) == 0 {
					unused.Insert(inventory.RefKey(each))
				}
			}
			if faulty { // nothing is deleted
				found[name+": unreadable"]++
				continue
			}
			d := prune.Departure{Before: before, Obsolete: obsolete(before, after), Unused: unused, Checksum: wrong.checksum()}
			s := brake().Change(d)
			if s == nil {
				found[name+": not suspended"]++
				expectWithinLimit(g, d)
				continue
			}
			found[name+": suspended"]++
			expectSuspension(g, random, d, after)
		}
	})
	for _, name := range slices.Sorted(maps.Keys(found)) {
		t.Logf("%s: %d", name, found[name])
	}
}

// expectWithinLimit requires that the objects that are deleted are within the default limits.
func expectWithinLimit(g *WithT, d prune.Departure) {
	for _, each := range d.Obsolete {
		g.Expect(each.Kind).NotTo(BeElementOf("Namespace", "StatefulSet", "PersistentVolumeClaim"))
		g.Expect(each.Kind == "CustomResourceDefinition" && !d.Unused.Has(inventory.RefKey(each))).To(BeFalse())
	}
	g.Expect(len(d.Obsolete) > 10 && 2*len(d.Obsolete) > len(d.Before)).To(BeFalse())
}

// expectSuspension requires that only a confirmation of the present content, or a repair, ends a suspension. A crash may have left a status
// that lists the new objects too.
func expectSuspension(g *WithT, random *rand.Rand, d prune.Departure, after []resourcesv1alpha1.ObjectReference) {
	confirmed := d
	confirmed.Confirmation = brake().Change(d).Confirmation
	g.Expect(brake().Change(confirmed)).To(BeNil())
	other := confirmed
	other.Confirmation += "0"
	g.Expect(brake().Change(other)).NotTo(BeNil())

	for range random.IntN(60) {
		after = append(after, resourcesv1alpha1.ObjectReference{})
		after[len(after)-1].APIVersion, after[len(after)-1].Kind = "v1", "ConfigMap"
		after[len(after)-1].Namespace, after[len(after)-1].Name = "shop", fmt.Sprintf("more-%d", random.Uint32())
	}
	union := inventory.Union(d.Before, after)
	later := prune.Departure{Before: union, Obsolete: obsolete(union, after), Unused: d.Unused, Suspended: true, Checksum: d.Checksum + "1"}
	g.Expect(brake().Change(later)).NotTo(BeNil())
	later.Obsolete = nil
	g.Expect(brake().Change(later)).To(BeNil())
}

func TestGeneratedOrdinaryChangesAreRarelySuspended(t *testing.T) {
	t.Parallel()
	generate.Cases(t, 1, func(t *testing.T, random *rand.Rand) {
		t.Helper()
		g, suspended, known := NewWithT(t), 0, documents{}
		for range mistakesOfSources {
			of := newSources(random, "shop", false)
			next := of.changed(random)
			before, _ := known.references(of)
			after, faulty := known.references(next)
			g.Expect(faulty).To(BeFalse())
			if brake().Change(prune.Departure{Before: before, Obsolete: obsolete(before, after)}) != nil {
				suspended++
			}
		}
		t.Logf("%d of %d ordinary changes are suspended", suspended, mistakesOfSources)
		g.Expect(suspended).To(BeNumerically("<=", mistakesOfSources/100))
	})
}

func TestGeneratedMistakesOfSourcesDeleteNothingProtectedOnAnAPIServer(t *testing.T) {
	t.Parallel()
	count := mistakesOfSets
	if os.Getenv("MISTAKES") != "" {
		count = allMistakesOfSets
	}
	e := New(t, Options{TwoClusters: true, Configure: func(cfg *config.ResourceManagerConfiguration) {
		longSyncPeriod(cfg)
		limited(cfg)
	}})
	random := rand.New(rand.NewPCG(1, 0))
	const parallel = 4
	for number := range parallel {
		of, seed := newSources(random, e.Namespace, true), random.Uint64()
		for key := range of { // the sets share the namespace
			of[key] = strings.ReplaceAll(of[key], "name: k", fmt.Sprintf("name: s%d-k", number))
		}
		t.Run(fmt.Sprintf("set %d", number), func(t *testing.T) {
			t.Parallel()
			sufferMistakes(e.Within(t), fmt.Sprintf("set-%d", number), of, rand.New(rand.NewPCG(seed, 0)), count/parallel)
		})
	}
}

// sufferMistakes applies sources with mistakes, each followed by the correct sources. An object is deleted only within the limits.
func sufferMistakes(e *Env, set string, of sources, random *rand.Rand, count int) {
	write := func(s sources) {
		data := map[string][]byte{}
		for key, value := range s {
			data[key] = []byte(value)
		}
		e.SecretData(set, data)
	}
	write(of)
	e.Expect(e.Source.Create(e.Ctx, e.ManagedResource(set, set))).To(Succeed())
	e.AwaitApplied(set, succeeded)
	before, _ := documents{}.references(of)
	uids := func() map[string]string {
		found := map[string]string{}
		for _, each := range before {
			if live := e.Live(each.APIVersion+"/"+each.Kind, each.Name); live != nil {
				found[each.Kind+"/"+each.Name] = string(live.GetUID())
			}
		}
		return found
	}
	for range count {
		former := uids()
		wrong, name := of.mistaken(random)
		if random.IntN(10) == 0 {
			wrong, name = of, "another class"
			handOver(e, set)
		} else {
			write(wrong)
			e.Reconciled(set)
		}
		now, gone := uids(), 0
		for object, uid := range former {
			if now[object] == uid {
				continue
			}
			gone++
			e.Expect(object).NotTo(Or(HavePrefix("StatefulSet/"), HavePrefix("PersistentVolumeClaim/")), "%s: %v", name, wrong)
		}
		e.Expect(gone > 10 && 2*gone > len(before)).To(BeFalse(), "%s: %v", name, wrong)
		e.Change(set, func(mr *resourcesv1alpha1.ManagedResource) { mr.Spec.Class = nil })
		write(of)
		e.AwaitApplied(set, succeeded)
	}
}

// handOver gives a set another class, and waits until the controller has released the set, or has suspended the deletion of its objects.
func handOver(e *Env, set string) {
	e.T.Helper()
	e.Change(set, func(mr *resourcesv1alpha1.ManagedResource) { mr.Spec.Class = new("other") })
	e.Eventually(func() bool {
		mr := e.Get(set)
		return len(mr.Finalizers) == 0 || Condition(mr, "ResourcesApplied") == "False/PruningSuspended"
	}).WithTimeout(Patience).Should(BeTrue())
}
