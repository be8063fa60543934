package garbagecollector

import (
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	batchv1beta1 "k8s.io/api/batch/v1beta1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	resourcesv1alpha1 "github.com/espalier-dev/espalier/api/resources/v1alpha1"
)

// referrer is a kind whose annotations can reference ConfigMaps and Secrets.
type referrer struct {
	kind     string
	resource string
	// versions are those that may serve it: the first one that is served is used, because each of them lists all objects.
	versions []schema.GroupVersion
}

// referrers lists workloads before their Pods, because a reference moves from a workload to its Pods.
func referrers() []referrer {
	return []referrer{
		{"ManagedResource", "managedresources", []schema.GroupVersion{resourcesv1alpha1.SchemeGroupVersion}},
		{"Prometheus", "prometheuses", []schema.GroupVersion{{Group: "monitoring.coreos.com", Version: "v1"}}},
		{"Deployment", "deployments", []schema.GroupVersion{appsv1.SchemeGroupVersion}},
		{"StatefulSet", "statefulsets", []schema.GroupVersion{appsv1.SchemeGroupVersion}},
		{"DaemonSet", "daemonsets", []schema.GroupVersion{appsv1.SchemeGroupVersion}},
		// Kubernetes before 1.21 serves the older version only.
		{"CronJob", "cronjobs", []schema.GroupVersion{batchv1.SchemeGroupVersion, batchv1beta1.SchemeGroupVersion}},
		{"Job", "jobs", []schema.GroupVersion{batchv1.SchemeGroupVersion}},
		{"Pod", "pods", []schema.GroupVersion{corev1.SchemeGroupVersion}},
	}
}
