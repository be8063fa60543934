package lifecycle_test

import (
	"fmt"
	"strconv"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	corev1beta1 "github.com/espalier-dev/espalier/api/core/v1beta1"
	"github.com/espalier-dev/espalier/internal/garden/component/resourcemanager"
	"github.com/espalier-dev/espalier/internal/garden/lifecycle"
)

func TestExpiringAuthoritiesAreReported(t *testing.T) {
	const half, kind = 180 * 24 * time.Hour, corev1beta1.ConditionType("CertificateAuthoritiesExpire")
	s := newInstalledScene(t)
	s.reconciler.Expiry = lifecycle.NewExpiry(prometheus.NewRegistry())
	s.mustReconcile()
	sampleOf := func(name, part string) float64 {
		t.Helper()
		sample := &dto.Metric{}
		s.Expect(s.reconciler.Expiry.WithLabelValues(name, part).Write(sample)).To(Succeed())
		return sample.GetGauge().GetValue()
	}
	expiry := func(name string) float64 { t.Helper(); return sampleOf(name, "authority") }
	seconds, err := strconv.ParseInt(s.secrets("ca")[0].Labels["valid-until-time"], 10, 64)
	s.Expect(err).NotTo(HaveOccurred())
	end := time.Unix(seconds, 0).UTC()
	s.Expect(sampleOf("kube-apiserver", "certificate")).To(BeNumerically("~", seconds, 60))
	s.Expect(sampleOf("etcd-client", "certificate")).To(BeNumerically("~", seconds, 60))
	s.Expect(s.reconciler.Expiry.DeleteLabelValues(resourcemanager.BootstrapSecret, "certificate")).To(BeFalse(), "it was deleted")
	s.Expect(expiry("ca")).To(Equal(float64(seconds)))
	s.Expect(expiry("ca-garden-runtime")).To(BeNumerically("~", start.Add(30*24*time.Hour).Unix(), 60), "it renews itself")

	s.clock.SetTime(end.Add(-half))
	s.mustReconcile()
	s.Expect(corev1beta1.GetCondition(s.get().Status.Conditions, kind)).To(BeNil())

	s.clock.SetTime(end.Add(-half + time.Minute))
	s.mustReconcile()
	message := And(
		HavePrefix("Certificate authorities expire, and only a rotation replaces them. Start it with the operation rotate-ca-start: "),
		ContainSubstring(fmt.Sprintf(", ca (%s), ", end.Format(time.RFC3339))), Not(ContainSubstring("ca-garden-runtime")),
	)
	s.Expect(corev1beta1.GetCondition(s.get().Status.Conditions, kind)).To(HaveValue(And(
		HaveField("Status", corev1beta1.ConditionTrue), HaveField("Reason", "RotationRequired"), HaveField("Message", message),
	)))
	s.event(And(HavePrefix("Warning CertificateAuthoritiesExpire "), ContainSubstring(", ca (")))

	s.edit(annotated("gardener.cloud/operation", "rotate-ca-start"))
	s.mustReconcile()
	s.Expect(corev1beta1.GetCondition(s.get().Status.Conditions, kind)).To(BeNil())
	s.Expect(expiry("ca")).To(BeNumerically(">", seconds))
}
