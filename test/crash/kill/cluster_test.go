package kill_test

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	resourcesv1alpha1 "github.com/espalier-dev/espalier/api/resources/v1alpha1"
	"github.com/espalier-dev/espalier/internal/managedresource/managedresourcetest"
)

// writers is how many requests the test sends concurrently.
const writers = 8

// write calls the functions in changes, several concurrently.
func (s *scenario) write(changes []func() error) {
	s.T.Helper()
	var workers sync.WaitGroup
	failures := make([]error, len(changes))
	slots := make(chan struct{}, writers)
	for i, change := range changes {
		slots <- struct{}{}
		workers.Go(func() {
			failures[i] = change()
			<-slots
		})
	}
	workers.Wait()
	for _, err := range failures {
		s.Expect(err).NotTo(HaveOccurred())
	}
}

func (s *scenario) secretOf(each set) *corev1.Secret {
	s.T.Helper()
	data, err := each.data()
	s.Expect(err).NotTo(HaveOccurred())
	return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: s.Namespace, Name: each.name}, Data: data}
}

// create returns a function that creates a set and its Secret, in random order.
func (s *scenario) create(each set) func() error {
	s.T.Helper()
	mr := s.ManagedResource(each.name, each.name)
	mr.Spec.KeepObjects, mr.Spec.ForceOverwriteLabels = ptr.To(each.keep), ptr.To(each.keep)
	objects := []client.Object{s.secretOf(each), mr}
	if s.random.IntN(3) == 0 {
		slices.Reverse(objects)
	}
	return func() error {
		for _, object := range objects {
			if err := s.Source.Create(s.Ctx, object); err != nil {
				return err
			}
		}
		return nil
	}
}

func (s *scenario) replace(each set) func() error {
	s.T.Helper()
	secret := s.secretOf(each)
	return func() error { return s.Source.Update(s.Ctx, secret) }
}

// remove returns a function that deletes a set and its Secret, in random order.
func (s *scenario) remove(name string) func() error {
	objects := []client.Object{
		&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: s.Namespace, Name: name}},
		s.ManagedResource(name),
	}
	if s.random.IntN(2) == 0 {
		slices.Reverse(objects)
	}
	return func() error {
		for _, object := range objects {
			if err := s.Source.Delete(s.Ctx, object); err != nil {
				return err
			}
		}
		return nil
	}
}

// unfinished lists the sets that, by their status, are not yet as they must be. It does not read objects.
func (s *scenario) unfinished() []string {
	s.T.Helper()
	list := &resourcesv1alpha1.ManagedResourceList{}
	s.Expect(s.Source.List(s.Ctx, list, client.InNamespace(s.Namespace))).To(Succeed())
	var open []string
	seen := map[string]bool{}
	for i := range list.Items {
		mr := &list.Items[i]
		seen[mr.Name] = true
		applied := managedresourcetest.Condition(mr, "ResourcesApplied")
		_, wanted := s.sets[mr.Name]
		switch {
		case !wanted:
			open = append(open, fmt.Sprintf("%s is not gone, deleted: %t, %s: %s", mr.Name, mr.DeletionTimestamp != nil,
				applied, managedresourcetest.Message(mr, "ResourcesApplied")))
		case applied != "True/ApplySucceeded":
			open = append(open, fmt.Sprintf("%s is %s: %s", mr.Name, applied, managedresourcetest.Message(mr, "ResourcesApplied")))
		case mr.Status.ObservedGeneration != mr.Generation || ptr.Deref(mr.Status.SecretsDataChecksum, "") != s.checksums[mr.Name]:
			open = append(open, mr.Name+" is applied as it was before")
		}
	}
	for name := range s.sets {
		if !seen[name] {
			open = append(open, name+" does not exist")
		}
	}
	slices.Sort(open)
	return open
}

// wrongStatus compares status.resources of all sets with their objects.
func (s *scenario) wrongStatus() []string {
	s.T.Helper()
	var findings []string
	for _, name := range slices.Sorted(maps.Keys(s.sets)) {
		each, mr := s.sets[name], s.Get(name)
		have := map[key]resourcesv1alpha1.ObjectReference{}
		for _, ref := range mr.Status.Resources {
			have[key{ref.Kind, ref.Name}] = ref
		}
		want := map[key]resourcesv1alpha1.ObjectReference{}
		for place := range each.revisions {
			object := &unstructured.Unstructured{Object: each.expected(place)}
			annotations := object.GetAnnotations()
			delete(annotations, "resources.gardener.cloud/origin")
			want[each.key(place)] = resourcesv1alpha1.ObjectReference{
				ObjectReference: corev1.ObjectReference{
					APIVersion: object.GetAPIVersion(), Kind: object.GetKind(), Namespace: s.Namespace, Name: object.GetName(),
				},
				Labels: object.GetLabels(), Annotations: annotations,
			}
		}
		if matches, err := BeComparableTo(want).Match(have); err != nil || !matches || len(mr.Status.Resources) != len(want) {
			findings = append(findings, fmt.Sprintf("status.resources of %s: %s", name, statusDifference(want, have)))
		}
	}
	return findings
}

