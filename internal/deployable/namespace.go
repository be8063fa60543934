package deployable

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// GardenNamespaces returns the namespaces of everything that belongs to a Garden, but that of the gateway. The operator sets their labels.
func GardenNamespaces() []client.Object {
	namespace := func(name string) client.Object {
		return &corev1.Namespace{TypeMeta: typeMeta("v1", "Namespace"), ObjectMeta: metav1.ObjectMeta{Name: name}}
	}
	return []client.Object{namespace(GardenNamespace), namespace(IstioNamespace)}
}

// NamespaceObject returns the namespace of all binaries. It takes no Pods but those of the restricted standard.
func NamespaceObject() *corev1.Namespace {
	return &corev1.Namespace{TypeMeta: typeMeta("v1", "Namespace"), ObjectMeta: metav1.ObjectMeta{Name: Namespace, Labels: map[string]string{
		"app.kubernetes.io/part-of":                  "espalier",
		"pod-security.kubernetes.io/enforce":         "restricted",
		"pod-security.kubernetes.io/enforce-version": "latest",
	}}}
}
