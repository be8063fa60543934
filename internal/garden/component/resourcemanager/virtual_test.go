package resourcemanager_test

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	corev1beta1 "github.com/espalier-dev/espalier/api/core/v1beta1"
	resourcesv1alpha1 "github.com/espalier-dev/espalier/api/resources/v1alpha1"
	"github.com/espalier-dev/espalier/internal/garden/component/resourcemanager"
	"github.com/espalier-dev/espalier/internal/secrets"
	secretconfig "github.com/espalier-dev/espalier/internal/secrets/config"
)

var now = time.Date(2026, time.March, 4, 5, 6, 7, 0, time.UTC)

// access returns the Secret with a token that is renewed at a time.
func access(renewal string) *corev1.Secret {
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{
			"serviceaccount.resources.gardener.cloud/token-renew-timestamp": renewal,
		}},
		Data: map[string][]byte{"token": []byte("abc")},
	}
}

func set(applied corev1beta1.ConditionStatus, message string) *resourcesv1alpha1.ManagedResource {
	return &resourcesv1alpha1.ManagedResource{Status: resourcesv1alpha1.ManagedResourceStatus{Conditions: []corev1beta1.Condition{
		{Type: resourcesv1alpha1.ResourcesApplied, Status: applied, Message: message},
		{Type: resourcesv1alpha1.ResourcesHealthy, Status: corev1beta1.ConditionTrue},
	}}}
}

// deployment returns a Deployment that is available or not.
func deployment(available corev1.ConditionStatus) *appsv1.Deployment {
	return &appsv1.Deployment{Status: appsv1.DeploymentStatus{Conditions: []appsv1.DeploymentCondition{
		{Type: appsv1.DeploymentAvailable, Status: available},
	}}}
}

func TestBootstrapIsNeededWithoutATokenOrRights(t *testing.T) {
	const future = "2026-03-04T06:00:00Z"
	withoutToken := access(future)
	withoutToken.Data = map[string][]byte{"token": {}}
	applied := set(corev1beta1.ConditionTrue, "All resources are applied.")
	for sentence, tc := range map[string]struct {
		access *corev1.Secret
		set    *resourcesv1alpha1.ManagedResource
		tokens *appsv1.Deployment
		reason string // of the bootstrap; "" for none
		lacks  string // after it; "" for nothing
	}{
		"no Secret": {
			set: applied, reason: "there is no Secret shoot-access-gardener-resource-manager",
			lacks: "there is no Secret shoot-access-gardener-resource-manager",
		},
		"no token": {
			access: withoutToken, set: applied, reason: "Secret shoot-access-gardener-resource-manager has no token",
			lacks: "Secret shoot-access-gardener-resource-manager has no token",
		},
		"a token that is to be renewed": {
			access: access(""), set: applied, reason: "Secret shoot-access-gardener-resource-manager does not say when its token is renewed",
			lacks: "Secret shoot-access-gardener-resource-manager does not say when its token is renewed",
		},
		"a renewal that did not happen": {
			access: access("2026-03-04T05:05:07Z"), set: applied,
			reason: "the token in Secret shoot-access-gardener-resource-manager was not renewed at 2026-03-04T05:05:07Z",
			lacks:  "the token in Secret shoot-access-gardener-resource-manager was not renewed at 2026-03-04T05:05:07Z",
		},
		"a renewal that may be in progress": {
			access: access("2026-03-04T05:05:08Z"), set: applied,
			lacks: "the token in Secret shoot-access-gardener-resource-manager was not renewed at 2026-03-04T05:05:08Z",
		},
		"no ManagedResource": {
			access: access(future), reason: "there is no ManagedResource shoot-core-gardener-resource-manager",
			lacks: "there is no ManagedResource shoot-core-gardener-resource-manager",
		},
		"a missing right": {
			access: access(future), set: set(corev1beta1.ConditionFalse,
				`clusterroles is forbidden: User "system:serviceaccount:kube-system:gardener-resource-manager" cannot list resource`),
			reason: `the virtual cluster refuses its requests: clusterroles is forbidden: User ` +
				`"system:serviceaccount:kube-system:gardener-resource-manager" cannot list resource`,
			lacks: `condition ResourcesApplied of managed resource / is False: clusterroles is forbidden: User ` +
				`"system:serviceaccount:kube-system:gardener-resource-manager" cannot list resource`,
		},
		"a token that is not accepted": {
			access: access(future), set: set(corev1beta1.ConditionFalse, "get namespaces: Unauthorized"),
			reason: "the virtual cluster refuses its requests: get namespaces: Unauthorized",
			lacks:  "condition ResourcesApplied of managed resource / is False: get namespaces: Unauthorized",
		},
		"a right that another client misses": {
			access: access(future), set: set(corev1beta1.ConditionFalse, `pods is forbidden: User "other" cannot list resource`),
			lacks: `condition ResourcesApplied of managed resource / is False: pods is forbidden: User "other" cannot list resource`,
		},
		"a ManagedResource that has no condition yet": {
			access: access(future), set: &resourcesv1alpha1.ManagedResource{},
			lacks: "condition ResourcesApplied for managed resource / has not been reported yet",
		},
		"a token that nothing accepts, so that its user does not start": {
			access: access(future), set: applied, tokens: deployment(corev1.ConditionFalse),
			reason: "Deployment virtual-garden-gardener-resource-manager-tokens has too few available replicas; they do not start if the virtual " +
				"cluster refuses its token",
		},
		"nothing missing": {access: access(future), set: applied, tokens: deployment(corev1.ConditionTrue)},
	} {
		t.Run(sentence, func(t *testing.T) {
			g := NewWithT(t)
			g.Expect(resourcemanager.BootstrapReason(tc.access, tc.set, tc.tokens, now)).To(Equal(tc.reason))
			err := resourcemanager.Bootstrapped(tc.access, tc.set, now)
			if tc.lacks == "" {
				g.Expect(err).NotTo(HaveOccurred())
				return
			}
			g.Expect(err).To(MatchError(tc.lacks))
		})
	}
}

