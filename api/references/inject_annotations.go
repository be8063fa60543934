package references

import (
	"fmt"
	"maps"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	appsv1beta1 "k8s.io/api/apps/v1beta1"
	appsv1beta2 "k8s.io/api/apps/v1beta2"
	batchv1 "k8s.io/api/batch/v1"
	batchv1beta1 "k8s.io/api/batch/v1beta1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	resourcesv1alpha1 "github.com/espalier-dev/espalier/api/resources/v1alpha1"
)

// InjectAnnotations annotates obj, and every template in it, with the ConfigMaps and Secrets that it uses, so that the garbage collector
// keeps them. It replaces the reference annotations of obj and keeps its other annotations. Each additional string becomes the key of an
// annotation with an empty value, unless it is the key of a ConfigMap or Secret that obj uses.
//
// It handles Pods; Deployments and StatefulSets of apps/v1, v1beta2 and v1beta1; DaemonSets of apps/v1 and v1beta2; Jobs of batch/v1;
// CronJobs of batch/v1 and v1beta1; ManagedResources. For other types, it returns an error.
func InjectAnnotations(obj runtime.Object, additional ...string) error {
	if managed, isManaged := obj.(*resourcesv1alpha1.ManagedResource); isManaged {
		inject(usedBySecretRefs(managed.Spec.SecretRefs), additional, &managed.ObjectMeta)
		return nil
	}
	spec, annotated := podSpec(obj)
	if spec == nil {
		return fmt.Errorf("unhandled object type %T", obj)
	}
	inject(usedByPod(spec), additional, annotated...)
	return nil
}

// PodSpec returns the specification of the Pods of a workload, for callers that change it; nil for an object without Pods. It handles the
// same types as InjectAnnotations.
func PodSpec(obj runtime.Object) *corev1.PodSpec {
	spec, _ := podSpec(obj)
	return spec
}

// podSpec also returns the metadata of the workload and of every template in it.
func podSpec(obj runtime.Object) (*corev1.PodSpec, []*metav1.ObjectMeta) {
	switch o := obj.(type) {
	case *corev1.Pod:
		return &o.Spec, []*metav1.ObjectMeta{&o.ObjectMeta}
	case *appsv1.Deployment:
		return podSpecOfTemplate(&o.Spec.Template, &o.ObjectMeta)
	case *appsv1beta2.Deployment:
		return podSpecOfTemplate(&o.Spec.Template, &o.ObjectMeta)
	case *appsv1beta1.Deployment:
		return podSpecOfTemplate(&o.Spec.Template, &o.ObjectMeta)
	case *appsv1.StatefulSet:
		return podSpecOfTemplate(&o.Spec.Template, &o.ObjectMeta)
	case *appsv1beta2.StatefulSet:
		return podSpecOfTemplate(&o.Spec.Template, &o.ObjectMeta)
	case *appsv1beta1.StatefulSet:
		return podSpecOfTemplate(&o.Spec.Template, &o.ObjectMeta)
	case *appsv1.DaemonSet:
		return podSpecOfTemplate(&o.Spec.Template, &o.ObjectMeta)
	case *appsv1beta2.DaemonSet:
		return podSpecOfTemplate(&o.Spec.Template, &o.ObjectMeta)
	case *batchv1.Job:
		return podSpecOfTemplate(&o.Spec.Template, &o.ObjectMeta)
	case *batchv1.CronJob:
		return podSpecOfTemplate(&o.Spec.JobTemplate.Spec.Template, &o.ObjectMeta, &o.Spec.JobTemplate.ObjectMeta)
	case *batchv1beta1.CronJob:
		return podSpecOfTemplate(&o.Spec.JobTemplate.Spec.Template, &o.ObjectMeta, &o.Spec.JobTemplate.ObjectMeta)
	}
	return nil, nil
}

func podSpecOfTemplate(template *corev1.PodTemplateSpec, owners ...*metav1.ObjectMeta) (*corev1.PodSpec, []*metav1.ObjectMeta) {
	return &template.Spec, append(owners, &template.ObjectMeta)
}

func inject(u used, additional []string, targets ...*metav1.ObjectMeta) {
	for _, key := range additional {
		if _, inUse := u[key]; !inUse {
			u[key] = ""
		}
	}
	for _, target := range targets {
		target.Annotations = withReferences(target.Annotations, u)
	}
}

// withReferences returns the annotations with the references u in place of earlier references. It returns a new map, because an object and
// its template may share one.
func withReferences(annotations map[string]string, u used) map[string]string {
	annotated := make(map[string]string, len(annotations)+len(u))
	maps.Copy(annotated, annotations)
	maps.DeleteFunc(annotated, func(key, _ string) bool { return strings.HasPrefix(key, resourcesv1alpha1.ReferencePrefix) })
	maps.Copy(annotated, u)
	if len(annotated) == 0 {
		return nil
	}
	return annotated
}
