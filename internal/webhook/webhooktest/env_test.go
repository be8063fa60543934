package webhooktest_test

import (
	"testing"

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/espalier-dev/espalier/internal/webhook/webhooktest"
)

func TestARealAPIServerCallsTheServer(t *testing.T) {
	t.Parallel()
	e := webhooktest.New(t, webhooktest.Options{Webhooks: "seccompProfile: {enabled: true}"})
	pod, err := e.Create(`{apiVersion: v1, kind: Pod, metadata: {name: p}, spec: {containers: [{name: c, image: i}]}}`)
	e.Expect(err).NotTo(HaveOccurred())
	kind, _, _ := unstructured.NestedString(pod.Object, "spec", "securityContext", "seccompProfile", "type")
	e.Expect(kind).To(Equal("RuntimeDefault"))
}
