package references_test

import (
	"maps"
	"testing"

	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	appsv1beta1 "k8s.io/api/apps/v1beta1"
	appsv1beta2 "k8s.io/api/apps/v1beta2"
	batchv1 "k8s.io/api/batch/v1"
	batchv1beta1 "k8s.io/api/batch/v1beta1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/espalier-dev/espalier/api/references"
	resourcesv1alpha1 "github.com/espalier-dev/espalier/api/resources/v1alpha1"
)

func refTo(name string) corev1.LocalObjectReference {
	return corev1.LocalObjectReference{Name: name}
}

// podSpec uses Secrets and ConfigMaps in every way that counts as a use, and in the ways that do not.
func podSpec() corev1.PodSpec {
	return corev1.PodSpec{
		InitContainers: []corev1.Container{{
			EnvFrom: []corev1.EnvFromSource{{SecretRef: &corev1.SecretEnvSource{LocalObjectReference: refTo("init")}}},
		}},
		Containers: []corev1.Container{
			{EnvFrom: []corev1.EnvFromSource{
				{SecretRef: &corev1.SecretEnvSource{LocalObjectReference: refTo("s-envfrom")}},
				{ConfigMapRef: &corev1.ConfigMapEnvSource{LocalObjectReference: refTo("c-envfrom")}},
			}},
			{Env: []corev1.EnvVar{
				{Name: "PLAIN", Value: "x"},
				{Name: "FIELD", ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: "metadata.name"}}},
				{Name: "S", ValueFrom: &corev1.EnvVarSource{SecretKeyRef: &corev1.SecretKeySelector{LocalObjectReference: refTo("s-env"), Key: "k"}}},
				{
					Name:      "C",
					ValueFrom: &corev1.EnvVarSource{ConfigMapKeyRef: &corev1.ConfigMapKeySelector{LocalObjectReference: refTo("c-env"), Key: "k"}},
				},
			}},
		},
		Volumes: []corev1.Volume{
			{Name: "empty", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}},
			{Name: "s", VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: "s-volume"}}},
			{Name: "c", VolumeSource: corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: refTo("c-volume")}}},
			{Name: "p", VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{Sources: []corev1.VolumeProjection{
				{DownwardAPI: &corev1.DownwardAPIProjection{}},
				{Secret: &corev1.SecretProjection{LocalObjectReference: refTo("s-projected")}},
				{ConfigMap: &corev1.ConfigMapProjection{LocalObjectReference: refTo("c-projected")}},
			}}}},
		},
		ImagePullSecrets: []corev1.LocalObjectReference{refTo("s-pull"), refTo("")},
	}
}

// The keys are computed with: printf %s NAME | sha256sum | cut -c 1-8
func podReferences() map[string]string {
	return map[string]string{
		"reference.resources.gardener.cloud/secret-f32d0e15":    "s-env",
		"reference.resources.gardener.cloud/secret-c8e9647c":    "s-envfrom",
		"reference.resources.gardener.cloud/secret-4db51c20":    "s-volume",
		"reference.resources.gardener.cloud/secret-bf1f2839":    "s-projected",
		"reference.resources.gardener.cloud/secret-251f5313":    "s-pull",
		"reference.resources.gardener.cloud/configmap-9d8e07bc": "c-env",
		"reference.resources.gardener.cloud/configmap-cea31f9a": "c-envfrom",
		"reference.resources.gardener.cloud/configmap-09f8f66b": "c-volume",
		"reference.resources.gardener.cloud/configmap-edcae116": "c-projected",
	}
}

func oldAnnotations() map[string]string {
	return map[string]string{
		"kept":                                "value",
		"resources.gardener.cloud/ignore":     "true",
		"reference.resources.gardener.cloud/": "stale",
		"reference.resources.gardener.cloud/secret-12345678": "stale",
	}
}

func with(references map[string]string) map[string]string {
	all := map[string]string{"kept": "value", "resources.gardener.cloud/ignore": "true"}
	maps.Copy(all, references)
	return all
}

func meta(annotations map[string]string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Name: "x", Annotations: annotations}
}

func pod(annotations map[string]string) corev1.PodTemplateSpec {
	return corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Annotations: annotations}, Spec: podSpec()}
}

