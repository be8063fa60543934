package webhooktest

import (
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/espalier-dev/espalier/internal/webhook/extensionvalidation"
	"github.com/espalier-dev/espalier/test/binary"
)

// kindPatience is how long tests wait until an API server serves a new kind.
const kindPatience = 30 * time.Second

// Definition returns the CustomResourceDefinition of an extension kind, with the label that protects it from deletion. Its schema allows
// every object, so that only the webhooks judge it.
func Definition(kind extensionvalidation.Kind) *unstructured.Unstructured {
	anything := map[string]any{"type": "object", "x-kubernetes-preserve-unknown-fields": true}
	scope := "Cluster"
	if kind.Namespaced {
		scope = "Namespaced"
	}
	object := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "apiextensions.k8s.io/v1",
		"kind":       "CustomResourceDefinition",
		"metadata": map[string]any{
			"name": kind.Plural + "." + kind.Group, "labels": map[string]any{"gardener.cloud/deletion-protected": "true"},
		},
		"spec": map[string]any{
			"group": kind.Group,
			"scope": scope,
			"names": map[string]any{"kind": kind.Kind, "plural": kind.Plural, "singular": strings.ToLower(kind.Kind)},
			"versions": []any{map[string]any{
				"name": "v1alpha1", "served": true, "storage": true, "schema": map[string]any{"openAPIV3Schema": anything},
				"subresources": map[string]any{"status": map[string]any{}},
			}},
		},
	}}
	return object
}

// InstallKinds creates the missing definitions of extension kinds, and waits until their objects can be created. Call it before webhooks
// are registered. It returns a client of an administrator.
func InstallKinds(t *testing.T) client.Client {
	t.Helper()
	g := NewWithT(t)
	servers := binary.Servers(t)
	c, err := client.New(servers.Source.Config, client.Options{})
	g.Expect(err).NotTo(HaveOccurred())
	kinds := extensionvalidation.Kinds()
	for _, kind := range kinds {
		g.Expect(client.IgnoreAlreadyExists(c.Create(t.Context(), Definition(kind)))).To(Succeed())
	}
	for _, kind := range kinds {
		g.Eventually(func() error { return c.Create(t.Context(), ObjectOf(kind, "default", "probe"), client.DryRunAll) }, kindPatience,
			10*time.Millisecond).Should(Succeed())
	}
	return c
}

// ObjectOf returns an object of an extension kind. The object has only metadata. An object of a cluster-scoped kind has no namespace.
func ObjectOf(kind extensionvalidation.Kind, namespace, name string) *unstructured.Unstructured {
	object := &unstructured.Unstructured{Object: map[string]any{"apiVersion": kind.Group + "/v1alpha1", "kind": kind.Kind}}
	object.SetName(name)
	if kind.Namespaced {
		object.SetNamespace(namespace)
	}
	return object
}
