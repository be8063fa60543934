package lookup

import (
	"fmt"
	"runtime"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/uuid"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/espalier-dev/espalier/internal/process"
)

func TestCacheHoldsKindsOfEnabledHandlersOnly(t *testing.T) {
	for name, tc := range map[string]struct {
		enabled Enabled
		want    []string
	}{
		"none": {},
		"high availability": {
			enabled: Enabled{HighAvailability: true}, want: []string{"*v1.PartialObjectMetadata", "*v2.HorizontalPodAutoscaler"},
		},
		"system components": {enabled: Enabled{SystemComponents: true}, want: []string{"*v1.Node"}},
		"token mount":       {enabled: Enabled{TokenMount: true}, want: []string{"*v1.ServiceAccount"}},
		"all": {
			enabled: all, want: []string{"*v1.PartialObjectMetadata", "*v2.HorizontalPodAutoscaler", "*v1.Node", "*v1.ServiceAccount"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			kinds := []string{}
			for object, by := range Cache(tc.enabled).ByObject {
				kinds = append(kinds, fmt.Sprintf("%T", object))
				g.Expect(by.Transform).NotTo(BeNil())
				g.Expect(by.UnsafeDisableDeepCopy).To(HaveValue(BeTrue()))
			}
			g.Expect(kinds).To(ConsistOf(tc.want))
		})
	}
}

func TestRequirements(t *testing.T) {
	namespaces := process.Requirement{Kind: schema.GroupVersionKind{Version: "v1", Kind: "Namespace"}, Verbs: []string{"get", "list", "watch"}}
	autoscalers := process.Requirement{
		Kind:  schema.GroupVersionKind{Group: "autoscaling", Version: "v2", Kind: "HorizontalPodAutoscaler"},
		Verbs: []string{"list", "watch"},
	}
	nodes := process.Requirement{Kind: schema.GroupVersionKind{Version: "v1", Kind: "Node"}, Verbs: []string{"list", "watch"}}
	accounts := process.Requirement{
		Kind: schema.GroupVersionKind{Version: "v1", Kind: "ServiceAccount"}, Verbs: []string{"get", "list", "watch"},
	}
	for name, tc := range map[string]struct {
		enabled Enabled
		want    []process.Requirement
	}{
		"none":              {},
		"high availability": {enabled: Enabled{HighAvailability: true}, want: []process.Requirement{namespaces, autoscalers}},
		"system components": {enabled: Enabled{SystemComponents: true}, want: []process.Requirement{nodes}},
		"token mount":       {enabled: Enabled{TokenMount: true}, want: []process.Requirement{accounts}},
	} {
		t.Run(name, func(t *testing.T) { NewWithT(t).Expect(Requirements(tc.enabled)).To(Equal(tc.want)) })
	}
}

// full returns the metadata of an object with all fields that real clusters set.
func full() metav1.ObjectMeta {
	return metav1.ObjectMeta{
		Namespace: "shop", Name: "web", UID: "uid", ResourceVersion: "7", Generation: 3, Labels: map[string]string{"pool": "a"},
		Annotations: map[string]string{
			"kubectl.kubernetes.io/last-applied-configuration":        strings.Repeat("x", 1000),
			"high-availability-config.resources.gardener.cloud/zones": "a",
		},
		ManagedFields: []metav1.ManagedFieldsEntry{{Manager: "kubectl", FieldsV1: metav1.NewFieldsV1(strings.Repeat("x", 1000))}},
	}
}

