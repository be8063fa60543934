package harness

import (
	"net/http"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
)

func TestWhichRequestsCount(t *testing.T) {
	const sets = "/apis/resources.gardener.cloud/v1alpha1/namespaces/ns/managedresources"
	for name, tc := range map[string]struct {
		method, url string
		want        bool
	}{
		"a read of an object":              {"GET", "/api/v1/namespaces/ns/configmaps/one", true},
		"a read of a Secret":               {"GET", "/api/v1/namespaces/ns/secrets/set", true},
		"a creation":                       {"POST", "/api/v1/namespaces/ns/configmaps", true},
		"a creation without namespace":     {"POST", "/api/v1/namespaces", true},
		"an update":                        {"PUT", "/apis/apps/v1/namespaces/ns/deployments/web", true},
		"a deletion":                       {"DELETE", "/api/v1/namespaces/ns", true},
		"a finalization":                   {"PUT", "/api/v1/namespaces/ns/finalize", true},
		"a status":                         {"PATCH", sets + "/set/status", true},
		"a read of a set":                  {"GET", sets + "/set", false},
		"a listing of one's own":           {"GET", "/api/v1/namespaces/ns/persistentvolumeclaims?labelSelector=a%3Db", true},
		"a listing for a cache":            {"GET", "/api/v1/configmaps?limit=500&resourceVersion=0", false},
		"a watch":                          {"GET", "/api/v1/configmaps?watch=true", false},
		"a watch that begins with a list":  {"GET", "/api/v1/configmaps?sendInitialEvents=true&watch=true", false},
		"a definition":                     {"POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", true},
		"a look whether it is established": {"GET", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/things.a.b", false},
		"discovery of the core":            {"GET", "/api/v1", false},
		"discovery of groups":              {"GET", "/apis", false},
		"discovery of a group":             {"GET", "/apis/apps/v1", false},
		"an Event":                         {"POST", "/apis/events.k8s.io/v1/namespaces/ns/events", false},
		"a lease":                          {"PUT", "/apis/coordination.k8s.io/v1/namespaces/ns/leases/a", false},
		"an access review":                 {"POST", "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", false},
		"the identity of the cluster":      {"GET", "/api/v1/namespaces/kube-system", false},
		"a configured identity":            {"GET", "/api/v1/namespaces/kube-system/configmaps/cluster-identity", false},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			request, err := http.NewRequestWithContext(t.Context(), tc.method, "https://server"+tc.url, http.NoBody)
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(Counts(request)).To(Equal(tc.want))
		})
	}
}

func TestVerdicts(t *testing.T) {
	for name, tc := range map[string]struct {
		body string
		want bool
	}{
		"conditions of an applied set": {
			`{"status":{"conditions":[{"type":"ResourcesHealthy","reason":"ResourcesHealthy"},{"type":"ResourcesApplied",` +
				`"reason":"ApplySucceeded"}]}}`,
			true,
		},
		"the end of an apply": {
			`{"status":{"conditions":[{"type":"ResourcesApplied","reason":"ApplySucceeded"}],"observedGeneration":2}}`, false,
		},
		"a deletion that keeps": {
			`{"status":{"conditions":[{"reason":"DeletionPending"},{"type":"ResourcesApplied","reason":"ApplySucceeded"}]}}`, false,
		},
		"a failure": {`{"status":{"conditions":[{"type":"ResourcesApplied","reason":"ApplyFailed"}]}}`, false},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			request, err := http.NewRequestWithContext(t.Context(), http.MethodPatch,
				"https://server/apis/resources.gardener.cloud/v1alpha1/namespaces/ns/managedresources/set/status", strings.NewReader(tc.body))
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(CountsWithoutVerdicts(request)).To(Equal(!tc.want))
		})
	}
}
