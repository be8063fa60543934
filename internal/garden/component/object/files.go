package object

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/espalier-dev/espalier/api/references"
)

// ConfigMap returns a ConfigMap.
func (o Owner) ConfigMap(name string, data map[string]string) *corev1.ConfigMap {
	return &corev1.ConfigMap{TypeMeta: Type("v1", "ConfigMap"), ObjectMeta: o.Meta(name), Data: data}
}

// UniqueConfigMap returns an immutable ConfigMap, whose name ends with a checksum of the data.
func (o Owner) UniqueConfigMap(name string, data map[string]string) *corev1.ConfigMap {
	config := o.ConfigMap(name, data)
	references.MakeConfigMapUnique(config)
	return config
}

// UniqueSecret returns an immutable Secret, whose name ends with a checksum of the data.
func UniqueSecret(namespace, name string, labels map[string]string, data map[string][]byte) *corev1.Secret {
	o := &corev1.Secret{
		TypeMeta: Type("v1", "Secret"), ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: labels},
		Type: corev1.SecretTypeOpaque, Data: data,
	}
	references.MakeSecretUnique(o)
	return o
}
