package components_test

import (
	"os"
	"regexp"
	"testing"

	. "github.com/onsi/gomega"

	operatorv1alpha1 "github.com/espalier-dev/espalier/api/operator/v1alpha1"
	"github.com/espalier-dev/espalier/internal/garden/component"
	"github.com/espalier-dev/espalier/internal/garden/components"
	"github.com/espalier-dev/espalier/internal/garden/rotation"
	"github.com/espalier-dev/espalier/internal/garden/values"
)

func TestCredentialsHaveTheNamesOfTheirSecrets(t *testing.T) {
	eachGarden(t, func(t *testing.T, garden *operatorv1alpha1.Garden, operator values.Operator) {
		t.Helper()
		g := NewWithT(t)
		v, err := values.New(garden, operator)
		g.Expect(err).NotTo(HaveOccurred())
		names := map[string]int{}
		for _, each := range components.Credentials() {
			names[each.Name]++
			if each.Request != nil {
				g.Expect(each.Request(v).Config.LogicalName()).To(Equal(each.Name))
			}
		}
		for name, times := range names {
			g.Expect(times).To(Equal(1), name)
		}
	})
}

// A row that does not say how its Secret comes back could be forgotten by backups.
func TestEveryCredentialSaysHowItIsRestored(t *testing.T) {
	g, either := NewWithT(t), BeElementOf(component.FromBackup, component.GeneratedAgain)
	for _, each := range components.Registry() {
		g.Expect(each.Restored).To(either, each.Name)
	}
	for _, each := range components.Credentials() {
		g.Expect(each.Restored).To(either, each.Name)
		if each.Irreplaceable {
			g.Expect(each.Restored).To(Equal(component.FromBackup), each.Name)
		}
	}
}

// The alert is about all credentials that only a rotation replaces, without certificate authorities, whose rotation the operator starts by
// age as configured.
func TestAlertNamesTheRotatedCredentials(t *testing.T) {
	g := NewWithT(t)
	rules, err := os.ReadFile("../../../deploy/observability/garden.rules.yaml")
	g.Expect(err).NotTo(HaveOccurred())
	named := regexp.MustCompile(`credential_issued_seconds\{\s+secret=~"(.+)"`).FindStringSubmatch(string(rules))
	g.Expect(named).To(HaveLen(2))
	alert := regexp.MustCompile("^(" + named[1] + ")$")
	for _, each := range components.Credentials() {
		wanted := each.Rotation != "" && each.Rotation != rotation.CertificateAuthorities && !each.Temporary
		g.Expect(alert.MatchString(each.Name)).To(Equal(wanted), each.Name)
	}
}

// If a credential is missing in the first list, it is generated late. If it is missing in the second list, it stays although it is
// temporary. If a user of keys is missing in the third list, the operator may replace a lost key that this user still needs.
func TestListsThatFollowFromCredentials(t *testing.T) {
	g := NewWithT(t)
	var early []string
	for _, each := range components.Credentials() {
		if each.Early {
			g.Expect(each.Request).NotTo(BeNil(), each.Name)
			early = append(early, each.Name)
		}
	}
	g.Expect(early).To(ConsistOf("service-account-key", "kube-apiserver", "kube-aggregator", "kube-controller-manager-server",
		"gardener-apiserver-workload-identity-signing-key", "gardener-apiserver", "gardener-admission-controller-cert"))
	g.Expect(components.TemporarySecrets()).To(ConsistOf(
		"vpa-admission-controller-server", "shoot-access-gardener-resource-manager-bootstrap", "rotation-probe-client", "rotation-probe-token",
	))
	var users []string
	for _, each := range components.KeyUsers() {
		users = append(users, each.Kind+" "+each.Name)
	}
	g.Expect(users).To(ConsistOf("Deployment virtual-garden-kube-apiserver", "Deployment virtual-garden-kube-controller-manager",
		"Deployment gardener-apiserver", "ManagedResource gardener-apiserver-runtime"))
}
