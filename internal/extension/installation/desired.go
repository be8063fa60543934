package installation

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	corev1beta1 "github.com/espalier-dev/espalier/api/core/v1beta1"
	"github.com/espalier-dev/espalier/api/gardenaccess"
	"github.com/espalier-dev/espalier/api/managedresources"
	"github.com/espalier-dev/espalier/api/references"
	resourcesv1alpha1 "github.com/espalier-dev/espalier/api/resources/v1alpha1"
	"github.com/espalier-dev/espalier/internal/chart"
	"github.com/espalier-dev/espalier/internal/rollout"
)

// labels are the labels, or the annotations, that a namespace must have. It must not have a key whose value is nil.
type labels map[string]*string

// namespaceLabels returns the labels of the namespace of an installation.
func namespaceLabels(ci *corev1beta1.ControllerInstallation, isGarden bool) labels {
	wanted := labels{
		labelRole: new(roleExtension), corev1beta1.LabelControllerRegistrationName: &ci.Spec.RegistrationRef.Name,
		labelConsiderHA: new("true"), labelPodSecurity: nil,
	}
	if standard, isSet := ci.Annotations[corev1beta1.AnnotationPodSecurityEnforce]; isSet {
		wanted[labelPodSecurity] = &standard
	}
	if isGarden {
		wanted[labelTargetAPIServer] = new("allowed")
	}
	return wanted
}

// namespaceAnnotations returns the annotations of the namespace of an installation.
func namespaceAnnotations(seed *unstructured.Unstructured) labels {
	zones, _, _ := unstructured.NestedStringSlice(seed.Object, "spec", "provider", "zones")
	return labels{annotationZones: new(strings.Join(zones, ","))}
}

// missing returns a merge patch with the entries in which live differs from wanted.
func (wanted labels) missing(live map[string]string) map[string]any {
	changes := map[string]any{}
	for key, value := range wanted {
		has, isSet := live[key]
		switch {
		case value == nil && isSet:
			changes[key] = nil
		case value != nil && (!isSet || has != *value):
			changes[key] = *value
		}
	}
	return changes
}

// namespacePatch returns the merge patch that gives the namespace its labels and annotations; nil if it has them.
func namespacePatch(live *metav1.PartialObjectMetadata, wanted, annotations labels) ([]byte, error) {
	missing, unannotated := wanted.missing(live.Labels), annotations.missing(live.Annotations)
	if len(missing)+len(unannotated) == 0 {
		return nil, nil
	}
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{
		"uid": live.UID, "labels": missing, "annotations": unannotated,
	}})
	if err != nil {
		return nil, fmt.Errorf("encode patch of namespace: %w", err)
	}
	return patch, nil
}

// isOurNamespace reports whether a namespace was created for this installation, by this program or by gardenlet.
func isOurNamespace(live metav1.Object, registration string) bool {
	return live.GetLabels()[labelRole] == roleExtension &&
		live.GetLabels()[corev1beta1.LabelControllerRegistrationName] == registration
}

// kubeconfigSecret returns the Secret with the generic kubeconfig for the garden. It has no credentials but the path of the token.
func kubeconfigSecret(namespace string, garden *rest.Config) (*corev1.Secret, error) {
	ca := garden.CAData
	if garden.CAFile != "" && len(ca) == 0 {
		return nil, errors.New("the certificate authority of the garden is a file; its content is required")
	}
	config := clientcmdapi.NewConfig()
	config.Clusters["garden"] = &clientcmdapi.Cluster{
		Server: garden.Host + garden.APIPath, CertificateAuthorityData: ca, InsecureSkipTLSVerify: garden.Insecure,
	}
	config.AuthInfos["extension"] = &clientcmdapi.AuthInfo{TokenFile: gardenaccess.SeedMountPath + "/token"}
	config.Contexts["garden"] = &clientcmdapi.Context{Cluster: "garden", AuthInfo: "extension"}
	config.CurrentContext = "garden"
	encoded, err := clientcmd.Write(*config)
	if err != nil {
		return nil, fmt.Errorf("encode kubeconfig for the garden: %w", err)
	}
	secret := &corev1.Secret{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"},
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: genericKubeconfig},
		Type:       corev1.SecretTypeOpaque,
		Data:       map[string][]byte{resourcesv1alpha1.DataKeyKubeconfig: encoded},
	}
	references.MakeSecretUnique(secret)
	return secret, nil
}

