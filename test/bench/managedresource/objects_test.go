package managedresource

import (
	"bufio"
	"bytes"
	"encoding/base64"
	"errors"
	"io"
	"testing"

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/yaml"

	"github.com/espalier-dev/espalier/test/bench/harness"
)

func TestTenObjectsAreTheOnesOfTheComparison(t *testing.T) {
	g := NewWithT(t)
	kinds := map[string]int{}
	for _, i := range itemsOf("ours", 3, 20, "hello") {
		kinds[i.resource.Group+"/"+i.resource.Resource+" "+i.object.GetAPIVersion()+" "+i.object.GetKind()]++
		g.Expect(i.object.GetNamespace()).To(Equal("bench-ours-003"))
		g.Expect(i.object.GetLabels()).To(HaveKeyWithValue("bench.espalier.dev/run", "ours"))
	}
	g.Expect(kinds).To(Equal(map[string]int{
		"apps/deployments apps/v1 Deployment":                                             2,
		"/serviceaccounts v1 ServiceAccount":                                              2,
		"rbac.authorization.k8s.io/roles rbac.authorization.k8s.io/v1 Role":               2,
		"rbac.authorization.k8s.io/rolebindings rbac.authorization.k8s.io/v1 RoleBinding": 2,
		"/services v1 Service":                                                            2,
		"/secrets v1 Secret":                                                              2,
		"policy/poddisruptionbudgets policy/v1 PodDisruptionBudget":                       2,
		"/configmaps v1 ConfigMap":                                                        6,
	}))
}

func TestSecretHoldsEveryObjectAsOneDocument(t *testing.T) {
	g := NewWithT(t)
	items := itemsOf("ours", 0, 10, "hello")
	data, err := secretData(items)
	g.Expect(err).NotTo(HaveOccurred())
	documents := yaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(data)))
	for _, want := range items {
		document, failure := documents.Read()
		g.Expect(failure).NotTo(HaveOccurred())
		got := &unstructured.Unstructured{}
		g.Expect(yaml.Unmarshal(document, &got.Object)).To(Succeed())
		g.Expect(got.GetKind() + " " + got.GetName()).To(Equal(want.object.GetKind() + " " + want.object.GetName()))
	}
	_, err = documents.Read()
	g.Expect(errors.Is(err, io.EOF)).To(BeTrue())

	secret, set := setOf("bench-sets", 7, data)
	g.Expect(secret.object.Object["data"]).To(Equal(map[string]any{"objects.yaml": base64.StdEncoding.EncodeToString(data)}))
	g.Expect(set.object.Object["spec"]).To(Equal(map[string]any{"secretRefs": []any{map[string]any{"name": "set-007"}}}))
	g.Expect(secret.object.GetName()).To(Equal("set-007"))
}

func TestOneConfigMapOfASetChanges(t *testing.T) {
	g := NewWithT(t)
	before, after := itemsOf("ours", 0, 40, dataBefore), itemsOf("ours", 0, 40, dataAfter)
	var changed []string
	for i := range before {
		was, errWas := before[i].object.MarshalJSON()
		is, errIs := after[i].object.MarshalJSON()
		g.Expect(errors.Join(errWas, errIs)).NotTo(HaveOccurred())
		if !bytes.Equal(was, is) {
			changed = append(changed, describe(after[i].object))
		}
	}
	g.Expect(changed).To(Equal([]string{"ConfigMap bench-ours-000/part-009"}))
}

func TestObjectsOfDriftDiffer(t *testing.T) {
	g := NewWithT(t)
	edited, deleted := driftingObjects(size{5, 20}, 10)
	g.Expect(edited).To(HaveLen(5))
	g.Expect(deleted).To(HaveLen(5))
	seen := map[key]bool{}
	for _, i := range append(edited, deleted...) {
		g.Expect(seen[i.key()]).To(BeFalse())
		seen[i.key()] = true
	}
	for _, i := range edited {
		g.Expect(i.resource.Resource).To(Equal("configmaps"))
	}
}

func TestForegroundDeletionIsForWorkloadsOnly(t *testing.T) {
	g := NewWithT(t)
	g.Expect(string(*deleteOptions(managedKinds()[0]).PropagationPolicy)).To(Equal("Foreground"))
	g.Expect(deleteOptions(configMaps).PropagationPolicy).To(BeNil())
}

func TestWorkloadsHaveNames(t *testing.T) {
	g := NewWithT(t)
	w := workload{size: size{1000, 10}}
	g.Expect([]string{w.String(), fileName(w.String())}).To(Equal([]string{"1000×10", "1000x10"}))
	w.twoClusters = true
	g.Expect([]string{w.String(), fileName(w.String())}).To(Equal([]string{"1000×10, 2 clusters", "1000x10-2-clusters"}))
}

func TestManagedRequestsAreAboutObjectsOfSets(t *testing.T) {
	g := NewWithT(t)
	of := func(group, resource, namespace string) harness.Request {
		r := harness.Request{}
		r.Object.APIGroup, r.Object.Resource, r.Object.Namespace = group, resource, namespace
		return r
	}
	g.Expect(isManaged(of("", "configmaps", "bench-ours-001"))).To(BeTrue())
	g.Expect(isManaged(of("apps", "deployments", ""))).To(BeTrue(), "all namespaces")
	g.Expect(isManaged(of("", "secrets", "bench-ours-001"))).To(BeTrue())
	g.Expect(isManaged(of("", "secrets", "bench-sets"))).To(BeFalse(), "the Secret of a set")
	g.Expect(isManaged(of("resources.gardener.cloud", "managedresources", "bench-sets"))).To(BeFalse())
	g.Expect(isManaged(of("coordination.k8s.io", "leases", "espalier-system"))).To(BeFalse())
	g.Expect(isManaged(of("", "", ""))).To(BeFalse())
}
