package seccompprofile_test

import (
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"github.com/espalier-dev/espalier/internal/webhook/podtest"
	"github.com/espalier-dev/espalier/internal/webhook/webhooktest"
)

func served(t *testing.T) *webhooktest.Env {
	t.Helper()
	return webhooktest.New(t, webhooktest.Options{Webhooks: "seccompProfile: {enabled: true}"})
}

func runtimeDefault() *corev1.SeccompProfile { return &corev1.SeccompProfile{Type: "RuntimeDefault"} }

func TestAcceptance11_1UnconfinedIsKept(t *testing.T) {
	t.Parallel()
	e := served(t)
	pod := podtest.Create(e, `{spec: {securityContext: {seccompProfile: {type: Unconfined}}, containers: [{name: main, image: i}]}}`)
	e.Expect(pod.Spec.SecurityContext).To(BeComparableTo(&corev1.PodSecurityContext{SeccompProfile: &corev1.SeccompProfile{Type: "Unconfined"}}))
}

// TestAcceptance11_2NoSecurityContext asks the server itself too: API servers send an empty one.
func TestAcceptance11_2NoSecurityContext(t *testing.T) {
	t.Parallel()
	e := served(t)
	pod := podtest.Create(e, `{spec: {containers: [{name: main, image: i}]}}`)
	e.Expect(pod.Spec.SecurityContext).To(BeComparableTo(&corev1.PodSecurityContext{SeccompProfile: runtimeDefault()}))
	answer := e.Review("/webhooks/seccomp-profile", `{kind: {version: v1, kind: Pod}, operation: CREATE, namespace: $NS, object: {spec: {containers: [{name: main}]}}}`)
	e.Expect(answer.Allowed).To(BeTrue())
	e.Expect(answer.Patch).To(MatchJSON(`[{"op": "add", "path": "/spec/securityContext", "value": {"seccompProfile": {"type": "RuntimeDefault"}}}]`))
}

func TestAcceptance11_3AnEmptySecurityContext(t *testing.T) {
	t.Parallel()
	e := served(t)
	pod := podtest.Create(e, `{spec: {securityContext: {}, containers: [{name: main, image: i}]}}`)
	e.Expect(pod.Spec.SecurityContext).To(BeComparableTo(&corev1.PodSecurityContext{SeccompProfile: runtimeDefault()}))
}

func TestAcceptance11_4OtherFieldsAreKept(t *testing.T) {
	t.Parallel()
	e := served(t)
	pod := podtest.Create(e, `{spec: {securityContext: {runAsUser: 3, runAsNonRoot: false, supplementalGroups: [4, 5, 6]}, containers: [{name: main, image: i}]}}`)
	e.Expect(pod.Spec.SecurityContext).To(BeComparableTo(&corev1.PodSecurityContext{
		RunAsUser: ptr.To[int64](3), RunAsNonRoot: ptr.To(false), SupplementalGroups: []int64{4, 5, 6}, SeccompProfile: runtimeDefault(),
	}))
}

func TestAcceptance11_5APodOptsOutWithAnyValue(t *testing.T) {
	t.Parallel()
	e := served(t)
	for _, value := range []string{`"true"`, `"false"`, `""`} {
		pod := podtest.Create(e, `{metadata: {labels: {seccompprofile.resources.gardener.cloud/skip: `+value+`}}, spec: {containers: [{name: main, image: i}]}}`)
		e.Expect(pod.Spec.SecurityContext).To(BeComparableTo(&corev1.PodSecurityContext{}), value)
	}
}

func TestAcceptance11_6TheServersOwnPodsStay(t *testing.T) {
	t.Parallel()
	e := served(t)
	pod := podtest.Create(e, `{metadata: {labels: {app: gardener-resource-manager}}, spec: {containers: [{name: main, image: i}]}}`)
	e.Expect(pod.Spec.SecurityContext).To(BeComparableTo(&corev1.PodSecurityContext{}))
}
