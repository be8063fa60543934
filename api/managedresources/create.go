package managedresources

import (
	"context"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Create creates an immutable Secret with data and a ManagedResource that refers to it. If the data has changed, it creates a new Secret
// and updates the ManagedResource. The name of the Secret is "<name>-<checksum>", with SecretPrefix in front if secretNameWithPrefix is
// true. The garbage collector deletes the replaced Secret. The labels are set on the ManagedResource, the injected labels on every object
// of it. An empty class is the default class; keepObjects and forceOverwriteAnnotations stay unset if nil.
func Create(
	ctx context.Context,
	c client.Client,
	namespace, name string,
	labels map[string]string,
	secretNameWithPrefix bool,
	class string,
	data map[string][]byte,
	keepObjects *bool,
	injectedLabels map[string]string,
	forceOverwriteAnnotations *bool,
) error {
	secretName, secret := NewSecret(c).
		WithNamespacedName(namespace, SecretName(name, secretNameWithPrefix)).
		WithKeyValues(data).
		Unique()
	managedResource := NewManagedResource(c).
		WithNamespacedName(namespace, name).
		WithLabels(labels).
		WithClass(class).
		WithSecretRef(secretName).
		WithInjectedLabels(injectedLabels)
	if keepObjects != nil {
		managedResource.KeepObjects(*keepObjects)
	}
	if forceOverwriteAnnotations != nil {
		managedResource.ForceOverwriteAnnotations(*forceOverwriteAnnotations)
	}

	if err := secret.Reconcile(ctx); err != nil {
		return fmt.Errorf("could not create or update secret of managed resources: %w", err)
	}
	if err := managedResource.Reconcile(ctx); err != nil {
		return fmt.Errorf("could not create or update managed resource: %w", err)
	}
	return nil
}

// CreateFromUnstructured is Create for objects that are not serialized yet. The Secret contains all of them under one key, the name of the
// ManagedResource; without objects it has no data. spec.forceOverwriteAnnotations is false.
func CreateFromUnstructured(
	ctx context.Context,
	c client.Client,
	namespace, name string,
	secretNameWithPrefix bool,
	class string,
	objs []*unstructured.Unstructured,
	keepObjects bool,
	injectedLabels map[string]string,
) error {
	var stream []byte
	for _, obj := range objs {
		document, err := obj.MarshalJSON()
		if err != nil {
			return fmt.Errorf("serialize %s %q: %w", obj.GetKind(), client.ObjectKeyFromObject(obj), err)
		}
		stream = append(stream, "\n---\n"...)
		stream = append(stream, document...)
	}
	data := map[string][]byte{}
	if len(stream) > 0 {
		data[name] = stream
	}
	return Create(ctx, c, namespace, name, nil, secretNameWithPrefix, class, data, &keepObjects, injectedLabels, new(false))
}

// CreateForSeed is Create for objects in the seed itself. The class is ClassSeed, and the name of the Secret begins with SecretPrefix.
// Outside of the namespaces of shoots, the ManagedResource gets the label of a system component of the seed.
func CreateForSeed(ctx context.Context, c client.Client, namespace, name string, keepObjects bool, data map[string][]byte) error {
	var labels map[string]string
	if !strings.HasPrefix(namespace, shootNamespacePrefix) {
		labels = map[string]string{LabelKeyRole: RoleSeedSystemComponent}
	}
	return Create(ctx, c, namespace, name, labels, true, ClassSeed, data, &keepObjects, nil, nil)
}

// CreateForShoot is Create for objects in a shoot. The class is the default class, and the name of the Secret has the prefix. The
// ManagedResource has a label with its creator, and every object has the label that protects it from the clean-up of the shoot.
func CreateForShoot(ctx context.Context, c client.Client, namespace, name, origin string, keepObjects bool, data map[string][]byte) error {
	labels := map[string]string{LabelKeyOrigin: origin}
	return Create(ctx, c, namespace, name, labels, true, "", data, &keepObjects, noCleanupLabels(), nil)
}

// CreateFromRendered is Create for a chart that the caller has rendered to files by name. The files that are not blank become one YAML
// stream, in the order of their names, under one key of the Secret: chartName. The class is the default class, and objects are deleted with
// the set. If withNoCleanupLabel is true, every object has the label that protects it from the clean-up of the shoot.
func CreateFromRendered(
	ctx context.Context,
	c client.Client,
	namespace, name string,
	secretNameWithPrefix bool,
	chartName string,
	files map[string]string,
	withNoCleanupLabel, forceOverwriteAnnotations bool,
) error {
	var injectedLabels map[string]string
	if withNoCleanupLabel {
		injectedLabels = noCleanupLabels()
	}
	data := map[string][]byte{chartName: joinDocuments(files)}
	return Create(ctx, c, namespace, name, nil, secretNameWithPrefix, "", data, new(false), injectedLabels, &forceOverwriteAnnotations)
}

func noCleanupLabels() map[string]string {
	return map[string]string{LabelKeyNoCleanup: "true"}
}
