package v1alpha1_test

import (
	"encoding/json"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	corev1beta1 "github.com/espalier-dev/espalier/api/core/v1beta1"
	resourcesv1alpha1 "github.com/espalier-dev/espalier/api/resources/v1alpha1"
)

const fullJSON = `{
  "apiVersion": "resources.gardener.cloud/v1alpha1",
  "kind": "ManagedResource",
  "metadata": {"name": "mr", "namespace": "ns", "generation": 3},
  "spec": {
    "class": "seed",
    "secretRefs": [{"name": "s1"}, {"name": "s2"}],
    "injectLabels": {"foo": "bar"},
    "forceOverwriteLabels": true,
    "forceOverwriteAnnotations": false,
    "keepObjects": true,
    "equivalences": [[{"group": "apps", "kind": "Deployment"}, {"group": "extensions", "kind": "Deployment"}]],
    "deletePersistentVolumeClaims": true
  },
  "status": {
    "conditions": [{
      "type": "ResourcesApplied", "status": "True", "reason": "ApplySucceeded", "message": "All resources are applied.",
      "lastTransitionTime": "2024-05-01T10:00:00Z", "lastUpdateTime": "2024-05-01T10:00:00Z"
    }],
    "observedGeneration": 3,
    "resources": [{
      "apiVersion": "v1", "kind": "ConfigMap", "namespace": "ns", "name": "c",
      "labels": {"resources.gardener.cloud/managed-by": "gardener"}, "annotations": {"a": "b"}
    }],
    "secretsDataChecksum": "e3b0c442"
  }
}`

func full() resourcesv1alpha1.ManagedResource {
	at := metav1.NewTime(time.Date(2024, 5, 1, 10, 0, 0, 0, time.UTC))
	return resourcesv1alpha1.ManagedResource{
		TypeMeta:   metav1.TypeMeta{APIVersion: "resources.gardener.cloud/v1alpha1", Kind: "ManagedResource"},
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "mr", Generation: 3},
		Spec: resourcesv1alpha1.ManagedResourceSpec{
			Class:                        new("seed"),
			SecretRefs:                   []corev1.LocalObjectReference{{Name: "s1"}, {Name: "s2"}},
			InjectLabels:                 map[string]string{"foo": "bar"},
			ForceOverwriteLabels:         new(true),
			ForceOverwriteAnnotations:    new(false),
			KeepObjects:                  new(true),
			Equivalences:                 [][]metav1.GroupKind{{{Group: "apps", Kind: "Deployment"}, {Group: "extensions", Kind: "Deployment"}}},
			DeletePersistentVolumeClaims: new(true),
		},
		Status: resourcesv1alpha1.ManagedResourceStatus{
			Conditions: []corev1beta1.Condition{{
				Type: "ResourcesApplied", Status: "True", Reason: "ApplySucceeded", Message: "All resources are applied.",
				LastTransitionTime: at, LastUpdateTime: at,
			}},
			ObservedGeneration: 3,
			Resources: []resourcesv1alpha1.ObjectReference{{
				ObjectReference: corev1.ObjectReference{APIVersion: "v1", Kind: "ConfigMap", Namespace: "ns", Name: "c"},
				Labels:          map[string]string{"resources.gardener.cloud/managed-by": "gardener"},
				Annotations:     map[string]string{"a": "b"},
			}},
			SecretsDataChecksum: new("e3b0c442"),
		},
	}
}

func TestManagedResourceJSON(t *testing.T) {
	t.Run("every field has its wire name", func(t *testing.T) {
		g := NewWithT(t)
		got, err := json.Marshal(full())
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(string(got)).To(MatchJSON(fullJSON))
	})
	t.Run("the wire form is read without loss", func(t *testing.T) {
		g := NewWithT(t)
		var got resourcesv1alpha1.ManagedResource
		g.Expect(json.Unmarshal([]byte(fullJSON), &got)).To(Succeed())
		g.Expect(got).To(BeComparableTo(full()))
	})
	t.Run("only the references to Secrets are written when they are empty", func(t *testing.T) {
		g := NewWithT(t)
		got, err := json.Marshal(resourcesv1alpha1.ManagedResource{
			Spec: resourcesv1alpha1.ManagedResourceSpec{SecretRefs: []corev1.LocalObjectReference{}},
		})
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(string(got)).To(MatchJSON(`{"metadata":{},"spec":{"secretRefs":[]},"status":{}}`))
	})
}

func TestAddToScheme(t *testing.T) {
	g := NewWithT(t)
	scheme := runtime.NewScheme()
	g.Expect(resourcesv1alpha1.AddToScheme(scheme)).To(Succeed())

	kinds := map[schema.GroupVersionKind]runtime.Object{
		{Group: "resources.gardener.cloud", Version: "v1alpha1", Kind: "ManagedResource"}:     &resourcesv1alpha1.ManagedResource{},
		{Group: "resources.gardener.cloud", Version: "v1alpha1", Kind: "ManagedResourceList"}: &resourcesv1alpha1.ManagedResourceList{},
	}
	for gvk, want := range kinds {
		got, err := scheme.New(gvk)
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(got).To(BeComparableTo(want))
	}
	// A client of this group can use ListOptions only if the scheme knows them in this group.
	g.Expect(scheme.Recognizes(schema.GroupVersionKind{Group: "resources.gardener.cloud", Version: "v1alpha1", Kind: "ListOptions"})).
		To(BeTrue())
	g.Expect(resourcesv1alpha1.Resource("managedresources")).
		To(Equal(schema.GroupResource{Group: "resources.gardener.cloud", Resource: "managedresources"}))
}
