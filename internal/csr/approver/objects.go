package approver

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/espalier-dev/espalier/internal/csr/rules"
)

// nodeLabel is the label of a Machine that contains the name of its Node.
const nodeLabel = "node"

// MachineKind is the kind of Machines, of which only metadata is read.
func MachineKind() schema.GroupVersionKind {
	return schema.GroupVersionKind{Group: "machine.sapcloud.io", Version: "v1alpha1", Kind: "Machine"}
}

// Machine returns an empty object of that kind.
func Machine() *metav1.PartialObjectMetadata {
	machine := &metav1.PartialObjectMetadata{}
	machine.SetGroupVersionKind(MachineKind())
	return machine
}

// observe reads a Node and the objects that its approval depends on: from caches, except for the endpoints of the API server.
func (r *Reconciler) observe(ctx context.Context, name string) (rules.Objects, error) {
	node := &corev1.Node{}
	err := r.Target.Get(ctx, client.ObjectKey{Name: name}, node)
	if apierrors.IsNotFound(err) {
		return rules.Objects{}, nil
	}
	if err != nil {
		return rules.Objects{}, fmt.Errorf("read Node %q: %w", name, err)
	}
	_, controlPlane := node.Labels[rules.ControlPlaneLabel]
	objects := rules.Objects{NodeExists: true, Addresses: node.Status.Addresses, ControlPlane: controlPlane}
	if r.APIServer != nil {
		if objects.APIServer, err = r.APIServer(ctx); err != nil {
			return rules.Objects{}, err
		}
	}
	if r.Rules.Own.WithoutMachines {
		return objects, nil
	}
	machines := &metav1.PartialObjectMetadataList{}
	machines.SetGroupVersionKind(MachineKind())
	err = r.Source.List(ctx, machines, client.InNamespace(r.Rules.Config.MachineNamespace), client.MatchingFields{nodeLabel: name},
		client.UnsafeDisableDeepCopy)
	if err != nil {
		return rules.Objects{}, fmt.Errorf("list Machines of node %q: %w", name, err)
	}
	objects.Machines = len(machines.Items)
	return objects, nil
}
