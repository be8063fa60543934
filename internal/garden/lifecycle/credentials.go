package lifecycle

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	operatorv1alpha1 "github.com/espalier-dev/espalier/api/operator/v1alpha1"
	"github.com/espalier-dev/espalier/internal/garden/component/resourcemanager"
	"github.com/espalier-dev/espalier/internal/garden/component/shared"
	"github.com/espalier-dev/espalier/internal/garden/component/vpa"
	"github.com/espalier-dev/espalier/internal/garden/rotation"
	"github.com/espalier-dev/espalier/internal/secrets"
	"github.com/espalier-dev/espalier/internal/secrets/config"
	"github.com/espalier-dev/espalier/internal/secrets/manager"
)

// secretsIdentity is the identity of the Secrets of a Garden.
const secretsIdentity = "gardener-operator"

// Certificate authorities that renew themselves.
const (
	authorityRuntime   = vpa.Authority
	authorityBasicAuth = "ca-virtual-garden-istio-basic-auth-server"

	shortValidity = 720 * time.Hour
	shortOverlap  = 24 * time.Hour
)

// What the generic token kubeconfig contains.
const (
	genericKubeconfigContext = "garden"
	genericTokenFile         = "/var/run/secrets/gardener.cloud/shoot/generic-kubeconfig/token"
)

func (r *Reconciler) secretsManager(ctx context.Context, garden *operatorv1alpha1.Garden) (*manager.Manager, error) {
	source := r.Random
	if source.Random == nil {
		source = config.RandomSource(r.Clock.Now())
	}
	m, err := manager.New(ctx, r.Client, r.Clock, source, secrets.Options{
		Namespace: r.Operator.Namespace, Identity: secretsIdentity, RotationTimes: rotation.Times(rotationOf(garden)),
		RenewedAuthorities: []string{authorityRuntime, authorityBasicAuth},
	})
	if err != nil {
		return nil, fmt.Errorf("create secrets manager: %w", err)
	}
	return m, nil
}

// authorities returns the requests for all certificate authorities, in their order.
func authorities(phase operatorv1alpha1.RotationPhase) []secrets.Request {
	commonNames := map[string]string{
		"ca-etcd": "etcd", "ca-etcd-peer": "etcd-peer", "ca": "kubernetes", "ca-client": "kubernetes-client",
		"ca-front-proxy": "front-proxy", "ca-gardener": "gardener",
	}
	renewed := func(name, commonName string) secrets.Request {
		return secrets.Request{
			Config:  config.Certificate{Name: name, CommonName: commonName, Type: config.CA, Validity: ptr.To(shortValidity)},
			KeepOld: true, IgnoreOldAfter: shortOverlap,
		}
	}
	requests := []secrets.Request{renewed(authorityRuntime, "")}
	for _, name := range rotation.RotatedAuthorities {
		requests = append(requests, secrets.Request{
			Config:  config.Certificate{Name: name, CommonName: commonNames[name], Type: config.CA},
			KeepOld: true, IgnoreOld: phase == operatorv1alpha1.RotationCompleting,
		})
	}
	return append(requests, renewed(authorityBasicAuth, "istio-basic-auth-server"))
}

func (o *operation) generateAuthorities(ctx context.Context) error {
	for _, request := range authorities(o.values.AuthorityPhase) {
		if _, err := o.secrets.Generate(ctx, request); err != nil {
			return err
		}
	}
	if expiring := o.secrets.ExpiringAuthorities(); len(expiring) > 0 {
		log.FromContext(ctx).Info("Certificate authorities expire soon; rotate them", "names", expiring)
	}
	return nil
}

// findWildcardCertificate sets the name of the Secret with the wildcard certificate. It fails if there are several.
func (o *operation) findWildcardCertificate(ctx context.Context) error {
	role, err := labels.NewRequirement(operatorv1alpha1.LabelRole, selection.In, []string{
		operatorv1alpha1.RoleWildcardCertificate, operatorv1alpha1.RoleFormerWildcardCertificate,
	})
	if err != nil {
		return fmt.Errorf("select wildcard certificates: %w", err)
	}
	found := &metav1.PartialObjectMetadataList{}
	found.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("SecretList"))
	selector := client.MatchingLabelsSelector{Selector: labels.NewSelector().Add(*role)}
	if err := o.Client.List(ctx, found, client.InNamespace(o.values.Namespace), selector); err != nil {
		return fmt.Errorf("list wildcard certificates: %w", err)
	}
	names := make([]string, 0, len(found.Items))
	for i := range found.Items {
		names = append(names, found.Items[i].Name)
	}
	slices.Sort(names)
	if len(names) > 1 {
		return fmt.Errorf("misconfigured cluster: not possible to provide more than one secret with annotation %s: %s",
			operatorv1alpha1.RoleFormerWildcardCertificate, strings.Join(names, ", "))
	}
	o.wildcard = strings.Join(names, "")
	return nil
}

// generateKubeconfig generates the generic token kubeconfig and names it in an annotation of the Garden.
func (o *operation) generateKubeconfig(ctx context.Context) error {
	bundle, err := o.secrets.Bundle("ca")
	if err != nil {
		return err
	}
	secret, err := o.secrets.Generate(ctx, secrets.Request{KeepOld: true, Config: config.Kubeconfig{
		Name: shared.GenericKubeconfig, ContextName: genericKubeconfigContext,
		Cluster: config.Cluster{Server: shared.VirtualAPIServer, CAData: bundle.Data[config.DataKeyCertificateBundle]},
		User:    config.User{TokenFile: genericTokenFile},
	}})
	if err != nil {
		return err
	}
	garden := o.garden.DeepCopy()
	if garden.Annotations[operatorv1alpha1.AnnotationGenericTokenKubeconfig] == secret.Name {
		return nil
	}
	metav1.SetMetaDataAnnotation(&garden.ObjectMeta, operatorv1alpha1.AnnotationGenericTokenKubeconfig, secret.Name)
	if err := o.Client.Patch(ctx, garden, client.MergeFrom(o.garden)); err != nil {
		return fmt.Errorf("annotate Garden: %w", err)
	}
	return nil
}

// formerSecrets are the logical names of Secrets that only some reconciliations need: those of an autoscaler that was disabled since, and
// the certificate with which the resource manager of the virtual cluster got its first token.
var formerSecrets = []string{vpa.ServerSecret, resourcemanager.BootstrapSecret}

// cleanUpSecrets deletes Secrets that are not needed any more. It deletes nothing as long as there are Secrets of components that the flow
// does not deploy, because a landscape that was taken over still needs them.
func (o *operation) cleanUpSecrets(ctx context.Context) error {
	managed := &corev1.SecretList{}
	err := o.Client.List(ctx, managed, client.InNamespace(o.values.Namespace), client.MatchingLabels{
		secrets.LabelManagedBy: secrets.ManagedBy, secrets.LabelManagerIdentity: secretsIdentity,
	})
	if err != nil {
		return fmt.Errorf("list managed Secrets: %w", err)
	}
	for i := range managed.Items {
		own := managed.Items[i].Labels
		name := cmp.Or(own[secrets.LabelBundleFor], own[secrets.LabelName])
		if _, known := o.secrets.Get(name, secrets.Current); !known && !slices.Contains(formerSecrets, name) {
			log.FromContext(ctx).Info("Kept all Secrets, because one belongs to a component that is not deployed", "secret", managed.Items[i].Name)
			return nil
		}
	}
	if err := o.secrets.Cleanup(ctx); err != nil {
		return fmt.Errorf("clean up Secrets: %w", err)
	}
	return nil
}
