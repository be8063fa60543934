//go:build e2e

package upgrade_test

import (
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/espalier-dev/espalier/test/e2e/cluster"
)

// unasked reports whether this is the name of a NetworkPolicy for which the binaries' Services have no annotation. If a state's manifests
// lack the annotation, applying them removes it, and the controller then deletes the policy. This is not a wrong deletion.
func unasked(services []corev1.Service, name string) bool {
	policy, ours := strings.CutPrefix(name, "networkpolicies/"+cluster.SystemNamespace+"/")
	if !ours {
		return false
	}
	policy = strings.TrimPrefix(strings.TrimPrefix(policy, "ingress-to-"), "egress-to-")
	for _, service := range services {
		reason, found := strings.CutPrefix(policy, service.Name+"-")
		if !found {
			continue
		}
		_, world := service.Annotations["networking.resources.gardener.cloud/from-world-to-ports"]
		_, scraped := service.Annotations["networking.resources.gardener.cloud/from-all-scrape-targets-allowed-ports"]
		return reason == "from-world" && !world || strings.HasSuffix(reason, "-via-all-scrape-targets") && !scraped
	}
	return false
}

func TestUnasked(t *testing.T) {
	services := []corev1.Service{
		{ObjectMeta: metav1.ObjectMeta{Name: "plain"}},
		{ObjectMeta: metav1.ObjectMeta{Name: "open", Annotations: map[string]string{
			"networking.resources.gardener.cloud/from-world-to-ports":                   "[]",
			"networking.resources.gardener.cloud/from-all-scrape-targets-allowed-ports": "[]",
		}}},
	}
	for name, want := range map[string]bool{
		"networkpolicies/espalier-system/ingress-to-plain-from-world":                   true,
		"networkpolicies/espalier-system/ingress-to-plain-tcp-1-via-all-scrape-targets": true,
		"networkpolicies/espalier-system/egress-to-plain-tcp-1-via-all-scrape-targets":  true,
		"networkpolicies/espalier-system/ingress-to-plain-tcp-metrics":                  false,
		"networkpolicies/espalier-system/ingress-to-open-from-world":                    false,
		"networkpolicies/espalier-system/ingress-to-open-tcp-1-via-all-scrape-targets":  false,
		"networkpolicies/espalier-system/ingress-to-unknown-from-world":                 false,
		"networkpolicies/elsewhere/ingress-to-plain-from-world":                         false,
		"secrets/espalier-system/ingress-to-plain-from-world":                           false,
	} {
		t.Run(name, func(t *testing.T) { NewWithT(t).Expect(unasked(services, name)).To(Equal(want)) })
	}
}
