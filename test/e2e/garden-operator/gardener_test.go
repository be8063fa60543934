//go:build e2e

package gardenoperator_test

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	operatorv1alpha1 "github.com/espalier-dev/espalier/api/operator/v1alpha1"
	"github.com/espalier-dev/espalier/internal/apply/fields"
	"github.com/espalier-dev/espalier/test/bench/harness"
)

const (
	manifests = "test/e2e/garden-operator/gardener/"
	// ofProject is the namespace of the Project in the virtual cluster.
	ofProject = "garden-apples"
)

var _ = Describe("Gardener in the virtual cluster of make up-garden", Ordered, Label("garden"), func() {
	var l localGarden

	BeforeAll(func(ctx SpecContext) {
		l = requireLocalGarden(ctx)
		begin := time.Now()
		_, err := l.kubectl(ctx, "create", "-f", manifests+"project.yaml")
		Expect(err).NotTo(HaveOccurred())
		Eventually(ctx, l.kubectl).WithArguments("get", "project", "apples", "-o", "jsonpath={.status.phase}").Should(Equal("Ready"))
		AddReportEntry("Project ready after", time.Since(begin).Round(100*time.Millisecond).String())
	}, NodeTimeout(limit))

	It("makes the namespace of a Project, and gives its members their rights", func(ctx SpecContext) {
		Expect(l.kubectl(ctx, "get", "namespace", ofProject, "-o", "jsonpath={.metadata.labels}{.metadata.ownerReferences[*].name}")).
			To(And(ContainSubstring(`"project.gardener.cloud/name":"apples"`), HaveSuffix("apples")))
		may := func(ctx context.Context, user, verb, resource, in string) string {
			answer, err := l.kubectl(ctx, "auth", "can-i", verb, resource, "--namespace", in, "--as", user)
			if err != nil { // kubectl fails if the user has no right
				return err.Error()
			}
			return answer
		}
		for _, each := range []struct {
			user, verb, resource, in string
			allowed                  bool
		}{
			{"alice", "create", "shoots", ofProject, true},
			{"alice", "get", "secrets", ofProject, true},
			{"alice", "create", "shoots", "garden", false},
			{"alice", "create", "seeds", "", false},
			{"bob", "get", "shoots", ofProject, true},
			{"bob", "create", "shoots", ofProject, false},
			{"bob", "get", "secrets", ofProject, false},
			{"carol", "get", "shoots", ofProject, false},
		} {
			Expect(strings.HasPrefix(may(ctx, each.user, each.verb, each.resource, each.in), "yes")).To(Equal(each.allowed), "%+v", each)
		}
	})

	It("accepts CloudProfiles, Seeds and Shoots, and refuses others with Gardener's reasons", func(ctx SpecContext) {
		for file, reason := range map[string]string{
			"seed.yaml":  `given Seed uses non-registered provider type: spec.provider.type ("e2e")`,
			"shoot.yaml": "could not find referenced cloud profile",
		} {
			_, err := l.kubectl(ctx, "create", "-f", manifests+file)
			Expect(err).To(MatchError(ContainSubstring(reason)), file)
		}
		_, err := l.kubectl(ctx, "create", "-f", manifests+"landscape.yaml")
		Expect(err).NotTo(HaveOccurred())
		for _, file := range []string{"seed.yaml", "shoot.yaml"} {
			_, err = l.kubectl(ctx, "create", "-f", manifests+file)
			Expect(err).NotTo(HaveOccurred())
		}
		for change, reason := range map[string]string{
			`{"spec":{"kubernetes":{"version":"1.32.0"}}}`: "kubernetes.version",
			`{"spec":{"region":"elsewhere"}}`:              "spec.region",
			`{"spec":{"purpose":"unknown"}}`:               "spec.purpose: Unsupported value",
		} {
			_, err = l.kubectl(ctx, "-n", ofProject, "patch", "shoot", "tree", "--type=merge", "-p", change)
			Expect(err).To(MatchError(ContainSubstring(reason)), change)
		}
		// The Seed never becomes ready, because there is no gardenlet.
		Eventually(ctx, l.kubectl).WithArguments("-n", ofProject, "get", "shoot", "tree", "-o", "jsonpath={.status.lastOperation.description}").
			Should(ContainSubstring("Failed to schedule Shoot"))
		_, err = l.kubectl(ctx, "-n", ofProject, "delete", "shoot", "tree")
		Expect(err).To(MatchError(ContainSubstring("confirmation.gardener.cloud/deletion")))
		_, err = l.kubectl(ctx, "delete", "seed", "e2e", "--wait=false")
		Expect(err).NotTo(HaveOccurred())
	})

	It("changes nothing when the Garden is reconciled again at rest", func(ctx SpecContext) {
		Eventually(ctx, l.well).WithTimeout(recoveryPatience).Should(Succeed())
		before, err := requestCounts(ctx)
		Expect(err).NotTo(HaveOccurred())
		deployed := l.fingerprints(ctx)
		Expect(l.reconcile(ctx)).To(Succeed())
		Eventually(ctx, l.well).WithTimeout(recoveryPatience).Should(Succeed())
		Expect(changes(deployed, l.fingerprints(ctx))).To(BeEmpty())
		after, err := requestCounts(ctx)
		Expect(err).NotTo(HaveOccurred())
		for _, each := range slices.Sorted(maps.Keys(after)) {
			AddReportEntry(each, strconv.Itoa(int(after[each]-before[each])))
		}
	}, SpecTimeout(limit))

	It("is not deleted as long as there is a Shoot, and then leaves nothing behind", func(ctx SpecContext) {
		foreign := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "e2e-foreign"}}
		Expect(c.Client.Create(ctx, foreign)).To(Succeed())
		DeferCleanup(func(ctx SpecContext) {
			Expect(client.IgnoreNotFound(c.Client.Delete(ctx, foreign.DeepCopy()))).To(Succeed())
		})
		former := &operatorv1alpha1.Garden{}
		Expect(c.Client.Get(ctx, client.ObjectKeyFromObject(l.garden), former)).To(Succeed())
		garden := former.DeepCopy()
		Expect(c.Client.Patch(ctx, garden, confirmation())).To(Succeed())
		Expect(c.Client.Delete(ctx, garden)).To(Succeed())
		Eventually(ctx, func(ctx context.Context) (string, error) {
			err := c.Client.Get(ctx, client.ObjectKeyFromObject(garden), garden)
			return garden.Status.LastOperation.Description, err
		}).WithTimeout(patience).Should(ContainSubstring("the virtual garden still has Shoots, for example garden-apples/tree"))
		Expect(podsReady(ctx)).To(Succeed())

		l.confirmAndDelete(ctx, "shoot", ofProject, "tree")
		begin := time.Now()
		Eventually(ctx, isGone).WithArguments(garden).WithTimeout(recoveryPatience).Should(BeTrue())
		AddReportEntry("Garden deleted after", time.Since(begin).Round(time.Second).String())

		Eventually(ctx, leftInNamespace).Should(BeEmpty())
		for _, kinds := range []string{
			"mutatingwebhookconfigurations,validatingwebhookconfigurations", "apiservices", "clusterroles,clusterrolebindings", "priorityclasses",
			"customresourcedefinitions", "namespaces",
		} {
			all, err := c.Kubectl(ctx, "get", kinds, "-o", "name")
			Expect(err).NotTo(HaveOccurred())
			Expect(all).NotTo(Or(ContainSubstring("gardener-resource-manager"), ContainSubstring("istio.io"), ContainSubstring("druid"),
				MatchRegexp(`gardener-garden-system-\d`), ContainSubstring("virtual-garden")), kinds)
		}
		found := foreign.DeepCopy()
		Expect(c.Client.Get(ctx, client.ObjectKeyFromObject(foreign), found)).To(Succeed())
		Expect(found).To(Equal(foreign))
		Expect(c.Client.Delete(ctx, foreign)).To(Succeed())

		begin = time.Now()
		l.createWithoutData(ctx, former)
		Eventually(ctx, l.well).WithTimeout(2 * recoveryPatience).Should(Succeed())
		AddReportEntry("Garden reconciled again after", time.Since(begin).Round(time.Second).String())
		Expect(l.kubectl(ctx, "get", "projects", "-o", "name")).To(BeEmpty(), "the data of the former Garden is gone")
	}, SpecTimeout(2*limit))
})

