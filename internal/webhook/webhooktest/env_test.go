package webhooktest_test

import (
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"

	"github.com/espalier-dev/espalier/internal/webhook/webhooktest"
)

func TestARealAPIServerCallsTheServer(t *testing.T) {
	t.Parallel()
	e := webhooktest.New(t, webhooktest.Options{Webhooks: "seccompProfile: {enabled: true}"})
	pod := e.CreatePod(`{metadata: {name: p}, spec: {containers: [{name: c, image: i}]}}`)
	e.Expect(pod.Spec.SecurityContext.SeccompProfile).To(HaveValue(BeComparableTo(corev1.SeccompProfile{Type: "RuntimeDefault"})))
}