func TestBootstrapRequest(t *testing.T) {
	const name = "shoot-access-gardener-resource-manager-bootstrap"
	NewWithT(t).Expect(resourcemanager.BootstrapRequest([]byte("bundle"))).To(Equal(secrets.Request{
		SignedBy: "ca-client", Labels: map[string]string{"resources.gardener.cloud/garbage-collectable-reference": "true"},
		Config: secretconfig.ControlPlane{
			Name: name,
			Certificate: &secretconfig.Certificate{
				Name: name, CommonName: "gardener.cloud:system:gardener-resource-manager", Organization: []string{"system:masters"},
				Type: secretconfig.Client, Validity: ptr.To(10 * time.Minute),
			},
			Kubeconfigs: []secretconfig.KubeconfigRequest{{
				ClusterName: "garden", APIServerHost: "virtual-garden-kube-apiserver", CAData: []byte("bundle"),
			}},
		},
	}))
}

// With a ServiceAccount of the runtime cluster that reads Secrets of all namespaces, an attacker could do as much as with all rights.
func TestVirtualResourceManagerHasRightsInItsNamespaceOnly(t *testing.T) {
	g := NewWithT(t)
	all, err := resourcemanager.VirtualObjects(variants()["full"], withToken())
	g.Expect(err).NotTo(HaveOccurred())
	for _, each := range all {
		g.Expect(each.GetNamespace()).To(Or(Equal("garden"), BeEmpty()), each.GetName())
		switch o := each.(type) {
		case *rbacv1.ClusterRole:
			g.Expect(o.Rules).To(Equal([]rbacv1.PolicyRule{{
				APIGroups: []string{""}, Resources: []string{"namespaces"}, ResourceNames: []string{"kube-system"}, Verbs: []string{"get"},
			}}), o.Name)
		case *rbacv1.ClusterRoleBinding:
			g.Expect(o.RoleRef.Name).NotTo(Equal("cluster-admin"))
		}
	}
}
