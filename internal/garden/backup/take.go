package backup

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	druidcorev1alpha1 "github.com/gardener/etcd-druid/api/core/v1alpha1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	operatorv1alpha1 "github.com/espalier-dev/espalier/api/operator/v1alpha1"
	"github.com/espalier-dev/espalier/internal/garden/rotation"
	"github.com/espalier-dev/espalier/internal/process"
	"github.com/espalier-dev/espalier/internal/rollout"
)

// Users who make backups get these roles by bindings of their own.
// +kubebuilder:rbac:groups=operator.gardener.cloud,resources=gardens;extensions,verbs=list,roleName=espalier-garden-operator-backup
// +kubebuilder:rbac:groups="",resources=secrets;configmaps,verbs=get;list,namespace=garden,roleName=espalier-garden-operator-backup
// +kubebuilder:rbac:groups=druid.gardener.cloud,resources=etcds,verbs=list,namespace=garden,roleName=espalier-garden-operator-backup

// attempts is how often the cluster is read if a rotation begins or advances meanwhile.
const attempts = 3

// Take reads the only Garden of a cluster, and everything that belongs to its backup. Namespace is the namespace of its Secrets.
func Take(ctx context.Context, c client.Reader, namespace string, now time.Time) (*Backup, error) {
	for range attempts {
		garden, err := readGarden(ctx, c)
		if err != nil {
			return nil, err
		}
		b, err := take(ctx, c, garden, namespace, now)
		if err != nil && !apierrors.IsNotFound(err) {
			return nil, err
		}
		after, failure := readGarden(ctx, c)
		if failure != nil {
			return nil, failure
		}
		if err == nil && isSame(garden, after) {
			return b, nil
		}
	}
	return nil, errors.New("the Garden and its Secrets changed while they were read; try again when its reconciliation has ended")
}

// isSame reports whether UID, annotations, specification and the credentials in the status of a Garden did not change between two reads.
func isSame(before, after *unstructured.Unstructured) bool {
	for _, path := range [][]string{{"metadata", "uid"}, {"metadata", "annotations"}, {"spec"}, {"status", "credentials"}} {
		one, _, _ := unstructured.NestedFieldNoCopy(before.Object, path...)
		other, _, _ := unstructured.NestedFieldNoCopy(after.Object, path...)
		if !equality.Semantic.DeepEqual(one, other) {
			return false
		}
	}
	return true
}

// readGarden reads the only Garden.
func readGarden(ctx context.Context, c client.Reader) (*unstructured.Unstructured, error) {
	gardens, err := list(ctx, c, gardenKind)
	if err != nil {
		return nil, err
	}
	if len(gardens) != 1 {
		var names []string
		for i := range gardens {
			names = append(names, gardens[i].GetName())
		}
		return nil, fmt.Errorf("the cluster has %d Gardens instead of one (%s)", len(gardens), strings.Join(names, ", "))
	}
	garden := &gardens[0]
	if garden.GetDeletionTimestamp() != nil {
		return nil, fmt.Errorf("%s is being deleted", describe(garden))
	}
	if isMarked(garden) {
		return nil, fmt.Errorf("%s is being restored: end the restoration first", describe(garden))
	}
	return garden, nil
}

// list returns all objects of a cluster-scoped kind.
func list(ctx context.Context, c client.Reader, kind schema.GroupVersionKind) ([]unstructured.Unstructured, error) {
	all := &unstructured.UnstructuredList{}
	all.SetGroupVersionKind(kind.GroupVersion().WithKind(kind.Kind + "List"))
	if err := c.List(ctx, all); err != nil {
		return nil, fmt.Errorf("list objects of kind %s: %w", kind.Kind, err)
	}
	return all.Items, nil
}

func take(ctx context.Context, c client.Reader, live *unstructured.Unstructured, namespace string, now time.Time) (*Backup, error) {
	garden, err := convert[operatorv1alpha1.Garden](live)
	if err != nil {
		return nil, err
	}
	installed, err := list(ctx, c, extensionKind)
	if err != nil {
		return nil, err
	}
	objects := []*unstructured.Unstructured{stripped(live)}
	extensions := make([]operatorv1alpha1.Extension, 0, len(installed))
	for i := range installed {
		each, failure := convert[operatorv1alpha1.Extension](&installed[i])
		if failure != nil {
			return nil, failure
		}
		if each.DeletionTimestamp == nil {
			extensions, objects = append(extensions, *each), append(objects, stripped(&installed[i]))
		}
	}
	etcds := &druidcorev1alpha1.EtcdList{}
	err = c.List(ctx, etcds, client.InNamespace(namespace))
	if err != nil && !rollout.IsGone(err) { // the definition may be missing
		return nil, fmt.Errorf("list Etcds: %w", err)
	}
	references := etcdsOf(etcds.Items)
	belongs := newContents(garden, extensions, references)
	found, err := readContents(ctx, c, belongs, namespace)
	if err != nil {
		return nil, err
	}
	objects = append(objects, found...)
	slices.SortFunc(objects, compare)
	if missing := lost(garden, objects); len(missing) > 0 {
		return nil, fmt.Errorf("a Garden cannot be restored without keys and authorities that namespace %s does not have: %s; wait until a "+
			"reconciliation of the Garden has succeeded, or restore their Secrets", namespace, strings.Join(missing, ", "))
	}
	b := &Backup{Objects: objects, Manifest: Manifest{
		OperatorVersion: process.Version, Taken: metav1.NewTime(now.UTC().Truncate(time.Second)), Etcds: references,
		Rotations: map[string]string{}, Absent: belongs.absent(objects),
		Garden: GardenReference{
			Name: garden.Name, Namespace: namespace, UID: string(garden.UID),
			ClusterIdentity: garden.Spec.VirtualCluster.Gardener.ClusterIdentity,
		},
	}}
	for credential, phase := range rotation.PhasesOf(garden) {
		b.Manifest.Rotations[string(credential)] = string(phase)
	}
	return b, nil
}

// readContents reads the Secrets and ConfigMaps of a backup. It reads the content of no other Secret.
func readContents(ctx context.Context, c client.Reader, of contents, namespace string) ([]*unstructured.Unstructured, error) {
	var found []*unstructured.Unstructured
	for _, kind := range []schema.GroupVersionKind{secretKind, configMapKind} {
		all := &metav1.PartialObjectMetadataList{}
		all.SetGroupVersionKind(kind.GroupVersion().WithKind(kind.Kind + "List"))
		if err := c.List(ctx, all, client.InNamespace(namespace)); err != nil {
			return nil, fmt.Errorf("list objects of kind %s in namespace %s: %w", kind.Kind, namespace, err)
		}
		for i := range all.Items {
			each := &all.Items[i]
			each.SetGroupVersionKind(kind)
			if each.DeletionTimestamp != nil || !of.includes(each) {
				continue
			}
			o := &unstructured.Unstructured{}
			o.SetGroupVersionKind(kind)
			if err := c.Get(ctx, client.ObjectKeyFromObject(each), o); err != nil {
				return nil, fmt.Errorf("read %s %s/%s: %w", kind.Kind, namespace, each.Name, err)
			}
			if !isLeftOut(o) {
				found = append(found, stripped(o))
			}
		}
	}
	return found, nil
}
