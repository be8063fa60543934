package rollout

import (
	"context"
	"testing"

	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/espalier-dev/espalier/api/references"
)

// configured returns an immutable Secret, and a Deployment that mounts it.
func configured(t *testing.T, content string) (*corev1.Secret, *appsv1.Deployment) {
	t.Helper()
	secret := &corev1.Secret{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"},
		ObjectMeta: metav1.ObjectMeta{Namespace: "garden", Name: "config"}, Data: map[string][]byte{"key": []byte(content)},
	}
	references.MakeSecretUnique(secret)
	deployment := &appsv1.Deployment{
		TypeMeta:   metav1.TypeMeta{APIVersion: "apps/v1", Kind: "Deployment"},
		ObjectMeta: metav1.ObjectMeta{Namespace: "garden", Name: "program"},
	}
	deployment.Spec.Template.Spec.Volumes = []corev1.Volume{{
		Name: "config", VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: secret.Name}},
	}}
	NewWithT(t).Expect(references.InjectAnnotations(deployment)).To(Succeed())
	return secret, deployment
}

// The garbage collector has found that no object refers to the Secret. It deletes the Secret at any later time unless the Secret changes.
func TestSecretThatReturnsToAFormerContentIsNotCollected(t *testing.T) {
	for sentence, collectsBefore := range map[string]string{
		"before the Deployment refers to the Secret": "Deployment", "before the Secret is retained": "Secret", "at the end": "",
	} {
		t.Run(sentence, func(t *testing.T) {
			g := NewWithT(t)
			var found *corev1.Secret // by the garbage collector
			collect := func(ctx context.Context, c client.Client) error {
				if found == nil {
					return nil
				}
				unused := found
				found = nil
				return c.Delete(ctx, unused, client.Preconditions{UID: &unused.UID, ResourceVersion: &unused.ResourceVersion})
			}
			live := fake.NewClientBuilder().Build()
			c := operator(interceptor.NewClient(live, interceptor.Funcs{Update: func(
				ctx context.Context, c client.WithWatch, o client.Object, options ...client.UpdateOption,
			) error {
				if o.GetObjectKind().GroupVersionKind().Kind == collectsBefore {
					g.Expect(collect(ctx, live)).To(Succeed())
				}
				return c.Update(ctx, o, options...)
			}}))
			former, formerDeployment := configured(t, "former")
			g.Expect(c.DeployTyped(t.Context(), former, formerDeployment)).To(Succeed())
			latter, latterDeployment := configured(t, "latter")
			g.Expect(c.DeployTyped(t.Context(), latter, latterDeployment)).To(Succeed())

			found = &corev1.Secret{}
			g.Expect(live.Get(t.Context(), client.ObjectKeyFromObject(former), found)).To(Succeed())
			g.Expect(c.DeployTyped(t.Context(), former, formerDeployment)).To(Succeed())
			_ = collect(t.Context(), live) // it conflicts
			g.Expect(live.Get(t.Context(), client.ObjectKeyFromObject(former), &corev1.Secret{})).To(Succeed())
		})
	}
}

func TestObjectsThatAreReferredToAlreadyAreNotWritten(t *testing.T) {
	g := NewWithT(t)
	live := fake.NewClientBuilder().Build()
	c := operator(live)
	secret, deployment := configured(t, "content")
	g.Expect(c.DeployTyped(t.Context(), secret, deployment)).To(Succeed())
	before, after := &corev1.Secret{}, &corev1.Secret{}
	g.Expect(live.Get(t.Context(), client.ObjectKeyFromObject(secret), before)).To(Succeed())
	deployment.Spec.Template.Spec.NodeName = "changed"
	g.Expect(c.DeployTyped(t.Context(), secret, deployment)).To(Succeed())
	g.Expect(live.Get(t.Context(), client.ObjectKeyFromObject(secret), after)).To(Succeed())
	g.Expect(after).To(BeComparableTo(before))
}
