// Package kubeapiserver has kube-apiserver of the virtual cluster, of Kubernetes 1.32 to 1.36.
//
// All objects are deployed directly. ConfigMaps and Secrets with configuration files are immutable and named after their content, so that a
// change rolls out; the garbage collector of the resource manager deletes those that no workload refers to. Package exposure has the
// Service.
//
// A rotation of the encryption key takes two deployments: see NewKeyPopulated.
package kubeapiserver

import (
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/espalier-dev/espalier/api/references"
	"github.com/espalier-dev/espalier/internal/garden/component/exposure"
	"github.com/espalier-dev/espalier/internal/garden/component/shared"
	"github.com/espalier-dev/espalier/internal/garden/values"
	"github.com/espalier-dev/espalier/internal/garden/versions"
)

const (
	// Name is the name of the Deployment, of its PodDisruptionBudget and of its HorizontalPodAutoscaler.
	Name = exposure.Name
	// Container is the name of the container.
	Container = "kube-apiserver"
)

// Input is what the objects depend on besides the values.
type Input struct {
	Secrets    Secrets
	References References
	// Live is the Deployment in the cluster, nil if there is none. Its replicas and its requests are kept, because autoscalers change them.
	Live *appsv1.Deployment
}

// Objects returns the objects in the order in which they are deployed. The Deployment is the last one.
func Objects(v values.Values, in Input) ([]client.Object, error) {
	image, err := v.ExternalImage(Container)
	if err != nil {
		return nil, err
	}
	parts, err := configuration(v, in)
	if err != nil {
		return nil, err
	}
	var objects []client.Object
	for _, each := range parts {
		if each.object != nil {
			objects = append(objects, each.object)
		}
	}
	d, err := deployment(v, in, image, parts)
	if err != nil {
		return nil, err
	}
	return append(objects, disruptionBudget(v), horizontalAutoscaler(v), verticalAutoscaler(v), d), nil
}

// part is a folder with configuration files, and the arguments that name them.
type part struct {
	// volume is the name of the volume; empty if there is no folder.
	volume, folder string
	// object is the immutable ConfigMap or Secret with the files; nil if others create it.
	object client.Object
	// secret is the name of a Secret that others create.
	secret string
	// private makes the files readable for the group of the process only.
	private bool
	args    []string
}

// configuration returns the configuration that consists of files.
func configuration(v values.Values, in Input) ([]part, error) {
	admission, err := admissionParts(v, in.References)
	if err != nil {
		return nil, err
	}
	authentication, err := authenticationParts(v, in.References)
	if err != nil {
		return nil, err
	}
	authorization, err := authorizationParts(v, in)
	if err != nil {
		return nil, err
	}
	encryption, err := encryptionPart(v, in.Secrets.EncryptionKeys)
	if err != nil {
		return nil, err
	}
	parts := append(auditParts(v, in.References), admission...)
	parts = append(append(parts, authentication...), authorization...)
	return append(append(parts, encryption), serverNamesParts(v, in.References)...), nil
}

// configMap returns an immutable ConfigMap.
func configMap(v values.Values, name string, data map[string]string) *corev1.ConfigMap {
	o := &corev1.ConfigMap{
		TypeMeta: shared.Type("v1", "ConfigMap"), ObjectMeta: metav1.ObjectMeta{Namespace: v.Namespace, Name: name}, Data: data,
	}
	references.MakeConfigMapUnique(o)
	return o
}

// secret returns an immutable Secret.
func secret(v values.Values, name string, labels map[string]string, data map[string][]byte) *corev1.Secret {
	o := &corev1.Secret{
		TypeMeta: shared.Type("v1", "Secret"), ObjectMeta: metav1.ObjectMeta{Namespace: v.Namespace, Name: name, Labels: labels},
		Type: corev1.SecretTypeOpaque, Data: data,
	}
	references.MakeSecretUnique(o)
	return o
}

// kubernetes returns the version of the virtual cluster, for tables.
func kubernetes(v values.Values) versions.Kubernetes { return versions.KubernetesOf(v.Kubernetes) }