func statusDifference(want, have map[key]resourcesv1alpha1.ObjectReference) string {
	for identity, ref := range want {
		if found, ok := have[identity]; !ok {
			return fmt.Sprintf("%v is not listed", identity)
		} else if matches, err := BeComparableTo(ref).Match(found); err != nil || !matches {
			return fmt.Sprintf("%v is listed as %v instead of %v", identity, found, ref)
		}
	}
	return fmt.Sprintf("%d objects are listed instead of %d", len(have), len(want))
}

// managed lists the objects of the namespace with the managed-by label, for the kinds of the sets' objects. Other kinds inherit that label
// from templates.
func (s *scenario) managed() map[key]*unstructured.Unstructured {
	s.T.Helper()
	return s.list(client.MatchingLabels{managedBy: "gardener"})
}

func (s *scenario) list(labels client.MatchingLabels) map[key]*unstructured.Unstructured {
	s.T.Helper()
	found := map[key]*unstructured.Unstructured{}
	for _, each := range kinds() {
		list := &unstructured.UnstructuredList{}
		list.SetGroupVersionKind(schema.FromAPIVersionAndKind(each.apiVersion, each.kind+"List"))
		s.Expect(s.Source.List(s.Ctx, list, client.InNamespace(s.Namespace), labels)).To(Succeed())
		for i := range list.Items {
			found[key{each.kind, list.Items[i].GetName()}] = &list.Items[i]
		}
	}
	return found
}

// version returns a text that changes if the object is changed or created again.
func version(object *unstructured.Unstructured) string {
	return string(object.GetUID()) + " " + object.GetResourceVersion()
}

func versions(objects map[key]*unstructured.Unstructured) map[key]string {
	all := make(map[key]string, len(objects))
	for identity, object := range objects {
		all[identity] = version(object)
	}
	return all
}

// plantBystanders creates objects that belong to no set: without the managed-by label, with it, and with it and an origin annotation that
// names a set which does not contain them, as in a copied manifest.
func (s *scenario) plantBystanders() {
	s.T.Helper()
	for number, each := range kinds() {
		for flavour, marks := range map[string]struct{ labels, annotations map[string]string }{
			"plain":    {},
			"labelled": {labels: map[string]string{managedBy: "gardener"}},
			"copied": {
				labels:      map[string]string{managedBy: "gardener"},
				annotations: map[string]string{"resources.gardener.cloud/origin": s.Namespace + "/" + setName(0)},
			},
		} {
			name := fmt.Sprintf("bystander-%d-%s", number, flavour)
			object := &unstructured.Unstructured{Object: each.content(name, 0)}
			object.SetKind(each.kind)
			object.SetNamespace(s.Namespace)
			object.SetName(name)
			object.SetAnnotations(marks.annotations)
			labels := map[string]string{prefix + "bystander": "true"}
			maps.Copy(labels, marks.labels)
			object.SetLabels(labels)
			s.Expect(s.Source.Create(s.Ctx, object)).To(Succeed())
		}
	}
	s.settleVersions(s.listBystanders)
	s.bystanders = versions(s.listBystanders())
}

func (s *scenario) listBystanders() map[key]*unstructured.Unstructured {
	s.T.Helper()
	return s.list(client.MatchingLabels{prefix + "bystander": "true"})
}

// settleVersions waits until other controllers have written the status of the objects.
func (s *scenario) settleVersions(list func() map[key]*unstructured.Unstructured) {
	s.T.Helper()
	before := versions(list())
	s.Eventually(func() bool {
		now := versions(list())
		same := maps.Equal(before, now)
		before = now
		return same
	}).WithTimeout(patience).WithPolling(settled).Should(BeTrue())
}

// eventReasons counts the Events about sets.
func (s *scenario) eventReasons() map[string]int {
	s.T.Helper()
	list := &corev1.EventList{}
	s.Expect(s.Source.List(s.Ctx, list, client.InNamespace(s.Namespace))).To(Succeed())
	reasons := map[string]int{}
	for i := range list.Items {
		if list.Items[i].InvolvedObject.Kind == "ManagedResource" {
			reasons[list.Items[i].Reason]++
		}
	}
	return reasons
}

// clear deletes the namespace, so that its objects do not affect the rest of this test run. It first removes the finalizers of sets that a
// failed test leaves, because no controller is running.
func (s *scenario) clear() {
	ctx := context.WithoutCancel(s.Ctx)
	all := &resourcesv1alpha1.ManagedResourceList{}
	if err := s.Source.List(ctx, all, client.InNamespace(s.Namespace)); err != nil {
		s.T.Logf("cannot clean up: %v", err)
	}
	for i := range all.Items {
		patch := client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`))
		if err := s.Source.Patch(ctx, &all.Items[i], patch); err != nil {
			s.T.Logf("cannot let go of %s: %v", all.Items[i].Name, err)
		}
	}
	if err := s.Source.Delete(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: s.Namespace}}); err != nil {
		s.T.Logf("cannot clean up: %v", err)
	}
}
