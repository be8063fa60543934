package applier_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	kubernetesscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/espalier-dev/espalier/internal/managedresource/managedresourcetest"
	"github.com/espalier-dev/espalier/test/generate"
)

// staying describes edits that the controller does not repair. It is an entry of the list of such edits.
type staying struct {
	// Kind, Name and Path are regular expressions for "apiVersion/Kind", for the name of an object of the corpus (missing: any), and for the
	// path of an edit. They match the whole text.
	Kind, Name, Path string
	// make generate writes the texts What and Why to docs/managedresource.md.
	What, Why string
}

func readStaying(t *testing.T) []staying {
	t.Helper()
	g := NewWithT(t)
	text, err := os.ReadFile("testdata/stays.yaml")
	g.Expect(err).NotTo(HaveOccurred())
	var list []staying
	g.Expect(yaml.UnmarshalStrict(text, &list)).To(Succeed())
	return list
}

func matches(expression, text string) bool {
	return regexp.MustCompile("^(?:" + expression + ")$").MatchString(text)
}

// drifting is an object of the corpus that the test edits, one edit after the other.
type drifting struct {
	kind, name string
	// applied is the object as it was applied first. want is the object that a repair must restore: applied, with the edits that stay.
	want, applied map[string]any
	// edits are the edits that are not made yet. isBlameless is true if the last one that was made has no manager.
	edits       []edit
	isBlameless bool
}

// blamed returns an edit that has a manager, and that is repaired. After several such edits in a row without a manager, or by one manager,
// repairs would pause.
func blamed() edit {
	return edit{op: "replace", path: []any{"metadata", "labels", "resources.gardener.cloud/managed-by"}, value: "x"}
}

// next takes the next edit from the list, false if there is none.
func (d *drifting) next() (edit, bool) {
	if len(d.edits) == 0 {
		return edit{}, false
	}
	e := d.edits[0]
	d.edits = d.edits[1:]
	return e, true
}

func corpus(t *testing.T, e *managedresourcetest.Env) []string {
	t.Helper()
	text, err := os.ReadFile("testdata/corpus.yaml")
	e.Expect(err).NotTo(HaveOccurred())
	manifests := strings.Split(e.Fill(string(text)), "\n---\n")
	for _, name := range slices.Sorted(maps.Keys(defaulted)) {
		manifests = append(manifests, e.Fill(strings.TrimSpace(defaulted[name].manifest)))
	}
	return manifests
}

// defineGadgets defines a custom kind with a schema that has lists and maps of every type.
func defineGadgets(e *managedresourcetest.Env) {
	group := e.Fill("$NS-g.example.test")
	e.Create(e.Fill(`
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: gadgets.$NS-g.example.test}
spec:
  group: $NS-g.example.test
  names: {kind: Gadget, plural: gadgets}
  scope: Namespaced
  versions:
  - name: v1
    served: true
    storage: true
    schema:
      openAPIV3Schema:
        type: object
        properties:
          spec:
            type: object
            properties:
              size: {type: integer, default: 3}
              added: {type: object, x-kubernetes-preserve-unknown-fields: true}
              tags: {type: array, x-kubernetes-list-type: set, items: {type: string}}
              map: {type: object, additionalProperties: {type: object, properties: {v: {type: integer, default: 1}, added: {type: string}}}}
              items: {type: array, x-kubernetes-list-type: map, x-kubernetes-list-map-keys: [id], items: {type: object, required: [id], properties: {id: {type: string}, v: {type: integer, default: 1}, added: {type: boolean}}}}
              atomic: {type: object, x-kubernetes-map-type: atomic, additionalProperties: {type: string}}
              list: {type: array, items: {type: object, properties: {a: {type: string, default: x}, added: {type: integer}}}}
`))
	e.Grant(group, "gadgets")
	e.Eventually(func() error {
		_, err := e.Target.RESTMapper().RESTMapping(schema.GroupKind{Group: group, Kind: "Gadget"}, "v1")
		return err
	}).WithTimeout(managedresourcetest.Patience).Should(Succeed())
}

