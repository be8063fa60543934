package runtime

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/client"

	operatorv1alpha1 "github.com/espalier-dev/espalier/api/operator/v1alpha1"
	"github.com/espalier-dev/espalier/internal/garden/auditpolicy"
	"github.com/espalier-dev/espalier/internal/garden/component/network"
	"github.com/espalier-dev/espalier/internal/garden/component/object"
	"github.com/espalier-dev/espalier/internal/garden/rotation"
	"github.com/espalier-dev/espalier/internal/garden/values"
	"github.com/espalier-dev/espalier/internal/gardenaccess"
	"github.com/espalier-dev/espalier/internal/rollout"
	"github.com/espalier-dev/espalier/internal/secrets"
	"github.com/espalier-dev/espalier/internal/secrets/config"
)

// genericKubeconfigContext is the name of the context of the generic token kubeconfig.
const genericKubeconfigContext = "garden"

// The garden namespace is prepared. It exists, because a Role of the operator is in it.
// +kubebuilder:rbac:groups="",resources=namespaces,resourceNames=garden,verbs=get;update
// NetworkPolicies allow the ports of the API server of the runtime cluster.
// +kubebuilder:rbac:groups="",resources=services,resourceNames=kubernetes,verbs=get,namespace=default,roleName=espalier-garden-operator-apiserver

// Prepare deploys the namespace of the Garden. If the Garden does not make the operator deploy the definition of VerticalPodAutoscalers,
// Prepare fails if the runtime cluster does not have this definition.
func (p *Platform) Prepare(ctx context.Context) error {
	if !p.Values.VerticalPodAutoscaler {
		err := rollout.CheckServed(ctx, p.Cluster.Client, object.AutoscalerKind)
		if rollout.IsGone(err) {
			return fmt.Errorf("VPA is required for runtime cluster but CRD is not installed: %w "+
				"(install one, or set spec.runtimeCluster.settings.verticalPodAutoscaler.enabled to true)", err)
		}
		if err != nil {
			return err
		}
	}
	namespace, err := Namespace(p.Values, p.Garden)
	if err != nil {
		return err
	}
	return p.Cluster.Deploy(ctx, namespace)
}

// Networks is the value of operatorv1alpha1.AnnotationRuntimeNetworks.
type Networks struct {
	Nodes, Pods, Services operatorv1alpha1.CIDRList
}

// Namespace returns the namespace of a Garden.
func Namespace(v values.Values, garden *operatorv1alpha1.Garden) (*unstructured.Unstructured, error) {
	of := garden.Spec.RuntimeCluster.Networking
	networks, err := json.Marshal(Networks{of.Nodes, of.Pods, of.Services})
	if err != nil {
		return nil, fmt.Errorf("encode networks: %w", err)
	}
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "Namespace",
		"metadata": map[string]any{
			"name": v.Namespace,
			"labels": map[string]any{
				"pod-security.kubernetes.io/enforce":                         "privileged",
				"high-availability-config.resources.gardener.cloud/consider": "true",
			},
			"annotations": map[string]any{
				"high-availability-config.resources.gardener.cloud/zones": strings.Join(v.Zones, ","),
				operatorv1alpha1.AnnotationRuntimeNetworks:                string(networks),
			},
		},
	}}, nil
}

// CompleteValues returns the values with the facts of the runtime cluster that are not in the Garden. It fails if objects of the runtime
// cluster that the Garden needs are wrong.
func (p *Platform) CompleteValues(ctx context.Context) (values.Values, error) {
	wildcard, err := p.findWildcardCertificate(ctx)
	if err != nil {
		return p.Values, err
	}
	if failure := p.checkAuditPolicies(ctx); failure != nil {
		return p.Values, failure
	}
	ports, err := p.readAPIServerPorts(ctx)
	if err != nil {
		return p.Values, err
	}
	return p.withVali(ctx, p.Values.WithFacts(wildcard, ports))
}

