package status

import (
	"errors"
	"testing"

	. "github.com/onsi/gomega"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/utils/ptr"

	corev1beta1 "github.com/espalier-dev/espalier/api/core/v1beta1"
	resourcesv1alpha1 "github.com/espalier-dev/espalier/api/resources/v1alpha1"
)

func TestOnlyChangedFieldsAreWritten(t *testing.T) {
	full := func() resourcesv1alpha1.ManagedResourceStatus {
		return resourcesv1alpha1.ManagedResourceStatus{
			Conditions:          []corev1beta1.Condition{{Type: "ResourcesApplied", Status: "True"}},
			ObservedGeneration:  3,
			Resources:           []resourcesv1alpha1.ObjectReference{{Labels: map[string]string{"a": "b"}}},
			SecretsDataChecksum: ptr.To("c"),
		}
	}
	for name, tc := range map[string]struct {
		change func(*resourcesv1alpha1.ManagedResourceStatus)
		want   map[string]any
	}{
		"nothing": {func(*resourcesv1alpha1.ManagedResourceStatus) {}, map[string]any{}},
		"a condition": {
			func(s *resourcesv1alpha1.ManagedResourceStatus) { s.Conditions[0].Status = "False" },
			map[string]any{"conditions": []corev1beta1.Condition{{Type: "ResourcesApplied", Status: "False"}}},
		},
		"the generation": {
			func(s *resourcesv1alpha1.ManagedResourceStatus) { s.ObservedGeneration = 4 },
			map[string]any{"observedGeneration": int64(4)},
		},
		"a label of an object": {
			func(s *resourcesv1alpha1.ManagedResourceStatus) { s.Resources[0].Labels["a"] = "c" },
			map[string]any{"resources": []resourcesv1alpha1.ObjectReference{{Labels: map[string]string{"a": "c"}}}},
		},
		"no objects any more": {
			func(s *resourcesv1alpha1.ManagedResourceStatus) { s.Resources = nil },
			map[string]any{"resources": []resourcesv1alpha1.ObjectReference(nil)},
		},
		"the checksum": {
			func(s *resourcesv1alpha1.ManagedResourceStatus) { s.SecretsDataChecksum = ptr.To("d") },
			map[string]any{"secretsDataChecksum": ptr.To("d")},
		},
		"no checksum any more": {
			func(s *resourcesv1alpha1.ManagedResourceStatus) { s.SecretsDataChecksum = nil },
			map[string]any{"secretsDataChecksum": (*string)(nil)},
		},
		"an equal checksum at its side": {
			func(s *resourcesv1alpha1.ManagedResourceStatus) { s.SecretsDataChecksum = ptr.To("c") },
			map[string]any{},
		},
	} {
		t.Run(name, func(t *testing.T) {
			next := full()
			tc.change(&next)
			NewWithT(t).Expect(differences(full(), next)).To(Equal(tc.want))
		})
	}
}

func TestErrorsAboutTooLargeObjectsAreKnown(t *testing.T) {
	for text, want := range map[string]bool{
		"etcdserver: request is too large": true,
		"rpc error: code = ResourceExhausted desc = trying to send message larger than max (3 vs. 2)": true,
		"the server was unable to return a response in the time allotted":                             false,
	} {
		NewWithT(t).Expect(isTooLarge(errors.New(text))).To(Equal(want), text)
	}
	NewWithT(t).Expect(isTooLarge(apierrors.NewRequestEntityTooLargeError("limit is 3145728"))).To(BeTrue())
}