// driftScene is a set with the corpus, and the count of edits.
type driftScene struct {
	*managedresourcetest.Env
	objects  []*drifting
	staying  []staying
	managers atomic.Int64

	mu       sync.Mutex
	slowest  time.Duration
	repaired int
	stayed   map[string]bool
	faults   []string
}

func newDriftScene(t *testing.T) *driftScene {
	t.Helper()
	e := managedresourcetest.New(t, managedresourcetest.Options{TwoClusters: true, Stopped: true, Configure: longSyncPeriod})
	e.Define(e.Fill("$NS-w.example.test"), "v1", "Widget")
	defineGadgets(e)
	for group, resources := range map[string][]string{
		"": {"podtemplates", "endpoints"}, "discovery.k8s.io": {"endpointslices"}, "node.k8s.io": {"runtimeclasses"},
		"storage.k8s.io": {"csidrivers", "volumeattributesclasses"}, "coordination.k8s.io": {"leases"},
		"admissionregistration.k8s.io": {"validatingadmissionpolicies", "validatingadmissionpolicybindings"},
		"flowcontrol.apiserver.k8s.io": {"prioritylevelconfigurations", "flowschemas"},
	} {
		e.Grant(group, resources...)
	}
	e.Start()
	e.Create(e.Fill("{apiVersion: v1, kind: ServiceAccount, metadata: {name: web, namespace: $NS}}"))
	s := &driftScene{Env: e, staying: readStaying(t), stayed: map[string]bool{}}
	e.Set("mr", corpus(t, e)...)
	for _, ref := range e.AwaitApplied("mr", "True/ApplySucceeded").Status.Resources {
		d := &drifting{kind: ref.APIVersion + "/" + ref.Kind, name: ref.Name}
		live := e.Live(d.kind, d.name)
		d.applied = desiredPart(live)
		d.want = d.applied
		example, _ := kubernetesscheme.Scheme.New(live.GroupVersionKind())
		d.edits = editsOf(live.Object, example)
		s.objects = append(s.objects, d)
	}
	e.Expect(len(s.objects)).To(BeNumerically(">=", 70))
	return s
}

// desiredPart returns the part of an object that the manifest of a set determines.
func desiredPart(live *unstructured.Unstructured) map[string]any {
	object := runtime.DeepCopyJSON(live.Object)
	metadata := map[string]any{}
	for _, part := range []string{"labels", "annotations"} {
		if value, found, _ := unstructured.NestedMap(object, "metadata", part); found && len(value) > 0 {
			metadata[part] = value
		}
	}
	object["metadata"] = metadata
	delete(object, "status")
	// The API server counts all changes of the template in this annotation, also repairs.
	unstructured.RemoveNestedField(object, "metadata", "annotations", "deprecated.daemonset.template.generation")
	return object
}

