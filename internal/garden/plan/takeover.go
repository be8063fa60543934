package plan

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	operatorv1alpha1 "github.com/espalier-dev/espalier/api/operator/v1alpha1"
	"github.com/espalier-dev/espalier/internal/deployable"
	"github.com/espalier-dev/espalier/internal/garden/lifecycle"
	"github.com/espalier-dev/espalier/internal/garden/takeover"
	"github.com/espalier-dev/espalier/internal/rollout"
)

// observedKinds are the kinds of objects that a take-over judges in the namespace of a garden. If inIstio is true, the take-over also
// judges the objects of this kind in the namespace of Istio.
var observedKinds = []struct {
	schema.GroupVersionKind
	inIstio bool
}{
	{schema.GroupVersionKind{Group: "apps", Version: "v1", Kind: "Deployment"}, false},
	{schema.GroupVersionKind{Group: "apps", Version: "v1", Kind: "StatefulSet"}, false},
	{schema.GroupVersionKind{Group: "apps", Version: "v1", Kind: "DaemonSet"}, false},
	{schema.GroupVersionKind{Group: "batch", Version: "v1", Kind: "CronJob"}, false},
	{schema.GroupVersionKind{Version: "v1", Kind: "Service"}, true},
	{schema.GroupVersionKind{Version: "v1", Kind: "PersistentVolumeClaim"}, false},
	{schema.GroupVersionKind{Version: "v1", Kind: "Secret"}, false},
	{schema.GroupVersionKind{Group: "networking.k8s.io", Version: "v1", Kind: "Ingress"}, true},
	{schema.GroupVersionKind{Group: "networking.istio.io", Version: "v1beta1", Kind: "Gateway"}, false},
	{schema.GroupVersionKind{Group: "networking.istio.io", Version: "v1beta1", Kind: "VirtualService"}, false},
	{schema.GroupVersionKind{Group: "networking.istio.io", Version: "v1alpha3", Kind: "EnvoyFilter"}, false},
	{schema.GroupVersionKind{Group: "druid.gardener.cloud", Version: "v1alpha1", Kind: "Etcd"}, false},
	{rollout.ManagedResource, true},
}

// nameVirtual is the remedy if the virtual cluster of a garden that other programs deployed cannot be read.
const nameVirtual = "name its kubeconfig with --virtual-kubeconfig, or none if it has no API server any more"

// takeOver reports on the take-over of the garden in the cluster. Done is the simulation of the plan. Stored is the Garden after the
// change.
func (in Input) takeOver(ctx context.Context, p *Plan, done *simulation, stored *operatorv1alpha1.Garden) (*takeover.Report, error) {
	inventory := takeover.Inventory{
		Garden: stored, Namespace: in.Preflight.Namespace, Identity: lifecycle.SecretsIdentity, Now: in.Reconciler.Clock.Now(),
	}
	sets, err := done.inSets(ctx)
	if err != nil {
		return nil, err
	}
	inventory.IsInSet = func(o *unstructured.Unstructured) bool { return sets[idOf(o)] != nil }
	inventory.IsReplaced = func(o *unstructured.Unstructured) bool {
		if written, found := done.objects[idOf(o)]; found {
			return otherSelector(o, written.last())
		}
		return otherSelector(o, sets[idOf(o)])
	}
	if inventory.Runtime, err = in.observeRuntime(ctx); err != nil {
		return nil, err
	}
	applied, err := done.inLiveSets(ctx, inventory.Runtime)
	if err != nil {
		return nil, err
	}
	inventory.IsKnown = func(o *unstructured.Unstructured) bool { return done.knows(o) || applied[idOf(o)] }
	if in.Virtual == nil {
		p.Remarks = append(p.Remarks, "The virtual cluster of the former garden is not read, so its leftovers are not in the plan.")
	} else if inventory.Virtual, err = in.observeVirtual(ctx); err != nil {
		p.Refused = append(p.Refused, fmt.Sprintf("the virtual cluster of the former garden cannot be read (%s): %s", err, nameVirtual))
	}
	return takeover.Judge(inventory), nil
}

