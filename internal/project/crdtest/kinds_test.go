package crdtest

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/espalier-dev/espalier/test/binary"
)

// kind has the properties that a CRD declares for its kind.
type kind struct {
	shortNames any
	namespaced bool
	status     bool
	selectable []string
}

func TestKindsAsServed(t *testing.T) {
	for file, want := range map[string]kind{
		"projects":                {status: true, selectable: []string{".spec.namespace"}},
		"shoots":                  {namespaced: true, status: true},
		"backupentries":           {namespaced: true, status: true, shortNames: []any{"bec"}},
		"plants":                  {namespaced: true, status: true, shortNames: []any{"pl"}},
		"credentialsbindings":     {namespaced: true},
		"secretbindings":          {namespaced: true, shortNames: []any{"sb"}},
		"quotas":                  {namespaced: true, shortNames: []any{"squota"}},
		"seeds":                   {status: true},
		"controllerregistrations": {shortNames: []any{"ctrlreg"}},
		"controllerdeployments":   {shortNames: []any{"ctrldeploy"}},
		"controllerinstallations": {
			status: true, shortNames: []any{"ctrlinst"}, selectable: []string{".spec.registrationRef.name", ".spec.seedRef.name"},
		},
	} {
		t.Run(file, func(t *testing.T) {
			e := newEnv(t)
			crd := &unstructured.Unstructured{}
			crd.SetAPIVersion("apiextensions.k8s.io/v1")
			crd.SetKind("CustomResourceDefinition")
			e.Expect(e.client.Get(t.Context(), client.ObjectKey{Name: file + "." + groupOf(file)}, crd)).To(Succeed())
			e.Expect(served(crd)).To(Equal(want))
		})
	}
}

func groupOf(plural string) string {
	if plural == "credentialsbindings" {
		return "security.gardener.cloud"
	}
	return "core.gardener.cloud"
}

// served reads the only version of a CRD.
func served(crd *unstructured.Unstructured) kind {
	names, _, _ := unstructured.NestedMap(crd.Object, "spec", "names")
	scope, _, _ := unstructured.NestedString(crd.Object, "spec", "scope")
	versions, _, _ := unstructured.NestedSlice(crd.Object, "spec", "versions")
	found := kind{shortNames: names["shortNames"], namespaced: scope == "Namespaced"}
	for _, each := range versions {
		version, _ := each.(map[string]any)
		if version["name"] != "v1beta1" && version["name"] != "v1alpha1" {
			continue
		}
		_, found.status, _ = unstructured.NestedMap(version, "subresources", "status")
		fields, _, _ := unstructured.NestedSlice(version, "selectableFields")
		for _, field := range fields {
			paths, _ := field.(map[string]any)
			path, _ := paths["jsonPath"].(string)
			found.selectable = append(found.selectable, path)
		}
	}
	return found
}

// TestFullObjectsSurvive creates objects as in a full Gardener installation, of which this API defines only some fields, and expects all
// fields back.
func TestFullObjectsSurvive(t *testing.T) {
	files, err := filepath.Glob("testdata/*.yaml")
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	NewWithT(t).Expect(files).To(HaveLen(11))
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".yaml"), func(t *testing.T) {
			e := newEnv(t)
			content, err := os.ReadFile(file)
			e.Expect(err).NotTo(HaveOccurred())
			full := binary.Object(e, string(content))
			status := full.Object["status"]
			created, err := e.create(full)
			e.Expect(err).NotTo(HaveOccurred())
			if status != nil {
				created.Object["status"] = status
				e.Expect(e.client.Status().Update(t.Context(), created)).To(Succeed())
			}
			found := &unstructured.Unstructured{}
			found.SetGroupVersionKind(full.GroupVersionKind())
			e.Expect(e.client.Get(t.Context(), client.ObjectKeyFromObject(full), found)).To(Succeed())
			for _, field := range []string{"uid", "resourceVersion", "generation", "creationTimestamp", "managedFields"} {
				unstructured.RemoveNestedField(found.Object, "metadata", field)
			}
			e.Expect(found.Object).To(BeComparableTo(full.Object))
		})
	}
}

