package approver_test

import (
	"regexp"
	"strings"
	"testing"

	"github.com/go-logr/logr"
	. "github.com/onsi/gomega"
	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/espalier-dev/espalier/internal/config"
	"github.com/espalier-dev/espalier/internal/csr"
	"github.com/espalier-dev/espalier/internal/process"
	"github.com/espalier-dev/espalier/test/binary"
)

func nodeName(name string) corev1.NodeAddress {
	return corev1.NodeAddress{Type: "InternalDNS", Address: name}
}

func nodeIP(ip string) corev1.NodeAddress { return corev1.NodeAddress{Type: "InternalIP", Address: ip} }

// withoutSource configures the target, which does not serve Machines, as the only cluster.
func (s *scene) withoutSource() {
	s.Config.SourceClientConnection = *s.Config.TargetClientConnection
	s.Config.TargetClientConnection = nil
}

// mayNot removes the rights to these resources from the approver's ServiceAccount: it replaces each of its cluster roles by a copy without
// them.
func (s *scene) mayNot(resources ...string) {
	s.T.Helper()
	for _, c := range []client.Client{s.Source, s.Target} {
		for _, side := range []string{"source", "target"} {
			name := "espalier-csr-approver-" + side
			binding := &rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: s.Namespace + "-" + name}}
			if client.IgnoreNotFound(c.Delete(s.Ctx, binding)) != nil {
				s.T.Fatal("cannot take away rights")
			}
			role := &rbacv1.ClusterRole{}
			s.Expect(c.Get(s.Ctx, client.ObjectKey{Name: name}, role)).To(Succeed())
			fewer := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: s.Namespace + "-fewer-" + side}, Rules: without(role.Rules, resources)}
			if client.IgnoreAlreadyExists(c.Create(s.Ctx, fewer)) != nil {
				s.T.Fatal("cannot give fewer rights")
			}
			s.Expect(client.IgnoreAlreadyExists(c.Create(s.Ctx, &rbacv1.ClusterRoleBinding{
				ObjectMeta: metav1.ObjectMeta{Name: fewer.Name},
				RoleRef:    rbacv1.RoleRef{APIGroup: "rbac.authorization.k8s.io", Kind: "ClusterRole", Name: fewer.Name},
				Subjects:   []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: s.Namespace, Name: "csr-approver"}},
			}))).To(Succeed())
		}
	}
}

func without(rules []rbacv1.PolicyRule, resources []string) []rbacv1.PolicyRule {
	var left []rbacv1.PolicyRule
	for _, rule := range rules {
		taken := false
		for _, each := range resources {
			taken = taken || rule.Resources[0] == each
		}
		if !taken {
			left = append(left, rule)
		}
	}
	return left
}

// startError starts a process with this configuration, and returns the error with which it fails.
func (s *scene) startError() error {
	s.T.Helper()
	needs, err := csr.Needs(s.Config)
	s.Expect(err).NotTo(HaveOccurred())
	needs.SkipNameValidation = true
	setup := &process.Setup{Program: process.Program{Name: "csr-approver"}, Config: s.Config.Process(), Log: logr.Discard()}
	clusters, err := setup.Connect(s.Ctx, needs)
	if err != nil {
		return err
	}
	return csr.Add(s.Ctx, clusters, s.Config, prometheus.NewRegistry())
}

func TestStartWithoutTheKindMachine(t *testing.T) {
	s := newScene(t, options{stopped: true, twoClusters: true})
	s.withoutSource()
	s.Eventually(s.startError).WithTimeout(binary.Patience).Should(MatchError(And(
		HavePrefix("source cluster at https://127.0.0.1:"),
		HaveSuffix(`: kind Machine (machine.sapcloud.io/v1alpha1) is not served: run "kubectl apply -f <CRDs of the machine controller `+
			`manager>, or set espalier.csrApprover.withoutMachines: true, which is weaker"`),
	)))
}