// workloads returns one object of every supported kind that has a pod, with the annotations at every place where InjectAnnotations sets
// them.
func workloads(at map[string]string) map[string]runtime.Object {
	template, jobs, jobsBeta := pod(at), batchv1.JobTemplateSpec{}, batchv1beta1.JobTemplateSpec{}
	jobs.Annotations, jobs.Spec.Template = at, template
	jobsBeta.Annotations, jobsBeta.Spec.Template = at, template
	return map[string]runtime.Object{
		"Pod":                      &corev1.Pod{ObjectMeta: meta(at), Spec: podSpec()},
		"apps/v1 Deployment":       &appsv1.Deployment{ObjectMeta: meta(at), Spec: appsv1.DeploymentSpec{Template: template}},
		"apps/v1beta2 Deployment":  &appsv1beta2.Deployment{ObjectMeta: meta(at), Spec: appsv1beta2.DeploymentSpec{Template: template}},
		"apps/v1beta1 Deployment":  &appsv1beta1.Deployment{ObjectMeta: meta(at), Spec: appsv1beta1.DeploymentSpec{Template: template}},
		"apps/v1 StatefulSet":      &appsv1.StatefulSet{ObjectMeta: meta(at), Spec: appsv1.StatefulSetSpec{Template: template}},
		"apps/v1beta2 StatefulSet": &appsv1beta2.StatefulSet{ObjectMeta: meta(at), Spec: appsv1beta2.StatefulSetSpec{Template: template}},
		"apps/v1beta1 StatefulSet": &appsv1beta1.StatefulSet{ObjectMeta: meta(at), Spec: appsv1beta1.StatefulSetSpec{Template: template}},
		"apps/v1 DaemonSet":        &appsv1.DaemonSet{ObjectMeta: meta(at), Spec: appsv1.DaemonSetSpec{Template: template}},
		"apps/v1beta2 DaemonSet":   &appsv1beta2.DaemonSet{ObjectMeta: meta(at), Spec: appsv1beta2.DaemonSetSpec{Template: template}},
		"batch/v1 Job":             &batchv1.Job{ObjectMeta: meta(at), Spec: batchv1.JobSpec{Template: template}},
		"batch/v1 CronJob":         &batchv1.CronJob{ObjectMeta: meta(at), Spec: batchv1.CronJobSpec{JobTemplate: jobs}},
		"batch/v1beta1 CronJob":    &batchv1beta1.CronJob{ObjectMeta: meta(at), Spec: batchv1beta1.CronJobSpec{JobTemplate: jobsBeta}},
	}
}

func TestInjectAnnotationsIntoWorkloads(t *testing.T) {
	want := workloads(with(podReferences()))
	// All places of one object share a map here, which must not matter.
	shared := oldAnnotations()
	for name, obj := range workloads(shared) {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			g.Expect(references.InjectAnnotations(obj)).To(Succeed())
			g.Expect(obj).To(BeComparableTo(want[name]))
			g.Expect(references.InjectAnnotations(obj)).To(Succeed())
			g.Expect(obj).To(BeComparableTo(want[name]), "a second time")
		})
	}
	NewWithT(t).Expect(shared).To(Equal(oldAnnotations()))
}

func TestInjectAnnotationsIntoManagedResource(t *testing.T) {
	g := NewWithT(t)
	spec := resourcesv1alpha1.ManagedResourceSpec{SecretRefs: []corev1.LocalObjectReference{refTo("s-env"), refTo("")}}
	mr := &resourcesv1alpha1.ManagedResource{ObjectMeta: meta(oldAnnotations()), Spec: spec}
	g.Expect(references.InjectAnnotations(mr)).To(Succeed())
	g.Expect(mr).To(BeComparableTo(&resourcesv1alpha1.ManagedResource{
		ObjectMeta: meta(with(map[string]string{"reference.resources.gardener.cloud/secret-f32d0e15": "s-env"})),
		Spec:       spec,
	}))
}

func TestInjectAnnotationsWithAdditionalKeys(t *testing.T) {
	g := NewWithT(t)
	mr := &resourcesv1alpha1.ManagedResource{
		Spec: resourcesv1alpha1.ManagedResourceSpec{SecretRefs: []corev1.LocalObjectReference{refTo("s-env")}},
	}
	own := "reference.resources.gardener.cloud/secret-f32d0e15"
	g.Expect(references.InjectAnnotations(mr, "foo", "reference.resources.gardener.cloud/secret-87654321", own)).To(Succeed())
	g.Expect(mr.Annotations).To(Equal(map[string]string{
		"foo": "",
		"reference.resources.gardener.cloud/secret-87654321": "",
		own: "s-env",
	}))
}

func TestInjectAnnotationsIntoWhatUsesNothing(t *testing.T) {
	g := NewWithT(t)
	p := &corev1.Pod{ObjectMeta: meta(nil)}
	g.Expect(references.InjectAnnotations(p)).To(Succeed())
	g.Expect(p).To(BeComparableTo(&corev1.Pod{ObjectMeta: meta(nil)}))
}

func TestInjectAnnotationsRejectsOtherTypes(t *testing.T) {
	for name, tc := range map[string]struct {
		obj  runtime.Object
		want string
	}{
		"a Service":    {obj: &corev1.Service{}, want: "unhandled object type *v1.Service"},
		"a ReplicaSet": {obj: &appsv1.ReplicaSet{}, want: "unhandled object type *v1.ReplicaSet"},
		"nothing":      {obj: nil, want: "unhandled object type <nil>"},
	} {
		t.Run(name, func(t *testing.T) { NewWithT(t).Expect(references.InjectAnnotations(tc.obj)).To(MatchError(tc.want)) })
	}
}

func TestPodSpecCanBeChanged(t *testing.T) {
	for name, obj := range workloads(nil) {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			references.PodSpec(obj).NodeName = "node"
			g.Expect(references.PodSpec(obj).NodeName).To(Equal("node"))
		})
	}
	NewWithT(t).Expect(references.PodSpec(&resourcesv1alpha1.ManagedResource{})).To(BeNil())
}