func (in Input) observeRuntime(ctx context.Context) ([]*unstructured.Unstructured, error) {
	var all []*unstructured.Unstructured
	reader, namespace := in.Reconciler.Client, in.Preflight.Namespace
	for _, kind := range observedKinds {
		namespaces := []string{namespace}
		if kind.inIstio {
			namespaces = append(namespaces, deployable.IstioNamespace)
		}
		for _, each := range namespaces {
			list := &unstructured.UnstructuredList{}
			list.SetGroupVersionKind(kind.GroupVersion().WithKind(kind.Kind + "List"))
			if err := reader.List(ctx, list, client.InNamespace(each)); meta.IsNoMatchError(err) {
				continue
			} else if err != nil {
				return nil, fmt.Errorf("list objects of kind %s in namespace %s: %w", kind.Kind, each, err)
			}
			for i := range list.Items {
				all = append(all, &list.Items[i])
			}
		}
	}
	webhooks := schema.GroupVersion{Group: "admissionregistration.k8s.io", Version: "v1"}
	further := append(takeover.Leftovers(takeover.Runtime, namespace),
		rollout.Identity(schema.GroupVersionKind{Group: "coordination.k8s.io", Version: "v1", Kind: "Lease"}, namespace, takeover.Lease),
		rollout.Identity(webhooks.WithKind("MutatingWebhookConfiguration"), "", takeover.FormerOperator),
		rollout.Identity(webhooks.WithKind("ValidatingWebhookConfiguration"), "", takeover.FormerOperator),
	)
	return find(ctx, reader, all, further)
}

func (in Input) observeVirtual(ctx context.Context) ([]*unstructured.Unstructured, error) {
	reader, err := in.Virtual(ctx)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, answerTimeout)
	defer cancel()
	return find(ctx, reader, nil, takeover.Leftovers(takeover.Virtual, in.Preflight.Namespace))
}

// find adds objects that are not in a list, and that exist.
func find(
	ctx context.Context, reader client.Reader, all, further []*unstructured.Unstructured,
) ([]*unstructured.Unstructured, error) {
	known := map[id]bool{}
	for _, each := range all {
		known[idOf(each)] = true
	}
	for _, each := range further {
		if known[idOf(each)] {
			continue
		}
		err := reader.Get(ctx, client.ObjectKeyFromObject(each), each)
		switch {
		case apierrors.IsNotFound(err) || meta.IsNoMatchError(err):
		case err != nil:
			return nil, fmt.Errorf("read %s %s: %w", each.GetKind(), each.GetName(), err)
		default:
			all = append(all, each)
		}
	}
	return all, nil
}

func idOf(o *unstructured.Unstructured) id {
	return id{o.GroupVersionKind().GroupKind(), o.GetNamespace(), o.GetName()}
}

// knows reports whether the operation has read or written an object by its name.
func (s *simulation) knows(o *unstructured.Unstructured) bool {
	_, written := s.objects[idOf(o)]
	return written || s.read[idOf(o)]
}

// inSets returns the objects of the runtime cluster that ManagedResources contain after the operation. ManagedResources that the operation
// does not change are left out.
func (s *simulation) inSets(ctx context.Context) (map[id]*unstructured.Unstructured, error) {
	all, err := s.histories(ctx)
	if err != nil {
		return nil, err
	}
	found := map[id]*unstructured.Unstructured{}
	for _, h := range all {
		if h.set != "" && h.cluster == runtimeCluster && h.last() != nil {
			found[idOf(h.last())] = h.last()
		}
	}
	return found, nil
}

// inLiveSets returns the objects that the ManagedResources of the operation contain in the cluster now, including ManagedResources that
// the operation does not change.
func (s *simulation) inLiveSets(ctx context.Context, live []*unstructured.Unstructured) (map[id]bool, error) {
	found := map[id]bool{}
	for _, each := range live {
		class, _, _ := unstructured.NestedString(each.Object, "spec", "class")
		if each.GroupVersionKind().GroupKind() != rollout.ManagedResource.GroupKind() || class == "" || !s.knows(each) {
			continue
		}
		objects, err := s.manifests(ctx, each, map[string]bool{})
		if err != nil {
			return nil, fmt.Errorf("read ManagedResource %s/%s: %w", each.GetNamespace(), each.GetName(), err)
		}
		for key := range objects {
			found[key] = true
		}
	}
	return found, nil
}

// otherSelector reports whether the desired workload has another selector than the live workload with the same name. API servers refuse to
// change the selector.
func otherSelector(live, desired *unstructured.Unstructured) bool {
	if desired == nil {
		return false
	}
	before, _, _ := unstructured.NestedMap(live.Object, "spec", "selector")
	after, _, _ := unstructured.NestedMap(desired.Object, "spec", "selector")
	return !equality.Semantic.DeepEqual(before, after)
}
