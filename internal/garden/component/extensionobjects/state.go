// Package extensionobjects returns the objects of extensions.gardener.cloud that belong to the Garden: the DNSRecords of its domains, the
// BackupBucket and the BackupEntry of its main etcd, and the Extensions that it activates. All these objects are of class garden. The
// operator writes them, and the controller of an extension answers in their status.
package extensionobjects

import (
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	extensionsv1alpha1 "github.com/espalier-dev/espalier/api/extensions/v1alpha1"
	resourcesv1alpha1 "github.com/espalier-dev/espalier/api/resources/v1alpha1"
)

// Kinds of the objects.
var (
	DNSRecordKind    = extensionsv1alpha1.SchemeGroupVersion.WithKind("DNSRecord")
	BackupBucketKind = extensionsv1alpha1.SchemeGroupVersion.WithKind("BackupBucket")
	BackupEntryKind  = extensionsv1alpha1.SchemeGroupVersion.WithKind("BackupEntry")
	ExtensionKind    = extensionsv1alpha1.SchemeGroupVersion.WithKind("Extension")
)

// succeeded is the state of a last operation that has ended as desired.
const succeeded = "Succeeded"

// State contains the fields of an object that show its progress. The objects of all kinds in this package have these fields.
type State struct {
	metav1.ObjectMeta `json:"metadata"`

	Status extensionsv1alpha1.DefaultStatus `json:"status"`
}

// StateOf returns the state of an object.
func StateOf(live *unstructured.Unstructured) (State, error) {
	var s State
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(live.Object, &s); err != nil {
		return State{}, fmt.Errorf("read status of %s %s: %w", live.GetKind(), live.GetName(), err)
	}
	return s, nil
}

// Problem returns why the controller of the extension has not completed the last request, or "".
func (s State) Problem() string {
	operation := s.Status.LastOperation
	switch {
	case s.DeletionTimestamp != nil:
		return "it is being deleted"
	case s.isRequested():
		return "no controller has begun to reconcile it"
	case s.Status.LastError != nil:
		return "its controller reports an error: " + s.Status.LastError.Description
	case operation == nil || s.Status.ObservedGeneration != s.Generation:
		return "its controller has not reconciled it yet"
	case operation.State != succeeded:
		return fmt.Sprintf("its last operation is in state %s: %s", operation.State, operation.Description)
	}
	return ""
}

// secretRevision is an annotation of an object. Its value is the revision (UID and resource version) that the Secret of the object had
// when the operator last requested a reconciliation. Missing: the operator has requested none, or the object had no Secret in the
// namespace of the Garden.
const secretRevision = "espalier.dev/secret-revision"

// NeedsRequest reports whether the operator must request a reconciliation of an object. Revision is the revision of the Secret of the
// object, "" if there is none. The result is true if the object is not being deleted, no request is pending, and the last reconciliation
// has not succeeded yet or was for another revision.
func (s State) NeedsRequest(revision string) bool {
	isOutdated := revision != "" && s.Annotations[secretRevision] != revision
	return s.DeletionTimestamp == nil && !s.isRequested() && (isOutdated || s.Problem() != "")
}

// Request returns the annotations that request a reconciliation. The controller of the extension removes the annotation for the operation.
func Request(revision string) map[string]any {
	annotations := map[string]any{resourcesv1alpha1.GardenerOperation: resourcesv1alpha1.OperationReconcile}
	if revision != "" {
		annotations[secretRevision] = revision
	}
	return annotations
}

// SecretOf returns the name of the Secret in a namespace that an object refers to, "" if there is none.
func SecretOf(o client.Object, namespace string) string {
	var reference extensionsv1alpha1.SecretReference
	switch o := o.(type) {
	case *extensionsv1alpha1.DNSRecord:
		reference = o.Spec.SecretRef
	case *extensionsv1alpha1.BackupBucket:
		reference = o.Spec.SecretRef
	case *extensionsv1alpha1.BackupEntry:
		reference = o.Spec.SecretRef
	}
	if reference.Namespace != namespace {
		return ""
	}
	return reference.Name
}

func (s State) isRequested() bool { return s.Annotations[resourcesv1alpha1.GardenerOperation] != "" }
