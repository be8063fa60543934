package virtual

import (
	"testing"

	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	operatorv1alpha1 "github.com/espalier-dev/espalier/api/operator/v1alpha1"
)

// The webhook may have been away when the Garden was changed.
func TestResourcesMoveBetweenEtcdsOnlyIfTheUserConfirmsIt(t *testing.T) {
	live := &appsv1.Deployment{}
	live.Spec.Template.Spec.Containers = []corev1.Container{{
		Args: []string{"--etcd-servers-overrides=/events#https://a,coordination.k8s.io/leases#https://a"},
	}}
	leases := operatorv1alpha1.GroupResource{Group: "coordination.k8s.io", Resource: "leases"}
	for sentence, tc := range map[string]struct {
		wanted    []operatorv1alpha1.GroupResource
		confirmed []string
		want      string
	}{
		"nothing moves": {wanted: []operatorv1alpha1.GroupResource{leases}},
		"a resource moves": {want: "spec.virtualCluster.kubernetes.kubeAPIServer.resourcesToStoreInETCDEvents: Forbidden: existing objects " +
			"would stay in the other etcd and be lost for the virtual cluster; restore the former entries, or confirm the loss with the " +
			"annotation espalier.dev/confirm-lost-resources=leases.coordination.k8s.io"},
		"the user confirms it": {confirmed: []string{"leases.coordination.k8s.io"}},
	} {
		t.Run(sentence, func(t *testing.T) {
			c := checks{confirmedLosses: tc.confirmed}
			c.values.KubeAPIServer.ResourcesToStoreInETCDEvents = tc.wanted
			if err := c.checkMoves(live); tc.want != "" {
				NewWithT(t).Expect(err).To(MatchError(tc.want))
			} else {
				NewWithT(t).Expect(err).NotTo(HaveOccurred())
			}
		})
	}
}
