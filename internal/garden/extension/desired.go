package extension

import (
	"encoding/json"
	"fmt"
	"maps"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	publicaccess "github.com/espalier-dev/espalier/api/gardenaccess"
	"github.com/espalier-dev/espalier/api/managedresources"
	operatorv1alpha1 "github.com/espalier-dev/espalier/api/operator/v1alpha1"
	"github.com/espalier-dev/espalier/internal/chart"
	"github.com/espalier-dev/espalier/internal/garden/component/system"
	"github.com/espalier-dev/espalier/internal/rollout"
)

const (
	labelEnforce       = "pod-security.kubernetes.io/enforce"
	labelConsiderHA    = "high-availability-config.resources.gardener.cloud/consider"
	annotationZones    = "high-availability-config.resources.gardener.cloud/zones"
	labelReachesServer = "networking.gardener.cloud/access-target-apiserver"
	roleExtension      = "extension"
	// originOperator is the value of the origin label that Gardener's operator sets on ManagedResources of admission controllers.
	originOperator = "gardener-operator"
)

// settings are the inputs of the values and objects of an Extension, besides the Extension itself.
type settings struct {
	// namespace is the namespace of the Garden.
	namespace string
	// kubeconfig is the name of the Secret with the generic kubeconfig for the virtual cluster.
	kubeconfig string
	// zones are the zones of the runtime cluster.
	zones []string
}

// settingsOf returns the settings for a Garden.
func settingsOf(g *operatorv1alpha1.Garden, namespace string) settings {
	return settings{
		namespace: namespace, kubeconfig: g.Annotations[operatorv1alpha1.AnnotationGenericTokenKubeconfig],
		zones: g.Spec.RuntimeCluster.Provider.Zones,
	}
}

// runtimeValues are the values of the extension itself in the runtime cluster that the operator sets.
func runtimeValues() map[string]any {
	return gardenerValues("runtimeCluster", map[string]any{"enabled": "true", "priorityClassName": system.Class200})
}

// admissionRuntimeValues are the values of admission controllers in the runtime cluster that the operator sets.
func admissionRuntimeValues(e *operatorv1alpha1.Extension) map[string]any {
	return gardenerValues(
		"runtimeCluster", map[string]any{"priorityClassName": system.Class400},
		"virtualCluster", map[string]any{"enabled": true, "namespace": virtualNamespace(e)},
	)
}

// admissionVirtualValues are the values of admission controllers in the virtual cluster that the operator sets.
func admissionVirtualValues(e *operatorv1alpha1.Extension) map[string]any {
	account := map[string]any{"name": admissionAccount(e), "namespace": accountNamespace}
	return gardenerValues("virtualCluster", map[string]any{"enabled": true, "namespace": virtualNamespace(e), "serviceAccount": account})
}

// gardenerValues returns values with one key, gardener, which contains the given pairs of names and values.
func gardenerValues(pairs ...any) map[string]any {
	values := map[string]any{}
	for i := 0; i+1 < len(pairs); i += 2 {
		values[fmt.Sprint(pairs[i])] = pairs[i+1]
	}
	return map[string]any{"gardener": values}
}

// admissionRuntimePolicy returns the policy of the configuration with two changes. The policy treats the namespace of the Garden as
// shared, because this namespace contains the credentials of the virtual cluster. And it reserves the name of the Secret with the token of
// the admission controllers.
func admissionRuntimePolicy(p chart.Policy, e *operatorv1alpha1.Extension) chart.Policy {
	p.Shared, p.Reserved = true, []string{"Secret/" + accessSecret(e)}
	return p
}

// admissionVirtualPolicy returns the policy of the configuration with two changes: the policy also allows webhooks, and rights for the
// ServiceAccount of the admission controllers.
func admissionVirtualPolicy(p chart.Policy, e *operatorv1alpha1.Extension) chart.Policy {
	p.Webhooks, p.Accounts = true, []string{accountNamespace + "/" + admissionAccount(e)}
	return p
}

// namespaceFile sorts before the templates of charts, so that it does not share its key with one of them.
const namespaceFile = "00-namespace.yaml"

