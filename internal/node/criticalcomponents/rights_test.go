package criticalcomponents_test

import (
	"testing"

	"github.com/go-logr/logr"
	. "github.com/onsi/gomega"
	"github.com/prometheus/client_golang/prometheus"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/espalier-dev/espalier/internal/node"
	"github.com/espalier-dev/espalier/internal/process"
	"github.com/espalier-dev/espalier/test/binary"
)

// Events about Nodes are in namespace default.
const eventsRefused = `not allowed to create, patch events.events.k8s.io in namespace "default": grant it, for example with the roles in ` +
	`deploy/node-controller`

func TestMissingRightsAreReportedAtStart(t *testing.T) {
	s := newScene(t, binary.Options{Stopped: true})
	kubeconfig, err := binary.Identity(s.Ctx, s.Target, s.Servers.Target.Config, "without-rights", s.Namespace)
	s.Expect(err).NotTo(HaveOccurred())
	s.Config.TargetClientConnection.Kubeconfig = binary.WriteKubeconfig(s.T, kubeconfig)
	needs, err := node.Needs(s.Config)
	s.Expect(err).NotTo(HaveOccurred())
	setup := &process.Setup{Program: process.Program{Name: "node-controller"}, Config: s.Config.Process()}
	_, err = setup.Connect(s.Ctx, needs)
	s.Expect(err).To(MatchError(And(
		HavePrefix("target cluster at https://"),
		ContainSubstring("not allowed to list, watch, patch nodes in all namespaces: grant it, for example with the roles in "+
			"deploy/node-controller; "+
			"not allowed to list, watch pods in all namespaces: grant it"),
		ContainSubstring("not allowed to get, list, watch csinodes.storage.k8s.io in all namespaces: grant it, for example with the roles in "+
			"deploy/node-controller; "),
		HaveSuffix(eventsRefused))))
}

func TestMissingRightsToSendEventsAreReportedAtStart(t *testing.T) {
	s := newScene(t, binary.Options{Stopped: true})
	s.replaceRights(rbacv1.PolicyRule{
		APIGroups: []string{"", "apps", "storage.k8s.io"}, Resources: []string{"nodes", "pods", "daemonsets", "csinodes"},
		Verbs: []string{"get", "list", "watch", "patch"},
	})
	needs, err := node.Needs(s.Config)
	s.Expect(err).NotTo(HaveOccurred())
	needs.SkipNameValidation = true
	start := func() error {
		setup := &process.Setup{Program: process.Program{Name: "node-controller"}, Config: s.Config.Process(), Log: logr.Discard()}
		clusters, err := setup.Connect(s.Ctx, needs)
		if err != nil {
			return err
		}
		return node.Add(s.Ctx, clusters, s.Config, prometheus.NewRegistry())
	}
	s.Eventually(start).WithTimeout(binary.Patience).Should(MatchError(
		"target cluster at " + s.Servers.Target.Config.Host + ": " + eventsRefused))
}

// replaceRights gives the ServiceAccount these rights in the target instead of its own, and returns the binding of its own rights.
func (s *scene) replaceRights(rules ...rbacv1.PolicyRule) *rbacv1.ClusterRoleBinding {
	s.T.Helper()
	rights := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: s.Namespace + "-poor"}, Rules: rules}
	s.create(rights)
	s.create(&rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: rights.Name},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: rights.Name},
		Subjects:   []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: s.Namespace, Name: "node-controller"}},
	})
	all := &rbacv1.ClusterRoleBinding{}
	s.Expect(s.Target.Get(s.Ctx, client.ObjectKey{Name: s.Namespace + "-espalier-node-controller-target"}, all)).To(Succeed())
	s.Expect(s.Target.Delete(s.Ctx, all)).To(Succeed())
	return all
}
