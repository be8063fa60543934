package inventory

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp/cmpopts"
	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// cmpEmpty compares a nil list as equal to an empty one.
var cmpEmpty = cmpopts.EquateEmpty()

func TestWave(t *testing.T) {
	order := []string{
		"PriorityClass", "Namespace", "NetworkPolicy", "ResourceQuota", "LimitRange", "PodSecurityPolicy", "PodDisruptionBudget",
		"ServiceAccount", "Secret", "SecretList",
		"ConfigMap", "StorageClass", "PersistentVolume", "PersistentVolumeClaim", "CustomResourceDefinition", "ClusterRole", "ClusterRoleList",
		"ClusterRoleBinding",
		"ClusterRoleBindingList", "Role", "RoleList", "RoleBinding", "RoleBindingList", "Service", "DaemonSet", "Pod", "ReplicationController",
		"ReplicaSet", "Deployment",
		"HorizontalPodAutoscaler", "StatefulSet", "Job", "CronJob", "IngressClass", "Ingress", "APIService",
	}
	g := NewWithT(t)
	for position, kind := range order {
		g.Expect(Wave(kind)).To(Equal(position), kind)
	}
	g.Expect(Wave("Widget")).To(Equal(36))
	g.Expect(Wave("")).To(Equal(36))
}

type item struct{ kind, namespace, name, content string }

func (i item) kindOf() string                   { return i.kind }
func (i item) nameOf() (namespace, name string) { return i.namespace, i.name }

func TestWaves(t *testing.T) {
	for name, tc := range map[string]struct {
		items []item
		want  [][]item
	}{
		"no items": {},
		"Namespace, ConfigMap, Deployment, then custom kinds by name": {
			items: []item{{kind: "Widget"}, {kind: "Deployment"}, {kind: "Gadget"}, {kind: "Namespace"}, {kind: "ConfigMap"}},
			want:  [][]item{{{kind: "Namespace"}}, {{kind: "ConfigMap"}}, {{kind: "Deployment"}}, {{kind: "Gadget"}}, {{kind: "Widget"}}},
		},
		"a definition comes before its custom resource": {
			items: []item{{kind: "Widget"}, {kind: "CustomResourceDefinition"}},
			want:  [][]item{{{kind: "CustomResourceDefinition"}}, {{kind: "Widget"}}},
		},
		"an empty kind is the first of the unknown kinds": {
			items: []item{{kind: "Gadget"}, {kind: ""}, {kind: "APIService"}},
			want:  [][]item{{{kind: "APIService"}}, {{kind: ""}}, {{kind: "Gadget"}}},
		},
		"inside a group by name, then namespace, then input order": {
			items: []item{
				{kind: "Secret", namespace: "a", name: "z"},
				{kind: "Secret", namespace: "b", name: "y"},
				{kind: "Secret", namespace: "a", name: "y", content: "2"},
				{kind: "Secret", namespace: "a", name: "y", content: "1"},
			},
			want: [][]item{
				{
					{kind: "Secret", namespace: "a", name: "y", content: "2"},
					{kind: "Secret", namespace: "a", name: "y", content: "1"},
					{kind: "Secret", namespace: "b", name: "y"},
					{kind: "Secret", namespace: "a", name: "z"},
				},
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			g.Expect(ApplyWaves(tc.items, item.kindOf, item.nameOf)).To(Equal(tc.want))
			var reversed [][]item
			for _, wave := range slices.Backward(tc.want) {
				reversed = append(reversed, wave)
			}
			g.Expect(DeleteWaves(tc.items, item.kindOf, item.nameOf)).To(Equal(reversed))
		})
	}
}

func TestDefaultNamespace(t *testing.T) {
	for name, tc := range map[string]struct {
		kind, namespace string
		scope           Scope
		want            map[string]any
	}{
		"namespaced without namespace": {kind: "ConfigMap", scope: Namespaced, want: map[string]any{"name": "a", "namespace": "default"}},
		"namespaced with namespace": {
			kind: "ConfigMap", namespace: "shop", scope: Namespaced, want: map[string]any{"name": "a", "namespace": "shop"},
		},
		"cluster-scoped with namespace":    {kind: "ClusterRole", namespace: "shop", scope: ClusterScoped, want: map[string]any{"name": "a"}},
		"cluster-scoped without namespace": {kind: "ClusterRole", scope: ClusterScoped, want: map[string]any{"name": "a"}},
		"unknown scope without namespace":  {kind: "Widget", scope: Unknown, want: map[string]any{"name": "a", "namespace": "default"}},
		"unknown scope with namespace": {
			kind: "Widget", namespace: "shop", scope: Unknown, want: map[string]any{"name": "a", "namespace": "shop"},
		},
		"a Namespace of unknown scope":       {kind: "Namespace", scope: Unknown, want: map[string]any{"name": "a"}},
		"a namespaced kind called Namespace": {kind: "Namespace", scope: Namespaced, want: map[string]any{"name": "a", "namespace": "default"}},
	} {
		t.Run(name, func(t *testing.T) {
			metadata := map[string]any{"name": "a"}
			if tc.namespace != "" {
				metadata["namespace"] = tc.namespace
			}
			DefaultNamespace(&unstructured.Unstructured{Object: map[string]any{"kind": tc.kind, "metadata": metadata}}, tc.scope)
			NewWithT(t).Expect(metadata).To(Equal(tc.want))
		})
	}
	t.Run("malformed metadata stays unchanged", func(t *testing.T) {
		obj := &unstructured.Unstructured{Object: map[string]any{"kind": "Widget", "metadata": "x"}}
		DefaultNamespace(obj, Namespaced)
		DefaultNamespace(obj, ClusterScoped)
		NewWithT(t).Expect(obj.Object).To(Equal(map[string]any{"kind": "Widget", "metadata": "x"}))
	})
}