// runtimeObjects returns the ManagedResource of the extension itself in the runtime cluster, preceded by its Secret.
func runtimeObjects(e *operatorv1alpha1.Extension, s settings, rendered chart.Manifests) ([]*unstructured.Unstructured, error) {
	files, err := rendered.Files()
	if err != nil {
		return nil, err
	}
	labels := map[string]string{
		operatorv1alpha1.LabelRole: roleExtension, labelConsiderHA: "true", labelReachesServer: "allowed",
		operatorv1alpha1.ExtensionName: e.Name,
	}
	if enforced := e.Annotations[operatorv1alpha1.AnnotationPodSecurityEnforce]; enforced != "" {
		labels[labelEnforce] = enforced
	}
	err = addFile(files, namespaceFile, &corev1.Namespace{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Namespace"},
		ObjectMeta: metav1.ObjectMeta{
			Name: runtimeNamespace(e), Labels: labels, Annotations: map[string]string{annotationZones: strings.Join(s.zones, ",")},
		},
	})
	if err != nil {
		return nil, err
	}
	return managedResource(e, s, RuntimeSet(e), seedSet(), nil, files)
}

// admissionRuntimeObjects returns the ManagedResource of the admission controllers in the runtime cluster, preceded by its Secret. Before
// that, admissionRuntimeObjects changes the workloads of the admission controllers, so that they can connect to the virtual cluster.
func admissionRuntimeObjects(e *operatorv1alpha1.Extension, s settings, rendered chart.Manifests) ([]*unstructured.Unstructured, error) {
	access := publicaccess.Access{
		Namespace: s.namespace, KubeconfigSecret: s.kubeconfig, TokenSecret: accessSecret(e), MountPath: publicaccess.RuntimeMountPath,
	}
	for _, manifest := range rendered {
		for _, object := range manifest.Objects {
			if err := access.Inject(&unstructured.Unstructured{Object: object}); err != nil {
				return nil, fmt.Errorf("%s: %w", manifest.Template, err)
			}
		}
	}
	files, err := rendered.Files()
	if err != nil {
		return nil, err
	}
	labels := map[string]string{
		managedresources.LabelKeyOrigin: originOperator, managedresources.LabelKeyRole: managedresources.RoleSeedSystemComponent,
	}
	return managedResource(e, s, admissionRuntimeSet(e), seedSet(), labels, files)
}

// admissionVirtualObjects returns the ManagedResource of the admission controllers in the virtual cluster, preceded by its Secret.
func admissionVirtualObjects(e *operatorv1alpha1.Extension, s settings, rendered chart.Manifests) ([]*unstructured.Unstructured, error) {
	files, err := rendered.Files()
	if err != nil {
		return nil, err
	}
	err = addFile(files, namespaceFile, &corev1.Namespace{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Namespace"},
		ObjectMeta: metav1.ObjectMeta{Name: virtualNamespace(e), Annotations: map[string]string{
			operatorv1alpha1.LabelRole: roleExtension, operatorv1alpha1.ExtensionName: e.Name,
		}},
	})
	if err != nil {
		return nil, err
	}
	set := managedresources.NewManagedResource(nil).KeepObjects(false).
		WithInjectedLabels(map[string]string{managedresources.LabelKeyNoCleanup: "true"})
	return managedResource(e, s, admissionVirtualSet(e), set, map[string]string{managedresources.LabelKeyOrigin: originOperator}, files)
}

func seedSet() *managedresources.ManagedResourceBuilder {
	return managedresources.NewManagedResource(nil).WithClass(managedresources.ClassSeed).KeepObjects(false)
}

func managedResource(
	e *operatorv1alpha1.Extension, s settings, name string, set *managedresources.ManagedResourceBuilder, labels map[string]string,
	files map[string][]byte,
) ([]*unstructured.Unstructured, error) {
	all := map[string]string{operatorv1alpha1.ExtensionName: e.Name}
	maps.Copy(all, labels)
	return rollout.WithContents(s.namespace, name, set.WithLabels(all), files)
}

// addFile adds an object as a file.
func addFile(files map[string][]byte, name string, object client.Object) error {
	untyped, err := rollout.Unstructured(object)
	if err != nil {
		return err
	}
	encoded, err := rollout.YAML(untyped[0])
	if err != nil {
		return err
	}
	files[name] = encoded
	return nil
}

// encode returns values as an element of chart.Values.
func encode(values map[string]any) ([]byte, error) {
	encoded, err := json.Marshal(values)
	if err != nil {
		return nil, fmt.Errorf("encode values: %w", err)
	}
	return encoded, nil
}