// stays contains the beginnings of the names of the objects that stay in the garden namespace: objects of the cluster, of the
// administrator, and of leader elections; and volumes with data.
var stays = []string{
	"configmap/istio-ca-", "configmap/kube-root-ca.crt", "configmap/e2e-foreign", "serviceaccount/default", "secret/backup",
	"lease.coordination.k8s.io/", "persistentvolumeclaim/", "role.rbac.authorization.k8s.io/espalier-garden-operator",
	"rolebinding.rbac.authorization.k8s.io/espalier-garden-operator", "event/", "event.events.k8s.io/",
}

// allInNamespace returns the objects in the garden namespace in a format of kubectl.
func allInNamespace(ctx context.Context, format string) (string, error) {
	kinds, err := c.Kubectl(ctx, "api-resources", "--verbs=list", "--namespaced", "-o", "name")
	if err != nil {
		return "", err
	}
	return c.Kubectl(ctx, "get", strings.Join(strings.Fields(kinds), ","), "-n", namespace, "-o", format)
}

// leftInNamespace returns the objects in the garden namespace that must not stay.
func leftInNamespace(ctx context.Context) ([]string, error) {
	all, err := allInNamespace(ctx, "name")
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(strings.Fields(all), func(name string) bool {
		return slices.ContainsFunc(stays, func(each string) bool { return strings.HasPrefix(name, each) })
	}), nil
}