// edit makes an edit of an object and waits until it is repaired. It returns a fault, "" if there is none.
func (s *driftScene) edit(d *drifting, e edit, method int) string {
	live, err := s.read(d)
	if err != nil {
		return err.Error()
	}
	if !e.hasManager() {
		s.perform(live, blamed(), 0)
		if live, err = s.awaitWanted(d); err != nil {
			return err.Error()
		}
	}
	before := desiredPart(live)
	if !reflect.DeepEqual(before, d.want) {
		return fmt.Sprintf("before the edit, the object differs from what was applied:\n%v\n%v", before, d.want)
	}
	next, manager := s.perform(live, e, method)
	if next == nil {
		if err = s.forget(d, manager); err != nil {
			return err.Error()
		}
		return ""
	}
	edited := desiredPart(next)
	if s.stays(d, e) {
		return s.undo(d, live, next, edited)
	}
	begin := time.Now()
	if live, err = s.awaitWanted(d); err != nil {
		if live != nil {
			d.want = desiredPart(live) // report it once
		}
		return err.Error()
	}
	if err := s.forget(d, manager); err != nil {
		return err.Error()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.slowest = max(s.slowest, time.Since(begin))
	s.repaired++
	return ""
}

// perform makes an edit as a new manager. It returns the object after the edit, nil if the API server does not accept the edit or if it
// does not change desiredPart.
func (s *driftScene) perform(live *unstructured.Unstructured, e edit, method int) (*unstructured.Unstructured, client.FieldOwner) {
	manager := client.FieldOwner(fmt.Sprintf("drift-%d", s.managers.Add(1)))
	next := live.DeepCopy()
	e.change(next.Object)
	var err error
	switch {
	case method == 0:
		err = s.Target.Update(s.Ctx, next, manager)
	case method == 1 && e.op != "remove":
		next.SetManagedFields(nil)
		next.SetResourceVersion("")
		delete(next.Object, "status")
		err = s.Target.Patch(s.Ctx, next, client.Apply, manager, client.ForceOwnership) //nolint:staticcheck // for untyped objects of any kind
	default:
		body, _ := json.Marshal([]any{e.patch()})
		err = s.Target.Patch(s.Ctx, next, client.RawPatch(types.JSONPatchType, body), manager)
	}
	if err != nil || reflect.DeepEqual(desiredPart(next), desiredPart(live)) {
		return nil, manager
	}
	return next, manager
}

// stays reports whether an edit is on the list of edits that stay.
func (s *driftScene) stays(d *drifting, e edit) bool {
	for _, each := range s.staying {
		if matches(each.Kind, d.kind) && (each.Name == "" || matches(each.Name, d.name)) && matches(each.Path, e.at()) {
			s.mu.Lock()
			s.stayed[each.What] = true
			s.mu.Unlock()
			return true
		}
	}
	return false
}

// forget removes from managedFields the entries of the edits that the test made by server-side apply. The manager of such an entry owns
// all fields, so it would be blamed for later edits without an own manager, and repairs would pause.
func (s *driftScene) forget(d *drifting, manager client.FieldOwner) error {
	return retry.RetryOnConflict(retry.DefaultRetry, func() error {
		live, err := s.read(d)
		if err == nil && len(withoutEdits(live)) < len(live.GetManagedFields()) {
			live.SetManagedFields(withoutEdits(live))
			err = s.Target.Update(s.Ctx, live, manager)
		}
		return err
	})
}

// withoutEdits returns the managedFields of an object without the entries of edits by Apply.
func withoutEdits(live *unstructured.Unstructured) []metav1.ManagedFieldsEntry {
	return slices.DeleteFunc(live.GetManagedFields(), func(entry metav1.ManagedFieldsEntry) bool {
		return entry.Operation == metav1.ManagedFieldsOperationApply && strings.HasPrefix(entry.Manager, "drift-")
	})
}

// isBetween reports whether each value of now is in want or in applied. The repair of an edit may lose earlier edits that stay: with an
// object that is replaced, with a claim of another name, with a webhook that was renamed. A port that is created again gets any node port,
// and so does the health check of a Service for which it was switched off.
func isBetween(now, want, applied any) bool {
	if reflect.DeepEqual(now, want) || reflect.DeepEqual(now, applied) {
		return true
	}
	if values, isMap := now.(map[string]any); isMap {
		wanted, isWanted := want.(map[string]any)
		first, isFirst := applied.(map[string]any)
		if !isWanted && !isFirst {
			return false
		}
		for _, keys := range []map[string]any{values, wanted, first} {
			for key := range keys {
				if key != "nodePort" && key != "healthCheckNodePort" && !isBetween(values[key], wanted[key], first[key]) {
					return false
				}
			}
		}
		return true
	}
	items, _ := now.([]any)
	wanted, _ := want.([]any)
	first, _ := applied.([]any)
	if len(items) == 0 || len(items) != len(wanted) || len(items) != len(first) {
		return false
	}
	for i := range items {
		if !isBetween(items[i], wanted[i], first[i]) {
			return false
		}
	}
	return true
}

// awaitWanted waits until an object is as it was applied, but for edits that stay.
func (s *driftScene) awaitWanted(d *drifting) (live *unstructured.Unstructured, err error) {
	for begin := time.Now(); time.Since(begin) < managedresourcetest.Patience; time.Sleep(5 * time.Millisecond) {
		if live, err = s.read(d); err != nil {
			continue
		}
		if now := desiredPart(live); isBetween(now, d.want, d.applied) {
			d.want = now
			return live, nil
		}
	}
	if err != nil {
		return nil, err
	}
	return live, fmt.Errorf("is not repaired: now it is\n%v\nand was\n%v", desiredPart(live), d.want)
}

// undo reverts an edit that stays. If the API server refuses that, the object stays as it is.
func (s *driftScene) undo(d *drifting, before, after *unstructured.Unstructured, edited map[string]any) string {
	before.SetResourceVersion(after.GetResourceVersion())
	before.SetManagedFields(withoutEdits(after))
	if err := s.Target.Update(s.Ctx, before, client.FieldOwner(fmt.Sprintf("drift-%d", s.managers.Add(1)))); err != nil {
		d.want = edited
	}
	if live, err := s.awaitWanted(d); err != nil {
		if live != nil {
			d.want = desiredPart(live)
		}
		return "after it was undone, it " + err.Error()
	}
	return ""
}

func (s *driftScene) read(d *drifting) (*unstructured.Unstructured, error) {
	live := &unstructured.Unstructured{}
	live.SetAPIVersion(path.Dir(d.kind))
	live.SetKind(path.Base(d.kind))
	return live, s.Target.Get(s.Ctx, client.ObjectKey{Namespace: s.Namespace, Name: d.name}, live)
}

// sample returns the number of edits of each object: few, or all with DRIFT=all.
func (s *driftScene) sample(few int) int {
	if os.Getenv("DRIFT") == "all" {
		for _, d := range s.objects {
			few = max(few, len(d.edits))
		}
	}
	return few
}

// An edit of any field by another client is repaired, or is on the list of edits that stay. DRIFT=all makes every edit once.
func TestGeneratedDriftIsRepaired(t *testing.T) {
	t.Parallel()
	s := newDriftScene(t)
	made := 0
	generate.Cases(t, s.sample(3), func(t *testing.T, random *rand.Rand) {
		t.Helper()
		var group sync.WaitGroup
		slots := make(chan struct{}, 8)
		for _, d := range s.objects {
			random.Shuffle(len(d.edits), func(i, j int) { d.edits[i], d.edits[j] = d.edits[j], d.edits[i] })
			e, found := d.next()
			if !found {
				continue
			}
			made++
			method := random.IntN(3)
			slots <- struct{}{}
			group.Go(func() {
				defer func() { <-slots }()
				if fault := s.edit(d, e, method); fault != "" {
					s.mu.Lock()
					defer s.mu.Unlock()
					by := [...]string{"update", "apply", "patch"}[method]
					s.faults = append(s.faults, fmt.Sprintf("%s %s: %s by %s: %s", d.kind, d.name, e, by, fault))
				}
			})
		}
		group.Wait()
	})
	t.Logf("%d edits, %d of them repaired, the slowest after %s; these stayed: %v",
		made, s.repaired, s.slowest, slices.Sorted(maps.Keys(s.stayed)))
	s.Expect(s.faults).To(BeEmpty(), "%s", strings.Join(s.faults, "\n"))
	s.Expect(s.Events("mr")).NotTo(ContainElement(HavePrefix("DriftRepairPaused: ")))
}

// A plan shows every edit that would be repaired, and no other, and a requested reconciliation repairs those edits.
func TestGeneratedDriftIsPlannedAndReconciled(t *testing.T) {
	t.Parallel()
	s := newDriftScene(t)
	planned := 0
	generate.Cases(t, s.sample(1), func(t *testing.T, random *rand.Rand) {
		t.Helper()
		changed(s.Env, "mr", planAs("true"))
		awaitPlan(s.Env, "mr", func(g Gomega, p *published) { g.Expect(p.Counts).To(HaveLen(1), "%s", p.Summary) })
		edited := s.editAll(random)
		s.Reconciled("mr")
		p := &published{}
		awaitPlan(s.Env, "mr", func(g Gomega, latest *published) {
			*p = *latest
			for d, each := range edited {
				if !s.stays(d, each.edit) {
					g.Expect(p.actions()).NotTo(ContainElement("unchanged "+path.Base(d.kind)+" "+d.name), "%s", each.edit)
				}
			}
		})
		s.Expect(p.ObjectsNotIncluded).To(BeZero())
		changed(s.Env, "mr", applyNow)
		s.Reconciled("mr")
		for d := range edited {
			s.Expect(s.forget(d, "forget")).To(Or(Succeed(), MatchError(apierrors.IsNotFound, "is replaced")))
		}
		for _, each := range p.Objects {
			at := slices.IndexFunc(s.objects, func(d *drifting) bool { return path.Base(d.kind) == each.Kind && d.name == each.Name })
			s.Expect(at).To(BeNumerically(">=", 0), "%v", each)
			d := s.objects[at]
			after, isEdited := edited[d]
			live, err := s.read(d)
			now := map[string]any{}
			if err == nil {
				now = desiredPart(live)
			}
			switch {
			case slices.Contains([]string{"change", "replace"}, each.Action) && isEdited:
				planned++
				if s.stays(d, after.edit) {
					break // only a part of it stays
				}
				_, err = s.awaitWanted(d) // a replacement is created by the next attempt, and repairs may pause
				s.check(err == nil, "%s %s: %s: planned: %v", d.kind, d.name, after.edit, err)
				continue
			case each.Action == "unchanged" && (!isEdited || s.stays(d, after.edit)):
				s.check(!isEdited || reflect.DeepEqual(now, after.object), "%s %s: %s: not planned, but changed: %v", d.kind, d.name, after.edit, now)
			default:
				s.check(false, "%s %s: %s: planned as %s (%s)", d.kind, d.name, after.edit, each.Action, each.Note)
			}
			d.want = now
		}
	})
	t.Logf("%d edits were planned and repaired", planned)
	s.Expect(planned).NotTo(BeZero())
	s.Expect(s.faults).To(BeEmpty(), "%s", strings.Join(s.faults, "\n"))
}

// edited is an edit, with desiredPart of the object after it.
type edited struct {
	edit
	object map[string]any
}

// editAll makes an edit of each object, and returns the edits that the API server accepted.
func (s *driftScene) editAll(random *rand.Rand) map[*drifting]edited {
	made := map[*drifting]edited{}
	for _, d := range s.objects {
		random.Shuffle(len(d.edits), func(i, j int) { d.edits[i], d.edits[j] = d.edits[j], d.edits[i] })
		for range min(3, len(d.edits)) { // the API server accepts about half of them
			e, found := d.next()
			live, err := s.read(d)
			if !found || err != nil {
				break
			}
			if !e.hasManager() && d.isBlameless {
				e, d.edits = blamed(), append(d.edits, e)
			}
			if next, _ := s.perform(live, e, random.IntN(3)); next != nil {
				made[d], d.isBlameless = edited{e, desiredPart(next)}, !e.hasManager()
				break
			}
		}
	}
	return made
}

// check records a fault unless a statement is true.
func (s *driftScene) check(isTrue bool, format string, args ...any) {
	if !isTrue {
		s.faults = append(s.faults, fmt.Sprintf(format, args...))
	}
}
