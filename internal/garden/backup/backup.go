// Package backup has the subcommands that save a Garden in an encrypted file, and that bring it back from the file.
//
// A backup has everything that a Garden consists of and that the operator cannot derive: the Garden with its status; the keys, certificate
// authorities and passwords, unless their rows in package components say that they are generated again; the encryption configurations of
// both API servers; the Secrets and ConfigMaps that users created for the Garden; and the Extensions. It does not have the data of the
// etcds: it names the places of their backups.
//
// The subcommand that makes a backup only reads the cluster. A restoration creates objects, and writes the status of a Garden that has no
// status yet. Meanwhile it pauses and marks the Garden with two annotations. It changes nothing else and deletes no object. If a
// restoration ends at any point, the same command continues it: see restore.go.
package backup

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	operatorv1alpha1 "github.com/espalier-dev/espalier/api/operator/v1alpha1"
	resourcesv1alpha1 "github.com/espalier-dev/espalier/api/resources/v1alpha1"
)

// Kinds of the objects in a backup.
var (
	gardenKind    = operatorv1alpha1.SchemeGroupVersion.WithKind("Garden")
	extensionKind = operatorv1alpha1.SchemeGroupVersion.WithKind("Extension")
	secretKind    = corev1.SchemeGroupVersion.WithKind("Secret")
	configMapKind = corev1.SchemeGroupVersion.WithKind("ConfigMap")
)

// kinds are the kinds in the order in which a restoration creates their objects: the Garden comes last.
var kinds = []schema.GroupVersionKind{secretKind, configMapKind, extensionKind, gardenKind}

// Backup is the content of a file.
type Backup struct {
	Manifest Manifest
	// Objects are sorted by kind, as in kinds, and by name. The last one is the Garden.
	Objects []*unstructured.Unstructured
}

// Garden returns the Garden of the backup.
func (b *Backup) Garden() (*operatorv1alpha1.Garden, error) {
	return convert[operatorv1alpha1.Garden](b.Objects[len(b.Objects)-1])
}

// Manifest describes a backup. It is the first part of a file.
type Manifest struct {
	// FormatVersion is the version of the format of the file. In files of this release, it is the value of the constant formatVersion.
	FormatVersion int `json:"formatVersion"`
	// OperatorVersion is the version of the program that made the backup.
	OperatorVersion string `json:"operatorVersion"`
	// Taken is when the cluster was read.
	Taken metav1.Time `json:"taken"`
	// Garden is the Garden.
	Garden GardenReference `json:"garden"`
	// Rotations are the phases of the rotations of its credentials, by the name of the credential.
	Rotations map[string]string `json:"rotations,omitempty"`
	// Etcds are the places of the backups of its etcds.
	Etcds []EtcdReference `json:"etcds,omitempty"`
	// Absent names the Secrets and ConfigMaps that the Garden or an Extension names, and that did not exist.
	Absent []string `json:"absent,omitempty"`
	// Objects are the objects in the order of the file.
	Objects []Entry `json:"objects"`
}

// GardenReference identifies a Garden.
type GardenReference struct {
	Name string `json:"name"`
	// Namespace is the namespace of its Secrets.
	Namespace string `json:"namespace"`
	// UID is the UID that the Garden had. A restored Garden has another one.
	UID string `json:"uid"`
	// ClusterIdentity is the identity of the virtual cluster.
	ClusterIdentity string `json:"clusterIdentity"`
}

// EtcdReference is the place of the backups of an etcd.
type EtcdReference struct {
	Name string `json:"name"`
	// Provider, Container and Prefix are the fields of the store of the Etcd, and Secret is the name of the Secret with its credentials.
	Provider  string `json:"provider"`
	Container string `json:"container"`
	Prefix    string `json:"prefix"`
	Secret    string `json:"secret,omitempty"`
}

// Entry is an object in a file.
type Entry struct {
	// File is the path of the object in the archive.
	File       string `json:"file"`
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Namespace  string `json:"namespace,omitempty"`
	Name       string `json:"name"`
	// SHA256 is the digest of the object in YAML, in hexadecimal.
	SHA256 string `json:"sha256"`
}

// describe returns kind, namespace and name of an object for users.
func describe(o *unstructured.Unstructured) string {
	return o.GetKind() + " " + strings.TrimPrefix(o.GetNamespace()+"/"+o.GetName(), "/")
}

// convert returns an object as its Go type. Errors do not contain the content.
func convert[T any](o *unstructured.Unstructured) (*T, error) {
	typed := new(T)
	if runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, typed) != nil {
		return nil, fmt.Errorf("%s is malformed", describe(o))
	}
	return typed, nil
}

// requests are the annotations by which users ask the operator to do something once with a Garden, or confirm an action. A restoration
// leaves them out, so that the action does not happen again.
var requests = []string{
	resourcesv1alpha1.GardenerOperation, operatorv1alpha1.AnnotationAbortRotation, operatorv1alpha1.AnnotationConfirmLostKeys,
	operatorv1alpha1.AnnotationConfirmLostResources, operatorv1alpha1.AnnotationConfirmLostBackups,
	operatorv1alpha1.AnnotationConfirmLostLogs, operatorv1alpha1.AnnotationConfirmLeftovers,
	operatorv1alpha1.AnnotationAbandonVirtualCluster, operatorv1alpha1.AnnotationSkippedChecks, operatorv1alpha1.AnnotationConfirmDeletion,
}

// stripped returns the parts of an object that a backup has: its name and namespace, its labels and annotations, and its content. For the
// Garden, it also keeps the status, and removes the requests of users.
func stripped(o *unstructured.Unstructured) *unstructured.Unstructured {
	kept := o.DeepCopy()
	metadata := map[string]any{"name": o.GetName()}
	if o.GetNamespace() != "" {
		metadata["namespace"] = o.GetNamespace()
	}
	kept.Object["metadata"] = metadata
	if len(o.GetLabels()) > 0 {
		kept.SetLabels(o.GetLabels())
	}
	annotations := o.GetAnnotations()
	delete(annotations, corev1.LastAppliedConfigAnnotation) // a copy of the content, which may be older
	if o.GroupVersionKind() == gardenKind {
		for _, request := range requests {
			delete(annotations, request)
		}
	}
	if len(annotations) > 0 {
		kept.SetAnnotations(annotations)
	}
	if o.GroupVersionKind() != gardenKind {
		delete(kept.Object, "status")
	}
	return kept
}
