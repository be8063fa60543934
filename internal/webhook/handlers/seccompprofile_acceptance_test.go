package handlers_test

import (
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"github.com/espalier-dev/espalier/internal/webhook/webhooktest"
)

func seccompServed(t *testing.T) *webhooktest.Env {
	t.Helper()
	return webhooktest.New(t, webhooktest.Options{Webhooks: "seccompProfile: {enabled: true}"})
}

func seccompRuntimeDefault() *corev1.SeccompProfile {
	return &corev1.SeccompProfile{Type: "RuntimeDefault"}
}

func TestUnconfinedProfileIsKept(t *testing.T) {
	t.Parallel()
	e := seccompServed(t)
	pod := e.CreatePod(`{spec: {securityContext: {seccompProfile: {type: Unconfined}}, containers: [{name: main, image: i}]}}`)
	e.Expect(pod.Spec.SecurityContext).
		To(BeComparableTo(&corev1.PodSecurityContext{SeccompProfile: &corev1.SeccompProfile{Type: "Unconfined"}}))
}

// TestPodWithoutSecurityContextGetsTheProfile creates a Pod through an API server, which sends an empty security context to the webhook
// server. So the test also posts a Pod without a security context to the webhook server itself.
func TestPodWithoutSecurityContextGetsTheProfile(t *testing.T) {
	t.Parallel()
	e := seccompServed(t)
	pod := e.CreatePod(`{spec: {containers: [{name: main, image: i}]}}`)
	e.Expect(pod.Spec.SecurityContext).To(BeComparableTo(&corev1.PodSecurityContext{SeccompProfile: seccompRuntimeDefault()}))
	answer := e.Review("/webhooks/seccomp-profile", `{kind: {version: v1, kind: Pod}, operation: CREATE, namespace: $NS, object: {spec: `+
		`{containers: [{name: main}]}}}`)
	e.Expect(answer.Allowed).To(BeTrue())
	e.Expect(answer.Patch).To(MatchJSON(`[{"op": "add", "path": "/spec/securityContext", "value": {"seccompProfile": {"type": ` +
		`"RuntimeDefault"}}}]`))
}

func TestPodWithAnEmptySecurityContextGetsTheProfile(t *testing.T) {
	t.Parallel()
	e := seccompServed(t)
	pod := e.CreatePod(`{spec: {securityContext: {}, containers: [{name: main, image: i}]}}`)
	e.Expect(pod.Spec.SecurityContext).To(BeComparableTo(&corev1.PodSecurityContext{SeccompProfile: seccompRuntimeDefault()}))
}

func TestOtherFieldsOfTheSecurityContextAreKept(t *testing.T) {
	t.Parallel()
	e := seccompServed(t)
	pod := e.CreatePod(`{spec: {securityContext: {runAsUser: 3, runAsNonRoot: false, supplementalGroups: [4, 5, 6]}, containers: ` +
		`[{name: main, image: i}]}}`)
	e.Expect(pod.Spec.SecurityContext).To(BeComparableTo(&corev1.PodSecurityContext{
		RunAsUser: ptr.To[int64](3), RunAsNonRoot: ptr.To(false), SupplementalGroups: []int64{4, 5, 6}, SeccompProfile: seccompRuntimeDefault(),
	}))
}

func TestSeccompProfileIsSkippedByTheLabelWithAnyValue(t *testing.T) {
	t.Parallel()
	e := seccompServed(t)
	for _, value := range []string{`"true"`, `"false"`, `""`} {
		pod := e.CreatePod(
			`{metadata: {labels: {seccompprofile.resources.gardener.cloud/skip: ` + value + `}}, spec: {containers: [{name: main, image: i}]}}`)
		e.Expect(pod.Spec.SecurityContext).To(BeComparableTo(&corev1.PodSecurityContext{}), value)
	}
}

func TestSeccompProfileIsNotSetInTheServersOwnPods(t *testing.T) {
	t.Parallel()
	e := seccompServed(t)
	pod := e.CreatePod(`{metadata: {labels: {app: gardener-resource-manager}}, spec: {containers: [{name: main, image: i}]}}`)
	e.Expect(pod.Spec.SecurityContext).To(BeComparableTo(&corev1.PodSecurityContext{}))
}
