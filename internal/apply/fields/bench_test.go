package fields_test

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/espalier-dev/espalier/internal/apply/fields"
)

// BenchmarkFingerprint computes the fingerprints of 1,000 objects, as the store does for the events of a watch.
func BenchmarkFingerprint(b *testing.B) {
	ours := `{"f:metadata":{"f:annotations":{".":{},"f:resources.gardener.cloud/description":{},"f:resources.gardener.cloud/origin":{}},` +
		`"f:labels":{".":{},"f:app":{},"f:resources.gardener.cloud/managed-by":{}}},` +
		`"f:spec":{"f:progressDeadlineSeconds":{},"f:replicas":{},"f:revisionHistoryLimit":{},"f:selector":{},` +
		`"f:strategy":{"f:rollingUpdate":{".":{},"f:maxSurge":{},"f:maxUnavailable":{}},"f:type":{}},` +
		`"f:template":{"f:metadata":{"f:labels":{".":{},"f:app":{}}},"f:spec":{"f:containers":{"k:{\"name\":\"app\"}":{".":{},"f:image":{},` +
		`"f:imagePullPolicy":{},"f:name":{},"f:ports":{".":{},"k:{\"containerPort\":80,\"protocol\":\"TCP\"}":{".":{},"f:containerPort":{},` +
		`"f:protocol":{}}},"f:resources":{}}},"f:dnsPolicy":{}}}}}`
	revision := `{"f:metadata":{"f:annotations":{"f:deployment.kubernetes.io/revision":{}}},"f:status":{"f:availableReplicas":{},` +
		`"f:conditions":{".":{},"k:{\"type\":\"Available\"}":{".":{},"f:lastTransitionTime":{},"f:lastUpdateTime":{},"f:message":{},` +
		`"f:reason":{},"f:status":{},"f:type":{}}},"f:observedGeneration":{},"f:readyReplicas":{},"f:replicas":{},"f:updatedReplicas":{}}}`
	for name, object := range map[string]*metav1.ObjectMeta{
		"without_status": {
			ResourceVersion: "1", Annotations: map[string]string{"a": "b"}, ManagedFields: []metav1.ManagedFieldsEntry{entry("espalier", ours)},
		},
		"deployment": {
			ResourceVersion: "1", Annotations: map[string]string{"a": "b", "deployment.kubernetes.io/revision": "1"},
			ManagedFields: []metav1.ManagedFieldsEntry{entry("espalier", ours), entry("kube-controller-manager", revision, status)},
		},
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				for range 1000 {
					fields.Fingerprint(object)
				}
			}
		})
	}
}