// findWildcardCertificate returns the name of the Secret with the wildcard certificate, or "". It fails if there are several.
func (p *Platform) findWildcardCertificate(ctx context.Context) (string, error) {
	role, err := labels.NewRequirement(operatorv1alpha1.LabelRole, selection.In, []string{
		operatorv1alpha1.RoleWildcardCertificate, operatorv1alpha1.RoleFormerWildcardCertificate,
	})
	if err != nil {
		return "", fmt.Errorf("select wildcard certificates: %w", err)
	}
	found := &metav1.PartialObjectMetadataList{}
	found.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("SecretList"))
	selector := client.MatchingLabelsSelector{Selector: labels.NewSelector().Add(*role)}
	if err := p.Cluster.Client.List(ctx, found, client.InNamespace(p.Values.Namespace), selector); err != nil {
		return "", fmt.Errorf("list wildcard certificates: %w", err)
	}
	names := make([]string, 0, len(found.Items))
	for i := range found.Items {
		names = append(names, found.Items[i].Name)
	}
	slices.Sort(names)
	if len(names) > 1 {
		return "", fmt.Errorf("misconfigured cluster: not possible to provide more than one secret with annotation %s: %s",
			operatorv1alpha1.RoleFormerWildcardCertificate, strings.Join(names, ", "))
	}
	return strings.Join(names, ""), nil
}

// checkAuditPolicies fails if gardener-apiserver could not start with an audit policy that the Garden refers to. The webhook also checks
// this, but the Garden or the ConfigMap may have been stored before the webhook was registered. A task checks the audit policy of
// kube-apiserver.
func (p *Platform) checkAuditPolicies(ctx context.Context) error {
	for _, each := range auditpolicy.ReferencesOfGardener(p.Garden) {
		configMap, err := rollout.Find(ctx, p.Cluster.Client, p.Values.Namespace, each.Name, &corev1.ConfigMap{})
		if err != nil {
			return err
		}
		if problem := auditpolicy.Problem(configMap); problem != "" {
			return field.Invalid(each.Path, each.Name, problem)
		}
	}
	return nil
}

// readAPIServerPorts returns the ports of Service default/kubernetes and their target ports.
func (p *Platform) readAPIServerPorts(ctx context.Context) ([]int32, error) {
	service := &corev1.Service{}
	if err := p.Cluster.Client.Get(ctx, client.ObjectKey{Namespace: metav1.NamespaceDefault, Name: "kubernetes"}, service); err != nil {
		return nil, fmt.Errorf("read Service of API server: %w", err)
	}
	var ports []int32
	for _, each := range service.Spec.Ports {
		ports = append(ports, each.Port)
		if target := each.TargetPort.IntVal; target != 0 {
			ports = append(ports, target)
		}
	}
	return ports, nil
}

// generateKubeconfig generates the generic token kubeconfig and names it in an annotation of the Garden.
func (p *Platform) generateKubeconfig(ctx context.Context) error {
	bundle, err := p.Secrets.Bundle(rotation.KubernetesAuthority)
	if err != nil {
		return err
	}
	secret, err := p.Secrets.Generate(ctx, secrets.Request{KeepOld: true, Config: config.Kubeconfig{
		Name: gardenaccess.GenericKubeconfig, ContextName: genericKubeconfigContext,
		Cluster: config.Cluster{Server: network.VirtualAPIServer, CAData: bundle.Data[config.DataKeyCertificateBundle]},
		User:    config.User{TokenFile: gardenaccess.TokenPath},
	}})
	if err != nil {
		return err
	}
	if p.Garden.Annotations[operatorv1alpha1.AnnotationGenericTokenKubeconfig] == secret.Name {
		return nil
	}
	garden := rollout.Identity(operatorv1alpha1.SchemeGroupVersion.WithKind("Garden"), "", p.Garden.Name)
	return p.Cluster.Annotate(ctx, garden, map[string]any{operatorv1alpha1.AnnotationGenericTokenKubeconfig: secret.Name})
}
