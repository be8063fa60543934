package lifecycle_test

import (
	"context"
	"os"
	"regexp"
	"slices"
	"testing"
	"time"

	druidcorev1alpha1 "github.com/gardener/etcd-druid/api/core/v1alpha1"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	resourcesv1alpha1 "github.com/espalier-dev/espalier/api/resources/v1alpha1"
	"github.com/espalier-dev/espalier/test/binary"
)

// distance returns how many requests are between two cuts. With CRASH_SAMPLE=0 it is one, which takes hours.
func distance(sample int) int {
	if os.Getenv("CRASH_SAMPLE") == "0" {
		return 1
	}
	return sample
}

// cut runs a reconciliation that dies at a request, and then others until one succeeds.
func (s *scene) cut(at binary.Cut) (happened bool) {
	s.t.Helper()
	happened = s.die(at)
	// A busy API server can take longer to remove a definition than one reconciliation waits. Then the next reconciliation continues.
	s.Eventually(func() error { _, err := s.reconcile(); return err }, 10*binary.Patience).Should(Succeed())
	return happened
}

// die runs a reconciliation that dies at a request, unless it ends before.
func (s *scene) die(at binary.Cut) (happened bool) {
	s.t.Helper()
	ctx, die := context.WithCancel(s.t.Context())
	done := make(chan struct{})
	s.requests.CutOff(at)
	go func() {
		defer close(done)
		_, _ = s.reconciler.Reconcile(ctx, ctrl.Request{NamespacedName: types.NamespacedName{Name: "garden"}})
	}()
	s.Eventually(func() bool {
		select {
		case <-done:
			return true
		default:
			return s.requests.IsCutOff()
		}
	}, 2*binary.Patience, 5*time.Millisecond).Should(BeTrue())
	die()
	<-done
	happened = s.requests.Connect()
	s.clock.SetTime(s.clock.Now().Add(time.Minute))
	return happened
}

var unique = regexp.MustCompile("-[0-9a-f]{8}(-[0-9a-f]{5})?$")

// state lists everything that the operator is responsible for, without the parts of names that are random, and without the Secrets that
// deleted Gardens have left.
func (s *scene) state() []string {
	s.t.Helper()
	all := s.definitions(deployedGroups...)
	in := client.InNamespace(s.namespace())
	for kind, list := range map[string]client.ObjectList{
		"Deployment": &appsv1.DeploymentList{}, "Service": &corev1.ServiceList{}, "ConfigMap": &corev1.ConfigMapList{},
		"Secret":         &corev1.SecretList{},
		"ServiceAccount": &corev1.ServiceAccountList{}, "Role": &rbacv1.RoleList{}, "RoleBinding": &rbacv1.RoleBindingList{},
		"PodDisruptionBudget": &policyv1.PodDisruptionBudgetList{}, "ManagedResource": &resourcesv1alpha1.ManagedResourceList{},
		"Etcd": &druidcorev1alpha1.EtcdList{},
	} {
		if err := s.admin.List(s.t.Context(), list, in); client.IgnoreNotFound(err) != nil && !meta.IsNoMatchError(err) {
			s.Expect(err).NotTo(HaveOccurred())
		}
		s.Expect(meta.EachListItem(list, func(o runtime.Object) error {
			each, err := meta.Accessor(o)
			if _, kept := each.GetLabels()["espalier.dev/kept-credential"]; !kept {
				all = append(all, kind+" "+unique.ReplaceAllString(each.GetName(), ""))
			}
			return err
		})).To(Succeed())
	}
	ours := client.MatchingLabels{"espalier.dev/created-by": "garden-operator"}
	for kind, list := range map[string]client.ObjectList{
		"ClusterRole": &rbacv1.ClusterRoleList{}, "ClusterRoleBinding": &rbacv1.ClusterRoleBindingList{}, "Namespace": &corev1.NamespaceList{},
		"Secret": &corev1.SecretList{}, // including the Secrets of Istio
	} {
		s.Expect(s.admin.List(s.t.Context(), list, ours)).To(Succeed())
		s.Expect(meta.EachListItem(list, func(o runtime.Object) error {
			each, err := meta.Accessor(o)
			all = append(all, kind+" "+unique.ReplaceAllString(each.GetName(), ""))
			return err
		})).To(Succeed())
	}
	slices.Sort(all)
	return all
}

func TestCrashPointsOfFirstReconciliationAndDeletion(t *testing.T) {
	s := newScene(t)
	s.reconciler.Recorder = &events.FakeRecorder{} // it keeps no Events
	s.create()
	s.mustReconcile()
	want := s.state()
	s.delete()
	s.mustReconcile()
	empty := s.state()
	s.Expect(len(want)).To(BeNumerically(">", len(empty)+len(fewDefinitions)+30))

	tried := binary.EveryCut(t, distance(600), func(t *testing.T, at binary.Cut) bool {
		t.Helper()
		s.create()
		first := s.cut(at)
		s.Expect(s.get().Status.LastOperation.State).To(BeEquivalentTo("Succeeded"))
		s.Expect(s.state()).To(BeComparableTo(want))
		s.Expect(s.secrets("ca")).To(HaveLen(1))
		s.requests.Reset()
		s.mustReconcile()
		s.Expect(s.requests.Writes()).To(HaveLen(2))
		origin := string(s.get().UID)
		s.delete()
		second := s.cut(at)
		s.Expect(s.isGone()).To(BeTrue())
		ofThis := slices.DeleteFunc(s.kept(), func(each corev1.Secret) bool { return each.Labels["espalier.dev/kept-from"] != origin })
		s.Expect(ofThis).To(HaveLen(10), "keys and authorities")
		s.Expect(s.state()).To(BeComparableTo(empty))
		return first || second
	})
	s.Expect(tried).To(BeNumerically(">=", 2))
}
