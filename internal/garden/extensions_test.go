package garden_test

import (
	"net/http"
	"testing"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/yaml"

	corev1beta1 "github.com/espalier-dev/espalier/api/core/v1beta1"
	operatorv1alpha1 "github.com/espalier-dev/espalier/api/operator/v1alpha1"
)

// extension returns an Extension named shop with a spec in YAML.
func (o *operator) extension(spec string) *operatorv1alpha1.Extension {
	o.t.Helper()
	e := &operatorv1alpha1.Extension{}
	o.Expect(yaml.UnmarshalStrict([]byte("{metadata: {name: shop}, spec: "+spec+"}"), e)).To(Succeed(), spec)
	return e
}

func TestWebhooksCheckExtensions(t *testing.T) {
	o := newOperator(t)
	err := o.admin.Create(t.Context(), o.extension("{deployment: {extension: {helm: {}}}}"))
	o.Expect(code(err)).To(BeEquivalentTo(http.StatusUnprocessableEntity), "%v", err)
	o.Expect(pathsOf(err)).To(Equal([]string{"spec.deployment.extension.helm"}))

	created := o.extension(
		`{resources: [{kind: Worker, type: a}], deployment: {extension: {helm: {ociRepository: {ref: "example.org/a:1"}}}}}`)
	o.Expect(o.admin.Create(t.Context(), created)).To(Succeed())
	o.Expect(created.Spec.Resources[0].Primary).To(Equal(ptr.To(true)))
	o.Expect(created.Spec.Deployment.ExtensionDeployment.InjectGardenKubeconfig).To(Equal(ptr.To(true)))

	err = o.change(created.DeepCopy(), "{spec: {resources: [{kind: Worker, type: a, primary: false}]}}")
	o.Expect(pathsOf(err)).To(Equal([]string{"spec.resources[0].primary"}), "%v", err)
	o.Expect(o.change(created, "{spec: {deployment: {extension: {values: {a: '{{ .x }}'}}}}}")).To(
		MatchError(ContainSubstring("spec.deployment.extension.values")))

	created.Status.Conditions = []corev1beta1.Condition{{
		Type: "RequiredVirtual", Status: "True", Reason: "Test", Message: "a Seed needs it",
		LastTransitionTime: metav1.Now(), LastUpdateTime: metav1.Now(),
	}}
	o.Expect(o.admin.Status().Update(t.Context(), created)).To(Succeed())
	err = o.admin.Delete(t.Context(), created)
	o.Expect(denial(err)).To(Equal(`extension is still being required: "a Seed needs it"`))
	created.Status.Conditions = nil
	o.Expect(o.admin.Status().Update(t.Context(), created)).To(Succeed())
	o.Expect(o.admin.Delete(t.Context(), created)).To(Succeed())
}
