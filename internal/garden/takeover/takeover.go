// Package takeover judges a garden that other programs have deployed, before garden-operator takes over the garden. It lists the objects
// that stay unmanaged, the objects that must be removed before, and the credentials and data that would be lost. Package plan lists the
// objects that the reconciliation writes, and the workloads that it restarts. Package takeover also removes the leftovers of the former
// programs if a user has confirmed them.
package takeover

import (
	"crypto/sha256"
	"encoding/hex"
	"path"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	operatorv1alpha1 "github.com/espalier-dev/espalier/api/operator/v1alpha1"
)

// Cluster is the cluster of an object.
type Cluster string

// The clusters.
const (
	Runtime Cluster = "runtime"
	Virtual Cluster = "virtual"
)

// Finding is something to know about a garden before it is taken over.
type Finding struct {
	// Object is the object, such as "ManagedResource garden/kube-apiserver-sni"; empty if something is missing.
	Object  string  `json:"object,omitempty"`
	Cluster Cluster `json:"cluster"`
	// Blocks is true if the garden must not be taken over as it is.
	Blocks bool `json:"blocks,omitempty"`
	// Message gives the reason and, if the user has to do something, the remedy.
	Message string `json:"message"`
}

// Report contains everything to know about a garden before it is taken over, beside its plan. All lists are sorted by object.
type Report struct {
	// Restarts are workloads of other programs that ManagedResources of the operator take over. Their Pods restart. The plan lists the
	// workloads that the operator itself writes.
	Restarts []Finding `json:"restarts"`
	// Unmanaged are objects that the operator neither changes nor deletes.
	Unmanaged []Finding `json:"unmanaged"`
	// Remove are objects, or their labels, that must be removed.
	Remove []Finding `json:"remove"`
	// Lost is everything that would be lost.
	Lost []Finding `json:"lost"`
	// Confirm is the value of the annotation espalier.dev/confirm-leftovers that makes the operator remove the leftovers in the field Remove.
	// It is empty if there are no leftovers, or if the Garden already confirms all of them.
	Confirm string `json:"confirm,omitempty"`
}

// Blocks reports whether the garden must not be taken over as it is.
func (r *Report) Blocks() bool {
	return r != nil && slices.ContainsFunc(slices.Concat(r.Unmanaged, r.Remove, r.Lost), func(f Finding) bool { return f.Blocks })
}

// Inventory contains the observed objects of a garden.
type Inventory struct {
	// Garden is the Garden after the change. Its status is the status in the cluster.
	Garden *operatorv1alpha1.Garden
	// Namespace is the garden namespace, and Identity is the value of the label manager-identity of its Secrets.
	Namespace, Identity string
	Now                 time.Time
	// Runtime are objects of the runtime cluster, and Virtual objects of the virtual cluster.
	Runtime, Virtual []*unstructured.Unstructured
	// IsKnown reports whether the reconciliation reads or writes an object of the runtime cluster by its name, or whether a ManagedResource
	// that the reconciliation reads or writes contains the object in the cluster.
	IsKnown func(*unstructured.Unstructured) bool
	// IsReplaced reports whether the reconciliation would change the selector of a workload, which cannot change.
	IsReplaced func(*unstructured.Unstructured) bool
	// IsInSet reports whether a ManagedResource that the reconciliation changes contains an object of this group, kind, namespace and name.
	IsInSet func(*unstructured.Unstructured) bool
}

// Judge returns the report for an inventory.
func Judge(in Inventory) *Report {
	r := &Report{Restarts: []Finding{}, Unmanaged: []Finding{}, Remove: []Finding{}, Lost: []Finding{}}
	confirmed := Confirmed(in.Garden)
	var open []string
	for _, each := range in.objects() {
		if leftover, is := leftoverOf(each.cluster, in.Namespace, each.Unstructured); is {
			digest := Digest(each.cluster, each)
			isConfirmed := slices.Contains(confirmed, digest)
			if !isConfirmed {
				open = append(open, digest)
			}
			r.Remove = append(r.Remove, each.finding(!isConfirmed, leftover.Because+"; "+map[bool]string{
				false: "confirm that the operator removes it", true: "the operator removes it, as confirmed",
			}[isConfirmed]))
			continue
		}
		for _, rule := range rules {
			if rule.applies(in, each) {
				rule.list.add(r, each.finding(rule.blocks, rule.message))
				break
			}
		}
	}
	for _, check := range checks {
		check(in, r)
	}
	if len(open) > 0 {
		r.Confirm = strings.Join(slices.Sorted(slices.Values(slices.Concat(open, confirmed))), ",")
	}
	for _, list := range [][]Finding{r.Restarts, r.Unmanaged, r.Remove, r.Lost} {
		slices.SortStableFunc(list, func(a, b Finding) int { return strings.Compare(a.Object, b.Object) })
	}
	return r
}

// object is an object of an inventory.
type object struct {
	*unstructured.Unstructured
	cluster Cluster
}

func (in Inventory) objects() []object {
	all := make([]object, 0, len(in.Runtime)+len(in.Virtual))
	for _, each := range in.Runtime {
		all = append(all, object{each, Runtime})
	}
	for _, each := range in.Virtual {
		all = append(all, object{each, Virtual})
	}
	return all
}

func (o object) finding(blocks bool, message string) Finding {
	message = strings.NewReplacer("NAMESPACE", o.GetNamespace(), "NAME", o.GetName()).Replace(message)
	return Finding{Object: describe(o), Cluster: o.cluster, Blocks: blocks, Message: message}
}

func describe(o client.Object) string {
	kind := o.GetObjectKind().GroupVersionKind().Kind
	return kind + " " + strings.TrimPrefix(o.GetNamespace()+"/"+o.GetName(), "/")
}

// Digest identifies an object in the annotation espalier.dev/confirm-leftovers. An object that is created anew has another one.
func Digest(cluster Cluster, o client.Object) string {
	gvk := o.GetObjectKind().GroupVersionKind()
	sum := sha256.Sum256([]byte(path.Join(string(cluster), gvk.Group, gvk.Kind, o.GetNamespace(), o.GetName(), string(o.GetUID()))))
	return hex.EncodeToString(sum[:4])
}