func TestFieldSelectors(t *testing.T) {
	e := newEnv(t)
	installation := func(name, registration, seed string) *unstructured.Unstructured {
		return binary.Object(e, `{apiVersion: core.gardener.cloud/v1beta1, kind: ControllerInstallation, metadata: {name: `+name+
			`}, spec: {registrationRef: {name: `+registration+`}, seedRef: {name: `+seed+`}}}`)
	}
	for _, object := range []*unstructured.Unstructured{
		e.project("one", "{namespace: garden-one}"), e.project("two", "{namespace: garden-two}"), e.project("none", "{}"),
		installation("a", "os", "north"), installation("b", "os", "south"), installation("c", "dns", "south"),
	} {
		_, err := e.create(object)
		e.Expect(err).NotTo(HaveOccurred())
	}
	for sentence, tc := range map[string]struct {
		kind   string
		fields client.MatchingFields
		want   []string
	}{
		"a project by its namespace":   {"Project", client.MatchingFields{"spec.namespace": "garden-two"}, []string{"two"}},
		"projects without one":         {"Project", client.MatchingFields{"spec.namespace": ""}, []string{"none"}},
		"no project of that namespace": {"Project", client.MatchingFields{"spec.namespace": "garden-three"}, nil},
		"a project by its name":        {"Project", client.MatchingFields{"metadata.name": "one"}, []string{"one"}},
		"installations of a registration": {
			"ControllerInstallation", client.MatchingFields{"spec.registrationRef.name": "os"}, []string{"a", "b"},
		},
		"installations in a seed": {"ControllerInstallation", client.MatchingFields{"spec.seedRef.name": "south"}, []string{"b", "c"}},
		"one installation, by both of them": {
			"ControllerInstallation", client.MatchingFields{"spec.seedRef.name": "south", "spec.registrationRef.name": "os"}, []string{"b"},
		},
	} {
		t.Run(sentence, func(t *testing.T) {
			g := NewWithT(t)
			list := &unstructured.UnstructuredList{}
			list.SetAPIVersion("core.gardener.cloud/v1beta1")
			list.SetKind(tc.kind + "List")
			g.Expect(e.client.List(t.Context(), list, tc.fields)).To(Succeed())
			var names []string
			for _, item := range list.Items {
				names = append(names, item.GetName())
			}
			g.Expect(names).To(ConsistOf(tc.want))
		})
	}
}

func TestNeighboursThatMakeNoSense(t *testing.T) {
	all := newEnv(t)
	for sentence, tc := range map[string]struct {
		manifest string
		want     []string
	}{
		"a backup entry of no bucket": {
			`{apiVersion: core.gardener.cloud/v1beta1, kind: BackupEntry, metadata: {name: a, namespace: default}, spec: {bucketName: ""}}`,
			[]string{"spec.bucketName: Invalid value: \"\": spec.bucketName in body should be at least 1 chars long"},
		},
		"a plant without a Secret": {
			`{apiVersion: core.gardener.cloud/v1beta1, kind: Plant, metadata: {name: a, namespace: default}, spec: {}}`,
			[]string{"spec.secretRef: Required value"},
		},
		"a plant with an unnamed Secret": {
			`{apiVersion: core.gardener.cloud/v1beta1, kind: Plant, metadata: {name: a, namespace: default}, spec: {secretRef: {}}}`,
			[]string{"spec.secretRef.name: Required value: name must not be empty"},
		},
		"a quota of a Pod": {
			`{apiVersion: core.gardener.cloud/v1beta1, kind: Quota, metadata: {name: a, namespace: default}, spec: {metrics: null, scope: ` +
				`{apiVersion: v1, kind: Pod}}}`,
			[]string{"spec.scope: Invalid value: supported values: v1 Secret, core.gardener.cloud Project"},
		},
		"a quota of a Project": {
			`{apiVersion: core.gardener.cloud/v1beta1, kind: Quota, metadata: {name: a, namespace: default}, spec: {metrics: null, scope: ` +
				`{apiVersion: core.gardener.cloud/v1beta1, kind: Project}}}`,
			nil,
		},
		"a shoot of nothing": {`{apiVersion: core.gardener.cloud/v1beta1, kind: Shoot, metadata: {name: a, namespace: default}}`, nil},
		"a binding of nothing": {
			`{apiVersion: core.gardener.cloud/v1beta1, kind: SecretBinding, metadata: {name: a, namespace: default}, quotas: [{}], secretRef: {}}`,
			nil,
		},
		"an unknown policy": {
			`{apiVersion: core.gardener.cloud/v1beta1, kind: ControllerRegistration, metadata: {name: a}, spec: {deployment: {policy: Never}}}`,
			[]string{`spec.deployment.policy: Unsupported value: "Never": supported values: "OnDemand", "Always", "AlwaysExceptNoShoots"`},
		},
	} {
		t.Run(sentence, func(t *testing.T) {
			e := all.in(t)
			_, err := e.create(binary.Object(e, tc.manifest))
			e.Expect(binary.Causes(e, err)).To(ConsistOf(tc.want))
		})
	}
}
