package gardenlets_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	corev1beta1 "github.com/espalier-dev/espalier/api/core/v1beta1"
	seedmanagementv1alpha1 "github.com/espalier-dev/espalier/api/seedmanagement/v1alpha1"
	"github.com/espalier-dev/espalier/test/binary"
	"github.com/espalier-dev/espalier/test/local"
)

// bootstrapSecret is the Secret of the chart with the first kubeconfig of gardenlet.
const bootstrapSecret = "gardenlet-kubeconfig-bootstrap"

// objects returns all objects that the operator writes for the Gardenlet, except for the bootstrap token.
func (s *scene) objects() []client.Object {
	const rbac = "rbac.authorization.k8s.io/v1"
	all := []client.Object{
		local.NewObject("scheduling.k8s.io/v1", "PriorityClass", "", "gardener-system-critical", nil),
		local.NewObject(rbac, "Role", s.namespace, clusterRoles[0], nil),
		local.NewObject(rbac, "RoleBinding", s.namespace, clusterRoles[0], nil),
		local.NewObject("v1", "ServiceAccount", s.namespace, "gardenlet", nil),
		local.NewObject("v1", "ConfigMap", s.namespace, "gardenlet-config", nil),
		local.NewObject("v1", "Service", s.namespace, "gardenlet", nil),
		local.NewObject("v1", "Secret", s.namespace, bootstrapSecret, nil),
		local.NewObject("networking.k8s.io/v1", "NetworkPolicy", s.namespace, "allow-all-egress-from-gardenlet", nil),
		local.NewObject("policy/v1", "PodDisruptionBudget", s.namespace, "gardenlet", nil),
		local.NewObject("apps/v1", "Deployment", s.namespace, "gardenlet", nil),
	}
	for _, each := range clusterRoles {
		all = append(all, local.NewObject(rbac, "ClusterRole", "", each, nil), local.NewObject(rbac, "ClusterRoleBinding", "", each, nil))
	}
	return all
}

// drive reconciles until a run writes nothing, or the process is cut off.
func (s *scene) drive() {
	s.t.Helper()
	s.Expect(s.requests.Drive(5, func() error {
		_, err := s.reconciler.Reconcile(s.ctx, ctrl.Request{NamespacedName: client.ObjectKey{Namespace: s.namespace, Name: name}})
		return err
	})).To(Succeed())
}

// state describes the Gardenlet, the objects of its gardenlet, and the Secrets with kubeconfigs. Of the token it says only whether
// gardenlet can use it.
func (s *scene) state() []string {
	s.t.Helper()
	g := s.get()
	state := []string{
		"condition " + s.condition(), fmt.Sprint("annotations ", g.Annotations),
		fmt.Sprint("refers to a kubeconfig: ", g.Spec.KubeconfigSecretRef != nil),
		fmt.Sprint("observed: ", g.Status.ObservedGeneration == g.Generation),
	}
	for _, o := range append(s.objects(),
		local.NewObject("v1", "Secret", s.namespace, "remote", nil), local.NewObject("v1", "Secret", s.namespace, "gardenlet-kubeconfig", nil)) {
		if err := s.admin.Get(s.ctx, client.ObjectKeyFromObject(o), o); err == nil {
			state = append(state, fmt.Sprintf("%s %s", o.GetObjectKind().GroupVersionKind().Kind, o.GetName()))
		} else {
			s.Expect(err).To(MatchError(apierrors.IsNotFound, "gone"))
		}
	}
	bootstrap := &corev1.Secret{}
	if err := s.admin.Get(s.ctx, client.ObjectKey{Namespace: s.namespace, Name: bootstrapSecret}, bootstrap); err == nil {
		config, err := clientcmd.RESTConfigFromKubeConfig(bootstrap.Data["kubeconfig"])
		s.Expect(err).NotTo(HaveOccurred())
		id, secret, _ := strings.Cut(config.BearerToken, ".")
		token := s.token(id)
		s.Expect(s.admin.Get(s.ctx, client.ObjectKeyFromObject(token), token)).To(Succeed())
		state = append(state, fmt.Sprint("the token is valid: ", string(token.Data["token-secret"]) == secret))
	}
	slices.Sort(state)
	return state
}

