// Package crdtest sends Gardens to a real API server that has the shipped CRD and nothing else of Espalier. No controller and no webhook
// runs, so the CRD alone refuses wrong Gardens.
package crdtest

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	operatorv1alpha1 "github.com/espalier-dev/espalier/api/operator/v1alpha1"
	"github.com/espalier-dev/espalier/test/binary"
	"github.com/espalier-dev/espalier/test/local"
)

// env is an API server that serves the CRD.
type env struct {
	*WithT
	t      *testing.T
	client client.Client
	config *rest.Config
}

func newEnv(t *testing.T) *env {
	t.Helper()
	g := NewWithT(t)
	servers, err := local.ForTests()
	g.Expect(err).NotTo(HaveOccurred())
	scheme := runtime.NewScheme()
	g.Expect(operatorv1alpha1.AddToScheme(scheme)).To(Succeed())
	c, err := client.New(servers.Source.Config, client.Options{Scheme: scheme})
	g.Expect(err).NotTo(HaveOccurred())
	crds, err := binary.Install(t.Context(), c, "deploy/garden-operator/crds/*gardens.yaml")
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(crds).To(HaveLen(1))
	g.Eventually(func() error {
		return c.List(t.Context(), &operatorv1alpha1.GardenList{})
	}, binary.Patience).Should(Succeed())
	return &env{WithT: g, t: t, client: c, config: servers.Source.Config}
}

// in returns e for a part of its test.
func (e *env) in(t *testing.T) *env {
	t.Helper()
	return &env{WithT: NewWithT(t), t: t, client: e.client, config: e.config}
}

// manifests reads the manifests that belong to the Go types, by their names.
func (e *env) manifests() map[string]*unstructured.Unstructured {
	e.t.Helper()
	root, err := local.RepositoryRoot()
	e.Expect(err).NotTo(HaveOccurred())
	files, err := filepath.Glob(filepath.Join(root, "api", "operator", "v1alpha1", "testdata", "*.yaml"))
	e.Expect(err).NotTo(HaveOccurred())
	e.Expect(files).To(HaveLen(5))
	all := map[string]*unstructured.Unstructured{}
	for _, file := range files {
		content, err := os.ReadFile(file)
		e.Expect(err).NotTo(HaveOccurred())
		all[strings.TrimSuffix(filepath.Base(file), ".yaml")] = binary.Object(e, string(content))
	}
	return all
}

// minimal is a Garden with the required fields and domains, in the current forms.
const minimal = `
apiVersion: operator.gardener.cloud/v1alpha1
kind: Garden
spec:
  runtimeCluster:
    ingress: {domains: [{name: ingress.example.com}], controller: {kind: nginx}}
    networking: {pods: [10.2.0.0/16], services: [10.3.0.0/16]}
    provider: {}
  virtualCluster:
    dns: {domains: [{name: example.com}]}
    gardener: {clusterIdentity: garden-1}
    kubernetes: {version: 1.36.1}
    maintenance: {timeWindow: {begin: 220000+0100, end: 230000+0100}}
    networking: {services: [100.64.0.0/13]}
`

// garden returns the minimal Garden with a name and the changes, each of which sets a field by its path below spec to a value in
// YAML. The value "-" removes the field.
func (e *env) garden(name string, changes map[string]string) *unstructured.Unstructured {
	e.t.Helper()
	o := binary.Object(e, minimal)
	o.SetName(name)
	for path, text := range changes {
		fields := strings.Split("spec."+path, ".")
		if text == "-" {
			unstructured.RemoveNestedField(o.Object, fields...)
			continue
		}
		var value any
		e.Expect(yaml.Unmarshal([]byte(text), &value)).To(Succeed())
		e.Expect(unstructured.SetNestedField(o.Object, value, fields...)).To(Succeed())
	}
	return o
}

// create creates a copy of o and removes it when the test ends. It returns the stored object. Fields that the schema does not have are an
// error.
func (e *env) create(o *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	e.t.Helper()
	return binary.CreateCopy(e.t, e.client, o, client.FieldValidation("Strict"))
}

// stored returns o as the API server has stored it.
func (e *env) stored(o *unstructured.Unstructured) *unstructured.Unstructured {
	e.t.Helper()
	got := &unstructured.Unstructured{}
	got.SetGroupVersionKind(o.GroupVersionKind())
	e.Expect(e.client.Get(e.t.Context(), client.ObjectKeyFromObject(o), got)).To(Succeed())
	return got
}
