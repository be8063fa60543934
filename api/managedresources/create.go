package managedresources

import (
	"context"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Create brings an immutable Secret with data and a ManagedResource that refers to it into the cluster, or updates the
// ManagedResource to a new Secret if the data changed. The Secret is named "<name>-<checksum>", after SecretPrefix if
// secretNameWithPrefix is true; the superseded one is left to the garbage collector. The labels go on the ManagedResource,
// the injected labels on every object of the set. An empty class is the default class; keepObjects and
// forceOverwriteAnnotations stay unset if nil.
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

// CreateFromUnstructured is Create for objects that are not serialized yet. They all go under one key of the Secret, the
// name of the ManagedResource; without objects the Secret has no data. Annotations are not overwritten by force.
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

// CreateForSeed is Create for objects that go into the seed itself: class ClassSeed, Secret name with prefix, and, except in the namespace
// of a shoot, labelled as a system component of the seed.
func CreateForSeed(ctx context.Context, c client.Client, namespace, name string, keepObjects bool, data map[string][]byte) error {
	var labels map[string]string
	if !strings.HasPrefix(namespace, shootNamespacePrefix) {
		labels = map[string]string{LabelKeyRole: RoleSeedSystemComponent}
	}
	return Create(ctx, c, namespace, name, labels, true, ClassSeed, data, &keepObjects, nil, nil)
}

// CreateForShoot is Create for objects that go into a shoot: default class, Secret name with prefix, labelled with its
// creator, every object protected from the shoot's clean-up.
func CreateForShoot(ctx context.Context, c client.Client, namespace, name, origin string, keepObjects bool, data map[string][]byte) error {
	labels := map[string]string{LabelKeyOrigin: origin}
	return Create(ctx, c, namespace, name, labels, true, "", data, &keepObjects, noCleanupLabels(), nil)
}

// CreateFromRendered is Create for a chart that the caller has rendered to files by name. They become one YAML stream in
// the order of their names, without the blank ones, under one key of the Secret: chartName. The class is the default
// class, and objects are deleted with the set. With withNoCleanupLabel, every object is protected from the shoot's
// clean-up.
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