func (s *scene) token(id string) *corev1.Secret {
	return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceSystem, Name: "bootstrap-token-" + id}}
}

// forget deletes the Gardenlet, its Seed, and all objects of its gardenlet.
func (s *scene) forget() {
	s.t.Helper()
	tokens := &corev1.SecretList{}
	s.Expect(s.admin.List(s.ctx, tokens, client.InNamespace(metav1.NamespaceSystem))).To(Succeed())
	for i := range tokens.Items {
		if tokens.Items[i].Type == corev1.SecretTypeBootstrapToken {
			s.erase(&tokens.Items[i])
		}
	}
	for _, each := range append(s.objects(), s.get(), &corev1beta1.Seed{ObjectMeta: metav1.ObjectMeta{Name: name}},
		local.NewObject("v1", "Secret", s.namespace, "remote", nil), local.NewObject("v1", "Secret", s.namespace, "gardenlet-kubeconfig", nil)) {
		s.erase(each)
	}
}

// TestCrashPointsEndInTheSameState cuts the operator off at its requests to both clusters while it deploys a gardenlet, while it ends its
// work after the registration of the Seed, and while it deploys a gardenlet again. The next process must reach the state of a run without a
// cut.
func TestCrashPointsEndInTheSameState(t *testing.T) {
	s := newScene(t)
	servers, err := local.ForTests()
	s.Expect(err).NotTo(HaveOccurred())
	s.virtual = s.requests // a process is cut off from both clusters at once
	s.push(nil)
	create := func() { s.gardenlet(nil) }
	createRemote := func() {
		s.secret("remote", string(s.kubeconfig))
		s.gardenlet(func(spec map[string]any) { spec["kubeconfigSecretRef"] = map[string]any{"name": "remote"} })
	}
	register := func() { s.seed("{}") }
	expire := func() {
		s.secret("gardenlet-kubeconfig", "expired")
		s.seed(`{"clientCertificateExpirationTimestamp": "` + s.clock.Now().Add(-time.Minute).UTC().Format(time.RFC3339) + `"}`)
		g := s.get()
		g.Annotations["gardener.cloud/operation"] = string(seedmanagementv1alpha1.OperationForceRedeploy)
		s.Expect(s.admin.Update(s.ctx, g)).To(Succeed())
	}
	for name, tc := range map[string]struct {
		acts []func()
		// every is the number of requests between two cuts. The end is a part of the state at the end.
		every int
		end   []string
	}{
		"deployment":   {[]func(){create}, 15, []string{"condition " + waits, "Deployment gardenlet", "the token is valid: true"}},
		"registration": {[]func(){createRemote, register}, 3, []string{"condition " + isDone, "refers to a kubeconfig: false"}},
		"deployment again": {
			[]func(){create, expire}, 25, []string{"condition " + isDone, "Secret " + bootstrapSecret, "the token is valid: true"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			var ends [][]string
			tried := binary.EveryCut(t, tc.every, func(t *testing.T, at binary.Cut) bool {
				t.Helper()
				s.reconciler = s.newReconciler(servers.Source.Config)
				for i, act := range tc.acts {
					act()
					if i == len(tc.acts)-1 {
						s.requests.CutOff(at)
					}
					s.drive()
				}
				happened := s.requests.Connect()
				s.reconciler = s.newReconciler(servers.Source.Config)
				s.drive()
				ends = append(ends, s.state())
				s.forget()
				return happened
			})
			s.Expect(tried).To(BeNumerically(">=", 4))
			s.Expect(ends[0]).To(ContainElements(tc.end))
			for _, each := range ends { // the last one is of the run without a cut
				s.Expect(each).To(Equal(ends[len(ends)-1]))
			}
		})
	}
}