func TestCachesKeepWhatIsAskedFor(t *testing.T) {
	kept := metav1.ObjectMeta{Namespace: "shop", Name: "web", UID: "uid", ResourceVersion: "7"}
	labelled, annotated := kept, kept
	labelled.Labels = map[string]string{"pool": "a"}
	annotated.Annotations = map[string]string{"high-availability-config.resources.gardener.cloud/zones": "a"}
	ref := autoscalingv2.CrossVersionObjectReference{APIVersion: "apps/v1", Kind: "Deployment", Name: "web"}
	now := metav1.Now()
	for name, tc := range map[string]struct {
		keep       toolscache.TransformFunc
		have, want any
	}{
		"namespaces": {
			keep: process.Keeping(keepOfNamespace), have: &metav1.PartialObjectMetadata{ObjectMeta: full()},
			want: &metav1.PartialObjectMetadata{ObjectMeta: annotated},
		},
		"autoscalers": {
			keep: process.Keeping(keepOfAutoscaler),
			have: &autoscalingv2.HorizontalPodAutoscaler{
				ObjectMeta: full(),
				Spec: autoscalingv2.HorizontalPodAutoscalerSpec{
					ScaleTargetRef: ref, MaxReplicas: 4, MinReplicas: ptr.To[int32](1), Metrics: []autoscalingv2.MetricSpec{{Type: "Resource"}},
				},
				Status: autoscalingv2.HorizontalPodAutoscalerStatus{CurrentReplicas: 3},
			},
			want: &autoscalingv2.HorizontalPodAutoscaler{
				ObjectMeta: kept, Spec: autoscalingv2.HorizontalPodAutoscalerSpec{ScaleTargetRef: ref, MaxReplicas: 4},
			},
		},
		"nodes": {
			keep: process.Keeping(keepOfNode),
			have: &corev1.Node{
				ObjectMeta: full(),
				Spec:       corev1.NodeSpec{ProviderID: "x", Taints: []corev1.Taint{{Key: "k", Value: "v", Effect: "NoExecute", TimeAdded: &now}}},
				Status:     corev1.NodeStatus{Phase: "Running"},
			},
			want: &corev1.Node{ObjectMeta: labelled, Spec: corev1.NodeSpec{Taints: []corev1.Taint{{Key: "k", Value: "v", Effect: "NoExecute"}}}},
		},
		"ServiceAccounts": {
			keep: process.Keeping(keepOfServiceAccount),
			have: &corev1.ServiceAccount{
				ObjectMeta: full(), AutomountServiceAccountToken: ptr.To(false), Secrets: []corev1.ObjectReference{{Name: "x"}},
			},
			want: &corev1.ServiceAccount{ObjectMeta: kept, AutomountServiceAccountToken: ptr.To(false)},
		},
		"the definition of Hvpas": {
			keep: process.Keeping(keepOfDefinition), have: &metav1.PartialObjectMetadata{ObjectMeta: full()},
			want: &metav1.PartialObjectMetadata{ObjectMeta: kept},
		},
		"Hvpas": {
			keep: process.Keeping(scalerOfHvpa), have: hvpaOf("shop", "web", "db", true, 4),
			want: &scaler{
				ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web"}, scales: true, limit: 4,
				target: (&env{namespace: "shop"}).target("db"),
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			once, err := tc.keep(tc.have)
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(once).To(Equal(tc.want))
			twice, err := tc.keep(once)
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(twice).To(Equal(tc.want), "a cache may hand in what it was given")
			gone := toolscache.DeletedFinalStateUnknown{Key: "x"}
			other, err := tc.keep(gone)
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(other).To(Equal(gone))
		})
	}
}

// TestCachesAreSmall fills stores like the caches, and checks their total memory, in bytes.
func TestCachesAreSmall(t *testing.T) {
	const limit = 14 << 20
	autoscalers := toolscache.NewIndexer(toolscache.MetaNamespaceKeyFunc, toolscache.Indexers{
		toolscache.NamespaceIndex: toolscache.MetaNamespaceIndexFunc,
		"field:" + byTarget: func(object any) ([]string, error) { // the index that controller-runtime would add
			found, ok := object.(client.Object)
			if !ok {
				return nil, nil
			}
			key := targetIndex(found)[0]
			return []string{found.GetNamespace() + "/" + key, "__all_namespaces/" + key}, nil
		},
	})
	others := toolscache.NewIndexer(toolscache.MetaNamespaceKeyFunc, toolscache.Indexers{
		toolscache.NamespaceIndex: toolscache.MetaNamespaceIndexFunc,
	})
	before := heap()
	for i := range 5000 {
		object := autoscaler(fmt.Sprint("shoot--project--", i%1000), fmt.Sprint("kube-apiserver-", i), "apps/v1", "Deployment",
			fmt.Sprint("kube-apiserver-", i), 4)
		add(t, autoscalers, process.Keeping(keepOfAutoscaler), filled(object, object.ObjectMeta))
	}
	for i := range 1000 {
		node, namespace := &corev1.Node{}, namespaceMetadata()
		node.ObjectMeta, namespace.ObjectMeta = full(), full()
		node.Namespace, node.Name = "", fmt.Sprint("worker-", i)
		node.Labels = map[string]string{}
		for j := range 20 {
			node.Labels[fmt.Sprint("node.kubernetes.io/a-label-", j)] = fmt.Sprint("value-", i, j)
		}
		namespace.Namespace, namespace.Name = "", fmt.Sprint("shoot--project--", i)
		add(t, others, process.Keeping(keepOfNode), node)
		add(t, others, process.Keeping(keepOfNamespace), namespace)
	}
	used := heap() - before
	t.Logf("caches hold %d KiB", used>>10)
	NewWithT(t).Expect(used).To(BeNumerically("<", limit))
	runtime.KeepAlive(autoscalers)
	runtime.KeepAlive(others)
}

// filled sets metadata in an autoscaler of the size that real clusters have.
func filled(object *autoscalingv2.HorizontalPodAutoscaler, own metav1.ObjectMeta) *autoscalingv2.HorizontalPodAutoscaler {
	object.ObjectMeta = full()
	object.Namespace, object.Name = own.Namespace, own.Name
	return object
}

func add(t *testing.T, into toolscache.Indexer, keep toolscache.TransformFunc, object client.Object) {
	t.Helper()
	object.SetUID(uuid.NewUUID())
	kept, err := keep(object)
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	NewWithT(t).Expect(into.Add(kept)).To(Succeed())
}

func heap() int64 {
	stats := runtime.MemStats{}
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&stats)
	return int64(stats.HeapAlloc)
}
