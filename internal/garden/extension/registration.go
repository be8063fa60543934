package extension

import (
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/espalier-dev/espalier/api/managedresources"
	operatorv1alpha1 "github.com/espalier-dev/espalier/api/operator/v1alpha1"
	"github.com/espalier-dev/espalier/internal/garden/extension/rules"
)

// registered returns references to the objects that an Extension needs in the virtual cluster: these objects are copied there.
func registered(e *operatorv1alpha1.Extension) []rules.Reference {
	deployment := own(e)
	if deployment == nil {
		return nil
	}
	return append(rules.ChartReferences(deployment.Helm, "spec.deployment.extension.helm"), rules.NamedReferences(e)...)
}

// keyOf identifies an object in maps.
func keyOf(r rules.Reference) string { return r.Kind + "/" + r.Name }

// registrationObjects returns the ManagedResource with the ControllerRegistration, the ControllerDeployment and the copies of the objects
// that they refer to, preceded by its Secret. The argument found contains the objects to copy, by the keys of their references.
func registrationObjects(
	e *operatorv1alpha1.Extension, s settings, found map[string]client.Object,
) ([]*unstructured.Unstructured, error) {
	files := map[string][]byte{}
	registration, err := controllerRegistration(e)
	if err != nil {
		return nil, err
	}
	err = addFile(files, "controllerregistration.yaml", registration)
	if err != nil {
		return nil, err
	}
	deployment, err := controllerDeployment(e)
	if err != nil {
		return nil, err
	}
	if err := addFile(files, "controllerdeployment.yaml", deployment); err != nil {
		return nil, err
	}
	for _, each := range registered(e) {
		copied, err := copyOf(e, s, each, found[keyOf(each)])
		if err != nil {
			return nil, err
		}
		if err := addFile(files, "copy_"+each.Kind+"_"+each.Name+".yaml", copied); err != nil {
			return nil, err
		}
	}
	return managedResource(e, s, registrationSet(e), managedresources.NewManagedResource(nil).KeepObjects(false), nil, files)
}

// copyOf returns the copy of an object for the virtual cluster, where the namespace has the same name.
func copyOf(e *operatorv1alpha1.Extension, s settings, r rules.Reference, original client.Object) (client.Object, error) {
	meta := metav1.ObjectMeta{
		Namespace: s.namespace, Name: copyName(e, r.Name), Labels: map[string]string{operatorv1alpha1.LabelRole: r.Role},
	}
	switch o := original.(type) {
	case *corev1.Secret:
		return &corev1.Secret{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"}, ObjectMeta: meta, Type: o.Type, Data: o.Data}, nil
	case *corev1.ConfigMap:
		return &corev1.ConfigMap{
			TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"}, ObjectMeta: meta, Data: o.Data, BinaryData: o.BinaryData,
		}, nil
	}
	return nil, fmt.Errorf("%s: %s %s/%s was not read", r.Field, r.Kind, s.namespace, r.Name)
}

// controllerRegistration returns the ControllerRegistration. It omits the cluster type garden, which gardener-apiserver does not know.
func controllerRegistration(e *operatorv1alpha1.Extension) (*unstructured.Unstructured, error) {
	deployment := own(e)
	spec := map[string]any{}
	var resources []any
	for _, each := range e.Spec.Resources {
		each.AutoEnable, each.ClusterCompatibility = withoutGarden(each.AutoEnable), withoutGarden(each.ClusterCompatibility)
		converted, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&each)
		if err != nil {
			return nil, fmt.Errorf("encode resource %s/%s: %w", each.Kind, each.Type, err)
		}
		resources = append(resources, converted)
	}
	if len(resources) > 0 {
		spec["resources"] = resources
	}
	reference := map[string]any{"deploymentRefs": []any{map[string]any{"name": e.Name}}}
	if deployment.Policy != nil {
		reference["policy"] = *deployment.Policy
	}
	if deployment.SeedSelector != nil {
		selector, err := runtime.DefaultUnstructuredConverter.ToUnstructured(deployment.SeedSelector)
		if err != nil {
			return nil, fmt.Errorf("encode seed selector: %w", err)
		}
		reference["seedSelector"] = selector
	}
	spec["deployment"] = reference
	registration := gardenObject("core.gardener.cloud/v1beta1", "ControllerRegistration", e.Name)
	registration.Object["spec"] = spec
	if enforced := e.Annotations[operatorv1alpha1.AnnotationPodSecurityEnforce]; enforced != "" {
		registration.SetAnnotations(map[string]string{operatorv1alpha1.AnnotationPodSecurityEnforce: enforced})
	}
	return registration, nil
}

func withoutGarden(clusters []operatorv1alpha1.ClusterType) []operatorv1alpha1.ClusterType {
	return slices.DeleteFunc(slices.Clone(clusters), func(c operatorv1alpha1.ClusterType) bool {
		return c == operatorv1alpha1.ClusterTypeGarden
	})
}

// controllerDeployment returns the ControllerDeployment. The ControllerDeployment names the copies of Secrets and ConfigMaps, and not the
// originals. Placeholders in its values stay: the program that installs the extension in a Seed replaces them.
func controllerDeployment(e *operatorv1alpha1.Extension) (*unstructured.Unstructured, error) {
	spec := own(e)
	helm := map[string]any{}
	if repository := spec.Helm.OCIRepository; repository != nil {
		copied := repository.DeepCopy()
		for _, ref := range []*corev1.LocalObjectReference{copied.PullSecretRef, copied.CABundleSecretRef} {
			if ref != nil {
				ref.Name = copyName(e, ref.Name)
			}
		}
		converted, err := runtime.DefaultUnstructuredConverter.ToUnstructured(copied)
		if err != nil {
			return nil, fmt.Errorf("encode repository: %w", err)
		}
		helm["ociRepository"] = converted
	} else {
		raw, err := runtime.DefaultUnstructuredConverter.ToUnstructured(spec.Helm)
		if err != nil {
			return nil, fmt.Errorf("encode raw chart: %w", err)
		}
		maps.Copy(helm, raw)
	}
	if spec.Values != nil && len(spec.Values.Raw) > 0 {
		values, err := runtime.DefaultUnstructuredConverter.ToUnstructured(spec.Values)
		if err != nil {
			return nil, fmt.Errorf("encode values: %w", err)
		}
		helm["values"] = values
	}
	deployment := gardenObject("core.gardener.cloud/v1", "ControllerDeployment", e.Name)
	deployment.Object["helm"] = helm
	if inject := ptr.Deref(spec.InjectGardenKubeconfig, false); inject {
		deployment.Object["injectGardenKubeconfig"] = true
	}
	var resources []any
	for _, each := range e.Spec.Deployment.Resources {
		resources = append(resources, map[string]any{"name": each.Name, "resourceRef": map[string]any{
			"apiVersion": each.ResourceRef.APIVersion, "kind": each.ResourceRef.Kind, "name": copyName(e, each.ResourceRef.Name),
		}})
	}
	if len(resources) > 0 {
		deployment.Object["resources"] = resources
	}
	return deployment, nil
}

func gardenObject(apiVersion, kind, name string) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": apiVersion, "kind": kind, "metadata": map[string]any{"name": name},
	}}
}
