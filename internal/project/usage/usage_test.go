package usage_test

import (
	"slices"
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	corev1beta1 "github.com/espalier-dev/espalier/api/core/v1beta1"
	securityv1alpha1 "github.com/espalier-dev/espalier/api/security/v1alpha1"
	"github.com/espalier-dev/espalier/internal/project/served"
	"github.com/espalier-dev/espalier/internal/project/usage"
)

// caches has objects by "<kind> <index> <key>". All kinds are served except for those in states.
type caches struct {
	objects map[string][]*served.Object
	states  map[served.Kind]served.Finding
}

func (c caches) Finding(kind served.Kind) served.Finding {
	if finding, ok := c.states[kind]; ok {
		return finding
	}
	return served.Finding{State: "served"}
}

func (c caches) Objects(kind served.Kind, index, key string) ([]*served.Object, served.Finding) {
	finding := c.Finding(kind)
	if finding.State != "served" {
		return nil, finding
	}
	return c.objects[string(kind)+" "+index+" "+key], finding
}

func objectOf(name string, labels map[string]string) *served.Object {
	return served.Of(&metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, Labels: labels}})
}

func TestLook(t *testing.T) {
	shoot := served.Of(&corev1beta1.Shoot{
		ObjectMeta: metav1.ObjectMeta{Namespace: "other", Name: "s"}, Spec: corev1beta1.ShootSpec{SecretBindingName: ptr.To("b")},
	})
	binding := served.Of(&corev1beta1.SecretBinding{
		ObjectMeta: metav1.ObjectMeta{Namespace: "other", Name: "b"}, SecretRef: corev1.SecretReference{Namespace: "ns", Name: "c"},
	})
	down, starting, absent := served.Finding{State: "unknown", Why: "down"}, served.Finding{State: "unknown"}, served.Finding{State: "absent"}
	bound := map[string][]*served.Object{
		"SecretBinding credentials-namespace ns": {binding}, "Shoot namespace/secretbinding other/b": {shoot},
		"Secret namespace ns": {objectOf("c", nil)},
	}
	credentials := func(kind string) []*served.Object {
		return []*served.Object{served.Of(&securityv1alpha1.CredentialsBinding{
			ObjectMeta:     metav1.ObjectMeta{Namespace: "other", Name: "b"},
			CredentialsRef: corev1.ObjectReference{Kind: kind, Namespace: "ns", Name: "c"},
		})}
	}
	const byCredentials, shootOf = "CredentialsBinding credentials-namespace ns", "Shoot namespace/credentialsbinding other/b"
	secret := []*served.Object{objectOf("c", nil)}
	for name, tc := range map[string]struct {
		objects map[string][]*served.Object
		states  map[served.Kind]served.Finding
		want    usage.Verdict
	}{
		"nothing": {},
		"a Shoot": {objects: map[string][]*served.Object{"Shoot namespace ns": {shoot}}, want: usage.Verdict{By: "Shoot"}},
		"a Plant": {objects: map[string][]*served.Object{"Plant namespace ns": {objectOf("p", nil)}}, want: usage.Verdict{By: "Plant"}},
		"a BackupEntry": {
			objects: map[string][]*served.Object{"BackupEntry namespace ns": {objectOf("b", nil)}}, want: usage.Verdict{By: "BackupEntry"},
		},
		"a Secret": {objects: bound, want: usage.Verdict{By: "Secret"}},
		"a Secret that is made for a Shoot": {objects: map[string][]*served.Object{
			"SecretBinding credentials-namespace ns": {binding}, "Shoot namespace/secretbinding other/b": {shoot},
			"Secret namespace ns": {objectOf("c", map[string]string{"gardener.cloud/role": "ssh-keypair"})},
		}},
		"a binding without Secret": {
			objects: map[string][]*served.Object{
				"SecretBinding credentials-namespace ns": {binding}, "Shoot namespace/secretbinding other/b": {shoot},
				"Secret namespace ns": {objectOf("d", nil)},
			},
		},
		"a binding without Shoot": {
			objects: map[string][]*served.Object{"SecretBinding credentials-namespace ns": {binding}, "Secret namespace ns": {objectOf("c", nil)}},
		},
		"a Quota": {objects: map[string][]*served.Object{
			"Quota namespace ns": {objectOf("q", nil)}, "SecretBinding quota-namespace/quota ns/q": {binding},
			"Shoot namespace/secretbinding other/b": {shoot},
		}, want: usage.Verdict{By: "Quota"}},
		"a Secret of a CredentialsBinding": {
			objects: map[string][]*served.Object{byCredentials: credentials("Secret"), shootOf: {shoot}, "Secret namespace ns": secret},
			want:    usage.Verdict{By: "Secret"},
		},
		"a CredentialsBinding without Secret": {objects: map[string][]*served.Object{byCredentials: credentials("Secret"), shootOf: {shoot}}},
		"a CredentialsBinding without Shoot": {
			objects: map[string][]*served.Object{byCredentials: credentials("Secret"), "Secret namespace ns": secret},
		},
		"a CredentialsBinding whose name is that of the SecretBinding of a Shoot": {
			objects: map[string][]*served.Object{
				byCredentials: credentials("Secret"), "Shoot namespace/secretbinding other/b": {shoot}, "Secret namespace ns": secret,
			},
		},
		"a WorkloadIdentity": {
			objects: map[string][]*served.Object{byCredentials: credentials("WorkloadIdentity"), shootOf: {shoot}},
			want:    usage.Verdict{By: "CredentialsBinding"},
		},
		"a WorkloadIdentity without Shoot": {objects: map[string][]*served.Object{byCredentials: credentials("WorkloadIdentity")}},
		"a Quota of a CredentialsBinding": {
			objects: map[string][]*served.Object{
				"Quota namespace ns": {objectOf("q", nil)}, "CredentialsBinding quota-namespace/quota ns/q": credentials("Secret"), shootOf: {shoot},
			},
			states: map[served.Kind]served.Finding{"SecretBinding": absent}, want: usage.Verdict{By: "Quota"},
		},
		"CredentialsBindings cannot be read": {
			states: map[served.Kind]served.Finding{"CredentialsBinding": down}, want: usage.Verdict{Undecided: true, Why: "down"},
		},
		"CredentialsBindings cannot be read, a Secret": {
			objects: bound, states: map[served.Kind]served.Finding{"CredentialsBinding": down}, want: usage.Verdict{By: "Secret"},
		},
		"CredentialsBindings are not served": {states: map[served.Kind]served.Finding{"CredentialsBinding": absent}},
		"no Shoots":                          {states: map[served.Kind]served.Finding{"Shoot": absent}, want: usage.Verdict{WithoutShoots: true}},
		"no Shoots, bindings are down": {
			states: map[served.Kind]served.Finding{"Shoot": absent, "SecretBinding": down}, want: usage.Verdict{WithoutShoots: true},
		},
		"Shoots are down": {
			states: map[served.Kind]served.Finding{"Shoot": down}, want: usage.Verdict{Undecided: true, Why: "down"},
		},
		"Plants are down": {
			states: map[served.Kind]served.Finding{"Plant": down}, want: usage.Verdict{Undecided: true, Why: "down"},
		},
		"BackupEntries not known yet": {
			states: map[served.Kind]served.Finding{"BackupEntry": starting}, want: usage.Verdict{Undecided: true},
		},
		"bindings are down": {
			states: map[served.Kind]served.Finding{"SecretBinding": down}, want: usage.Verdict{Undecided: true, Why: "down"},
		},
		"Quotas are down": {
			states: map[served.Kind]served.Finding{"Quota": down}, want: usage.Verdict{Undecided: true, Why: "down"},
		},
		"Secrets are down, none used": {states: map[served.Kind]served.Finding{"Secret": down}},
		"Secrets are down, one is used": {
			objects: bound, states: map[served.Kind]served.Finding{"Secret": down}, want: usage.Verdict{Undecided: true, Why: "down"},
		},
		"Shoots are down, a Plant": {
			objects: map[string][]*served.Object{"Plant namespace ns": {objectOf("p", nil)}}, states: map[served.Kind]served.Finding{"Shoot": down},
			want: usage.Verdict{By: "Plant"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			NewWithT(t).Expect(usage.CheckCaches(caches{tc.objects, tc.states}, "ns")).To(Equal(tc.want))
		})
	}
}

func TestKindsAreThoseThatCountAsUse(t *testing.T) {
	kinds := served.Kinds()
	slices.Sort(kinds)
	NewWithT(t).Expect(kinds).
		To(Equal([]served.Kind{"BackupEntry", "CredentialsBinding", "Plant", "Quota", "Secret", "SecretBinding", "Shoot"}))
}