func TestStartWithoutRights(t *testing.T) {
	const (
		grant  = ": grant it, for example with the roles in deploy/csr-approver"
		signer = `not allowed to approve signers.certificates.k8s.io named "kubernetes.io/kubelet-serving" in all namespaces` + grant
	)
	for name, tc := range map[string]struct {
		resources  []string
		side, want string
	}{
		"to decide": {
			[]string{"certificatesigningrequests/approval", "signers"},
			"target", "not allowed to update certificatesigningrequests.certificates.k8s.io/approval in all namespaces" + grant + "; " + signer,
		},
		"for the signer": {[]string{"signers"}, "target", signer},
		"to see Machines": {
			[]string{"machines"}, "source", "not allowed to list, watch machines.machine.sapcloud.io in namespace %s" + grant,
		},
		"to see Nodes": {[]string{"nodes"}, "target", "not allowed to list, watch nodes in all namespaces" + grant},
		"to see requests": {
			[]string{"certificatesigningrequests"},
			"target", "not allowed to list, watch certificatesigningrequests.certificates.k8s.io in all namespaces" + grant,
		},
		"nothing is missing": {},
	} {
		t.Run(name, func(t *testing.T) {
			s := newScene(t, options{stopped: true, twoClusters: true})
			s.mayNot(tc.resources...)
			if tc.want == "" {
				s.Eventually(s.startError).WithTimeout(binary.Patience).Should(Succeed())
				return
			}
			s.Eventually(s.startError).WithTimeout(binary.Patience).Should(MatchError(MatchRegexp(
				"^" + tc.side + ` cluster at https://127\.0\.0\.1:\d+: ` + regexp.QuoteMeta(s.named(tc.want)) + "$")))
		})
	}
}

// named replaces the placeholder in a text by the namespace of the scene.
func (s *scene) named(text string) string {
	return strings.ReplaceAll(text, "%s", `"`+s.Namespace+`"`)
}

func TestStartWithoutTheServiceOfTheAPIServer(t *testing.T) {
	s := newScene(t, options{stopped: true, twoClusters: true, configure: func(c *config.ResourceManagerConfiguration) {
		c.Espalier.CSRApprover.DeniedIdentities.APIServer = true
	}})
	s.Expect(s.Target.Delete(s.Ctx, &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: s.Namespace + "-espalier-csr-approver-target-apiserver"},
	})).To(Succeed())
	s.Eventually(s.startError).WithTimeout(binary.Patience).Should(MatchError(And(
		HavePrefix("read Service default/kubernetes of the target: services \"kubernetes\" is forbidden: "),
		HaveSuffix("; espalier.csrApprover.deniedIdentities.apiServer needs it; grant it, for example with the roles in deploy/csr-approver"),
	)))
}

func TestStartWithoutRightsToSendEvents(t *testing.T) {
	for name, change := range map[string]func(*config.EspalierCSRApprover){
		"with Events":        func(c *config.EspalierCSRApprover) { c.Events = true },
		"with observation":   func(c *config.EspalierCSRApprover) { c.ObserveOnly = true },
		"which are not sent": nil,
	} {
		t.Run(name, func(t *testing.T) {
			s := newScene(t, options{stopped: true, twoClusters: true})
			s.Expect(s.Target.Delete(s.Ctx, &rbacv1.RoleBinding{
				ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: s.Namespace + "-espalier-csr-approver-target-events"},
			})).To(Succeed())
			if change == nil {
				s.Eventually(s.startError).WithTimeout(binary.Patience).Should(Succeed())
				return
			}
			change(&s.Config.Espalier.CSRApprover)
			s.Eventually(s.startError).WithTimeout(binary.Patience).
				Should(MatchError(And(HavePrefix("target cluster at https://127.0.0.1:"), HaveSuffix(
					`: not allowed to create, patch events.events.k8s.io in namespace "default": grant it, for example with the roles in `+
						`deploy/csr-approver`))))
		})
	}
}
