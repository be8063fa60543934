package load

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	resourcesv1alpha1 "github.com/espalier-dev/espalier/api/resources/v1alpha1"
)

const (
	// marker is a label of all objects of the load that are read or deleted by a selector.
	marker = "e2e.espalier.dev/load"
	// There are setCount sets. Each has fixed ConfigMaps, and one whose name changes with each revision. The first set also has a
	// Deployment.
	setCount, fixed = 6, 5
	// driftEvery is the number of changes between two manual changes or deletions of an object. No object is affected more often than once
	// a minute: the controller pauses if it has to repeat the repair of an object three times in that time.
	driftEvery = 20
	renamed    = "renamed"
	revision   = "revision"
)

// manifests are ManagedResources, whose objects contain the revisions.
type manifests struct {
	base
	load    *Load
	changes int
}

func set(i int) string { return "set-" + strconv.Itoa(i) }

// manifestLanes returns the names of the lanes: <set>.<key of its Secret>.
func manifestLanes() []string {
	lanes := make([]string, 0, setCount*(fixed+1))
	for _, key := range append(numbered("fixed-", fixed), renamed) {
		for i := range setCount {
			lanes = append(lanes, set(i)+"."+key)
		}
	}
	return lanes
}

func (m *manifests) create(ctx context.Context) error {
	for i := range setCount {
		secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: m.namespace, Name: set(i)}}
		if i == 0 {
			secret.Data = map[string][]byte{"deployment": fmt.Appendf(nil, deployment, m.namespace)}
		}
		managed := &resourcesv1alpha1.ManagedResource{
			ObjectMeta: metav1.ObjectMeta{Namespace: m.namespace, Name: set(i), Labels: map[string]string{marker: m.namespace}},
			Spec:       resourcesv1alpha1.ManagedResourceSpec{SecretRefs: []corev1.LocalObjectReference{{Name: set(i)}}},
		}
		for _, object := range []client.Object{secret, managed} {
			if err := client.IgnoreAlreadyExists(m.cluster.Client.Create(ctx, object)); err != nil {
				return err
			}
		}
	}
	return nil
}

// deployment is the manifest of a Deployment that runs the sandbox image, which every node of this load has.
const deployment = `apiVersion: apps/v1
kind: Deployment
metadata: {name: managed, namespace: %s}
spec:
  replicas: 2
  selector: {matchLabels: {app: managed}}
  template:
    metadata: {labels: {app: managed}}
    spec:
      terminationGracePeriodSeconds: 1
      containers:
      - {name: pause, image: "espalier.local/pause:1", imagePullPolicy: IfNotPresent}
`

func (m *manifests) change(ctx context.Context, lane string, to int) error {
	owner, key, _ := strings.Cut(lane, ".")
	name := owner + "-" + key
	if key == renamed {
		name += "-" + strconv.Itoa(to)
	}
	manifest := fmt.Sprintf("apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: %s\n  namespace: %s\n  labels: {%s: %q}\ndata: {%s: %q}\n",
		name, m.namespace, marker, lane, revision, strconv.Itoa(to))
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: m.namespace, Name: owner}}
	if err := m.patch(ctx, secret, map[string]any{"data": map[string][]byte{key: []byte(manifest)}}); err != nil {
		return err
	}
	m.changes++
	if m.changes%driftEvery == 0 {
		return m.drift(ctx, m.changes/driftEvery)
	}
	return nil
}

// drift changes or deletes an object manually, each time another one.
func (m *manifests) drift(ctx context.Context, number int) error {
	object := &corev1.ConfigMap{}
	name := set(number/fixed%setCount) + "-fixed-" + strconv.Itoa(number%fixed)
	err := m.cluster.Client.Get(ctx, client.ObjectKey{Namespace: m.namespace, Name: name}, object)
	if err != nil {
		return client.IgnoreNotFound(err)
	}
	if number%2 == 0 {
		return client.IgnoreNotFound(m.patch(ctx, object, map[string]any{"data": map[string]string{revision: "changed by hand"}}))
	}
	m.load.deletes(object.UID)
	return client.IgnoreNotFound(m.cluster.Client.Delete(ctx, object, client.Preconditions{UID: &object.UID}))
}

func (m *manifests) results(ctx context.Context) (arrived map[string]int, unsettled []string, err error) {
	found, sets := &corev1.ConfigMapList{}, &resourcesv1alpha1.ManagedResourceList{}
	if err := m.cluster.Client.List(ctx, found, client.InNamespace(m.namespace), client.HasLabels{marker}); err != nil {
		return nil, nil, err
	}
	if err := m.cluster.Client.List(ctx, sets, client.InNamespace(m.namespace)); err != nil {
		return nil, nil, err
	}
	for _, managed := range sets.Items {
		conditions := map[string]string{}
		for _, condition := range managed.Status.Conditions {
			conditions[string(condition.Type)] = string(condition.Status)
		}
		for condition, wanted := range map[string]string{
			"ResourcesApplied": "True", "ResourcesHealthy": "True", "ResourcesProgressing": "False",
		} {
			if conditions[condition] != wanted {
				unsettled = append(unsettled, fmt.Sprintf("%s of ManagedResource %s is %q", condition, managed.Name, conditions[condition]))
			}
		}
	}
	slices.Sort(unsettled)
	// A lane has two objects while the object with the earlier name still exists. After a manual change, the value is not a number.
	return revisions(found.Items, func(o corev1.ConfigMap) (lane, value string) { return o.Labels[marker], o.Data[revision] }), unsettled, nil
}
