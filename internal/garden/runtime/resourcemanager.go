package runtime

import (
	"context"
	"fmt"
	"slices"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	resourcesv1alpha1 "github.com/espalier-dev/espalier/api/resources/v1alpha1"
	"github.com/espalier-dev/espalier/internal/garden/component/istio"
	"github.com/espalier-dev/espalier/internal/garden/component/networkpolicies"
	"github.com/espalier-dev/espalier/internal/garden/component/resourcemanager"
	"github.com/espalier-dev/espalier/internal/rollout"
)

// resourceManager returns the objects of the resource manager.
func (p *Platform) resourceManager() ([]*unstructured.Unstructured, error) {
	typed, err := resourcemanager.Objects(p.Values)
	if err != nil {
		return nil, err
	}
	return rollout.Unstructured(typed...)
}

// deployResourceManager deploys the definition of ManagedResources and the resource manager, and waits until its Deployments are healthy
// and its webhooks are registered. These webhooks add tokens to Pods. A Pod that is created before the registration stays without a token,
// and no controller replaces the Pod. deployResourceManager also waits until netpol-controller has replaced the policies of earlier
// releases, if there are any.
func (p *Platform) deployResourceManager(ctx context.Context) error {
	if err := p.Installer.DeployDefinitions(ctx, resourcemanager.Component); err != nil {
		return err
	}
	objects, err := p.resourceManager()
	if err != nil {
		return err
	}
	if err := p.Cluster.Deploy(ctx, objects...); err != nil {
		return err
	}
	timeout := p.Timing.defaulted().ResourceManager
	if err := p.Cluster.UntilHealthy(ctx, timeout, rollout.Deployments(objects)...); err != nil {
		return err
	}
	registration := rollout.Identity(mutatingKind, "", resourcemanager.Name)
	if err := p.Cluster.Until(ctx, timeout, p.checkRegistration, rollout.WatchObject(registration)); err != nil {
		return err
	}
	return p.Cluster.Until(ctx, timeout, p.checkPolicies, policiesIn(p.closedNamespaces())...)
}

// closedNamespaces returns the namespaces of the Garden and of Istio, in which netpol-controller denies connections by default.
func (p *Platform) closedNamespaces() []string {
	return []string{p.Values.Namespace, istio.Namespace, istio.GatewayNamespace}
}

var policyKind = networkingv1.SchemeGroupVersion.WithKind("NetworkPolicy")

func policiesIn(namespaces []string) []rollout.Watched {
	watched := make([]rollout.Watched, 0, len(namespaces))
	for _, each := range namespaces {
		watched = append(watched, rollout.Watched{Kind: policyKind, Options: []client.ListOption{client.InNamespace(each)}})
	}
	return watched
}

// checkPolicies returns an error as long as a policy of an earlier release has no successor of netpol-controller. Later tasks delete the
// former policy. Without the successor, the Pods that the policy selects would then have no connections.
func (p *Platform) checkPolicies(ctx context.Context) error {
	for _, namespace := range p.closedNamespaces() {
		list := &metav1.PartialObjectMetadataList{}
		list.SetGroupVersionKind(policyKind.GroupVersion().WithKind(policyKind.Kind + "List"))
		if err := p.Cluster.Client.List(ctx, list, client.InNamespace(namespace)); err != nil {
			return fmt.Errorf("list NetworkPolicies: %w", err)
		}
		general := map[string]bool{}
		for i := range list.Items {
			general[list.Items[i].Name] = list.Items[i].Labels[resourcesv1alpha1.NetworkingGeneral] == "true"
		}
		for i := range list.Items {
			if successor, former := networkpolicies.Successor(list.Items[i].Name); former && !general[successor] {
				return fmt.Errorf("NetworkPolicy %s/%s of netpol-controller does not exist yet, which takes the place of %s (see kubectl get events "+
					"--field-selector involvedObject.kind=Namespace, and kubectl -n %s logs deployment/%s-networkpolicies)",
					namespace, successor, list.Items[i].Name, p.Values.Namespace, resourcemanager.Name)
			}
		}
	}
	return nil
}

// mutatingKind is the kind of the configuration that webhook-server maintains, under the name of the resource manager.
var mutatingKind = admissionregistrationv1.SchemeGroupVersion.WithKind("MutatingWebhookConfiguration")

// checkRegistration returns an error as long as the webhooks of the resource manager are not registered.
func (p *Platform) checkRegistration(ctx context.Context) error {
	registration := &admissionregistrationv1.MutatingWebhookConfiguration{}
	err := p.Cluster.Client.Get(ctx, client.ObjectKey{Name: resourcemanager.Name}, registration)
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("read %s %s: %w", mutatingKind.Kind, resourcemanager.Name, err)
	}
	lacksBundle := func(w admissionregistrationv1.MutatingWebhook) bool { return len(w.ClientConfig.CABundle) == 0 }
	if len(registration.Webhooks) == 0 || slices.ContainsFunc(registration.Webhooks, lacksBundle) {
		return fmt.Errorf("%s %s has no webhooks with a CA bundle (see kubectl -n %s logs deployment/%s)",
			mutatingKind.Kind, resourcemanager.Name, p.Values.Namespace, resourcemanager.WebhookServer)
	}
	return nil
}

// destroyResourceManager destroys the Deployments before the webhook configurations: webhook-server is one of the Deployments, and would
// create the webhook configurations again.
func (p *Platform) destroyResourceManager(ctx context.Context) error {
	if err := p.Installer.DestroyDefinitions(ctx, resourcemanager.Component); err != nil {
		return err
	}
	objects, err := p.resourceManager()
	if err != nil {
		return err
	}
	timeout := p.Timing.defaulted().ResourceManager
	running := rollout.Deployments(objects)
	served, err := p.anyOurs(ctx, append(running, objects...))
	if err != nil {
		return err
	}
	if err := p.Cluster.Destroy(ctx, timeout, running...); err != nil {
		return err
	}
	if served {
		// webhook-server, which the operator had deployed, created these objects.
		for _, each := range []*unstructured.Unstructured{
			rollout.Identity(mutatingKind, "", resourcemanager.Name),
			rollout.Identity(admissionregistrationv1.SchemeGroupVersion.WithKind("ValidatingWebhookConfiguration"), "", resourcemanager.Name),
			rollout.Identity(corev1.SchemeGroupVersion.WithKind("Secret"), p.Values.Namespace, resourcemanager.WebhookServer),
		} {
			if _, err := p.Cluster.Delete(ctx, each, rollout.Unconditionally); err != nil {
				return err
			}
		}
		// These are the NetworkPolicies that netpol-controller of the resource manager has created in all namespaces. netpol-controller no
		// longer runs. They are the general policies, and the policies of Services that remain because other clients created these Services.
		of := client.MatchingLabels{resourcesv1alpha1.NetworkingInstance: resourcemanager.Name}
		if err := p.Cluster.DeleteAll(ctx, policyKind, of); err != nil {
			return err
		}
	}
	return p.Cluster.Destroy(ctx, timeout, objects...)
}

// anyOurs reports whether the operator created one of the objects.
func (p *Platform) anyOurs(ctx context.Context, objects []*unstructured.Unstructured) (bool, error) {
	for _, each := range objects {
		ours, err := p.Cluster.HasOwn(ctx, each)
		if ours || err != nil {
			return ours, err
		}
	}
	return false, nil
}