// tokenSecret returns the Secret in which token-controllers keep a token for the extension. The returned Secret has no data, so that the
// token stays in the cluster when the Secret is written again.
func tokenSecret(ci *corev1beta1.ControllerInstallation) (*corev1.Secret, error) {
	accountLabels, err := json.Marshal(map[string]string{corev1beta1.LabelControllerRegistrationName: ci.Spec.RegistrationRef.Name})
	if err != nil {
		return nil, fmt.Errorf("encode labels of ServiceAccount: %w", err)
	}
	return &corev1.Secret{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"},
		ObjectMeta: metav1.ObjectMeta{
			Namespace: namespaceOf(ci.Name), Name: accessSecret,
			Labels: map[string]string{
				resourcesv1alpha1.ResourcePurpose: resourcesv1alpha1.PurposeTokenRequestor, resourcesv1alpha1.ResourceClass: "garden",
			},
			Annotations: map[string]string{
				resourcesv1alpha1.ServiceAccountName:   namespaceOf(ci.Name),
				resourcesv1alpha1.ServiceAccountLabels: string(accountLabels),
			},
		},
		Type: corev1.SecretTypeOpaque,
	}, nil
}

// inject gives the workloads of a chart access to the garden, or at least the name of the Seed. It returns whether any workload in the
// namespace of the installation wants access.
func inject(access gardenaccess.Access, manifests chart.Manifests) (wanted bool, err error) {
	for _, manifest := range manifests {
		for _, each := range manifest.Objects {
			o := &unstructured.Unstructured{Object: each}
			if isWorkload(o) && o.GetNamespace() == access.Namespace {
				wanted = wanted || gardenaccess.WantsAccess(o)
			}
			if err := access.Inject(o); err != nil {
				return false, fmt.Errorf("failed to inject garden access secrets: %w", err)
			}
		}
	}
	return wanted, nil
}

func isWorkload(o *unstructured.Unstructured) bool {
	group := o.GroupVersionKind().Group
	return group == "apps" || group == "batch" || group == "" && o.GetKind() == "Pod"
}

// managedResource returns the ManagedResource of an installation, preceded by its Secret.
func managedResource(ci *corev1beta1.ControllerInstallation, data map[string][]byte) ([]*unstructured.Unstructured, error) {
	name, secret := managedresources.NewSecret(nil).WithNamespacedName(GardenNamespace, ci.Name).WithKeyValues(data).Unique()
	set, err := managedresources.NewManagedResource(nil).WithNamespacedName(GardenNamespace, ci.Name).WithSecretRef(name).
		WithClass(managedresources.ClassSeed).KeepObjects(false).WithLabels(map[string]string{
		corev1beta1.LabelManagedResourceInstallation: ci.Name,
		corev1beta1.LabelManagedResourceRegistration: ci.Spec.RegistrationRef.Name,
	}).Build()
	if err != nil {
		return nil, fmt.Errorf("build ManagedResource: %w", err)
	}
	return rollout.Unstructured(secret.Build(), set)
}

// planned copies the annotation Plan of the installation to the ManagedResource. With this annotation, the changes of the ManagedResource
// are published and not made. When a user removes the annotation from the installation, the ManagedResource gets the value "false".
func planned(set *unstructured.Unstructured, ci *corev1beta1.ControllerInstallation, live metav1.Object) {
	value, asked := ci.Annotations[resourcesv1alpha1.Plan]
	if _, was := live.GetAnnotations()[resourcesv1alpha1.Plan]; !asked && !was {
		return
	}
	if !asked {
		value = "false"
	}
	annotations := set.GetAnnotations()
	if annotations == nil {
		annotations = map[string]string{}
	}
	annotations[resourcesv1alpha1.Plan] = value
	set.SetAnnotations(annotations)
}

// set returns the entries whose value is not nil.
func (wanted labels) set() map[string]string {
	entries := map[string]string{}
	for key, value := range wanted {
		if value != nil {
			entries[key] = *value
		}
	}
	return entries
}

// isKubeconfig reports whether an immutable Secret is a generic kubeconfig.
func isKubeconfig(secret metav1.Object) bool {
	return strings.HasPrefix(secret.GetName(), genericKubeconfig+"-")
}
