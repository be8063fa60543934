package health

import (
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apiextensionsv1beta1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	resourcesv1alpha1 "github.com/espalier-dev/espalier/api/resources/v1alpha1"
)

// Verdict is what the rules say of one object. The zero value is that of an object which merely has to exist.
type Verdict struct {
	// Checked tells that a rule exists for the object's kind and was applied. Unchecked objects merely have to exist.
	Checked bool
	// Unhealthy explains why the object is not healthy; "" if it is, or is unchecked.
	Unhealthy string
	// Failed explains why the check itself could not be carried out (reason HealthCheckError), because the object is not
	// shaped as its kind demands; "" normally. Nothing else is set then.
	Failed string
	// Progressing describes the rollout that is not over; "" if it is, or the kind does not roll out. Old pods of a
	// Deployment are not looked for: see Rollout.
	Progressing string
}

// HasRule tells whether objects of a kind are judged, by its group and kind; which versions can be read is another
// matter.
func HasRule(kind schema.GroupKind) bool {
	_, found := rules[kind]
	return found
}

// Judge applies the rules to an object: a typed one (k8s.io/api, or a CustomResourceDefinition of either version), which
// costs no allocation as long as all is well, or an *unstructured.Unstructured. An object of any other type has no rule,
// and neither has one that bears the annotation resources.gardener.cloud/skip-health-check, "true".
func Judge(object runtime.Object) Verdict {
	if untyped, ok := object.(*unstructured.Unstructured); ok {
		return judgeUntyped(untyped)
	}
	if skipped(object) {
		return Verdict{}
	}
	switch o := object.(type) {
	case *appsv1.Deployment:
		return judgeDeployment(o)
	case *appsv1.StatefulSet:
		return judgeStatefulSet(o)
	case *appsv1.DaemonSet:
		return judgeDaemonSet(o)
	case *appsv1.ReplicaSet:
		return judgeReplicaSet(o)
	case *corev1.ReplicationController:
		return judgeReplicationController(o)
	case *corev1.Pod:
		return judgePod(o)
	case *corev1.Service:
		return judgeService(o)
	case *batchv1.Job:
		return judgeJob(o)
	case *apiextensionsv1.CustomResourceDefinition:
		return judgeDefinition(o.Status.Conditions, conditionOfDefinition)
	case *apiextensionsv1beta1.CustomResourceDefinition:
		return judgeDefinition(o.Status.Conditions, conditionOfOldDefinition)
	}
	return Verdict{}
}

// skipped tells whether the writer of a typed object wants it left out of all checks.
func skipped(object runtime.Object) bool {
	meta, ok := object.(metav1.Object)
	return ok && meta.GetAnnotations()[resourcesv1alpha1.SkipHealthCheck] == "true"
}
