package lifecycle_test

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	druidcorev1alpha1 "github.com/gardener/etcd-druid/api/core/v1alpha1"
	. "github.com/onsi/gomega"
	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	corev1beta1 "github.com/espalier-dev/espalier/api/core/v1beta1"
	operatorv1alpha1 "github.com/espalier-dev/espalier/api/operator/v1alpha1"
	"github.com/espalier-dev/espalier/internal/garden/plan"
	"github.com/espalier-dev/espalier/internal/garden/upgrade"
	"github.com/espalier-dev/espalier/test/binary"
)

// operate reconciles the Garden whenever it was changed, as the process of the operator does, and records the versions of kube-apiserver.
func (s *scene) operate() (versions func() []string, end func()) {
	s.t.Helper()
	ctx, cancel := context.WithCancel(s.t.Context())
	var running sync.WaitGroup
	var mu sync.Mutex
	var seen []string
	running.Go(func() {
		events, err := s.admin.Watch(ctx, &operatorv1alpha1.GardenList{})
		if err != nil {
			s.t.Error(err)
			return
		}
		defer events.Stop()
		for event := range events.ResultChan() {
			g, is := event.Object.(*operatorv1alpha1.Garden)
			if !is || g.Generation == g.Status.ObservedGeneration {
				continue
			}
			result, err := s.reconciler.Reconcile(ctx, ctrl.Request{NamespacedName: client.ObjectKeyFromObject(g)})
			for err == nil && result.RequeueAfter < time.Second {
				result, err = s.reconciler.Reconcile(ctx, ctrl.Request{NamespacedName: client.ObjectKeyFromObject(g)})
			}
			if err != nil {
				if ctx.Err() == nil {
					s.t.Error(err)
				}
				return
			}
			image := s.apiServer().Spec.Template.Spec.Containers[0].Image
			mu.Lock()
			seen = append(seen, image[strings.LastIndex(image, ":")+1:])
			mu.Unlock()
		}
	})
	return func() []string { mu.Lock(); defer mu.Unlock(); return seen }, sync.OnceFunc(func() { cancel(); running.Wait() })
}

// beHealthy sets the conditions of the Garden, which no care reconciler does here.
func (s *scene) beHealthy(status corev1beta1.ConditionStatus) {
	s.t.Helper()
	before := s.get()
	after := before.DeepCopy()
	after.Status.Conditions = nil
	for _, each := range []corev1beta1.ConditionType{
		operatorv1alpha1.VirtualGardenAPIServerAvailable, operatorv1alpha1.RuntimeComponentsHealthy, operatorv1alpha1.VirtualComponentsHealthy,
	} {
		after.Status.Conditions = append(after.Status.Conditions, corev1beta1.Condition{
			Type: each, Status: status, Reason: "Test", Message: "a message",
			LastTransitionTime: metav1.NewTime(start), LastUpdateTime: metav1.NewTime(start),
		})
	}
	s.Expect(s.admin.Status().Patch(s.t.Context(), after, client.MergeFrom(before))).To(Succeed())
}

// upgradeTo returns an upgrade in the scene.
func (s *scene) upgradeTo(target string, out *bytes.Buffer) upgrade.Upgrade {
	s.t.Helper()
	path, err := upgrade.NewPath(target, nil)
	s.Expect(err).NotTo(HaveOccurred())
	return upgrade.Upgrade{
		Client: s.admin, Path: path, Within: 5 * binary.Patience, Out: out,
		Foresee: func(ctx context.Context, file []byte) (*plan.Plan, error) {
			foreseen := *s.reconciler
			foreseen.Client = s.admin
			return plan.Make(ctx, plan.Input{File: file, Reconciler: foreseen, Preflight: plan.Preflight{
				Reader: s.admin, Namespace: s.namespace(), Operator: s.reconciler.Operator,
				Allowed: func(context.Context, authorizationv1.ResourceAttributes) (bool, error) { return true, nil },
				Resolve: func(context.Context, string) ([]string, error) { return nil, nil },
			}})
		},
	}
}

var errInterrupted = errors.New("interrupted")

// interruptedWriter fails when it writes a text.
type interruptedWriter struct {
	bytes.Buffer
	at string
}

func (w *interruptedWriter) Write(text []byte) (int, error) {
	if bytes.Contains(text, []byte(w.at)) {
		return 0, errInterrupted
	}
	return w.Buffer.Write(text)
}

func TestUpgradeOfSeveralMinorVersionsGoesOnAfterAnInterruption(t *testing.T) {
	s := newScene(t)
	s.backups()
	s.create(backedUp, func(g *operatorv1alpha1.Garden) { g.Spec.VirtualCluster.Kubernetes.Version = "1.32.1" })
	s.mustReconcile()
	etcd := s.uidOfMainEtcd()
	s.beHealthy("True")
	var out bytes.Buffer

	// A failed backup is a refusal of the preflight, before anything is written.
	s.backup("False")
	before := s.get()
	s.Expect(s.upgradeTo("1.36", &out).Run(t.Context())).To(MatchError(And(
		ContainSubstring("the upgrade is refused: from 1.32.1 to 1.33.0"),
		ContainSubstring("backups of Etcd garden/virtual-garden-etcd-main fail"),
	)))
	s.Expect(s.get()).To(Equal(before))
	s.backup("True")

	versions, end := s.operate()
	defer end()
	interrupted := s.upgradeTo("1.36", nil)
	interrupted.Out = &interruptedWriter{at: "From 1.33.0 to 1.34.0"}
	s.Expect(interrupted.Run(t.Context())).To(MatchError(errInterrupted))
	s.Expect(s.get().Spec.VirtualCluster.Kubernetes.Version).To(Equal("1.34.0"))

	out.Reset()
	s.Expect(s.upgradeTo("1.36", &out).Run(t.Context())).To(Succeed())
	s.Expect(out.String()).To(And(
		ContainSubstring("From 1.34.0 to 1.35.0: "), ContainSubstring("From 1.35.0 to 1.36.0: "),
		HaveSuffix("The virtual cluster has Kubernetes 1.36.0.\n"),
	))
	s.Eventually(versions, binary.Patience).Should(Equal([]string{"v1.33.0", "v1.34.0", "v1.35.0", "v1.36.0"}))
	s.Expect(s.uidOfMainEtcd()).To(Equal(etcd))

	// The end of an upgrade is a healthy garden, and nothing is written again.
	s.beHealthy("False")
	waiting := s.upgradeTo("1.36", &out)
	waiting.Within = time.Second
	s.Expect(waiting.Run(t.Context())).To(MatchError(ContainSubstring("condition VirtualGardenAPIServerAvailable is False: a message")))
	end()
	s.beHealthy("True")
	s.Expect(s.upgradeTo("1.35", &out).Run(t.Context())).To(MatchError(ContainSubstring("which is later than 1.35.0")))
}

func (s *scene) uidOfMainEtcd() string {
	s.t.Helper()
	main := &druidcorev1alpha1.Etcd{}
	s.Expect(s.exists(main, s.namespace(), "virtual-garden-etcd-main")).To(BeTrue())
	return string(main.GetUID())
}
