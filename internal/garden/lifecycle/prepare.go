package lifecycle

import (
	"context"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/client"

	operatorv1alpha1 "github.com/espalier-dev/espalier/api/operator/v1alpha1"
	"github.com/espalier-dev/espalier/internal/garden/auditpolicy"
	"github.com/espalier-dev/espalier/internal/garden/component/kubeapiserver"
	"github.com/espalier-dev/espalier/internal/garden/values"
	"github.com/espalier-dev/espalier/internal/garden/virtual"
)

// prepare takes the steps that precede the flow, one after the other.
func (o *operation) prepare(ctx context.Context) error {
	if err := o.addFinalizer(ctx, o.status.garden); err != nil {
		return err
	}
	if !o.values.VerticalPodAutoscaler {
		if _, err := o.Client.RESTMapper().RESTMapping(schema.GroupKind{Group: "autoscaling.k8s.io", Kind: "VerticalPodAutoscaler"}); err != nil {
			return fmt.Errorf("VPA is required for runtime cluster but CRD is not installed: %w "+
				"(install one, or set spec.runtimeCluster.settings.verticalPodAutoscaler.enabled to true)", err)
		}
	}
	networks, err := recordNetworks(o.status.garden)
	if err != nil {
		return fmt.Errorf("encode networks: %w", err)
	}
	if err := o.cluster.Deploy(ctx, namespace(o.values, networks)); err != nil {
		return err
	}
	for _, step := range []func(context.Context) error{
		o.generateAuthorities, o.findWildcardCertificate, o.checkAuditPolicies, o.recordEncryption, o.readAPIServerPorts,
	} {
		if err := step(ctx); err != nil {
			return err
		}
	}
	return nil
}

// recordEncryption records how objects of the virtual cluster are encrypted before there is a key to encrypt them with, so that a later
// change is noticed, and that no object has to be written again until then. If there is a key, objects have to be written again.
func (o *operation) recordEncryption(ctx context.Context) error {
	if o.values.EncryptedProvider != "" {
		return nil
	}
	if key := o.secrets.Newest(kubeapiserver.EncryptionKeyName); key != nil {
		return kubeapiserver.CheckProvider(o.values, key)
	}
	encrypted := virtual.Rewrite(o.values).Encrypted
	if encrypted == nil {
		return nil
	}
	if err := o.status.write(ctx, false, encryptionOf(encrypted)); err != nil {
		return fmt.Errorf("record encryption: %w", err)
	}
	o.values = o.values.WithEncryption(encrypted.Resources, encrypted.Provider.Type)
	return nil
}

// checkAuditPolicies fails if gardener-apiserver could not start with the audit policy that the Garden refers to. The API server may have
// stored the Garden or the ConfigMap before the webhook was registered. A task checks the audit policy of kube-apiserver.
func (o *operation) checkAuditPolicies(ctx context.Context) error {
	for _, each := range auditpolicy.ReferencesOfGardener(o.status.garden) {
		configMap := &corev1.ConfigMap{}
		err := o.Client.Get(ctx, client.ObjectKey{Namespace: o.values.Namespace, Name: each.Name}, configMap)
		if apierrors.IsNotFound(err) {
			configMap, err = nil, nil
		}
		if err != nil {
			return fmt.Errorf("read ConfigMap with audit policy: %w", err)
		}
		if problem := auditpolicy.Problem(configMap); problem != "" {
			return field.Invalid(each.Path, each.Name, problem)
		}
	}
	return nil
}

// readAPIServerPorts adds to the values the ports of Service default/kubernetes and their target ports.
func (o *operation) readAPIServerPorts(ctx context.Context) error {
	service := &corev1.Service{}
	if err := o.Client.Get(ctx, client.ObjectKey{Namespace: metav1.NamespaceDefault, Name: "kubernetes"}, service); err != nil {
		return fmt.Errorf("read Service of API server: %w", err)
	}
	var ports []int32
	for _, each := range service.Spec.Ports {
		ports = append(ports, each.Port)
		if target := each.TargetPort.IntVal; target != 0 {
			ports = append(ports, target)
		}
	}
	o.values = o.values.WithAPIServerPorts(ports...)
	return nil
}

// namespace returns the namespace of the Garden. Networks is the value of AnnotationRuntimeNetworks.
func namespace(v values.Values, networks string) *unstructured.Unstructured {
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
				operatorv1alpha1.AnnotationRuntimeNetworks:                networks,
			},
		},
	}}
}
