package diff

import (
	"cmp"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	resourcesv1alpha1 "github.com/espalier-dev/espalier/api/resources/v1alpha1"
	"github.com/espalier-dev/espalier/internal/apply/manifest"
)

// input is the content of the file that the user passes to the subcommand.
type input struct {
	// sets are the ManagedResources of the file; if there are none, one that is created from its manifests.
	sets []*resourcesv1alpha1.ManagedResource
	// secrets are the Secrets in the file that its sets may reference.
	secrets map[types.NamespacedName]*corev1.Secret
	// plain is true if the file contains no ManagedResource, only manifests: then the plan replaces only the content of the existing set.
	plain bool
	// remarks name the documents of the file that belong to no set.
	remarks []string
}

// dataKey is the key of the plain manifests in the Secret that is created for them.
const dataKey = "objects.yaml"

// read parses a file. The error for an invalid document names the document and the file.
func read(file string, content []byte, name types.NamespacedName) (*input, error) {
	documents, fault := manifest.Split(dataKey, content, 0)
	objects := make([]*unstructured.Unstructured, 0, len(documents))
	indexes := make([]int, 0, len(documents))
	for _, document := range documents {
		decoded, err := document.Decode()
		if err != nil {
			return nil, fmt.Errorf("read %s: document %d: %w", file, document.Index, reduced(err))
		}
		if decoded != nil {
			object := &unstructured.Unstructured{Object: decoded}
			object.SetNamespace(cmp.Or(object.GetNamespace(), metav1.NamespaceDefault))
			objects, indexes = append(objects, object), append(indexes, document.Index)
		}
	}
	if fault != nil {
		return nil, fmt.Errorf("read %s: document %d: %w", file, fault.Index, reduced(fault.Err))
	}
	if len(objects) == 0 {
		return nil, fmt.Errorf("read %s: it holds no objects", file)
	}
	in := &input{secrets: map[types.NamespacedName]*corev1.Secret{}}
	for i, object := range objects {
		if err := in.take(object); err != nil {
			return nil, fmt.Errorf("read %s: document %d: %w", file, indexes[i], err)
		}
	}
	if len(in.sets) == 0 {
		return assemble(content, name), nil
	}
	in.remark(objects, indexes)
	return in, nil
}

// reduced removes text that a parser quotes from the file, and which may contain passwords, from its error.
func reduced(err error) error {
	text := manifest.DecodingError(0, "", "", "", err)
	_, text, _ = strings.Cut(text, "'/': ")
	return errors.New(strings.TrimSuffix(text, "."))
}

// take stores a ManagedResource or a Secret, and ignores objects of other kinds.
func (in *input) take(object *unstructured.Unstructured) error {
	if object.GetAPIVersion() == "" || object.GetKind() == "" || object.GetName() == "" {
		return errors.New("apiVersion, kind and metadata.name are required")
	}
	kind := object.GroupVersionKind()
	switch {
	case kind == resourcesv1alpha1.SchemeGroupVersion.WithKind("ManagedResource"):
		mr := &resourcesv1alpha1.ManagedResource{}
		if err := runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(object.Object, mr, true); err != nil {
			return fmt.Errorf("ManagedResource %s: %w", object.GetName(), err)
		}
		in.sets = append(in.sets, mr)
	case kind == corev1.SchemeGroupVersion.WithKind("Secret"):
		secret, err := secretOf(object)
		if err != nil {
			return fmt.Errorf("Secret %s: %w", object.GetName(), err) //nolint:staticcheck // a kind starts with a capital letter
		}
		in.secrets[types.NamespacedName{Namespace: secret.Namespace, Name: secret.Name}] = secret
	}
	return nil
}

