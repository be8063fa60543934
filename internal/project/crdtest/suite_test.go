// Package crdtest tests the shipped CRDs on a real API server. No controller and no webhook runs, so every rejection comes from the CRDs
// alone.
package crdtest

import (
	"context"
	"errors"
	"os"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

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

// object parses a manifest.
func (e *env) object(manifest string) *unstructured.Unstructured {
	e.t.Helper()
	o := &unstructured.Unstructured{}
	content, err := yaml.YAMLToJSON([]byte(manifest))
	e.Expect(err).NotTo(HaveOccurred(), manifest)
	e.Expect(o.UnmarshalJSON(content)).To(Succeed(), manifest)
	return o
}

// project returns a Project with a name and a spec in YAML.
func (e *env) project(name, spec string) *unstructured.Unstructured {
	e.t.Helper()
	o := e.object("apiVersion: core.gardener.cloud/v1beta1\nkind: Project\nspec: " + spec)
	o.SetName(name)
	return o
}

// create creates a copy of o, which is removed at the end of the test. It returns the API server's response.
func (e *env) create(o *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	e.t.Helper()
	created := o.DeepCopy()
	if err := e.client.Create(e.t.Context(), created); err != nil {
		return nil, err
	}
	e.t.Cleanup(func() {
		e.Expect(client.IgnoreNotFound(e.client.Delete(context.Background(), created.DeepCopy()))).To(Succeed())
	})
	return created, nil
}

// unchecked is the error that an API server adds if an invalid field prevents the evaluation of further rules.
const unchecked = "some validation rules were not checked because the object was invalid"

// causes returns the causes of an error with status 422 as "field: message"; none if there is no error.
func (e *env) causes(err error) []string {
	e.t.Helper()
	if err == nil {
		return nil
	}
	e.Expect(apierrors.IsInvalid(err)).To(BeTrue(), "%v", err)
	var all []string
	status := apierrors.APIStatus(nil)
	e.Expect(errors.As(err, &status)).To(BeTrue())
	for _, cause := range status.Status().Details.Causes {
		if !strings.Contains(cause.Message, unchecked) {
			all = append(all, cause.Field+": "+cause.Message)
		}
	}
	return all
}
