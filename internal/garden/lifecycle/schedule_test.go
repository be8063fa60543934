package lifecycle_test

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	corev1beta1 "github.com/espalier-dev/espalier/api/core/v1beta1"
	operatorv1alpha1 "github.com/espalier-dev/espalier/api/operator/v1alpha1"
	"github.com/espalier-dev/espalier/internal/garden/lifecycle"
	"github.com/espalier-dev/espalier/internal/garden/rotation"
)

func TestOperatorRequestsRotationsInMaintenanceWindows(t *testing.T) {
	const day = 24 * time.Hour
	s := newInstalledScene(t) // its window is from 21:00 to 22:00 UTC
	s.reconciler.Schedule = rotation.Schedule{OverdueAfter: 7 * day, Plans: map[rotation.Credential]rotation.Plan{
		rotation.Observability: {MaxAge: 30 * day, Automatic: true}, rotation.CertificateAuthorities: {MaxAge: 40 * day},
	}}
	s.reconciler.Issued = lifecycle.NewIssued(prometheus.NewRegistry())
	next := func() string { t.Helper(); return s.get().Annotations["espalier.dev/next-rotation"] }
	password := func() float64 {
		t.Helper()
		sample := &dto.Metric{}
		s.Expect(s.reconciler.Issued.WithLabelValues("global-observability-ingress").Write(sample)).To(Succeed())
		return sample.GetGauge().GetValue()
	}
	s.Expect(s.mustReconcile()).To(Equal(ctrl.Result{RequeueAfter: time.Hour}))
	s.Expect(next()).To(HaveSuffix(": the maximum age of the certificate authorities is 960h0m0s: request operation rotate-ca-start"))
	first := s.secrets("global-observability-ingress")[0].Name

	evening := time.Date(2026, time.March, 30, 20, 40, 0, 0, time.UTC)
	s.clock.SetTime(evening)
	s.Expect(s.mustReconcile()).To(Equal(ctrl.Result{RequeueAfter: 20 * time.Minute}), "the window opens then")
	s.Expect(s.secrets("global-observability-ingress")[0].Name).To(Equal(first))
	s.Expect(password()).To(BeNumerically("~", start.Unix(), 60))

	s.clock.SetTime(evening.Add(20 * time.Minute))
	failed := s.get()
	failed.Status.LastOperation.State = operatorv1alpha1.LastOperationError
	s.Expect(s.admin.Status().Update(t.Context(), failed)).To(Succeed())
	s.mustReconcile()
	s.Expect(s.secrets("global-observability-ingress")[0].Name).To(Equal(first), "no rotation starts while the Garden is broken")
	s.Expect(s.mustReconcile()).To(Equal(ctrl.Result{RequeueAfter: time.Hour}))
	s.event(Equal("Normal RotationScheduled The operator requests the operation rotate-observability-credentials."))
	s.Expect(s.secrets("global-observability-ingress")).To(ConsistOf(HaveField("Name", Not(Equal(first)))))
	s.Expect(password()).To(BeNumerically("~", evening.Add(20*time.Minute).Unix(), 60))
	s.Expect(s.get().Status.Credentials.Rotation.Observability.LastCompletionTime).NotTo(BeNil())

	s.requests.Reset()
	s.mustReconcile()
	s.Expect(s.requests.Writes()).To(HaveEach(HaveSuffix("/gardens/garden/status")), "the rotation is not requested again")

	// A user rotates the authorities, too late, and does not complete it.
	overdue := func() *corev1beta1.Condition {
		return corev1beta1.GetCondition(s.get().Status.Conditions, operatorv1alpha1.RotationOverdue)
	}
	s.Expect(overdue()).To(BeNil())
	s.clock.SetTime(start.Add(41 * day))
	s.mustReconcile()
	s.Expect(overdue()).To(HaveValue(And(
		HaveField("Status", corev1beta1.ConditionTrue), HaveField("Reason", "OperationNotRequested"),
		HaveField("Message", And(HavePrefix("Rotations are overdue: "), HaveSuffix(": request operation rotate-ca-start."))),
	)))
	s.edit(annotated("gardener.cloud/operation", "rotate-ca-start"))
	s.mustReconcile()
	s.Expect(overdue()).To(BeNil())
	s.Expect(next()).To(ContainSubstring("the rotation of the certificate authorities is prepared since 2026-04-10T12:00:00Z"))
	s.clock.SetTime(start.Add(49 * day))
	s.mustReconcile()
	s.Expect(overdue()).To(HaveValue(HaveField("Message", HaveSuffix(": request operation rotate-ca-complete."))))
}

func TestGardenNamesTheNextRotationThatAUserMustRequest(t *testing.T) {
	s := newInstalledScene(t)
	s.mustReconcile()
	s.Expect(s.get().Annotations["espalier.dev/next-rotation"]).To(Equal("2035-09-01T12:00:00Z: the certificate authority ca-etcd expires " +
		"at 2036-02-28T12:00:00Z: request operation rotate-ca-start"))
}

func TestOperatorCompletesNoRotationWhileTheUserSkipsItsProof(t *testing.T) {
	const day = 24 * time.Hour
	s := newInstalledScene(t)
	s.reconciler.Schedule = rotation.Schedule{OverdueAfter: 90 * day, Plans: map[rotation.Credential]rotation.Plan{
		rotation.ServiceAccountKey: {MaxAge: 30 * day, Automatic: true, CompleteAfter: 2 * day},
	}}
	virtual := s.connect(s.virtual, nil)
	seed := s.createSeed(virtual)
	s.Expect(virtual.Patch(t.Context(), seed, client.RawPatch(types.MergePatchType,
		[]byte(`{"metadata":{"annotations":{"gardener.cloud/operation":"reconcile"}}}`)))).To(Succeed())
	window := time.Date(2026, time.March, 30, 21, 0, 0, 0, time.UTC)
	s.clock.SetTime(window)
	for range 2 {
		s.mustReconcile()
		s.Expect(s.get().Status.LastOperation.Description).To(ContainSubstring("The operation rotate-serviceaccount-key-start is refused: "))
	}
	s.Expect(s.recorder.Events).NotTo(Receive(ContainSubstring("rotate-serviceaccount-key-start")))

	s.edit(annotated("espalier.dev/skipped-checks", "seeds/local"))
	s.mustReconcile()
	s.event(Equal("Normal RotationScheduled The operator requests the operation rotate-serviceaccount-key-start."))
	phase := func() operatorv1alpha1.RotationPhase {
		return s.get().Status.Credentials.Rotation.ServiceAccountKey.Phase
	}
	s.Expect(phase()).To(BeEquivalentTo("Prepared"))
	s.clock.SetTime(window.Add(3 * day))
	s.mustReconcile()
	s.Expect(phase()).To(BeEquivalentTo("Prepared"))
	s.Expect(corev1beta1.GetCondition(s.get().Status.Conditions, operatorv1alpha1.RotationOverdue)).To(HaveValue(HaveField("Message",
		ContainSubstring("a user must complete it, because the annotation espalier.dev/skipped-checks of the Garden skips the check "+
			"seeds/local"))))

	s.edit(annotated("espalier.dev/skipped-checks", ""))
	s.mustReconcile()
	s.Expect(phase()).To(BeEquivalentTo("Completed"))
}