// secretOf reads a Secret as the API server would store it. Errors contain none of its values.
func secretOf(object *unstructured.Unstructured) (*corev1.Secret, error) {
	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: object.GetNamespace(), Name: object.GetName()},
		Data:       map[string][]byte{},
	}
	folded := object.DeepCopy()
	manifest.FoldStringData(folded.Object)
	if folded.Object["stringData"] != nil {
		return nil, errors.New("data and stringData must be maps of texts")
	}
	data, _, err := unstructured.NestedMap(folded.Object, "data")
	if err != nil {
		return nil, errors.New("data must be a map of texts")
	}
	for key, value := range data {
		text, isText := value.(string)
		decoded, err := base64.StdEncoding.DecodeString(text)
		if !isText || err != nil {
			return nil, fmt.Errorf("data[%s] is not in base64", key)
		}
		secret.Data[key] = decoded
	}
	return secret, nil
}

// assemble returns the input for a file of plain manifests: a new ManagedResource with a Secret that contains them.
func assemble(content []byte, name types.NamespacedName) *input {
	mr := &resourcesv1alpha1.ManagedResource{ObjectMeta: metav1.ObjectMeta{Namespace: name.Namespace, Name: name.Name}}
	mr.Spec.SecretRefs = []corev1.LocalObjectReference{{Name: name.Name}}
	secret := &corev1.Secret{ObjectMeta: mr.ObjectMeta, Data: map[string][]byte{dataKey: content}}
	return &input{sets: []*resourcesv1alpha1.ManagedResource{mr}, secrets: map[types.NamespacedName]*corev1.Secret{name: secret}, plain: true}
}

// remark records the documents that belong to no set.
func (in *input) remark(objects []*unstructured.Unstructured, indexes []int) {
	referenced := map[types.NamespacedName]bool{}
	for _, mr := range in.sets {
		for _, ref := range mr.Spec.SecretRefs {
			referenced[types.NamespacedName{Namespace: mr.Namespace, Name: ref.Name}] = true
		}
	}
	for i, object := range objects {
		isSecret := object.GroupVersionKind() == corev1.SchemeGroupVersion.WithKind("Secret")
		isSet := object.GroupVersionKind() == resourcesv1alpha1.SchemeGroupVersion.WithKind("ManagedResource")
		if isSet || isSecret && referenced[types.NamespacedName{Namespace: object.GetNamespace(), Name: object.GetName()}] {
			continue
		}
		in.remarks = append(in.remarks, fmt.Sprintf("not looked at, since it is in the file but in no set: document %d, %s %s", indexes[i],
			object.GetKind(), object.GetName()))
	}
}

// settle completes a set of the file with data of live, the existing set. The status, the UID, the finalizers and the generation come from
// live, and the annotations come from both. If the file contains only plain manifests, the spec also comes from live, except for the
// references to Secrets. If live is nil, the set has no status and the generation 0.
func (in *input) settle(mr, live *resourcesv1alpha1.ManagedResource) {
	if live == nil {
		mr.Status, mr.Generation, mr.DeletionTimestamp = resourcesv1alpha1.ManagedResourceStatus{}, 0, nil
		return
	}
	spec := mr.Spec
	if in.plain { // only the content changes
		spec = *live.Spec.DeepCopy()
		spec.SecretRefs = mr.Spec.SecretRefs
	}
	mr.UID, mr.Generation, mr.Status, mr.Spec = live.UID, live.Generation, live.Status, spec
	mr.Finalizers, mr.DeletionTimestamp, mr.Annotations = live.Finalizers, live.DeletionTimestamp, annotations(mr, live)
	if !equality.Semantic.DeepEqual(mr.Spec, live.Spec) {
		mr.Generation++ // as the API server would
	}
}

// annotations returns the annotations after the change: an annotation that the file does not contain is kept, unless an earlier kubectl
// apply has set it.
func annotations(mr, live *resourcesv1alpha1.ManagedResource) map[string]string {
	var last struct {
		Metadata struct{ Annotations map[string]string }
	}
	if json.Unmarshal([]byte(live.Annotations[corev1.LastAppliedConfigAnnotation]), &last) != nil {
		last.Metadata.Annotations = nil
	}
	merged := maps.Clone(live.Annotations)
	for name := range last.Metadata.Annotations {
		delete(merged, name)
	}
	if merged == nil {
		return mr.Annotations
	}
	maps.Copy(merged, mr.Annotations)
	return merged
}
