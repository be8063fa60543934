// Package crdtest tests the shipped CRDs on a real API server. No controller and no webhook runs, so every rejection comes from the CRDs
// alone.
package crdtest

import (
	"os"
	"testing"

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	corev1beta1 "github.com/espalier-dev/espalier/api/core/v1beta1"
	"github.com/espalier-dev/espalier/test/binary"
	"github.com/espalier-dev/espalier/test/local"
)

func TestMain(m *testing.M) { os.Exit(binary.WithOwnServer(m)) }

// env is an API server that serves the CRDs.
type env struct {
	*WithT
	t      *testing.T
	client client.Client
}

func newEnv(t *testing.T) *env {
	t.Helper()
	g := NewWithT(t)
	servers, err := local.ForTests()
	g.Expect(err).NotTo(HaveOccurred())
	scheme := runtime.NewScheme()
	g.Expect(corev1beta1.AddToScheme(scheme)).To(Succeed())
	c, err := client.New(servers.Source.Config, client.Options{Scheme: scheme})
	g.Expect(err).NotTo(HaveOccurred())
	crds, err := binary.Install(t.Context(), c, "deploy/project-controller/crds/*.yaml")
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(crds).To(HaveLen(11))
	e := &env{WithT: g, t: t, client: c}
	for _, crd := range crds {
		kind, _, err := unstructured.NestedString(crd.Object, "spec", "names", "kind")
		g.Expect(err).NotTo(HaveOccurred())
		list := &unstructured.UnstructuredList{}
		list.SetAPIVersion("core.gardener.cloud/v1beta1")
		if kind == "CredentialsBinding" {
			list.SetAPIVersion("security.gardener.cloud/v1alpha1")
		}
		list.SetKind(kind + "List")
		g.Eventually(func() error { return c.List(t.Context(), list) }, binary.Patience).Should(Succeed(), kind)
	}
	return e
}

// in returns e for a subtest.
func (e *env) in(t *testing.T) *env {
	t.Helper()
	return &env{WithT: NewWithT(t), t: t, client: e.client}
}

// project returns a Project with a name and a spec in YAML.
func (e *env) project(name, spec string) *unstructured.Unstructured {
	e.t.Helper()
	o := binary.Object(e, "apiVersion: core.gardener.cloud/v1beta1\nkind: Project\nspec: "+spec)
	o.SetName(name)
	return o
}

// create creates a copy of o, which is removed at the end of the test. It returns the API server's response.
func (e *env) create(o *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	e.t.Helper()
	return binary.CreateCopy(e.t, e.client, o)
}