// confirmAndDelete confirms the deletion of an object in the virtual cluster, and deletes it.
func (l localGarden) confirmAndDelete(ctx context.Context, kind, in, name string) {
	GinkgoHelper()
	_, err := l.kubectl(ctx, "-n", in, "annotate", kind, name, "confirmation.gardener.cloud/deletion=true")
	Expect(err).NotTo(HaveOccurred())
	_, err = l.kubectl(ctx, "-n", in, "delete", kind, name)
	Expect(err).NotTo(HaveOccurred())
}

// requestCounts returns how many requests the active operator has sent since its start, by method and API server.
func requestCounts(ctx context.Context) (map[string]float64, error) {
	leader, err := leading(ctx)
	if err != nil {
		return nil, err
	}
	ports := leader.Spec.Containers[0].Ports // the API server forwards requests to Pods only by port number
	own := slices.IndexFunc(ports, func(p corev1.ContainerPort) bool { return p.Name == "metrics" })
	if own < 0 {
		return nil, fmt.Errorf("%s has no port for metrics", leader.Name)
	}
	port := strconv.Itoa(int(ports[own].ContainerPort))
	text, err := c.Clients.CoreV1().Pods(leader.Namespace).ProxyGet("http", leader.Name, port, "/metrics", nil).DoRaw(ctx)
	if err != nil {
		return nil, fmt.Errorf("get metrics of %s: %w", leader.Name, err)
	}
	metrics, err := harness.ParseMetrics(text)
	if err != nil {
		return nil, fmt.Errorf("metrics of %s: %w", leader.Name, err)
	}
	const name, virtual = "rest_client_requests_total", "virtual-garden-kube-apiserver.garden.svc.cluster.local"
	number := map[string]float64{}
	for _, method := range []string{http.MethodGet, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete} {
		toVirtual := metrics.Sum(name, "method", method, "host", virtual)
		number[method+" to the virtual cluster"] = toVirtual
		number[method+" to the runtime cluster"] = metrics.Sum(name, "method", method) - toVirtual
	}
	return number, nil
}

// fingerprints returns a number for each object of these kinds that the operator deploys itself. A write of its status alone, for example
// by a controller of Kubernetes, does not change the number.
func (l localGarden) fingerprints(ctx context.Context) map[string]uint64 {
	GinkgoHelper()
	text, err := c.Kubectl(ctx, "get", "deployments,configmaps,secrets,services,managedresources,etcds,roles,rolebindings,"+
		"poddisruptionbudgets,serviceaccounts,clusterroles,clusterrolebindings", "--all-namespaces", "-l", operatorv1alpha1.LabelCreatedBy,
		"--show-managed-fields", "-o", "json")
	Expect(err).NotTo(HaveOccurred())
	all := &unstructured.UnstructuredList{}
	Expect(all.UnmarshalJSON([]byte(text))).To(Succeed())
	Expect(all.Items).NotTo(BeEmpty())
	found := map[string]uint64{}
	for i := range all.Items {
		o := &all.Items[i]
		found[o.GetKind()+" "+o.GetNamespace()+"/"+o.GetName()] = fields.Fingerprint(o)
	}
	return found
}

// changes returns the names of the objects that were created, deleted or changed.
func changes(before, after map[string]uint64) []string {
	var changed []string
	for name, fingerprint := range after {
		if former, existed := before[name]; !existed || former != fingerprint {
			changed = append(changed, name)
		}
	}
	for name := range before {
		if _, exists := after[name]; !exists {
			changed = append(changed, name)
		}
	}
	return changed
}
