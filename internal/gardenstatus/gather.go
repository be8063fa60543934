// Package gardenstatus is the screen that shows the state of a Garden. The commands "garden-operator status" and "kubectl espalier garden
// status" print it.
//
// The package reads Gardens, Etcds, Leases, the metadata of Secrets and, if the caller passes a function for this, metrics of
// kube-apiserver. If a part cannot be read, for example because the user may not read it, the screen leaves it out and says why. A kind
// that the cluster does not serve is left out without a remark.
package gardenstatus

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	operatorv1alpha1 "github.com/espalier-dev/espalier/api/operator/v1alpha1"
)

// namespace is the namespace of a Garden in the runtime cluster.
const namespace = "garden"

// sizeMetric is a metric of kube-apiserver with the size of each etcd. The label of the first one, which is the main etcd, is etcd-0.
const sizeMetric = "apiserver_storage_size_bytes"

var (
	etcdKind  = schema.GroupVersionKind{Group: "druid.gardener.cloud", Version: "v1alpha1", Kind: "Etcd"}
	leaseKind = schema.GroupVersionKind{Group: "coordination.k8s.io", Version: "v1", Kind: "Lease"}
)

// Facts are the facts that a screen shows besides the Garden.
type Facts struct {
	Etcds       []Etcd
	Credentials []Credential
	// Unknown are sentences about facts that could not be read.
	Unknown []string
}

// Etcd is the state of an etcd of the virtual cluster.
type Etcd struct {
	Name    string `json:"name"`
	Members int64  `json:"members"`
	Ready   int64  `json:"ready"`
	// Size and Quota are bytes, 0 if they are not known.
	Size  int64 `json:"size,omitempty"`
	Quota int64 `json:"quota,omitempty"`
	// FullSnapshot and DeltaSnapshot are the times of the last snapshots.
	FullSnapshot  *metav1.Time `json:"fullSnapshot,omitempty"`
	DeltaSnapshot *metav1.Time `json:"deltaSnapshot,omitempty"`
}

// Credential is a managed Secret that ends.
type Credential struct {
	Name string      `json:"name"`
	Ends metav1.Time `json:"ends"`
}

// Gather reads the facts about the Garden. Metrics returns the metrics of kube-apiserver of the virtual cluster; nil: they are not read.
func Gather(ctx context.Context, reader client.Reader, metrics func(ctx context.Context) ([]byte, error)) Facts {
	facts := Facts{}
	etcds, err := readEtcds(ctx, reader)
	facts.note("etcds", err)
	facts.Etcds = etcds
	if metrics != nil && len(etcds) > 0 {
		facts.note("size of the etcds", addSizes(ctx, etcds, metrics))
	}
	facts.Credentials, err = readCredentials(ctx, reader)
	facts.note("ends of credentials", err)
	return facts
}

func (f *Facts) note(what string, err error) {
	switch {
	case err == nil, meta.IsNoMatchError(err):
	case apierrors.IsForbidden(err):
		f.Unknown = append(f.Unknown, what+": you may not read them; the ClusterRole espalier-garden-read allows it")
	default:
		f.Unknown = append(f.Unknown, what+": "+err.Error())
	}
}

func readEtcds(ctx context.Context, reader client.Reader) ([]Etcd, error) {
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(etcdKind.GroupVersion().WithKind("EtcdList"))
	if err := reader.List(ctx, list, client.InNamespace(namespace)); err != nil {
		return nil, err
	}
	all := make([]Etcd, 0, len(list.Items))
	for i := range list.Items {
		o := list.Items[i].Object
		each := Etcd{Name: list.Items[i].GetName()}
		each.Members, _, _ = unstructured.NestedInt64(o, "spec", "replicas")
		each.Ready, _, _ = unstructured.NestedInt64(o, "status", "readyReplicas")
		each.Quota = quantity(o, "spec", "etcd", "quota")
		var err error
		if each.FullSnapshot, err = renewed(ctx, reader, each.Name+"-full-snap"); err == nil {
			each.DeltaSnapshot, err = renewed(ctx, reader, each.Name+"-delta-snap")
		}
		all = append(all, each)
		if err != nil {
			return all, fmt.Errorf("read last snapshots: %w", err)
		}
	}
	slices.SortFunc(all, func(a, b Etcd) int { return strings.Compare(b.Name, a.Name) }) // main before events
	return all, nil
}

// renewed returns when a Lease was renewed, which etcd-backup-restore does after each snapshot; nil if it never was.
func renewed(ctx context.Context, reader client.Reader, name string) (*metav1.Time, error) {
	lease := &unstructured.Unstructured{}
	lease.SetGroupVersionKind(leaseKind)
	err := reader.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, lease)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	text, _, _ := unstructured.NestedString(lease.Object, "spec", "renewTime")
	at, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return nil, nil //nolint:nilerr // there was no snapshot yet
	}
	return &metav1.Time{Time: at}, nil
}

// addSizes adds the sizes of the etcds: the first one has the objects of most resources.
func addSizes(ctx context.Context, etcds []Etcd, metrics func(ctx context.Context) ([]byte, error)) error {
	text, err := metrics(ctx)
	if err != nil {
		return err
	}
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(bytes.NewReader(text))
	if err != nil {
		return fmt.Errorf("read metrics of kube-apiserver: %w", err)
	}
	for _, sample := range families[sizeMetric].GetMetric() {
		for _, label := range sample.GetLabel() {
			for i := range etcds {
				if label.GetValue() == "etcd-"+strconv.Itoa(i) {
					etcds[i].Size = int64(sample.GetGauge().GetValue())
				}
			}
		}
	}
	return nil
}

// readCredentials returns the managed Secrets that end, the first ones first. Of several Secrets of a credential, only the latest counts.
func readCredentials(ctx context.Context, reader client.Reader) ([]Credential, error) {
	list := &metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(schema.GroupVersionKind{Version: "v1", Kind: "SecretList"})
	err := reader.List(ctx, list, client.InNamespace(namespace), client.MatchingLabels{"managed-by": "secrets-manager"})
	if err != nil {
		return nil, err
	}
	ends := map[string]time.Time{}
	for i := range list.Items {
		labels := list.Items[i].Labels
		until, err := strconv.ParseInt(labels["valid-until-time"], 10, 64)
		if err != nil {
			continue
		}
		if end := time.Unix(until, 0); end.After(ends[labels["name"]]) {
			ends[labels["name"]] = end
		}
	}
	all := make([]Credential, 0, len(ends))
	for name, end := range ends {
		all = append(all, Credential{name, metav1.NewTime(end)})
	}
	slices.SortFunc(all, func(a, b Credential) int {
		if order := a.Ends.Compare(b.Ends.Time); order != 0 {
			return order
		}
		return strings.Compare(a.Name, b.Name)
	})
	return all, nil
}

// Find returns the Garden with a name or, without a name, all Gardens.
func Find(ctx context.Context, reader client.Reader, name string) ([]operatorv1alpha1.Garden, error) {
	if name != "" {
		garden := &operatorv1alpha1.Garden{}
		err := reader.Get(ctx, client.ObjectKey{Name: name}, garden)
		return []operatorv1alpha1.Garden{*garden}, err
	}
	list := &operatorv1alpha1.GardenList{}
	err := reader.List(ctx, list)
	return list.Items, err
}
