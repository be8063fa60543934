package config

import (
	"testing"

	. "github.com/onsi/gomega"
	"k8s.io/utils/ptr"
)

func TestEspalierTokenDefaults(t *testing.T) {
	for name, tc := range map[string]struct {
		file string
		want EspalierToken
	}{
		"nothing is set": {file: "", want: EspalierToken{Audiences: &[]string{"gardener"}, RequestorWorkers: ptr.To(32)}},
		"no audience, which is not the same as nothing": {
			file: "espalier: {token: {audiences: []}}",
			want: EspalierToken{Audiences: &[]string{}, RequestorWorkers: ptr.To(32)},
		},
		"everything is set": {
			file: "espalier: {token: {class: garden, targetNamespace: seed-a, audiences: [a, b], requestorWorkers: 1, sameCluster: {scope: " +
				"AllNamespaces, systemServiceAccounts: [kube-system/a]}}}",
			want: EspalierToken{
				Class: ptr.To("garden"), TargetNamespace: ptr.To("seed-a"), Audiences: &[]string{"a", "b"}, RequestorWorkers: ptr.To(1),
				SameCluster: &EspalierTokenSameCluster{Scope: "AllNamespaces", SystemServiceAccounts: []string{"kube-system/a"}},
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			c := load(t, minimal+tc.file)
			g.Expect(c.Espalier.Token).To(BeComparableTo(tc.want))
			g.Expect(mistakes(c)).To(BeEmpty())
		})
	}
}

func TestEspalierTokenValues(t *testing.T) {
	g := NewWithT(t)
	g.Expect(validate(t, minimal+`espalier: {token: {class: "", targetNamespace: "", audiences: [a, ""], requestorWorkers: 0}}`)).To(ConsistOf(
		`espalier.token.class: Required value: must not be empty; remove the key to serve every class`,
		HavePrefix(`espalier.token.targetNamespace: Invalid value: "": a lowercase RFC 1123 label`),
		`espalier.token.audiences[1]: Required value: must not be empty; an empty list leaves the choice to the API server`,
		`espalier.token.requestorWorkers: Invalid value: 0: must be at least 1`,
	))
	g.Expect(validate(t, minimal+`espalier: {token: {sameCluster: {systemServiceAccounts: [a, a/, /b, a/b/c, a/b]}}}`)).To(ConsistOf(
		`espalier.token.sameCluster.systemServiceAccounts[0]: Invalid value: "a": must be <namespace>/<name> of a ServiceAccount`,
		`espalier.token.sameCluster.systemServiceAccounts[1]: Invalid value: "a/": must be <namespace>/<name> of a ServiceAccount`,
		`espalier.token.sameCluster.systemServiceAccounts[2]: Invalid value: "/b": must be <namespace>/<name> of a ServiceAccount`,
		`espalier.token.sameCluster.systemServiceAccounts[3]: Invalid value: "a/b/c": must be <namespace>/<name> of a ServiceAccount`,
	))
	g.Expect(validate(t, minimal+`espalier: {token: {sameCluster: {scope: All}}}`)).To(ConsistOf(
		HavePrefix(`espalier.token.sameCluster.scope: Unsupported value: "All"`),
	))
	g.Expect(validate(t, minimal+`espalier: {token: {class: "not a label"}}`)).To(ConsistOf(
		HavePrefix(`espalier.token.class: Invalid value: "not a label": a valid label must be`),
	))
}

func TestAMisspeltRestrictionOfTokensStopsTheProcess(t *testing.T) {
	_, _, err := ResourceManager([]byte(minimal + "espalier: {token: {targetNamspace: a}}"))
	NewWithT(t).Expect(err).To(MatchError(ContainSubstring("espalier.token.targetNamspace: unknown field; this section holds restrictions")))
}
