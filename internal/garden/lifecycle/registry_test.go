package lifecycle_test

import (
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	operatorv1alpha1 "github.com/espalier-dev/espalier/api/operator/v1alpha1"
	"github.com/espalier-dev/espalier/internal/garden/components"
	"github.com/espalier-dev/espalier/internal/garden/credentialtest"
)

// notHere are the credentials of programs that the scene does not run, and those that exist only during a rotation, or behind a gate.
var notHere = []string{
	"victorialogs-tls", "rotation-probe-client", "rotation-probe-token", "gardenlet-kubeconfig-bootstrap",
	"gardenlet-kubeconfig*", "bootstrap-token-*",
	"gardener-resource-manager-webhooks", "istio-ca-secret", "shoot-access-extension-admission-*", "espalier-garden-operator",
}

func TestEveryCredentialOfAGardenIsInTheRegistry(t *testing.T) {
	s := newInstalledScene(t)
	created, err := s.admin.Watch(t.Context(), &corev1.SecretList{}, client.InNamespace(s.namespace()))
	s.Expect(err).NotTo(HaveOccurred())
	access := &corev1.Secret{}
	s.Expect(s.exists(access, s.namespace(), "shoot-access-gardener-resource-manager")).To(BeTrue())
	access.Data = nil // the resource manager needs a certificate for its first token
	s.Expect(s.admin.Update(t.Context(), access)).To(Succeed())
	s.reconciler.Operator.ProjectController, s.reconciler.Operator.SkipComponents = true, nil
	s.edit(func(g *operatorv1alpha1.Garden) {
		g.Spec.VirtualCluster.ControlPlane = &operatorv1alpha1.ControlPlane{HighAvailability: &operatorv1alpha1.HighAvailability{}}
	})
	s.mustReconcile()

	var objects []*unstructured.Unstructured
	for _, each := range s.ours() {
		objects = append(objects, &each)
	}
	end := &corev1.Secret{}
	end.Namespace, end.Name = s.namespace(), "end"
	s.Expect(s.admin.Create(t.Context(), end)).To(Succeed())
	for event := range created.ResultChan() { // Secrets that were deleted meanwhile count, too
		secret, isSecret := event.Object.(*corev1.Secret)
		s.Expect(isSecret).To(BeTrue())
		if secret.Name == end.Name {
			break
		}
		object, err := runtime.DefaultUnstructuredConverter.ToUnstructured(secret)
		s.Expect(err).NotTo(HaveOccurred())
		objects = append(objects, &unstructured.Unstructured{Object: object})
		objects[len(objects)-1].SetKind("Secret")
	}
	found, unknown := credentialtest.Match(objects, components.Registry())
	s.Expect(unknown).To(BeEmpty())
	var missing []string
	for _, each := range components.Registry() {
		if found[each.Name] == 0 {
			missing = append(missing, each.Name)
		}
	}
	s.Expect(missing).To(ConsistOf(notHere))
}
