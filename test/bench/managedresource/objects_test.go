package managedresource

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/yaml"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	resourcesv1alpha1 "github.com/espalier-dev/espalier/api/resources/v1alpha1"
	"github.com/espalier-dev/espalier/test/bench/harness"
)

func TestTenObjectsAreTheOnesOfTheComparison(t *testing.T) {
	g := NewWithT(t)
	kinds := map[string]int{}
	for _, i := range itemsOf("ours", 3, 20, "hello") {
		resource, _ := meta.UnsafeGuessKindToResource(i.GroupVersionKind())
		kinds[resource.Group+"/"+resource.Resource+" "+i.GetAPIVersion()+" "+i.GetKind()]++
		g.Expect(i.GetNamespace()).To(Equal("bench-ours-003"))
		g.Expect(i.GetLabels()).To(HaveKeyWithValue("bench.espalier.dev/run", "ours"))
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
	data := secretData(items)
	documents := yaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(data)))
	for _, want := range items {
		document, failure := documents.Read()
		g.Expect(failure).NotTo(HaveOccurred())
		got := &unstructured.Unstructured{}
		g.Expect(yaml.Unmarshal(document, &got.Object)).To(Succeed())
		g.Expect(got.GetKind() + " " + got.GetName()).To(Equal(want.GetKind() + " " + want.GetName()))
	}
	_, err := documents.Read()
	g.Expect(errors.Is(err, io.EOF)).To(BeTrue())

	secret, set := setOf("bench-sets", 7, data)
	g.Expect(secret.Data).To(Equal(map[string][]byte{"objects.yaml": data}))
	g.Expect(set.Spec).To(Equal(resourcesv1alpha1.ManagedResourceSpec{SecretRefs: []corev1.LocalObjectReference{{Name: "set-007"}}}))
	g.Expect(secret.Name).To(Equal("set-007"))
}

func TestOneConfigMapOfASetChanges(t *testing.T) {
	g := NewWithT(t)
	before, after := itemsOf("ours", 0, 40, dataBefore), itemsOf("ours", 0, 40, dataAfter)
	var changed []string
	for i := range before {
		was, errWas := before[i].MarshalJSON()
		is, errIs := after[i].MarshalJSON()
		g.Expect(errors.Join(errWas, errIs)).NotTo(HaveOccurred())
		if !bytes.Equal(was, is) {
			changed = append(changed, describe(after[i]))
		}
	}
	g.Expect(changed).To(Equal([]string{"ConfigMap bench-ours-000/part-009"}))
}

func TestObjectsOfDriftDiffer(t *testing.T) {
	g := NewWithT(t)
	edited, deleted := driftingObjects(size{5, 20}, 10)
	g.Expect(edited).To(HaveLen(5))
	g.Expect(deleted).To(HaveLen(5))
	seen := map[string]bool{}
	for _, i := range append(edited, deleted...) {
		g.Expect(seen[describe(i)]).To(BeFalse())
		seen[describe(i)] = true
	}
	for _, i := range edited {
		g.Expect(i.GetKind()).To(Equal("ConfigMap"))
	}
}

func TestForegroundDeletionIsForWorkloadsOnly(t *testing.T) {
	g := NewWithT(t)
	items := itemsOf("ours", 0, 10, "hello")
	g.Expect(deleteOptions(items[0])).To(Equal([]client.DeleteOption{client.PropagationPolicy("Foreground")}))
	g.Expect(deleteOptions(items[9])).To(BeEmpty())
}

func TestWorkloadsHaveNames(t *testing.T) {
	g := NewWithT(t)
	w := workload{size: size{1000, 10}}
	g.Expect(w.String()).To(Equal("1000×10"))
	w.twoClusters = true
	g.Expect(w.String()).To(Equal("1000×10, 2 clusters"))
}

func TestManagedRequestsAreAboutObjectsOfSets(t *testing.T) {
	g := NewWithT(t)
	of := func(group, resource, namespace string) harness.Request {
		r := harness.Request{}
		r.ObjectRef = &auditv1.ObjectReference{APIGroup: group, Resource: resource, Namespace: namespace}
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
