//go:build e2e

package managedresourcecontroller_test

import (
	"context"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	corev1beta1 "github.com/espalier-dev/espalier/api/core/v1beta1"
	resourcesv1alpha1 "github.com/espalier-dev/espalier/api/resources/v1alpha1"
)

// scene is a namespace with ManagedResources (sets) and their objects.
type scene struct{ namespace string }

// newScene returns a scene whose namespace has the label that the shipped configuration requires for ManagedResources.
func newScene(ctx context.Context) scene {
	GinkgoHelper()
	return newSceneWith(ctx, map[string]string{resourcesv1alpha1.SetsAllowedLabel: resourcesv1alpha1.SetsAllowed})
}

func newSceneWith(ctx context.Context, labels map[string]string) scene {
	GinkgoHelper()
	namespace, remove, err := c.Namespace(ctx, "mr", labels)
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(remove)
	return scene{namespace}
}

// apply creates or changes a ManagedResource and its Secret, which have the same name. Both are deleted at the end of the spec.
func (s scene) apply(ctx context.Context, name string, objects ...client.Object) {
	GinkgoHelper()
	s.write(ctx, name, objects...)
	set := &resourcesv1alpha1.ManagedResource{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: name},
		Spec:       resourcesv1alpha1.ManagedResourceSpec{SecretRefs: []corev1.LocalObjectReference{{Name: name}}},
	}
	err := c.Client.Create(ctx, set)
	if apierrors.IsAlreadyExists(err) {
		return
	}
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(func(ctx SpecContext) {
		s.remove(ctx, name)
		s.goneSet(ctx, name)
	})
}

// write writes manifests into the Secret of a ManagedResource.
func (s scene) write(ctx context.Context, name string, objects ...client.Object) {
	GinkgoHelper()
	err := c.Client.Create(ctx, s.secret(name, objects...))
	if apierrors.IsAlreadyExists(err) {
		err = c.Client.Patch(ctx, s.secret(name, objects...), client.Merge)
	}
	Expect(err).NotTo(HaveOccurred())
}

// secret returns the Secret of a ManagedResource.
func (s scene) secret(name string, objects ...client.Object) *corev1.Secret {
	GinkgoHelper()
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: name}, Data: map[string][]byte{"objects.yaml": []byte(manifests(objects...))},
	}
}

// manifests returns the objects as YAML documents in one text.
func manifests(objects ...client.Object) string {
	GinkgoHelper()
	documents := make([]string, 0, len(objects))
	for _, object := range objects {
		gvk, err := c.Client.GroupVersionKindFor(object)
		Expect(err).NotTo(HaveOccurred())
		object.GetObjectKind().SetGroupVersionKind(gvk)
		text, err := yaml.Marshal(object)
		Expect(err).NotTo(HaveOccurred())
		documents = append(documents, string(text))
	}
	return strings.Join(documents, "---\n")
}

// remove deletes a ManagedResource, and does not wait until it is gone.
func (s scene) remove(ctx context.Context, name string) {
	GinkgoHelper()
	set := &resourcesv1alpha1.ManagedResource{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: name}}
	Expect(client.IgnoreNotFound(c.Client.Delete(ctx, set))).To(Succeed())
}

func (s scene) goneSet(ctx context.Context, name string) {
	GinkgoHelper()
	s.gone(ctx, &resourcesv1alpha1.ManagedResource{ObjectMeta: metav1.ObjectMeta{Name: name}})
}

// gone waits until an object in the namespace of the scene is gone.
func (s scene) gone(ctx context.Context, object client.Object) {
	GinkgoHelper()
	key := client.ObjectKey{Namespace: s.namespace, Name: object.GetName()}
	Eventually(func(ctx context.Context) bool {
		return apierrors.IsNotFound(c.Client.Get(ctx, key, object))
	}).WithContext(ctx).Should(BeTrue(), "%T %s must go", object, key)
}

// get reads an object of the namespace.
func (s scene) get(ctx context.Context, object client.Object, name string) {
	GinkgoHelper()
	Expect(c.Client.Get(ctx, client.ObjectKey{Namespace: s.namespace, Name: name}, object)).To(Succeed())
}

// conditions returns status and reason of the conditions of a ManagedResource, by type. They may be older than a change of its objects,
// because such a change does not change the generation of the ManagedResource.
func (s scene) conditions(ctx context.Context, name string) (map[string]string, error) {
	set := &resourcesv1alpha1.ManagedResource{}
	if err := c.Client.Get(ctx, client.ObjectKey{Namespace: s.namespace, Name: name}, set); err != nil {
		return nil, err
	}
	conditions := map[string]string{}
	for _, condition := range set.Status.Conditions {
		conditions[string(condition.Type)] = string(condition.Status) + " " + condition.Reason
	}
	return conditions, nil
}

// message returns the message of one condition.
func (s scene) message(ctx context.Context, name, condition string) string {
	GinkgoHelper()
	set := &resourcesv1alpha1.ManagedResource{}
	s.get(ctx, set, name)
	for _, each := range set.Status.Conditions {
		if each.Type == corev1beta1.ConditionType(condition) {
			return each.Message
		}
	}
	return ""
}

// reports waits until conditions of a ManagedResource have these values, each as "status reason". After a change this proves something only
// if the conditions had other values before; other specs check the objects themselves.
func (s scene) reports(ctx context.Context, name string, want map[string]string) {
	GinkgoHelper()
	matchers := make([]any, 0, len(want))
	for condition, value := range want {
		matchers = append(matchers, HaveKeyWithValue(condition, value))
	}
	Eventually(s.conditions).WithContext(ctx).WithArguments(name).WithTimeout(rolloutPatience).Should(haveAll(matchers))
}

// settled returns the conditions of a healthy ManagedResource.
func settled() map[string]string {
	return map[string]string{
		"ResourcesApplied":     "True ApplySucceeded",
		"ResourcesHealthy":     "True ResourcesHealthy",
		"ResourcesProgressing": "False ResourcesRolledOut",
	}
}

// configMap returns the manifest of a ConfigMap.
func (s scene) configMap(name, value string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: name}, Data: map[string]string{"value": value}}
}

// deployment returns the manifest of a Deployment that serves HTTP, whose readiness a spec can change, and whose rollout fails after
// deadlineSeconds.
func (s scene) deployment(name string, replicas int32) *appsv1.Deployment {
	labels := map[string]string{"app": name}
	pod := c.PodSpec(corev1.RestartPolicyAlways, "serve")
	pod.Containers[0].ReadinessProbe = &corev1.Probe{PeriodSeconds: 1, ProbeHandler: corev1.ProbeHandler{HTTPGet: httpGet("/readyz")}}
	return &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: name},
		Spec: appsv1.DeploymentSpec{
			Replicas: ptr.To(replicas), ProgressDeadlineSeconds: ptr.To(deadlineSeconds), Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: pod},
		},
	}
}
